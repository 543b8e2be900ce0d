"""Runs rounds in a process with limits of memory and time, and keeps what has failed.

The process prints what it is about to do, and writes the state to a file before; if it dies or prints nothing
for too long, that file has failed.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from random import Random
from time import monotonic

from sash.stores import codec
from tests.fuzz.corpus import Subject, states, subject
from tests.fuzz.envelopes import State
from tests.fuzz.exercise import REFUSED, Failure, exercise
from tests.fuzz.mutate import mutated

MEMORY = 6 << 30
"""Bytes of address space; what is mapped but not used counts, such as libraries."""

PREPARING, TRYING = 900.0, 60.0
"""Seconds that a round may take to compile its loops, and a state to be checked."""

CURRENT = "current.case"


@dataclass
class Counts:
    """What came of states."""

    states: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.states} mutated states, {self.refused} refused, {len(self.failures)} failures"


# ---- in the process ----


def rounds(seed: int, first: int, count: int, mutants: int, folder: Path) -> None:
    """Make states, change them, and print the outcome of each on a line."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for number in range(first, first + count):
        rng = Random(f"{seed}/{number}")
        _say(f"prepare {number}")
        of = subject(number, rng)
        made = states(of)
        for state, is_snapshot in made:  # it also compiles all that follows
            _try(of, state, is_snapshot, untouched=True)
        for mutant in range(mutants if made else 0):
            state, is_snapshot = rng.choice(made)
            others = [other for other, of_snapshot in made if of_snapshot == is_snapshot]
            changed = mutated(state, others, rng)
            _keep(folder / CURRENT, seed, number, mutant, changed, is_snapshot)
            _say(f"try {number} {mutant}")
            _try(of, changed, is_snapshot)


def _try(of: Subject, state: State, is_snapshot: bool, untouched: bool = False) -> None:
    try:
        outcome = exercise(of, state, is_snapshot)
        if untouched and outcome == REFUSED:
            raise Failure(f"a state that nobody has changed was refused: {of.case!r}")
        if not untouched:
            _say(outcome)
    except Failure as failure:
        _say("fail " + repr(str(failure)[-3000:]))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _keep(path: Path, seed: int, number: int, mutant: int, state: State, is_snapshot: bool) -> None:
    whole = (state.pages, state.schema, state.mode, state.fingerprint)
    path.write_bytes(codec.dumps((seed, number, mutant, whole, is_snapshot)))


def replay(path: Path) -> None:
    """Try the state of a file once more, in this process."""
    seed, number, _, whole, is_snapshot = codec.loads(path.read_bytes())
    of = subject(number, Random(f"{seed}/{number}"))
    _say(repr(of.case.query))
    _try(of, State(*whole), is_snapshot)


# ---- outside of it ----


def supervise(command: Sequence[str], folder: Path, until: float, limits: tuple[float, float]) -> tuple[Counts, int]:
    """Run the process up to a time; gives what came of its states, and the last round that it has begun.

    `limits`: seconds without a word while it prepares a round, and while it tries a state.
    """
    counts, last, lines = Counts(), -1, Queue[str | None]()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        reader = threading.Thread(target=_read, args=(child.stdout, lines), daemon=True)
        reader.start()
        doing, at_work = "start", ""
        while monotonic() < until:
            try:
                line = lines.get(timeout=limits[doing == "try"])
            except Empty:
                _failed(counts, folder, f"nothing came for {limits[doing == 'try']:.0f} s at {at_work}")
                break
            if line is None:
                if child.wait() != 0:
                    _failed(counts, folder, f"the process ended with {child.returncode} at {at_work}")
                break
            doing, _, rest = line.partition(" ")
            if doing == "prepare":
                last, at_work = int(rest), line
            elif doing == "try":
                counts.states, at_work = counts.states + 1, line
            elif doing == "refused":
                counts.refused += 1
            elif doing == "fail":
                _failed(counts, folder, f"{at_work}: {rest}")
        child.kill()
        reader.join()
    return counts, last


def _read(stream: object, lines: Queue[str | None]) -> None:
    for line in stream:  # type: ignore[attr-defined]
        lines.put(line.rstrip("\n"))
    lines.put(None)


def _failed(counts: Counts, folder: Path, why: str) -> None:
    counts.failures.append(why)
    current = folder / CURRENT
    if current.exists():
        words = why.split()
        place = "-".join(words[words.index("try") + 1 :][:2]) if "try" in words else f"round{len(counts.failures)}"
        kept = folder / f"{place.strip(':')}.case"
        kept.write_bytes(current.read_bytes())
        sys.stderr.write(f"FAILED, kept in {kept}: ")
    sys.stderr.write(why.encode().decode("unicode_escape", "replace") + "\n")
