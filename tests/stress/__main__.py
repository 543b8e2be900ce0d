"""A stress test: random queries with kills, reopenings, torn writes and interrupts, or little memory.

python -m tests.stress --minutes 30            rounds with seeds of their own, until the time is up
python -m tests.stress --seed 17               the round of one seed
python -m tests.stress --memory --minutes 10   queries on large frames and batches, with too little memory
"""

from __future__ import annotations

import argparse
import gc
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from tests.stress import rounds

COUNTED = (
    "queries", "calls", "rows", "kills", "reopenings", "torn-writes", "KeyboardInterrupt", "Fault", "Struck",
    "lost-results", "refused", "memory-errors", "failures",
)  # fmt: skip


def main() -> int:
    gc.callbacks.clear()  # Python ignores an interrupt in those of Hypothesis
    options = parsed()
    play: Callable[[int], Counter[str]] = partial(rounds.play_round, all_aggregates=not options.few)
    if options.memory:
        from tests.stress.little_memory import play_round as play
    seed = secrets.randbits(31) if options.seed is None else options.seed
    start = time.monotonic()
    counts: Counter[str] = Counter()
    done = 0
    while done < options.rounds or time.monotonic() < start + 60 * options.minutes:
        try:
            counts += play(seed)
        except rounds.Failure as failure:
            counts["failures"] += 1
            flags = " --memory" * options.memory + " --few" * options.few
            say(f"\nseed {seed} FAILED: python -m tests.stress{flags} --seed {seed}\n{failure}\n")
        seed, done = seed + 1, done + 1
    say(", ".join(f"{counts[name]:,} {name}" for name in COUNTED if counts[name] or name == "failures"))
    return int(counts["failures"] > 0)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=0, help="how long, at least")
    parser.add_argument("--rounds", type=int, default=1, help="how many rounds, at least")
    parser.add_argument("--seed", type=int, help="the seed of the first round")
    parser.add_argument("--few", action="store_true", help="three aggregates alone, so that little is compiled")
    parser.add_argument("--memory", action="store_true", help="rounds with too little memory")
    return parser.parse_args()


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
