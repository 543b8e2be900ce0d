"""The on-disk cache of machine code.

Numba does not notice a change in a function that a cached function calls. So the cache is in a directory named by a
hash of all sources of sash that compile, Numba's version and the CPU: any edit starts an empty cache, and stale code is
never found. The kernels of a wheel, if it has any, are tried first (`packaged.py`).

    $SASH_CACHE_DIR, else the user's cache directory, else one under the temporary directory
    ├── secret                   keys the MAC of each entry
    └── sash-kernels-<hash>/     the newest few are kept
        ├── <hash>.code          a kernel for one signature; the newest few thousand are kept
        └── locks                which kernels are being compiled (`compile_lock.py`)

`cache_directory.py` ensures that no other user's file is ever unpickled or run.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import pickle
import platform
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import caching, compiler, serialize
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from sash.kernels.jit.cache_directory import Entries, Untrusted, candidates, open_base, shared_secret
from sash.kernels.jit.compile_lock import compiling
from sash.kernels.jit.packaged import PackagedEntries, packaged
from sash.kernels.jit.source_hash import hash_sources

PREFIX = "sash-kernels-"
KEPT = 4
"""The number of directories of other versions to keep, so that two environments do not evict each other's."""

ENTRIES = 4000
"""The number of kernels to keep: some 100 kB each; a monoid with a new constant every day adds one every day."""


def sources_key() -> str:
    """A hash of everything that machine code depends on.

    These are the sources, versions, the CPU, and whether indices are checked (NUMBA_BOUNDSCHECK).
    """
    machine = (llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), platform.machine())
    versions = (numba.__version__, np.__version__, sys.version, sys.platform, bool(numba.config.BOUNDSCHECK))
    return hash_sources(machine, versions)


# ---- the directory ----


@functools.cache
def directory() -> Entries | None:
    """Open the cache directory, created if it is missing; None (and a warning) if no place can be used.

    A place that other users can write to is refused with a warning, and the next one is tried.
    """
    refused, tried = [], []
    try:
        name = PREFIX + sources_key()
        for base in candidates():
            try:
                found = _prepared(base, name)
            except Untrusted as error:
                refused.append(f"{base} ({error})")
            except (OSError, RuntimeError) as error:  # RuntimeError: no home directory
                tried.append(f"{base} ({error})")
            else:
                if refused:
                    _warn(f"compiled kernels are stored in {found.path}, because other users may write to ", refused)
                return found
    except OSError as error:
        tried.append(str(error))
    _warn("no directory for compiled kernels can be used, so every process compiles again; tried ", refused + tried)
    return None


def _warn(outcome: str, places: list[str]) -> None:
    remedy = ". Correct this, or set SASH_CACHE_DIR to a directory that you can write to and no other user can."
    warnings.warn(outcome + "; ".join(places) + remedy, RuntimeWarning, stacklevel=3)


def _prepared(path: Path, name: str) -> Entries:
    with open_base(path) as base:
        kernels = base.child(name)
        try:
            kernels.touch()
            base.prune(KEPT, PREFIX, spare=name)
            kernels.prune(ENTRIES)
            return Entries(kernels, shared_secret(base))
        except BaseException:
            kernels.close()
            raise


# ---- the entries ----


class KernelCache(caching.NullCache):  # type: ignore[misc]
    """The cache of one kernel: a file for each signature, named by its hash.

    Numba's own cache has an index file that every process rewrites: two at once can store the code of one kernel under
    the key of another. Here entries never share a file. The cache affects speed, never results: a kernel whose entry is
    missing, damaged or not writable is compiled.
    """

    def __init__(self, entries: Entries, kernel: str) -> None:
        self._entries, self._kernel = entries, kernel

    @property
    def cache_path(self) -> str:
        return str(self._entries.path)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled kernel that was saved for a signature, or None."""
        target_context.refresh()
        return self.load(sig, target_context)

    def load(self, sig: Any, target_context: Any) -> Any:
        """Load a kernel in a context that can run it."""
        return _loaded(self._entries, self._key(sig, target_context.codegen()), target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save a compiled kernel, unless it contains addresses of this process."""
        if data.library.has_dynamic_globals or data.lifted:
            return
        key = self._key(sig, data.codegen)
        with contextlib.suppress(Exception):
            self._entries.save(_file(key), serialize.dumps((key, data._reduce())))

    def _key(self, sig: Any, codegen: Any) -> str:
        return _key(self._kernel, sig, codegen.magic_tuple())


def _key(kernel: str, sig: Any, target: tuple[str, ...]) -> str:
    """The name of a kernel for a signature and a target (Numba's magic tuple: triple, CPU, features)."""
    return repr((kernel, sig, target))


def _file(key: str) -> str:
    return f"{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}.code"


def _loaded(entries: Entries | PackagedEntries, key: str, target_context: Any) -> Any:
    """The compiled kernel of an entry, or None."""
    with contextlib.suppress(Exception):
        content = entries.load(_file(key))
        if content is not None:
            stored, reduced = pickle.loads(content)
            return compiler.CompileResult._rebuild(target_context, *reduced) if stored == key else None
    return None


def use_cache(dispatcher: Any) -> Any:
    """Make a kernel use our on-disk cache, if there is a directory for it."""
    entries = directory()
    if entries is not None:
        dispatcher._cache = KernelCache(entries, _kernel_name(dispatcher.py_func))
    return dispatcher


def cached_code(kernel: Any, signature: tuple[Any, ...]) -> Callable[..., Any] | None:
    """Load the machine code of a kernel from the package or the cache; None if it is in neither.

    This does not refresh Numba's context: that loads everything that compiling needs, which takes half a second.
    """
    context = cpu_target.target_context
    rtsys.initialize(context)
    found, shipped = None, packaged()
    if shipped is not None:
        found = _loaded(shipped, _key(_kernel_name(kernel), signature, shipped.target), context)
    if found is None and (entries := directory()) is not None:
        found = KernelCache(entries, _kernel_name(kernel)).load(signature, context)
    if found is None:
        return None
    found.library._shared_module = None  # for linking, and no other code links a kernel
    code: Callable[..., Any] = found.entry_point
    return code


@contextlib.contextmanager
def lock_kernel(kernel: Any, signature: tuple[Any, ...]) -> Iterator[bool]:
    """Lock a kernel against compilation in other processes; yields whether another process has held the lock before.

    The kernel may then be in the cache.
    """
    entries = directory()
    if entries is None:
        yield False
        return
    key = _file(_key(_kernel_name(kernel), signature, cpu_target.target_context.codegen().magic_tuple()))
    with compiling(entries.directory, int(key[:15], 16)) as waited:
        yield waited


def _kernel_name(kernel: Any) -> str:
    return f"{kernel.__module__}.{kernel.__qualname__}"
