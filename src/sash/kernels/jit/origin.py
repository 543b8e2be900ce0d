"""The origin of a function or class: the user, Python, sash, or installed software."""

from __future__ import annotations

import functools
import sys
import sysconfig
from pathlib import Path
from typing import Any


def installed_name(value: Any) -> tuple[str, str] | None:
    """Module and name of a value in installed software; None for other values."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", getattr(value, "__name__", None))
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    origin = release(module)
    found = sys.modules.get(module) if origin else None
    for part in name.split("."):
        found = getattr(found, part, None)
    return (module, name) if origin and found is value else None


@functools.cache
def release(module: str) -> str | None:
    """The installed software of a module, with version and time of installation; None for a user's own code.

    The time matters because a package under development is installed again with the same version.
    """
    root = module.partition(".")[0]
    if root == "sash":
        return "sash"
    loaded = sys.modules.get(root)
    file = getattr(loaded, "__file__", None)
    if root in sys.stdlib_module_names and (file is None or _standard(Path(file))):
        return "python"
    version = getattr(loaded, "__version__", None)
    if not file or not version or not _installed(Path(file)):
        return None
    return f"{root} {version} {Path(file).stat().st_mtime_ns if Path(file).exists() else ''}"


def _installed(file: Path) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(file.parts)


def _standard(file: Path) -> bool:
    folders = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    return not _installed(file) and any(file.is_relative_to(folder) for folder in folders)
