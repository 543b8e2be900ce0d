"""What is installed, and where compiled kernels are kept: `python -m sash`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any

PACKAGES = ("numpy", "pyarrow", "numba", "sqlglot")
"""What sash cannot do without."""

EXTRAS = {
    "frames": ("pandas", "polars"),
    "spark": ("pyspark",),
    "stores": ("rocksdict", "valkey"),
    "sketches": ("datasketches",),
    "kafka": ("confluent-kafka",),
    "plot": ("matplotlib",),
}
"""The packages behind the extras."""


def environment() -> dict[str, Any]:
    """Versions of sash, Python and the packages it uses, None for those that are missing; cores; the kernel cache."""
    from sash.kernels.jit.cache import directory

    entries = directory()
    return {
        "sash": _version("sash"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "packages": {name: _version(name) for name in PACKAGES},
        "extras": {extra: {name: _version(name) for name in names} for extra, names in EXTRAS.items()},
        "kernel_cache": str(entries.path) if entries is not None else None,
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def as_text(found: dict[str, Any]) -> str:
    """The environment for people, with the command that installs what is missing."""
    lines = [
        f"sash {found['sash']}: aggregates over sliding windows, exactly and incrementally",
        "",
        f"Python        {found['python']} on {found['platform']}, {found['cores']} cores",
        f"needs         {_listed(found['packages'])}",
    ]
    for extra, packages in found["extras"].items():
        missing = "" if all(packages.values()) else f"   (pip install 'sash[{extra}]')"
        lines.append(f"{extra:13} {_listed(packages)}{missing}")
    cache = found["kernel_cache"] or "no directory can be written: each process compiles its kernels again"
    lines += [f"kernel cache  {cache}", ""]
    lines += ["python -m sash.warm   compiles the common kernels ahead of their first use"]
    lines += ["help(sash.rolling)    explains the call that most people start with", ""]
    return "\n".join(lines)


def _listed(packages: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {version or 'missing'}" for name, version in packages.items())


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the environment; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m sash", description="Show what sash has to work with.")
    parser.add_argument("--json", action="store_true", help="for programs, and to attach to a report of a problem")
    parser.add_argument("--version", action="version", version=f"sash {_version('sash')}")
    found = environment()
    as_json = parser.parse_args(arguments).json
    sys.stdout.write(json.dumps(found, indent=2) + "\n" if as_json else as_text(found))
    return 0
