"""Kill -9 during operations on a window in RocksDB: the window that is opened next is in a consistent state."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def killed(structure: str, folder: Path, chance: random.Random) -> list[tuple[str, int, int]]:
    """What a process printed until it was killed, at a random moment after it has opened the window."""
    command = [
        sys.executable,
        "-m",
        "tests.aggregators.killed_window",
        structure,
        str(folder),
        str(chance.random())[2:],
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        timer = threading.Timer(chance.uniform(0, 0.3), process.send_signal, [signal.SIGKILL])
        timer.start()
        rest, errors = process.stdout.readlines(), process.stderr.read()
        timer.join()
    assert process.returncode == -signal.SIGKILL, errors
    lines = [line.split() for line in (first, *rest) if line.endswith("\n")]
    return [(what, int(F), int(E)) for what, F, E in lines]


@pytest.mark.parametrize("structure", ["AMTA", "LogMTA"])
@pytest.mark.parametrize("rounds", [3, pytest.param(50, marks=pytest.mark.all_compiled)])
def test_kill_and_open_again(structure: str, rounds: int, tmp_path: Path) -> None:
    chance = random.Random(rounds)
    acknowledged = (0, 0)
    for _ in range(rounds):
        for what, F, E in killed(structure, tmp_path, chance):
            assert acknowledged <= (F, E), f"{what} at [{F}, {E}), after {acknowledged} was flushed"
            acknowledged = F, E
    assert acknowledged[1] > 1000 * rounds, "the work was killed before it did anything"
