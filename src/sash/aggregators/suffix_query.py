"""The base classes of structures that answer queries of shorter windows (suffixes) from the same state.

    SuffixQuery        any number of youngest elements: defines `last(n)`, inherits `query_last(n)`
    RegisteredRanges   ranges registered once and answered together: `ranges=`, `watch(n)`, `query_ranges()`

        oldest                          youngest
          v   v   v   v   v   v   v   v   v
          └────────── query() ────────────┘
                      └─ query_last(6) ───┘
                                  └─ 3 ───┘

A range is a number of youngest elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import index
from typing import Any, Self

from sash.aggregators.in_order import InOrder, State
from sash.monoids import Monoid


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
