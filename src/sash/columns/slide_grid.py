"""The grid of slide ends, `offset + k · every` for any integer k, and the cuts that it makes in a stream.

        cuts of (size 5, every 3)
    0   1   2   3   4   5   6   7   8   9             ends     3, 6, 9, …
        ├───────┼───┼───────┼───┼───────┼──           starts   end - 5: 1, 4, 7, …

On floats an end is `(offset + k · every) · a / b` with whole numbers offset and every, and the size is subtracted from
a start before the multiplication by a / b. So the start of one window and the end of another are the same float where
they are equal, and no row is between them. Ends are then the floats that people write: 0.3, not 3 · 0.1, which is
greater. Integers are rejected where an end would overflow 64 bits. Slides that follow a calendar are those of
`window.grid`.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import gcd, isclose, lcm
from typing import Any, NamedTuple

import numpy as np

from sash.columns.time_numbers import LIMIT
from sash.kernels.loops.array_types import Flags, Ints, Numbers
from sash.plan.bound_query import WindowSpec
from sash.plan.time_axis import Number


class GridNumbers(NamedTuple):
    """Offset, slide and size in units of a fraction, and its two numbers: None on a column without floats."""

    offset: Number
    every: Number
    size: Number
    per: tuple[float, float] | None


def ends(window: WindowSpec, k: Numbers) -> Numbers:
    """The k-th ends."""
    if window.grid is not None:
        return window.grid.ends(k)
    return _cut(window, k, 0)


def starts(window: WindowSpec, k: Numbers) -> Numbers:
    """The starts of the windows with the k-th ends."""
    if window.grid is not None:
        return window.grid.starts(k)
    return _cut(window, k, 1)


def _cut(window: WindowSpec, k: Numbers, sizes: int) -> Numbers:
    """The k-th ends, less the size if `sizes` is 1."""
    offset, every, size, per = numerators(window)
    above = offset + (k * every - sizes * size)
    return above if per is None else above * per[0] / per[1]


def numerators(window: WindowSpec) -> GridNumbers:
    """The grid of a window as numbers."""
    # the rows of a Count window that slides in time are no part of the grid, and may exceed 64 bits
    size = 0 if window.slide == "time" and window.kind != "time" else window.size or 0
    if window.slide != "time" or window.axis is None or window.axis.kind == "int":
        return GridNumbers(window.offset, window.every or 1, size, None)
    return _fractions(window.offset, window.every or 1, size)


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


def last_end(window: WindowSpec, x: Numbers, strict: bool) -> Ints:
    """The greatest k whose end is at most x, or below it if `strict`."""
    if window.grid is not None:
        return window.grid.last_end(x, strict)
    return _greatest(window, x, 0, strict)


def last_slide(window: WindowSpec, x: Numbers) -> Ints:
    """The last slide that no row at x or later is in: it ends at or before x, or before x if it includes its end."""
    return last_end(window, x, window.closed == "right")


def open_slide(window: WindowSpec, x: Numbers) -> Ints:
    """The slide in progress at x: the one after `last_slide`."""
    return last_slide(window, x) + 1


def last_start(window: WindowSpec, x: Numbers, strict: bool) -> Ints:
    """The greatest k whose window starts at most at x, or before it if `strict`."""
    if window.grid is not None:
        return window.grid.last_start(x, strict)
    return _greatest(window, x, 1, strict)


def _greatest(window: WindowSpec, x: Numbers, sizes: int, strict: bool) -> Ints:
    x = np.asarray(x)
    offset, every, size, per = numerators(window)
    if per is None:
        found: Numbers = (x + (sizes * size - offset - strict)) // every
        return found
    k = np.clip(np.floor((x * per[1] / per[0] + sizes * size - offset) / every), -(2.0**62), 2.0**62)

    def beyond(k: Numbers) -> Flags:
        cut = _cut(window, k, sizes)
        return cut >= x if strict else cut > x

    k = np.where(beyond(k), k - 1, k)  # the quotient may be rounded either way
    return np.where(beyond(k + 1), k, k + 1).astype(np.int64)


def cuts(windows: list[WindowSpec], x: Numbers) -> Numbers:
    """The last cut before each x: the greatest cut of any window at most x (below x where the window is open)."""
    found = None
    grids: set[tuple[int, int, bool]] = set()
    for window in windows:
        strict = window.closed == "right" and window.slide == "time"
        if x.dtype.kind != "f" and window.grid is None:  # equal grids are computed once
            every, end = int(window.every or 1), int(window.offset)
            grids |= {(every, end % every, strict), (every, (end - int(window.size or 1)) % every, strict)}
            continue
        for cut in (ends(window, last_end(window, x, strict)), starts(window, last_start(window, x, strict))):
            found = cut if found is None else np.maximum(found, cut)
    for every, first, strict in sorted(grids):
        cut = x - (x - (first + strict)) % every - strict
        found = cut if found is None else np.maximum(found, cut)
    assert found is not None
    return found


NO_SLIDES = np.zeros(0, np.int64)

FINEST = 10**6
"""The largest denominator: microseconds for a time in seconds, which floats represent exactly for 140 years."""


def scalars(window: WindowSpec, kind: np.dtype[Any], first: int = 0, last: int = 0) -> tuple[Any, ...]:
    """The grid as loops take it: its numbers, and for a calendar a table with the slides from `first` to `last`."""
    offset, every, size, per = numerators(window)
    typed = kind.type(offset), kind.type(every), kind.type(size)
    if window.grid is None:
        return (*typed, per, 0, NO_SLIDES, NO_SLIDES)
    return (*typed, per, *window.grid.table(first, last))


def require_in_range(windows: list[WindowSpec], x: Numbers, column: str) -> None:
    """Raises OverflowError, naming the value, where ends of windows would overflow 64-bit integers."""
    if not len(x) or not windows:
        return
    if x.dtype.kind == "f":
        _require_grid(windows, x, column)
        return
    reach = max(_length(s) + abs(int(s.offset)) + 2 * int(s.every or 0) for s in windows)
    for value in (int(x.min()), int(x.max())):
        for grid in (s.grid for s in windows if s.grid is not None):
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


def _length(window: WindowSpec) -> int:
    """The lookback of a window in time; 0 for Count windows, which look back in rows."""
    return int(window.size or 0) if window.kind == "time" else 0


def _require_grid(windows: list[WindowSpec], x: Numbers, column: str) -> None:
    """Raises OverflowError, naming the value, where floats are too coarse to distinguish slides."""
    for window in windows:
        offset, _, size, per = numerators(window)
        assert per is not None
        far = np.abs(x * per[1] / per[0] - offset) + size >= 2.0**52
        if far.any():
            raise OverflowError(
                f"the time {float(x[far][0])} in column {column!r} is too far out for windows that slide by "
                f"{window.every}: floats there do not distinguish one slide from the next"
            )
