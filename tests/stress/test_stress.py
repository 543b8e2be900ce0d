"""A few rounds of the stress test, in a process of its own: it forks, and pytest has threads."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interpreted import SWITCHED_OFF
from tests.shared.effort import THOROUGH

ROOT = Path(__file__).parents[2]


def run_stress(*arguments: str) -> str:
    """Run the stress test and return its summary. It compiles: Ctrl-C may stop an interpreted kernel half-way."""
    command = [sys.executable, "-m", "tests.stress", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def count(said: str, what: str) -> int:
    found = re.search(rf"([\d,]+) {what}", said)
    return int(found[1].replace(",", "")) if found else 0


@pytest.mark.parametrize("seed", [1000 * i for i in range(2 if THOROUGH else 1)])
def test_rounds_with_kills_torn_writes_and_interrupts(seed: int) -> None:
    rounds = 40 if THOROUGH else 2
    said = run_stress("--rounds", str(rounds), "--seed", str(seed), "--few")
    assert count(said, "queries") == rounds
    assert count(said, "kills") > 5
    assert count(said, "torn-writes") > 0 or not THOROUGH  # two rounds may meet none
    assert count(said, "KeyboardInterrupt") > 5


@pytest.mark.parametrize("seed", [1000 * i for i in range(2 if THOROUGH else 1)])
def test_rounds_with_little_memory(seed: int) -> None:
    rounds = 40 if THOROUGH else 2
    said = run_stress("--memory", "--rounds", str(rounds), "--seed", str(seed))
    assert count(said, "queries") == rounds
    assert count(said, "memory-errors") > (5 if THOROUGH else 1)


def test_the_seed_of_a_round_that_fails_is_printed() -> None:
    program = (
        "import sys; from tests.stress import __main__ as stress, rounds\n"
        "rounds.Play.check = lambda *_: (_ for _ in ()).throw(AssertionError('wrong'))\n"
        "sys.argv[1:] = ['--seed', '5', '--few']; sys.exit(stress.main())"
    )
    command, surroundings = [sys.executable, "-c", program], os.environ | SWITCHED_OFF
    done = subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "seed 5 FAILED: python -m tests.stress --few --seed 5" in done.stdout
    assert "1 failures" in done.stdout
