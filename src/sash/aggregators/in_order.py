"""What all in-order structures share: the way in (`lift`), the way out (`lower`), and manners.

`window.py` has what they share with the structures in order of time. A structure is a class whose annotations are its
state and whose methods are the algorithm, written once:

    class Example(InOrder):
        vals: Queue          aggregates by position    ─┐
        jumps: Ints          integers by position       │
        tree: Levels         aggregates by level        │
        F: int               a position                 ├─ interpreted: attributes of the object
        valid: bool          a flag                     │  compiled: fields of a struct (kernels/state.py)
        both: State          an aggregate              ─┘

        push(v), pop(), aggregate(), size()     the algorithm, on lifted values

`push`, `pop`, `aggregate` and `size` and what they call stay within what compiles: fields of `self`,
`self.combine`, `self.identity`, `self.inverse`, `self.picks_right`, integers, and methods of the same class.
The public `insert`, `evict` and `query` wrap them here and are never compiled.

Structures that answer shorter windows from the same state derive from `Shorter` (`shorter.py`) and fill

        last(n)         the aggregate of the n youngest elements, of all if there are fewer; 1 at least

which compiles like the rest. `query_last(n)` wraps it, and `slide_many` asks for many ranges at each row.
Those for which that is cheaper if they know the ranges beforehand, or are asked in order, change one of

        track(n)        prepare for a range; on an empty window, for each range in turn, the longest first
        answer(k, n)    the k-th of these ranges, which is n: asked in the same order, for k = 0, 1, 2, …,
                        or the same once more

Indices and positions are half-open everywhere: `[F, B)` holds F and not B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from sash.aggregators.base import FRESH, STEPS, STORED, Aggregator, State, expect, fields, fold, require

__all__ = ["EVICT", "FRESH", "INSERT", "STEPS", "STORED", "InOrder", "State", "expect", "fields", "fold", "require"]

INSERT, EVICT = 1, 0
"""The operations that change a window, as data."""


class InOrder(Aggregator):
    """A window whose elements leave in the order they came."""

    keeps_elements: ClassVar[bool] = True
    constants: ClassVar[tuple[str, ...]] = ("bulk",)
    bulk: ClassVar[int] = 0
    """1 if `drop(n)` takes a logarithmic number of ⊕, not one for each element that leaves."""

    # ---- the algorithm: each structure fills these ----

    push: Callable[[State], None]
    pop: Callable[[], None]
    elements: Callable[[], Iterator[State]]

    def drop(self, n: int) -> None:
        """Remove the n oldest elements: one by one, where a structure knows no better."""
        for _ in range(n):
            self.pop()

    # ---- what users call ----

    def insert(self, *row: Any) -> None:
        """Add an element at the young end. A null is an element that no aggregate sees.

        An aggregate of several inputs takes them one by one or as one tuple.
        """
        self._step(self.push, self._lifted(row))

    def evict(self) -> None:
        """Remove the oldest element. Raises IndexError if there is none."""
        if not self.size():
            raise IndexError(f"evict() from an empty {type(self).__name__}: insert() first, or check len()")
        self._step(self.pop)

    def query(self) -> Any:
        """The aggregate of the window, lowered; for the empty window what the monoid declares for it."""
        return self.monoid.lower(self._step(self.aggregate)) if self.size() else self.monoid.nothing()

    def __iter__(self) -> Iterator[State]:
        if not self.keeps_elements:
            raise TypeError(f"{type(self).__name__} overwrites its elements with aggregates: it cannot be iterated")
        return self.elements()
