"""Python environments of executors: without sash, and whole ones, packed by venv-pack."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

INSTALLED = Path(sysconfig.get_paths()["purelib"])
WORKER = ("numpy", "numba", "llvmlite", "pyarrow", "pandas", "pytz", "dateutil", "six", "tzdata", "google")
"""What a Python worker of Spark and sash need, apart from sash; `google` is protobuf."""


def without_sash(folder: Path) -> Path:
    """An environment that links all installed packages but sash. Returns its Python."""
    packages = _made(folder)
    for entry in INSTALLED.iterdir():
        if not entry.name.startswith(("sash", "_sash", "__editable__", "_editable")) and entry.suffix != ".pth":
            (packages / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


def packed(folder: Path, output: Path) -> Path:
    """An environment with sash and what it needs, in an archive for `spark.archives`."""
    import venv_pack

    packages = _made(folder)
    ignored = shutil.ignore_patterns("tests", "include", "__pycache__")
    for entry in INSTALLED.iterdir():
        if entry.name.partition(".")[0] in WORKER or entry.name in ("six.py", "numpy.libs", "pandas.libs"):
            if entry.is_dir():
                shutil.copytree(entry, packages / entry.name, ignore=ignored, copy_function=_linked)
            else:
                shutil.copy(entry, packages / entry.name)
    shutil.copytree("src/sash", packages / "sash", ignore=ignored)
    venv_pack.pack(prefix=str(folder), output=str(output), compress_level=0)
    return output


def wheel(folder: Path) -> Path:
    """A wheel of sash, without compiled kernels, as a .zip: Spark lets Python import from no .whl."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (found,) = folder.glob("sash-*.whl")
    return found.rename(folder / "sash.zip")


def _made(folder: Path) -> Path:
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    return packages


def _linked(source: str, target: str) -> str:
    """A hard link, or a copy where the file is on another disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target
