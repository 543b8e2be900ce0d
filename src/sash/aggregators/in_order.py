"""The base classes of in-order structures: they lift inputs, lower results, and check operations.

A structure fills `push`, `pop` and `aggregate`, which work on lifted values and use only what compiles (`base.py`).
The public `insert`, `evict` and `query` wrap them here and are never compiled. Intervals of indices and positions are
half-open everywhere: `[F, B)` contains F and not B.

    InOrder            a first-in, first-out window
    Running            one that grows until all of it is evicted
    SuffixQuery        answers any number of youngest elements: defines `last(n)`, inherits `query_last(n)`
    RegisteredRanges   answers ranges that are registered once together: `ranges=`, `watch(n)`, `query_ranges()`
    RangeQuery         answers any range, from dyadic blocks: inherits `last(n)` and `query_range(start, stop)`

        oldest                          youngest
          v   v   v   v   v   v   v   v   v
          └────────── query() ────────────┘
                      └─ query_last(6) ───┘
                                  └─ 3 ───┘

`slide_many` queries many ranges at each row. A range is a number of youngest elements. Structures that answer faster if
they know the ranges, or their order, override one of

    track(n)        prepare for a range; called on an empty window for each range, the longest first
    answer(k, n)    the k-th of these ranges, which is n; called in the same order, for k = 0, 1, 2, …, or again for the
                    same k
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sash.aggregators.base import Aggregator, State, fields, fold
from sash.monoids import Monoid

# --- In order ---

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

    if TYPE_CHECKING:  # fields of most structures, which declare them
        vals: Any
        F: int
        E: int

    def size(self) -> int:
        """The number of elements: they are at [F, E), unless a structure overrides it."""
        return self.E - self.F

    def drop(self, n: int) -> None:
        """Remove the n oldest elements: one by one, unless a structure overrides it."""
        for _ in range(n):
            self.pop()

    # ---- not compiled ----

    def element(self, i: int) -> State:
        """The element at a position, unless a structure stores it in another field."""
        return self.vals[i]

    def elements(self) -> Iterator[State]:
        """The elements, oldest first."""
        return map(self.element, range(self.F, self.E))

    def sum_of(self, start: int, stop: int) -> State:
        """⊕ over the elements at the positions [start, stop), by definition."""
        return fold(self.monoid, map(self.element, range(start, stop)))

    def check_invariants(self) -> None:
        if "F" in fields(type(self)):
            assert self.F <= self.E, f"{type(self).__name__}: F = {self.F} lies beyond E = {self.E}"

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


# --- Running ---


class Running(InOrder):
    """A running total, for windows that only restart (sessions, lifetimes); not in the catalogue.

    One ⊕ per insert, none per query or evict. All elements leave together, so between the first eviction and the last
    there is no valid result.

        inserted    a   ab   abc                      total
        evicted          bc    c    ·                 …  …  identity

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


# --- Suffix query ---


class SuffixQuery(InOrder):
    """A window that also answers queries of its youngest elements."""

    last: Callable[[int], State]

    def track(self, n: int) -> None:
        """Prepare for a range."""

    def answer(self, _k: int, n: int) -> State:
        """The k-th range, which is n."""
        return self.last(n)

    def query_last(self, n: int) -> Any:
        """The result for the youngest n elements. Raises ValueError if there are fewer."""
        n = checked_integer("query_last(n)", n)
        if not 0 <= n <= len(self):
            raise ValueError(f"query_last({n}): the window has {len(self)} elements")
        return self.monoid.lower(self.last(n)) if n else self.monoid.nothing()


class RegisteredRanges(SuffixQuery):
    """A window that answers several ranges together.

    `ranges` are numbers of youngest elements, in the order in which `query_ranges()` answers them.

    Raises ValueError for a range below 1, TypeError for one that is no integer.
    """

    ranges: tuple[int, ...]

    def __init__(self, monoid: Monoid, ranges: Iterable[int] = ()) -> None:
        self.ranges = checked_ranges(ranges)
        super().__init__(monoid)

    def watch(self, n: int) -> None:
        """Register one more range. Elements that are already in the window count, too."""
        added = checked_ranges((n,))
        self.track(added[0])
        self.ranges += added

    def register_tracked(self, ranges: Iterable[int]) -> None:
        """Register the ranges of a window that has none, after a loop has passed them to `track`, longest first."""
        self.ranges = checked_ranges(ranges)

    def query_ranges(self) -> tuple[Any, ...]:
        """The result for each range, in the order of `ranges`; a range longer than the window means all of it."""
        if not self.size():
            return tuple(self.monoid.nothing() for _ in self.ranges)
        answers = {n: self.answer(k, n) for k, n in enumerate(longest_first(self.ranges))}
        return tuple(self.monoid.lower(answers[n]) for n in self.ranges)

    def clear(self) -> None:
        """Empty the window and release its memory. The ranges stay."""
        super().clear()
        for n in longest_first(self.ranges):
            self.track(n)

    def copy(self) -> Self:
        """An independent window with the same elements and ranges; the elements themselves are shared."""
        twin = super().copy()
        twin.ranges = self.ranges
        return twin


def longest_first(ranges: Iterable[int]) -> list[int]:
    """The distinct ranges in the order in which `track` and `answer` take them."""
    return sorted(set(ranges), reverse=True)


def checked_ranges(ranges: Iterable[int]) -> tuple[int, ...]:
    """The ranges as ints. Raises TypeError or ValueError, naming the invalid one."""
    if not isinstance(ranges, Iterable):
        raise TypeError(f"ranges= takes several numbers of elements, such as (3, 5); got {ranges!r}")
    found = tuple(checked_integer("a range", n) for n in ranges)
    for n in found:
        if n < 1:
            raise ValueError(f"a range must have at least one element; got {n}")
    return found


def checked_integer(what: str, n: Any) -> int:
    """Return the number as an int. Raises TypeError, naming `what`, if it is no integer."""
    try:
        return index(n)
    except TypeError:
        raise TypeError(f"{what} must be a whole number of elements; got {n!r}") from None


# --- Range query ---


class RangeQuery(SuffixQuery):
    """A window that answers queries of any range of its elements, from the aggregates of dyadic blocks.

        level 2               [ 4 5 6 7 ]
        level 1       [ 2 3 ] [ 4 5 ] [ 6 7 ] [ 8 9 ]
        level 0   [1] [2] [3] [4] [5] [6] [7] [8] [9] [10]       positions; the window is [1, 11)

        query: [1] ⊕ [2 3] ⊕ [4 5 6 7] ⊕ [8 9] ⊕ [10]            blocks grow towards the middle, and shrink again

    Block b of level l is the positions from b·2^l up to (b + 1)·2^l. A range of n elements takes at most
    2 log2(n + 2) - 2 of them, one ⊕ less. Blocks are taken in order, for any ⊕.
    """

    block: Callable[[int, int], State]
    """⊕ over a block that lies in the window, by its level and number."""

    find: Callable[[int], int]
    """The position of the i-th oldest element, counted from 0."""

    def propagate(self) -> None:
        """Update all blocks, if inserts and evicts do not."""

    def last(self, n: int) -> State:
        return self.aggregate() if n >= self.size() else self.between(self.size() - n, self.size())

    def between(self, start: int, stop: int) -> State:
        """⊕ over the elements [start, stop), at least one, counted from the oldest: of the largest possible blocks."""
        self.propagate()
        first = self.find(start)
        last = self.find(stop - 1) + 1
        head = self.identity
        tail = self.identity
        level = 0
        heads = False
        tails = False
        while first < last:
            if first & 1:
                found = self.block(level, first)
                head = self.combine(head, found) if heads else found
                heads = True
                first += 1
            if last & 1:
                last -= 1
                found = self.block(level, last)
                tail = self.combine(found, tail) if tails else found
                tails = True
            first >>= 1
            last >>= 1
            level += 1
        if not tails:
            return head
        return self.combine(head, tail) if heads else tail

    def query_range(self, start: int, stop: int) -> Any:
        """The result for the elements [start, stop), counted from the oldest. Raises ValueError if they do not exist.

        `query_range(0, len(window))` is `query()`, and `query_range(len(window) - n, len(window))` is `query_last(n)`.
        """
        start = checked_integer("the start of query_range", start)
        stop = checked_integer("the stop of query_range", stop)
        if not 0 <= start <= stop <= len(self):
            raise ValueError(f"query_range({start}, {stop}): the window has {len(self)} elements")
        return self.monoid.lower(self.between(start, stop)) if start < stop else self.monoid.nothing()
