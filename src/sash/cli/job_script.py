"""The script for `spark-submit "$(sash job-script)" job.toml`: runs a job on the cluster."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the directory of a script on sys.path, but its modules are not top-level modules
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]
    from sash.cli.main import main

    sys.exit(main(["run", *sys.argv[1:], "--engine", "spark"]))
