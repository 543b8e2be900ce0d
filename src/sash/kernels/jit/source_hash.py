"""A hash of the sources that compile: Numba does not detect a change in a function that a cached function calls."""

from __future__ import annotations

import hashlib
import importlib.resources
from collections.abc import Iterator
from importlib.resources.abc import Traversable

COMPILED = ("aggregators", "kernels", "monoids")
"""The packages whose functions are compiled; `kernels` also contains the compiler."""


def hash_sources(*also: object) -> str:
    """A hash of all source files that compile, and of further values of the caller.

    Raises FileNotFoundError if there are no sources: without them versions cannot be distinguished.
    """
    digest = hashlib.blake2b(digest_size=12)
    root = importlib.resources.files("sash")
    sources = sorted(found for part in COMPILED for found in _sources(root / part, f"{part}/"))
    if not sources:
        raise FileNotFoundError("the sources of sash are not there")
    for path, content in sources:
        digest.update(path.encode() + b"\0" + content + b"\0")
    digest.update(repr(also).encode())
    return digest.hexdigest()


def _sources(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    """Every source file, also of a package in a zip file (as Spark ships them)."""
    for part in folder.iterdir():
        if part.name.endswith(".py"):
            yield path + part.name, part.read_bytes()
        elif "." not in part.name and part.is_dir():
            yield from _sources(part, f"{path}{part.name}/")
