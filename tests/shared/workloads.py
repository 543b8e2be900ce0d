"""Workloads: sequences of inserts and evicts as windows see them.

fixed          fill to n, then insert and evict in turn
growing        three inserts to an evict
shrinking      fill, then three evicts to an insert
oscillating    up to n and down to one, repeatedly
refilled       filled and emptied, repeatedly
single         never more than one element
random         anything goes

Arrivals: the times of events in the order in which they come.

in_order       0, 1, 2, …
reversed       the youngest first
bursts         in order, but now and then a batch that was held up
alternating    from the middle to both ends in turn
equal          few times, repeatedly
late           most in order, some a little late, few very late
shuffled       any order
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from sash.aggregators.in_order import EVICT, INSERT

Workload = Callable[[int], list[int]]
"""Length to operations; no prefix evicts more than it inserts."""


def _legal(operations: Iterator[int], length: int) -> list[int]:
    """The first `length` operations, an evict from the empty window left out."""
    taken: list[int] = []
    size = 0
    while len(taken) < length:
        operation = next(operations)
        if operation == INSERT or size:
            taken.append(operation)
            size += 1 if operation == INSERT else -1
    return taken


def _forever(*blocks: tuple[int, int]) -> Iterator[int]:
    while True:
        for operation, times in blocks:
            yield from (operation for _ in range(times))


def _after(prefix: int, *blocks: tuple[int, int]) -> Iterator[int]:
    yield from (INSERT for _ in range(prefix))
    yield from _forever(*blocks)


def _random(seed: int) -> Iterator[int]:
    chance = random.Random(seed)
    while True:
        likely = chance.random()
        yield from (int(chance.random() < likely) for _ in range(chance.randrange(1, 40)))


WORKLOADS: dict[str, Workload] = {
    "fixed": lambda length: _legal(_after(length // 8, (EVICT, 1), (INSERT, 1)), length),
    "growing": lambda length: _legal(_forever((INSERT, 3), (EVICT, 1)), length),
    "shrinking": lambda length: _legal(_after(length // 2, (EVICT, 3), (INSERT, 1)), length),
    "oscillating": lambda length: _legal(
        _after(1, (INSERT, max(length // 9, 1)), (EVICT, max(length // 9, 1))), length
    ),
    "refilled": lambda length: _legal(_forever((INSERT, max(length // 12, 1)), (EVICT, max(length // 12, 1))), length),
    "single": lambda length: _legal(_forever((INSERT, 1), (EVICT, 1)), length),
    "random": lambda length: _legal(_random(length), length),
}
"""Every workload by name."""


def _bursts(length: int) -> list[int]:
    chance = random.Random(length)
    times: list[int] = []
    for start in range(0, length, 20):
        batch = list(range(start, min(start + 20, length)))
        held = chance.randrange(0, len(times) + 1)
        times = times[:held] + batch + times[held:] if chance.random() < 0.3 else times + batch
    return times


def _late(length: int) -> list[int]:
    chance = random.Random(length)
    delays = [
        chance.choice((0,) * 15 + (chance.randrange(6),) * 4 + (chance.randrange(length),)) for _ in range(length)
    ]
    return [i for _, i in sorted((i + delay, i) for i, delay in enumerate(delays))]


def _shuffled(length: int) -> list[int]:
    return random.Random(length).sample(range(length), length)


ARRIVALS: dict[str, Callable[[int], list[int]]] = {
    "in_order": lambda length: list(range(length)),
    "reversed": lambda length: list(range(length - 1, -1, -1)),
    "bursts": _bursts,
    "alternating": lambda length: [length // 2 + (i + 1) // 2 * (-1) ** i for i in range(length)],
    "equal": lambda length: [i * i % 7 for i in range(length)],
    "late": _late,
    "shuffled": _shuffled,
}
"""The times of arriving events, by name."""
