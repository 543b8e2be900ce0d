"""`python -m sash`: the command `sash`."""

import sys

from sash.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
