"""Where a window begins and ends: the one definition, which every executor takes.

A window is a row of numbers, its `WindowRule`. `measure` says what is compared:

    measure    from                                        to                                  of
    "rows"     `behind` rows before the row, exclusive     `ahead` rows after it               Count
    "values"   `start` from the row's value                `end` from it, or by its `peers`    Time, Delta
    "restarts" the row after a `gap` or a `mark`           the row, or the last of its peers   Session, Punctuation,
               or the key's first                                                              Lifetime
    "policy"   as a function decides                       the row                             Policy

Values are those of `column`, or the times of rows. A `Bound` is a distance from a value, with the least and greatest
value that it can be added to: below its floor it precedes all values, above its ceiling none. A window holds the values
that do not precede its start and precede its end. For integers every bound is inclusive: an exclusive one is inclusive
at the next integer.

Searches differ, and may be special: `first_from` bisects, `window_loops` continue from a slot's last start in a ring,
`column.bounds` does so for four ranges of rows at once. They compare by the functions of the first part, plain Python
that compiles.

Windows with `every` in time end at the grid `offset + k · every`, for any integer k.

        cuts of (size 5, every 3)
    0   1   2   3   4   5   6   7   8   9             ends     3, 6, 9, …
        ├───────┼───┼───────┼───┼───────┼──           starts   end - 5: 1, 4, 7, …

On floats an end is `(offset + k · every) · a / b` with whole numbers offset and every, and the size is subtracted from
a start before the multiplication by a / b. So the start of one window and the end of another are the same float where
they are equal, and no row is between them. Ends are then the floats that people write: 0.3, not 3 · 0.1, which is
greater. Integers are rejected where an end would overflow 64 bits. Slides that follow a calendar are those of
`calendar_grid`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import gcd, isclose, lcm
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sash.windows.calendar import CalendarGrid, CalendarLength

Numbers = NDArray[Any]
Number = int | float

LIMIT = 2**63 - 1
"""The greatest integer time."""

MOST_ROWS = 2**61
"""The size, slide or shift of a window in rows is limited to this: positions do not overflow."""

Bound = tuple[Any, Any, Any, bool]
"""The distance of a bound from a value, the least and greatest value to which it can be added, and whether a value at
the bound does not precede it."""


# ---- compiled ----


def start_of(t: Any, by: Any, floor: Any, least: Any) -> Any:
    """t + by, or `least` where t is below `floor` and integers would overflow.

    The test comes before the sum: LLVM assumes that signed integers do not overflow (`nsw`), and would drop a test of
    the sum.
    """
    return least if t < floor else t + by


def precedes(value: Any, start: Any, inclusive: bool) -> bool:
    """Is a value before a window's start?"""
    return bool(value < start if inclusive else value <= start)


def preceding(inclusive: bool) -> Callable[[Any, Any], bool]:
    """`precedes` for one kind of start, as a function of C for a loop in Python."""
    return operator.lt if inclusive else operator.le


def first_from(values: Any, a: int, b: int, start: Any, inclusive: bool) -> int:
    """The first position in [a, b) whose value does not precede `start`, by bisection; b if there is none."""
    while a < b:
        middle = (a + b) // 2
        if precedes(values[middle], start, inclusive):
            a = middle + 1
        else:
            b = middle
    return a


def first_moved(values: Any, a: int, b: int, t: Any, bound: Any) -> int:
    """The first position in [a, b) whose value does not precede the bound of a row at t, by bisection."""
    by, floor, ceiling, inclusive = bound
    if t < floor:
        return a
    if t > ceiling:
        return b
    return first_from(values, a, b, t + by, inclusive)


def restarts(t: Any, before: Any, gap: Any, floor: Any = 0, least: Any = 0, is_wide: Any = True) -> bool:
    """Is a row at time t more than `gap` after one at `before`?

    `is_wide`: numbers do not overflow. For others t - gap is `least` where t is below `floor`.
    """
    if is_wide:
        return bool(t - before > gap)
    return bool(before < start_of(t, -gap, floor, least))


def divided(above: Any, per: Any) -> Any:
    """A time of a grid. A grid of floats counts in fractions per[0] / per[1] of a unit; for others `per` is None."""
    if per is None:
        return above
    return above * per[0] / per[1]


def slide_end(k: int, grid: Any) -> Any:
    """The end of the k-th slide: by its number, or of a calendar from a table."""
    offset, every, _, per, first, ends, _ = grid
    return ends[k - first] if len(ends) > 0 else divided(offset + k * every, per)


def slide_start(k: int, grid: Any) -> Any:
    """The start of the window with the k-th end."""
    offset, every, size, per, first, _, starts = grid
    return starts[k - first] if len(starts) > 0 else divided(offset + (k * every - size), per)


def slide_number(t: Any, grid: Any) -> int:
    """The number of the first slide that ends after a time (or at it, if the end is closed)."""
    right, (offset, every, _, per, first, ends, _) = grid
    if len(ends) > 0:
        return int(first + first_from(ends, 0, len(ends), t, right))
    return numbered_slide(t, offset, every, per, right)


def numbered_slide(t: Any, offset: Any, every: Any, per: Any, right: bool) -> int:
    """The number of the first slide that ends after a time, if the slides are not those of a calendar."""
    if per is None:
        return int((t - offset - right) // every + 1)
    k = (t * per[1] / per[0] - offset) // every
    while t > divided(offset + k * every, per) or (not right and t == divided(offset + k * every, per)):
        k += 1
    while t < divided(offset + (k - 1) * every, per) or (right and t == divided(offset + (k - 1) * every, per)):
        k -= 1
    return int(k)


# ---- bounds as numbers ----


def bound(by: Number, numbers: np.dtype[Any] | None, inclusive: bool) -> Bound:
    """A bound at a distance from values of a type; None: numbers of Python, which do not overflow."""
    if numbers is None or numbers.kind == "f":
        return by if numbers is None else float(by), -math.inf, math.inf, inclusive
    by = min(max(int(by) + (not inclusive), -LIMIT), LIMIT)
    return by, max(-LIMIT - 1 - by, -LIMIT - 1), min(LIMIT - by, LIMIT), True


def moved(x: Numbers, given: Bound) -> Numbers:
    """The bounds at a distance from each x; integers saturate."""
    by, floor, ceiling, _ = given
    if x.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return x + by  # type: ignore[no-any-return]
    return np.where(x < floor, -LIMIT - 1, np.where(x > ceiling, LIMIT, x + by))


def later(time: Numbers, size: Number) -> Numbers:
    """time + size; integers saturate."""
    return moved(time, bound(size, time.dtype, inclusive=True))


def since(after: Numbers, before: Numbers) -> Numbers:
    """after - before, for after ≥ before, without overflow: integers as unsigned ones."""
    if after.dtype.kind == "f":
        return after - before
    return after.astype(np.int64).view(np.uint64) - before.astype(np.int64).view(np.uint64)


def is_gap(gap: Number, time: Numbers, before: Numbers) -> NDArray[np.bool_]:
    """`restarts` for columns: is time - before longer than `gap`? A `time` earlier than `before` counts as `before`."""
    found = since(np.maximum(time, before), before)
    return found > np.asarray(gap).astype(found.dtype)


# ---- rules ----

Measure = Literal["rows", "values", "restarts", "policy"]


class GridNumbers(NamedTuple):
    """Offset, slide and size in units of a fraction, and its two numbers: None on a column without floats."""

    offset: Number
    every: Number
    size: Number
    per: tuple[float, float] | None


NO_SLIDES = np.zeros(0, np.int64)

FINEST = 10**6
"""The largest denominator: microseconds for a time in seconds, which floats represent exactly for 140 years."""


@dataclass(frozen=True, kw_only=True)
class BoundLengths:
    """The lengths of a window as numbers; of calendar lengths these are the greatest size and the least shift."""

    numbers: np.dtype[Any] | None = None
    """The type of the column that it is measured on; None: numbers of Python."""
    size: Number | None
    """Its size, in rows for Count, or its gap."""
    every: Number | None = None
    offset: Number = 0
    closed: str
    shift: Number = 0
    """How far it is moved against its row."""
    calendar_size: CalendarLength | None = None
    calendar_shift: CalendarLength | None = None
    """How far it ends before its row, if that is a calendar length."""
    grid: CalendarGrid | None = None
    """The slides in time, if they follow the calendar."""


@dataclass(frozen=True)
class WindowRule:
    """A window as a row of numbers: the one definition of its bounds."""

    measure: Measure
    numbers: np.dtype[Any] | None = None
    """The type of the values, of the grid and of gaps; None: numbers of Python."""
    column: str | None = None
    """The column that values are measured on, or that marks the last row of a window; None: the time, no marks."""
    size: Number = 0
    """The distance from start to end: in rows, or in values; of a calendar length the greatest."""
    shift: Number = 0
    """The distance of the end from its row."""
    closed_start: bool = False
    closed_end: bool = True
    gap: Number | None = None
    """Windows restart where rows are further apart."""
    full: int = 0
    """The number of rows from which on there is a result."""
    calendar_size: CalendarLength | None = None
    calendar_shift: CalendarLength | None = None
    every: Number = 1
    offset: Number = 0
    slides_in_time: bool = False
    calendar_grid: CalendarGrid | None = None

    @cached_property
    def behind(self) -> Number:
        """The distance from the start to the row; negative if the start is after the row."""
        return self.size - self.shift

    @cached_property
    def peers(self) -> bool:
        """Does it end with the last peer of its row, or before the first, unless it is moved? If not, at the row."""
        return self.measure in ("values", "restarts") and self.column is None

    @cached_property
    def is_moved(self) -> bool:
        """Does it not end at its row?"""
        return self.shift != 0

    @cached_property
    def is_fixed(self) -> bool:
        """Does it end at its row, and start at a fixed distance from it?"""
        return not self.is_moved and self.calendar_size is None

    @cached_property
    def in_time(self) -> bool:
        """Is it measured on the time of rows?"""
        return self.measure == "values" and self.column is None

    @cached_property
    def is_unbounded(self) -> bool:
        """Does it hold all rows of the key?"""
        return self.measure == "restarts" and self.gap is None and self.column is None

    @property
    def measured(self) -> str | None:
        """The column that it is measured on; None: none, or the time."""
        return self.column if self.measure == "values" else None

    # ---- bounds ----

    @cached_property
    def widest(self) -> Bound:
        """The start, of a calendar length the earliest."""
        return bound(-self.behind, self.numbers, self.closed_start)

    @cached_property
    def start(self) -> Bound:
        """The start, as a distance from the first of `origins`."""
        return self.widest if self.calendar_size is None and self.calendar_shift is None else self._of_calendar

    @property
    def _of_calendar(self) -> Bound:
        return bound(0 if self.calendar_size is not None else -self.size, self.numbers, self.closed_start)

    @cached_property
    def end(self) -> Bound:
        """The end, as a distance from the second of `origins`: the first value after the window."""
        return bound(self.shift if self.calendar_shift is None else 0, self.numbers, not self.closed_end)

    def origins(self, x: Numbers) -> tuple[Numbers, Numbers]:
        """The values from which start and end are measured: those of rows, or by the calendar."""
        ends = x if self.calendar_shift is None else self.calendar_shift.before(x)
        if self.calendar_size is None:
            return ends, ends
        return self.calendar_size.before(ends if self.calendar_shift is not None else later(x, self.shift)), ends

    def starts_before(self, ends: Numbers) -> Numbers:
        """The starts of windows that end at these values, as they are shown; integers saturate."""
        if self.calendar_size is not None:
            return self.calendar_size.before(ends)
        return moved(ends, bound(-self.size, self.numbers, inclusive=True))

    @cached_property
    def rows(self) -> tuple[int, int]:
        """How many rows a window of rows holds up to its own, and after it; either may be negative."""
        return int(min(max(self.behind, -MOST_ROWS), MOST_ROWS)), int(min(max(self.shift, -MOST_ROWS), MOST_ROWS))

    # ---- the grid of slide ends ----

    def ends(self, k: Numbers) -> Numbers:
        """The k-th ends."""
        return self._cut(k, 0) if self.calendar_grid is None else self.calendar_grid.ends(k)

    def starts(self, k: Numbers) -> Numbers:
        """The starts of the windows with the k-th ends."""
        return self._cut(k, 1) if self.calendar_grid is None else self.calendar_grid.starts(k)

    def _cut(self, k: Numbers, sizes: int) -> Numbers:
        """The k-th ends, less the size if `sizes` is 1."""
        offset, every, size, per = self.grid
        found: Numbers = divided(offset + (k * every - sizes * size), per)
        return found

    @cached_property
    def grid(self) -> GridNumbers:
        """The grid as numbers."""
        # the rows of a Count window that slides in time are no part of the grid, and may exceed 64 bits
        size = 0 if self.slides_in_time and not self.in_time else self.size
        if not self.slides_in_time or self.numbers is None or self.numbers.kind != "f":
            return GridNumbers(self.offset, self.every, size, None)
        return _fractions(self.offset, self.every, size)

    def last_end(self, x: Numbers, strict: bool) -> Numbers:
        """The greatest k whose end is at most x, or below it if `strict`."""
        return self._greatest(x, 0, strict) if self.calendar_grid is None else self.calendar_grid.last_end(x, strict)

    def last_start(self, x: Numbers, strict: bool) -> Numbers:
        """The greatest k whose window starts at most at x, or before it if `strict`."""
        return self._greatest(x, 1, strict) if self.calendar_grid is None else self.calendar_grid.last_start(x, strict)

    def last_slide(self, x: Numbers) -> Numbers:
        """The last slide that no row at x or later is in: it ends at or before x, or before x if it holds its end."""
        return self.last_end(x, self.closed_end)

    def open_slide(self, x: Numbers) -> Numbers:
        """The slide in progress at x: the one after `last_slide`."""
        return self.last_slide(x) + 1

    def _greatest(self, x: Numbers, sizes: int, strict: bool) -> Numbers:
        x = np.asarray(x)
        offset, every, size, per = self.grid
        if per is None:
            return (x + (sizes * size - offset - strict)) // every
        k = np.clip(np.floor((x * per[1] / per[0] + sizes * size - offset) / every), -(2.0**62), 2.0**62)

        def beyond(k: Numbers) -> Numbers:
            cut = self._cut(k, sizes)
            return cut >= x if strict else cut > x

        k = np.where(beyond(k), k - 1, k)  # the quotient may be rounded either way
        return np.where(beyond(k + 1), k, k + 1).astype(np.int64)

    def scalars(self, kind: np.dtype[Any], first: int = 0, last: int = 0) -> tuple[Any, ...]:
        """The grid as loops take it: its numbers, and for a calendar a table with the slides from `first` to `last`."""
        offset, every, size, per = self.grid
        typed = kind.type(offset), kind.type(every), kind.type(size)
        if self.calendar_grid is None:
            return (*typed, per, 0, NO_SLIDES, NO_SLIDES)
        return (*typed, per, *self.calendar_grid.table(first, last))


@lru_cache(maxsize=256)
def _fractions(offset: Number, every: Number, size: Number) -> GridNumbers:
    """Floats as decimal fractions, as they are written; where those are too fine, as multiples of `every`.

    A numerator is exact below 2**53, so a fine fraction reduces the range of times that can be distinguished.
    """
    parts = [Fraction(str(one)) for one in (offset, every, size)]
    per = lcm(*(one.denominator for one in parts))
    if per <= FINEST or parts[1] * per <= 1000:
        unit = gcd(*(int(one * per) for one in parts))
        first, step, back = (float(one * per / unit) for one in parts)
        return GridNumbers(first, step, back, (float(unit), float(per)))
    slides = float(size / every)
    slides = round(slides) if isclose(slides, round(slides), rel_tol=1e-15) else slides
    return GridNumbers(float(offset / every), 1.0, float(slides), (float(every), 1.0))


def cuts(windows: Sequence[WindowRule], x: Numbers) -> Numbers:
    """The last cut before each x: the greatest cut of any window at most x (below x where the window is open)."""
    found = None
    grids: set[tuple[int, int, bool]] = set()
    for window in windows:
        strict = window.closed_end and window.slides_in_time
        if x.dtype.kind != "f" and window.calendar_grid is None:  # equal grids are computed once
            every, end = int(window.every), int(window.offset)
            grids |= {(every, end % every, strict), (every, (end - int(window.size)) % every, strict)}
            continue
        for cut in (window.ends(window.last_end(x, strict)), window.starts(window.last_start(x, strict))):
            found = cut if found is None else np.maximum(found, cut)
    for every, first, strict in sorted(grids):
        cut = x - (x - (first + strict)) % every - strict
        found = cut if found is None else np.maximum(found, cut)
    assert found is not None
    return found


def require_in_range(windows: Sequence[WindowRule], x: Numbers, column: str) -> None:
    """Raises OverflowError, naming the value, where ends of windows would overflow 64-bit integers."""
    if not len(x) or not windows:
        return
    if x.dtype.kind == "f":
        _require_grid(windows, x, column)
        return
    reach = max(int(one.grid.size) + abs(int(one.offset)) + 2 * int(one.every) for one in windows)
    for value in (int(x.min()), int(x.max())):
        for grid in (one.calendar_grid for one in windows if one.calendar_grid is not None):
            if not grid.least <= value <= grid.greatest:
                raise OverflowError(
                    f"the time {value} in column {column!r} is before the year 2 or after 9998, or too near to the "
                    "limits of 64-bit integers, for windows that slide by the calendar: correct it, or cast the column "
                    "to timestamp('s')"
                )
        if abs(value) > LIMIT - reach:
            raise OverflowError(
                f"the time {value} in column {column!r} is too near to the limits of 64-bit integers for windows that "
                "slide in time: shift the column"
            )


def _require_grid(windows: Sequence[WindowRule], x: Numbers, column: str) -> None:
    """Raises OverflowError, naming the value, where floats are too coarse to distinguish slides."""
    for window in windows:
        offset, _, size, per = window.grid
        assert per is not None
        far = np.abs(x * per[1] / per[0] - offset) + size >= 2.0**52
        if far.any():
            raise OverflowError(
                f"the time {float(x[far][0])} in column {column!r} is too far out for windows that slide by "
                f"{window.every}: floats there do not distinguish one slide from the next"
            )
