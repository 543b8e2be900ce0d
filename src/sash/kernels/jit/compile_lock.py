"""Lock a kernel so that one process compiles it: the others wait, and load the result.

    process 1   not in the cache ── lock ── compile, save ── unlock
    process 2   not in the cache ── wait ··························· lock ── in the cache ── unlock

Spark starts as many Python workers as there are cores, all at once and all with the same query: without a lock each
would compile each kernel. The lock of a kernel is a POSIX lock of one byte of a file in the cache directory, which the
system releases when the process ends for any reason. The lock only saves time: if there is none, or if the wait is too
long, a process compiles the kernel itself.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from sash.kernels.jit.cache_directory import Directory

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
