"""Running: a window that grows until all of it is evicted: one aggregate and no elements.

For windows that only restart: sessions, lifetimes. One ⊕ per insert, none per query or evict. All elements leave
together, so between the first eviction and the last there is no valid result.

    inserted    a   ab   abc                      total
    evicted          bc    c    ·                 …  …  identity

Invariant: `total` is ⊕ over all elements until the first is evicted; then all must be evicted.
"""

from __future__ import annotations

from typing import ClassVar

from sash.aggregators.in_order import InOrder, State


class Running(InOrder):
    """A running total, for windows whose elements do not leave one by one; not in the catalogue.

    >>> from sash.monoids import Max
    >>> window = Running(Max())
    >>> window.insert(3); window.insert(1); window.query()
    3
    >>> window.evict(); window.evict(); len(window)
    0
    """

    keeps_elements: ClassVar[bool] = False

    total: State
    n: int

    def size(self) -> int:
        return self.n

    def push(self, v: State) -> None:
        self.total = self.combine(self.total, v)
        self.n += 1

    def pop(self) -> None:
        self.n -= 1
        if self.n == 0:
            self.total = self.identity

    def aggregate(self) -> State:
        return self.total
