"""python -m tests.fuzz --minutes N --seed S: see the package."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from time import monotonic

from tests.fuzz.supervise import PREPARING, TRYING, Counts, replay, rounds, supervise

MUTANTS = 400
"""Changed states of a round."""


def main() -> int:
    """Fuzz for some minutes; 0 if nothing has failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz snapshots and pages of a store.")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where states that fail are kept")
    parser.add_argument("--replay", type=Path, help="try the state of a file once more")
    parser.add_argument("--rounds", type=int, nargs=3, help=argparse.SUPPRESS, metavar=("FIRST", "COUNT", "MUTANTS"))
    given = parser.parse_args()
    if given.replay:
        replay(given.replay)
        return 0
    folder = given.folder or Path(tempfile.mkdtemp(prefix="sash-fuzz-"))
    folder.mkdir(parents=True, exist_ok=True)
    if given.rounds:
        rounds(given.seed, *given.rounds, folder)
        return 0
    return _fuzz(given.minutes, given.seed, folder)


def _fuzz(minutes: float, seed: int, folder: Path) -> int:
    start, total, first = monotonic(), Counts(), 0
    while monotonic() < start + 60 * minutes:
        own = [sys.executable, "-m", "tests.fuzz", "--seed", str(seed), "--folder", str(folder)]
        command = [*own, "--rounds", str(first), str(10**6), str(MUTANTS)]
        found, last = supervise(command, folder, start + 60 * minutes, (PREPARING, TRYING))
        total.states, total.refused = total.states + found.states, total.refused + found.refused
        total.failures += found.failures
        first = last + 1  # after a process that died, continue with the next round
    sys.stdout.write(f"{total} in {(monotonic() - start) / 60:.0f} minutes, {first} rounds, seed {seed}\n")
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
