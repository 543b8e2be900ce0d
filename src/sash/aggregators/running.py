"""Running: a window that grows until it is emptied at once, one aggregate and no elements.

For windows that only ever begin anew: a session, all since the start. One ⊕ an insert, none a query; evicting takes
none either, but only the whole window leaves, so between the first eviction and the last there is no answer.

    inserted    a   ab   abc                      total
    evicted          bc    c    ·                 …  …  identity

Invariant: with all elements still there, `total` is ⊕ over them; with some gone, they are all on their way out.
"""

from __future__ import annotations

from typing import ClassVar

from sash.aggregators.in_order import InOrder, State


class Running(InOrder):
    """A running total. It is no sliding window: not in the catalogue, and used where nothing leaves singly.

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
