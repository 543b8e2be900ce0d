"""Workloads: sequences of inserts and evicts as windows see them.

fixed          fill to n, then insert and evict in turn
growing        three inserts to an evict
shrinking      fill, then three evicts to an insert
oscillating    up to n and down to one, again and again
refilled       filled and emptied, again and again
single         never more than one element
random         anything goes
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
