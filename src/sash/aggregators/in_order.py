"""The base class of in-order structures: lifts inputs, lowers results, and checks operations.

`base.py` is the base of these and of the time-ordered structures. A structure is a class whose annotations are its
state and whose methods are the algorithm, written once:

    class Example(InOrder):
        vals: Queue          aggregates by position    ─┐
        jumps: Ints          integers by position       │
        tree: Levels         aggregates by level        │
        F: int               a position                 ├─ interpreted: attributes of the object
        valid: bool          a flag                     │  compiled: fields of a struct (kernels/jit/numba_struct.py)
        both: State          an aggregate              ─┘

        push(v), pop(), aggregate(), size()     the algorithm, on lifted values

`push`, `pop`, `aggregate` and `size` and the methods they call use only what compiles: fields of `self`,
`self.combine`, `self.identity`, `self.inverse`, `self.picks_right`, integers, and methods of the same class.
The public `insert`, `evict` and `query` wrap them here and are never compiled.

Structures that answer shorter windows from the same state derive from `SuffixQuery` (`suffix_query.py`) and define

        last(n)         the aggregate of the n youngest elements, of all if there are fewer; 1 at least

which compiles like the rest. `query_last(n)` wraps it, and `slide_many` queries many ranges at each row. Structures
that answer faster if they know the ranges, or their order, override one of

        track(n)        prepare for a range; called on an empty window for each range, the longest first
        answer(k, n)    the k-th of these ranges, which is n; called in the same order, for k = 0, 1, 2, …, or again
                        for the same k

Intervals of indices and positions are half-open everywhere: `[F, B)` contains F and not B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from sash.aggregators.base import FRESH, STEPS, STORED, Aggregator, State, expect, fields, fold, require

__all__ = ["EVICT", "FRESH", "INSERT", "STEPS", "STORED", "InOrder", "State", "expect", "fields", "fold", "require"]

INSERT, EVICT = 1, 0
"""Codes of the operations that change a window."""


class InOrder(Aggregator):
    """A first-in, first-out window."""

    keeps_elements: ClassVar[bool] = True
    constants: ClassVar[tuple[str, ...]] = ("bulk",)
    bulk: ClassVar[int] = 0
    """1 if `drop(n)` takes a logarithmic number of ⊕, not one for each element that leaves."""

    # ---- the algorithm: each structure fills these ----

    push: Callable[[State], None]
    pop: Callable[[], None]
    elements: Callable[[], Iterator[State]]

    if TYPE_CHECKING:  # fields of most structures, which declare them
        F: int
        E: int

    def size(self) -> int:
        """The number of elements: they are at [F, E), unless a structure overrides it."""
        return self.E - self.F

    def drop(self, n: int) -> None:
        """Remove the n oldest elements: one by one, unless a structure overrides it."""
        for _ in range(n):
            self.pop()

    # ---- what users call ----

    def insert(self, *row: Any) -> None:
        """Add an element at the young end. Aggregates ignore a null element.

        An aggregate of several inputs takes them as separate arguments or as one tuple.
        """
        self._step(self.push, self._lifted(row))

    def evict(self) -> None:
        """Remove the oldest element. Raises IndexError if there is none."""
        if not self.size():
            raise IndexError(f"evict() from an empty {type(self).__name__}: insert() first, or check len()")
        self._step(self.pop)

    def query(self) -> Any:
        """The aggregate of the window, lowered; for the empty window the monoid's `empty`."""
        return self.monoid.lower(self._step(self.aggregate)) if self.size() else self.monoid.nothing()

    def __iter__(self) -> Iterator[State]:
        if not self.keeps_elements:
            raise TypeError(f"{type(self).__name__} overwrites its elements with aggregates: it cannot be iterated")
        return self.elements()
