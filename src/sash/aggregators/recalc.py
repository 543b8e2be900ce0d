"""Recalc: fold the whole window at every query. The baseline, and the reference for tests of all others.

Needs nothing. No ⊕ per insert or evict, n per query. Space n.

    vals   v v v v v v v
           F             E       query: v ⊕ v ⊕ … ⊕ v

Invariant: vals[F:E] are the window's elements, oldest first.
"""

from __future__ import annotations

from typing import ClassVar

from sash.aggregators.base import State
from sash.aggregators.in_order import SuffixQuery
from sash.aggregators.storage import Queue


class Recalc(SuffixQuery):
    """Fold the whole window at every query.

    >>> from sash.monoids import Max
    >>> window = Recalc(Max())
    >>> for x in (3, 1, 2): window.insert(x)
    >>> window.evict(); window.query()
    2
    """

    by_position: ClassVar[tuple[str, ...]] = ("vals", "F", "E")

    vals: Queue
    F: int
    E: int

    def push(self, v: State) -> None:
        self.vals[self.E] = v
        self.E += 1

    def pop(self) -> None:
        self.vals.drop_front(self.F)
        self.F += 1

    def aggregate(self) -> State:
        return self.suffix(self.F)

    def suffix(self, start: int) -> State:
        total = self.identity
        for i in range(start, self.E):
            total = self.combine(total, self.vals[i])
        return total

    def last(self, n: int) -> State:
        return self.suffix(max(self.F, self.E - n))
