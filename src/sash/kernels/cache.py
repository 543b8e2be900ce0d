"""The on-disk cache of machine code.

Numba does not notice a change in a function that a cached one calls. So the cache lives in a directory named
by a hash of our sources that compile, Numba's version and the CPU: any edit starts an empty one, and stale code is
never found.

    $SASH_CACHE_DIR, else the user's cache directory, else one under the temporary directory
    └── sash-kernels-<hash>/     the newest few are kept
        └── <hash>.code          a kernel for one signature; the newest few thousand are kept
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.resources
import os
import pickle
import platform
import shutil
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import caching, compiler, serialize
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

PREFIX = "sash-kernels-"
COMPILED = ("aggregators", "kernels", "monoids")
"""The packages whose functions machine code is made of, and those who make it."""

KEPT = 4
"""How many directories of other versions stay, so that two environments do not empty each other's."""

ENTRIES = 4000
"""How many kernels stay: some 100 kB each, and a monoid with a new constant every day makes a new one every day."""


def sources_key() -> str:
    """A hash of every source file that machine code comes from, the versions and the CPU that machine code depends on.

    Raises FileNotFoundError if there are no sources: without them nothing tells one version from another.
    """
    digest = hashlib.blake2b(digest_size=12)
    root = importlib.resources.files("sash")
    sources = sorted(found for part in COMPILED for found in _sources(root / part, f"{part}/"))
    if not sources:
        raise FileNotFoundError("the sources of sash are not there")
    for path, content in sources:
        digest.update(path.encode() + b"\0" + content + b"\0")
    machine = (llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), platform.machine())
    versions = (numba.__version__, np.__version__, sys.version, sys.platform)
    digest.update(repr((machine, versions)).encode())
    return digest.hexdigest()


def _sources(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    """Every source file, also of a package in a zip file (as Spark ships them)."""
    for part in folder.iterdir():
        if part.is_dir():
            yield from _sources(part, f"{path}{part.name}/")
        elif part.name.endswith(".py"):
            yield path + part.name, part.read_bytes()


# ---- where ----


def candidates() -> Iterator[Path]:
    """Where the cache may live, best first."""
    if chosen := os.environ.get("SASH_CACHE_DIR"):
        yield Path(chosen)
    if sys.platform == "win32":
        if local := os.environ.get("LOCALAPPDATA"):
            yield Path(local, "sash")
    elif sys.platform == "darwin":
        yield Path("~/Library/Caches/sash")
    else:
        yield Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "sash")
    with contextlib.suppress(FileNotFoundError):  # no temporary directory at all
        owner = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
        yield Path(tempfile.gettempdir(), f"sash-{owner}")


@functools.cache
def directory() -> Path | None:
    """The cache directory, made if need be; None (and one warning) if no place can be written."""
    tried = []
    try:
        name = PREFIX + sources_key()
        for base in candidates():
            try:
                return _prepared(base, name)
            except (OSError, RuntimeError) as error:  # RuntimeError: no home directory
                tried.append(f"{base} ({error})")
    except OSError as error:
        tried.append(str(error))
    warnings.warn(
        "no directory for compiled kernels can be used, so every process compiles anew; tried "
        + "; ".join(tried)
        + ". Set SASH_CACHE_DIR to one that can be written.",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def _prepared(base: Path, name: str) -> Path:
    base = base.expanduser().absolute()
    path = base / name
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.mkdir(exist_ok=True, mode=0o700)
    for folder in (base, path):
        if not _safe(folder.stat(), shared=folder is base):
            raise PermissionError(f"others may write to {folder}, and machine code is not loaded from such a place")
    with tempfile.TemporaryFile(dir=path):
        os.utime(path)
    _prune((other for other in base.glob(PREFIX + "*") if other != path), KEPT)
    _prune(path.glob("*"), ENTRIES)
    return path


def _safe(found: os.stat_result, shared: bool) -> bool:
    """Could nobody else have put machine code there? A shared parent may be root's, or sticky as /tmp is."""
    if not hasattr(os, "getuid"):
        return True
    if shared:
        closed = not found.st_mode & stat.S_IWOTH or bool(found.st_mode & stat.S_ISVTX)
        return found.st_uid in (0, os.getuid()) and closed
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _prune(paths: Iterable[Path], kept: int) -> None:
    """Drop all but the newest; losing a race for one is no error."""
    ages = []
    for path in paths:
        with contextlib.suppress(OSError):
            ages.append((path.stat().st_mtime, path))
    for _, path in sorted(ages, reverse=True)[kept:]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()


# ---- what ----


class Files(caching.NullCache):  # type: ignore[misc]
    """The cache of one kernel: a file a signature, named by a hash of it.

    Numba's own index is rewritten by every process that adds to it, and two at once can end with one key
    leading to the other's code. Here entries never share a file. A cache may cost time, never an answer: what
    is missing, damaged or cannot be written is compiled.
    """

    def __init__(self, path: Path, kernel: str) -> None:
        self._path, self._kernel = path, kernel

    @property
    def cache_path(self) -> str:
        return str(self._path)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled kernel that was saved for a signature, or None."""
        target_context.refresh()
        return self.load(sig, target_context)

    def load(self, sig: Any, target_context: Any) -> Any:
        """The same, in a context that is ready to run it."""
        key = self._key(sig, target_context.codegen())
        file = self._file(key)
        with contextlib.suppress(Exception):
            data = file.read_bytes()
            payload = memoryview(data)[_CHECK:]
            if data[:_CHECK] == _check(payload):
                os.utime(file)
                stored, reduced = pickle.loads(payload)
                return compiler.CompileResult._rebuild(target_context, *reduced) if stored == key else None
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled kernel, unless it holds addresses of this process."""
        if data.library.has_dynamic_globals or data.lifted:
            return
        key = self._key(sig, data.codegen)
        part = ""
        try:
            payload = serialize.dumps((key, data._reduce()))
            handle, part = tempfile.mkstemp(dir=self._path)
            with os.fdopen(handle, "wb") as file:
                file.write(_check(payload) + payload)
            os.replace(part, self._file(key))
        except Exception:
            with contextlib.suppress(OSError):
                os.unlink(part)

    def _key(self, sig: Any, codegen: Any) -> str:
        return repr((self._kernel, sig, codegen.magic_tuple()))

    def _file(self, key: str) -> Path:
        return self._path / f"{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}.code"


_CHECK = 16


def _check(payload: bytes | memoryview) -> bytes:
    return hashlib.blake2b(payload, digest_size=_CHECK).digest()


def keep(dispatcher: Any) -> Any:
    """Give a kernel our on-disk cache, where there is a place for it."""
    path = directory()
    if path is not None:
        dispatcher._cache = Files(path, _named(dispatcher.py_func))
    return dispatcher


def kept(kernel: Any, signature: tuple[Any, ...]) -> Callable[..., Any] | None:
    """The machine code of a kernel from the disk, or None.

    Without a refresh of Numba's context: that loads all that compiling needs, which takes half a second; to run what is
    compiled takes the run time only.
    """
    path = directory()
    if path is None:
        return None
    context = cpu_target.target_context
    rtsys.initialize(context)
    found = Files(path, _named(kernel)).load(signature, context)
    return None if found is None else found.entry_point


def _named(kernel: Any) -> str:
    return f"{kernel.__module__}.{kernel.__qualname__}"
