"""Kernels are compiled once for all processes of a machine; a lock that cannot be had causes no error."""

import errno
import json
import multiprocessing
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sash.kernels.jit import cache as compile_lock
from sash.kernels.jit.cache import compiling
from sash.kernels.jit.cache_directory import Directory, open_base

PROGRAM = """
import json, os, sys
import numpy as np
from sash.aggregators import Recalc
from sash.kernels import slide
from sash.kernels.jit import compile
from sash.monoids import Max, Sum

go_read, go_write = os.pipe()
readers = []
for _ in range(10):
    read, write = os.pipe()
    if os.fork() == 0:
        os.close(go_write)
        os.read(go_read, 1)  # ends for all at once, when the parent closes it
        found = [slide(Recalc, one(), (np.array([1, 3, 2]),), 2).to_list() for one in (Max, Sum)]
        os.write(write, json.dumps([found, compile.compiled_kernels]).encode())
        os._exit(0)
    os.close(write)
    readers.append(read)
os.close(go_write)
print(json.dumps([json.loads(os.read(read, 65536)) for read in readers]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no locks of this kind")
def test_ten_processes_at_once_compile_each_kernel_once(tmp_path: Path) -> None:
    surroundings = os.environ | {"SASH_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert [answer for answer, _ in said] == [[[1, 3, 3], [1, 4, 5]]] * 10
    counts = Counter(kernel for _, compiled in said for kernel in compiled)
    kernels = list((tmp_path / "cache").glob("*/*.code"))
    assert counts.total() == len(kernels) > 1, counts


@pytest.fixture
def base(tmp_path: Path) -> Any:
    with open_base(tmp_path / "base") as opened:
        yield opened


def _holds(path: Path, holds: Any, release: Any) -> None:
    with open_base(path) as base, compiling(base, 7) as waited:
        holds.put(waited)
        release.wait(60)


def test_the_second_process_waits_and_is_notified(base: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    context = multiprocessing.get_context("spawn")
    holds, release = context.Queue(), context.Event()
    other = context.Process(target=_holds, args=(base.path, holds, release))
    other.start()
    try:
        assert holds.get(timeout=60) is False
        with compiling(base, 8) as waited:
            assert not waited, "another kernel"
        monkeypatch.setattr(compile_lock.time, "sleep", lambda _pause: release.set())
        with compiling(base, 7) as waited:
            assert waited
    finally:
        release.set()
        other.join(60)
    assert other.exitcode == 0


def test_a_wait_has_an_end(base: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def taken(*_arguments: Any) -> None:
        raise BlockingIOError(errno.EAGAIN, "held forever")

    monkeypatch.setattr(fcntl, "lockf", taken)
    monkeypatch.setattr(compile_lock, "PATIENCE", 0.0)
    with compiling(base, 7) as waited:
        assert waited


def test_a_file_system_without_locks(base: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def unsupported(*_arguments: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", unsupported)
    with compiling(base, 7) as waited:
        assert not waited


def test_an_error_of_the_compiler_passes_and_releases(base: Directory) -> None:
    for _ in range(2):
        with pytest.raises(OSError, match="of the compiler"), compiling(base, 7):
            raise OSError("of the compiler")
    with compiling(base, 7) as waited, compiling(base, 7) as again:
        assert (waited, again) == (False, False), "within a lock there is no other"
    assert sorted(os.listdir(base.path)) == [compile_lock.LOCKS]
