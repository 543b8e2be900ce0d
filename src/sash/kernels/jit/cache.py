"""The cache of machine code: on disk, in a wheel, behind a lock, named by a hash of our sources.

Numba does not notice a change in a function that a cached function calls. So the cache is in a directory named by a
hash of all sources of sash that compile, Numba's version and the CPU: any edit starts an empty cache, and stale code
is never found. The kernels of a wheel, if it has any, are tried first (`cache.py`).

    $SASH_CACHE_DIR, else the user's cache directory, else one under the temporary directory
    ├── secret                   keys the MAC of each entry
    └── sash-kernels-<hash>/     the newest few are kept
        ├── <hash>.code          a kernel for one signature; the newest few thousand are kept
        └── locks                which kernels are being compiled (`cache.py`)

`cache_directory.py` ensures that no other user's file is ever unpickled or run.

Lock a kernel so that one process compiles it: the others wait, and load the result.

    process 1   not in the cache ── lock ── compile, save ── unlock
    process 2   not in the cache ── wait ··························· lock ── in the cache ── unlock

Spark starts as many Python workers as there are cores, all at once and all with the same query: without a lock each
would compile each kernel. The lock of a kernel is a POSIX lock of one byte of a file in the cache directory, which the
system releases when the process ends for any reason. The lock only saves time: if there is none, or if the wait is too
long, a process compiles the kernel itself.

Kernels in a wheel, compiled ahead of time for any CPU of an architecture level.

    sash/kernels/compiled/       exists only in wheels built by `make wheel`
    ├── manifest.json            the hash of the sources, and the CPU features that the machine code needs
    └── <hash>.code              a kernel for one signature, after a checksum

They are used only if they were compiled from exactly the same sources and versions, and if this CPU has all features;
otherwise kernels are compiled as usual. A damaged file counts as missing. The checksum detects accidents only: an
attacker who can change a file of the package can change its Python modules as well.

The level is x86-64-v3 (AVX2 and FMA: Intel since 2013, AMD since 2015). Plain x86-64 has no fused multiply-add, and
half the vector width. docs/installation.md has measurements.

A hash of the sources that compile: Numba does not detect a change in a function that a cached function calls.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.resources
import json
import os
import pickle
import platform
import sys
import sysconfig
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import caching, compiler, serialize
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from sash.kernels.jit.cache_directory import Directory, Entries, Untrusted, candidates, open_base, shared_secret

# --- Compile lock ---

LOCKS = "locks"
PATIENCE = 120.0
"""The seconds to wait for another process: ten times as long as the slowest kernel takes."""

PAUSES = (0.005, 0.1)
"""The seconds between two attempts: the first, and the longest."""

_held = threading.local()


@contextlib.contextmanager
def compiling(directory: Directory, place: int) -> Iterator[bool]:
    """Hold the lock of a kernel; yields whether another process has held it before, and so may have saved the kernel.

    A nested call in the same thread locks nothing: closing the file would release both locks.
    """
    if getattr(_held, "now", False):
        yield False
        return
    _held.now = True
    try:
        with contextlib.ExitStack() as held:
            waited = False
            with contextlib.suppress(OSError, ImportError):  # the system or file system has no such locks
                waited = _acquired(held.enter_context(_opened(directory)), place)
            yield waited
    finally:
        _held.now = False


@contextlib.contextmanager
def _opened(directory: Directory) -> Iterator[int]:
    descriptor = directory.open_lock(LOCKS)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _acquired(descriptor: int, place: int) -> bool:
    """Lock a byte, or give up; returns whether it had to wait. Raises OSError, and ImportError on Windows."""
    import fcntl

    pause, ends = PAUSES[0], time.monotonic() + PATIENCE
    waited = False
    while True:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except (BlockingIOError, PermissionError):  # another process has it: EAGAIN or EACCES, depending on the system
            waited = True
            if time.monotonic() >= ends:
                return waited
            time.sleep(pause)
            pause = min(2 * pause, PAUSES[1])
        else:
            return waited


# --- Source hash ---

COMPILED = ("aggregators", "kernels", "monoids", "windows")
"""The packages whose functions are compiled; `kernels` also contains the compiler, `windows` the rules of bounds."""


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


# --- Packaged ---

MANIFEST = "manifest.json"
CHECKSUM_SIZE = 16

_X86_V3 = "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave"


def baseline() -> tuple[str, list[str]]:
    """The CPU that packaged kernels are compiled for, by LLVM's name, and the features beyond the architecture's own.

    The first version of 64-bit ARM has vectors of two floats and fused multiply-add: its generic CPU suffices.
    """
    if platform.machine().lower() in ("x86_64", "amd64"):
        return "x86-64-v3", _X86_V3.split()
    return "generic", []


def build_key() -> str:
    """A hash of what machine code depends on, except the CPU: sources, versions, ABI, and whether indices are checked.

    Releases of one minor version of Python have the same ABI.
    """
    versions = numba.__version__, llvmlite.__version__, np.__version__, sysconfig.get_config_var("SOABI")
    return hash_sources(versions, llvm.get_process_triple(), bool(numba.config.BOUNDSCHECK))


class PackagedEntries:
    """The kernels in a directory of the package. `target` is what they were compiled for: triple, CPU, features."""

    def __init__(self, directory: Traversable, target: tuple[str, ...]) -> None:
        self.path, self.target = directory, target

    def load(self, name: str) -> memoryview | None:
        """The content of an entry; None if it is damaged. Raises OSError if there is none."""
        data = memoryview((self.path / name).read_bytes())
        content = data[CHECKSUM_SIZE:]
        return content if data[:CHECKSUM_SIZE] == _checksum(content) else None


@functools.cache
def packaged() -> PackagedEntries | None:
    """The kernels of this package; None if there are none, or if this process cannot use them."""
    directory = importlib.resources.files("sash") / "kernels" / "compiled"
    try:
        manifest = json.loads((directory / MANIFEST).read_bytes())
        fits = _fits(manifest)
        target = tuple(map(str, manifest["target"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return PackagedEntries(directory, target) if fits else None


def _fits(manifest: Any) -> bool:
    """May kernels with this manifest run here? Not if the user has chosen Numba's target CPU."""
    if numba.config.CPU_NAME is not None or numba.config.CPU_FEATURES is not None:
        return False
    available = llvm.get_host_cpu_features()
    return all(available.get(feature) for feature in manifest["features"]) and manifest["key"] == build_key()


def write_packaged(folder: Path, target: tuple[str, ...], features: list[str], entries: dict[str, bytes]) -> None:
    """Write kernels, by the names of their files, and the manifest with their requirements."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in entries.items():
        (folder / name).write_bytes(_checksum(content) + content)
    manifest = {"key": build_key(), "target": target, "features": features}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _checksum(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=CHECKSUM_SIZE).digest()


# --- Cache ---

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
