"""`python -m sash`: what is installed, and where compiled kernels are kept."""

import sys

from sash.cli.environment import main

if __name__ == "__main__":
    sys.exit(main())
