"""Commands as a user types them: in this process, in a process of their own, and in a pseudo-terminal.

Processes are forked from one that has imported what commands need: to import it again takes 2 s of CPU each time.
"""

from __future__ import annotations

import io
import os
import pty
import runpy
import sys
from dataclasses import dataclass
from multiprocessing import forkserver, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread

import pytest

from sash.cli.main import main
from tests.interpreted import SWITCHED_OFF

ROOT = Path(__file__).parents[2]

IMPORTED = [
    *(f"sash.cli.{name}" for name in ("bench", "store_commands", "job_spark", "page.live_page", "terminal")),
    *("sash.engine.operator", "sash.frames.execute", "sash.kernels.jit.compile", "rocksdict", __name__),
]
"""What most commands import. Numba reads the environment then, so that the process is started with SWITCHED_OFF."""


@dataclass(frozen=True)
class Done:
    """The output of a command, and its exit code."""

    code: int
    out: str
    err: str


class Terminal(io.StringIO):
    """A standard output that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def typed(*arguments: str | Path, terminal: bool = False) -> Done:
    """Run a command in this process, its output in a pipe or in a terminal of 100 columns without colours."""
    out, err = Terminal() if terminal else io.StringIO(), Terminal() if terminal else io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        patch.setenv("TERM", "dumb")
        patch.setenv("COLUMNS", "100")
        code = main([str(one) for one in arguments])
    return Done(code, out.getvalue(), err.getvalue())


def in_a_process(*arguments: str | Path, **environment: str) -> Done:
    """Run a command in a process of its own, its output in a pipe."""
    (out, their_out), (err, their_err) = os.pipe(), os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    code, read = _forked((nothing, their_out, their_err), (out, err), arguments, environment)
    return Done(code, *read)


def in_a_terminal(*arguments: str | Path, **environment: str) -> Done:
    """Run a command in a pseudo-terminal, which has both outputs."""
    ours, theirs = pty.openpty()
    streams = (theirs, os.dup(theirs), os.dup(theirs))
    code, (read,) = _forked(streams, (ours,), arguments, {"TERM": "xterm-256color", "COLUMNS": "100"} | environment)
    return Done(code, read.replace("\r\n", "\n"), "")


def _forked(
    theirs: tuple[int, ...], ours: tuple[int, ...], arguments: tuple[str | Path, ...], environment: dict[str, str]
) -> tuple[int, list[str]]:
    """The exit code of a command with these standard streams, and what it has written to the others' ends."""
    context = get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SWITCHED_OFF.items():
            patch.setenv(name, value)
        patch.setenv("PYTHONPATH", str(ROOT))  # to find this module
        forkserver.ensure_running()
    streams = [Connection(stream) for stream in theirs]
    settings = os.environ | SWITCHED_OFF | environment
    process = context.Process(target=_run, args=(streams, [*map(str, arguments)], settings, str(Path.cwd())))
    process.start()
    for stream in streams:
        stream.close()
    read = [b""] * len(ours)
    threads = [Thread(target=lambda i=i: read.__setitem__(i, _all_of(ours[i]))) for i in range(len(ours))]
    for thread in threads:
        thread.start()
    process.join()
    for thread in threads:
        thread.join()
    return process.exitcode or 0, [found.decode() for found in read]


def _all_of(stream: int) -> bytes:
    """The bytes written until the other side is closed."""
    read = []
    try:
        while found := os.read(stream, 65_536):
            read.append(found)
    except OSError:  # a terminal on Linux: the other side is closed
        pass
    os.close(stream)
    return b"".join(read)


def _run(streams: list[Connection], arguments: list[str], environment: dict[str, str], folder: str) -> None:
    """`python -m sash`, in a process that was just forked."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, encoding="utf-8", buffering=1)  # noqa: SIM115
    sys.argv = ["sash", *arguments]
    runpy.run_module("sash", run_name="__main__", alter_sys=True)
