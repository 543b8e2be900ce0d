"""A process that changes a window in RocksDB until it is killed: `python -m tests.aggregators.killed_window`.

It opens the window, compares it with its definition, prints where it is, and continues: each next operation depends on
[F, E) alone, so that the operations of all processes together are one sequence. After each flush it prints [F, E).
"""

from __future__ import annotations

import random
import sys

import sash
from sash import aggregators
from sash.aggregators.bulk_evict import BulkEvict
from sash.stores import RocksDBStore

LARGEST = 4000
CHAIN = sash.monoid(
    identity=(0, 1),
    lift=lambda x: (x, 31),
    combine=lambda a, b: ((a[0] * b[1] + b[0]) % 1_000_003, a[1] * b[1] % 1_000_003),
    lower=lambda a: a[0],
    exact=True,
    name="chain",
)
"""A hash of the elements in their order."""


def evictions(F: int, E: int) -> int:
    """How many elements the next operation evicts; 0 if it inserts element E."""
    if E - F > LARGEST:
        return 1
    return (E - F) // 2 + 1 if E % 997 == 0 and E - F > 500 else 0


def is_on_the_way(F: int, E: int) -> bool:
    """Is [F, E) a point of the sequence?"""
    f = e = 0
    while e < E or (e == E and f < F):
        n = evictions(f, e)
        f, e = (f + n, e) if n else (f, e + 1)
    return (f, e) == (F, E)


def check(window: BulkEvict) -> None:
    """Compare a window that was opened with what must be in it."""
    F, E = window.F, window.E
    assert is_on_the_way(F, E), f"[{F}, {E}) is no point of the sequence"
    assert list(window) == [CHAIN.lift(x) for x in range(F, E)]
    expected = 0
    for x in range(F, E):
        expected = (expected * 31 + x) % 1_000_003
    assert window.query() == (expected if E > F else 0)


def work(window: BulkEvict, chance: random.Random) -> None:
    """Work until killed."""
    while True:
        for _ in range(chance.choice([1, 50, 600, 2000])):
            n = evictions(window.F, window.E)
            if n > 1:
                window.evict_many(n)
            elif n:
                window.evict()
            elif chance.random() < 0.1 and window.E % 997 < 900 and len(window) < LARGEST - 50:
                window.insert_many(range(window.E, window.E + 50))
            else:
                window.insert(window.E)
        window.flush()
        tell("flushed", window)


def tell(what: str, window: BulkEvict) -> None:
    """Print where the window is."""
    sys.stdout.write(f"{what} {window.F} {window.E}\n")
    sys.stdout.flush()


def main() -> None:
    structure, folder, seed = sys.argv[1:]
    window = getattr(aggregators, structure)(CHAIN, store=RocksDBStore(folder), name="killed")
    check(window)
    tell("opened", window)
    work(window, random.Random(int(seed)))


if __name__ == "__main__":
    main()
