"""`sash info`: installed packages, and the directory of compiled kernels."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

PACKAGES = ("numpy", "pyarrow", "numba", "sqlglot")
"""Required packages."""

EXTRAS = {
    "frames": ("pandas", "polars"),
    "spark": ("pyspark",),
    "stores": ("rocksdict", "valkey"),
    "sketches": ("datasketches",),
    "kafka": ("confluent-kafka",),
    "plot": ("matplotlib",),
    "cli": ("pyyaml", "rich", "typer"),
}
"""The packages that each extra installs."""


def environment() -> dict[str, Any]:
    """Versions of sash, Python and the packages it uses, None for those that are missing; cores; the kernel cache."""
    from sash.kernels.jit.cache import directory

    entries = directory()
    return {
        "sash": version("sash"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": cores(),
        "packages": {name: version(name) for name in PACKAGES},
        "extras": {extra: {name: version(name) for name in names} for extra, names in EXTRAS.items()},
        "kernel_cache": str(entries.path) if entries is not None else None,
    }


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def version(package: str) -> str | None:
    """The version of a package that is installed; None if it is missing."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def as_text(found: dict[str, Any]) -> str:
    """The environment as readable text, with the commands that install missing packages."""
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
    lines += ["sash warm             compiles the common kernels ahead of their first use"]
    lines += ["help(sash.rolling)    explains the call that most people start with", ""]
    return "\n".join(lines)


def _listed(packages: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {version or 'missing'}" for name, version in packages.items())
