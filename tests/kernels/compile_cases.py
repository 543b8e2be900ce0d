"""Helpers for the tests of compiling: columns, aggregates of users, and their results in a loop."""

from collections.abc import Callable
from typing import Any

import numpy as np

import sash
from sash.aggregators import Recalc
from sash.monoids import Monoid

FLOATS = np.array([1.0, 4.0, 2.0, 0.5])
INTS = np.array([1, 4, 2, 7])
K = 3.0


def in_a_loop(monoid: Monoid, columns: tuple[Any, ...], width: int) -> list[Any]:
    window = Recalc(monoid)
    results = []
    for row in zip(*(column.tolist() for column in columns), strict=True):
        if len(window) == width:
            window.evict()
        window.insert(*row)
        results.append(window.query())
    return results


def add(a: Any, b: Any) -> Any:
    return a + b


def of(lift: Callable[..., Any], lower: Callable[[Any], Any] = lambda a: a, name: str | None = None) -> Monoid:
    return sash.monoid(identity=0.0, lift=lift, combine=add, lower=lower, name=name)


class Weighted(Monoid):
    """A user's monoid with parameters of every kind."""

    SHIFT = 0.5
    identity: Any = (0, 0.0)

    def __init__(self, k: int, f: float, on: bool, pair: Any, part: Monoid) -> None:
        self.k, self.f, self.on, self.pair, self.part = k, f, on, pair, part

    @property
    def half(self) -> float:
        return self.k / 2

    @staticmethod
    def plus(x: float, y: float) -> float:
        return x + y * K

    def helper(self, x: float, scale: float = 2.0) -> float:
        return x * scale + self.pair[1][0] + self.half + self.SHIFT

    def lift(self, x: Any) -> Any:
        return (self.k, self.plus(self.helper(x), self.f) if self.on else self.helper(x, 3.0))

    def combine(self, a: Any, b: Any) -> Any:
        return (a[0] + b[0], self.part.combine(a[1], b[1]))

    def lower(self, a: Any) -> Any:
        return a[1] / a[0] if a[0] > self.k else None
