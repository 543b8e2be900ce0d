"""Commands as a user types them: in this process, in a process of their own, and in a pseudo-terminal."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from sash.cli.main import main
from tests.interpreted import SWITCHED_OFF


@dataclass(frozen=True)
class Done:
    """What a command has printed, and its exit code."""

    code: int
    out: str
    err: str


class Terminal(io.StringIO):
    """A standard output that says it is a terminal."""

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
    command = [sys.executable, "-m", "sash", *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | SWITCHED_OFF | environment
    )
    return Done(done.returncode, done.stdout, done.stderr)


def in_a_terminal(*arguments: str | Path, **environment: str) -> Done:
    """Run a command in a pseudo-terminal, which has both outputs."""
    ours, theirs = pty.openpty()
    settings = os.environ | SWITCHED_OFF | {"TERM": "xterm-256color", "COLUMNS": "100"} | environment
    command = [sys.executable, "-m", "sash", *map(str, arguments)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=settings) as process:
        os.close(theirs)
        read = []
        while True:
            try:
                found = os.read(ours, 65_536)
            except OSError:  # Linux: the other side is closed
                break
            if not found:
                break
            read.append(found)
    os.close(ours)
    return Done(process.returncode, b"".join(read).decode().replace("\r\n", "\n"), "")
