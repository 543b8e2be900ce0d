"""Slide ends: the grid `offset + k · every`, k any integer, and the cuts it makes in a stream.

        cuts of (size 5, every 3)
    0   1   2   3   4   5   6   7   8   9             ends     3, 6, 9, …
        ├───────┼───┼───────┼───┼───────┼──           starts   end - 5: 1, 4, 7, …

A window's start is computed once, as end - size: on floats an end and a start are the same number wherever they are
met. Integers are refused where an end would leave 64 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.plan.bound_query import WindowSpec

Numbers = NDArray[Any]
LIMIT = 2**63 - 1


def ends(span: WindowSpec, k: Numbers) -> Numbers:
    """The k-th ends."""
    return span.offset + k * span.every


def starts(span: WindowSpec, k: Numbers) -> Numbers:
    """The starts of the windows with the k-th ends."""
    return ends(span, k) - span.size


def last_end(span: WindowSpec, x: Numbers, strict: bool) -> NDArray[np.int64]:
    """The greatest k whose end is at most x, or below it if `strict`."""
    return _greatest(span, x, 0, strict)


def last_start(span: WindowSpec, x: Numbers, strict: bool) -> NDArray[np.int64]:
    """The greatest k whose window starts at most at x, or before it if `strict`."""
    return _greatest(span, x, span.size, strict)


def _greatest(span: WindowSpec, x: Numbers, shift: Any, strict: bool) -> NDArray[np.int64]:
    x = np.asarray(x)
    if x.dtype.kind != "f":
        return (x + (shift - span.offset - strict)) // span.every
    k = np.clip(np.floor((x + shift - span.offset) / span.every), -(2.0**62), 2.0**62)

    def beyond(k: Numbers) -> NDArray[np.bool_]:
        cut = span.offset + k * span.every - shift if shift else span.offset + k * span.every
        return cut >= x if strict else cut > x

    k = np.where(beyond(k), k - 1, k)  # the quotient may be rounded either way
    return np.where(beyond(k + 1), k, k + 1).astype(np.int64)


def cuts(spans: list[WindowSpec], x: Numbers) -> Numbers:
    """The slice of each x: the greatest cut of any span at most x (below it for windows that are open there)."""
    found = None
    for span in spans:
        strict = span.closed == "right" and span.slide == "time"
        for cut in (ends(span, last_end(span, x, strict)), starts(span, last_start(span, x, strict))):
            found = cut if found is None else np.maximum(found, cut)
    assert found is not None
    return found


def require_room(spans: list[WindowSpec], x: Numbers, column: str) -> None:
    """Raises OverflowError, naming the value, where ends of windows would leave 64-bit integers."""
    if not len(x) or not spans:
        return
    if x.dtype.kind == "f":
        _require_grid(spans, x, column)
        return
    reach = max(_length(s) + abs(int(s.offset)) + 2 * int(s.every or 0) for s in spans)
    for value in (int(x.min()), int(x.max())):
        if abs(value) > LIMIT - reach:
            raise OverflowError(
                f"the time {value} in column {column!r} is too near to the limits of 64-bit integers for windows that "
                "slide in time: shift the column"
            )


def _length(span: WindowSpec) -> int:
    """How far back in time a window reaches: that of a Count is in rows."""
    return int(span.size or 0) if span.kind == "time" else 0


def _require_grid(spans: list[WindowSpec], x: Numbers, column: str) -> None:
    """Raises OverflowError, naming the value, where floats are too coarse to tell one slide from the next."""
    for span in spans:
        far = np.abs(x - span.offset) + (span.size or 0) * (span.kind == "time") >= 2.0**52 * float(span.every or 1)
        if far.any():
            raise OverflowError(
                f"the time {float(x[far][0])} in column {column!r} is too far out for windows that slide by "
                f"{span.every}: floats there do not tell one slide from the next"
            )


def since(later: Numbers, earlier: Numbers) -> Numbers:
    """later - earlier, for later ≥ earlier, without overflow: integers as unsigned ones."""
    if later.dtype.kind == "f":
        return later - earlier
    return later.astype(np.int64).view(np.uint64) - earlier.astype(np.int64).view(np.uint64)


def below(x: Numbers, size: Any, open_start: bool) -> Numbers:
    """The least value inside a window of this size that ends at x; open at its start, the first one beyond it.

    Integers saturate. Of floats the bound itself: what is beyond is left to the comparison.
    """
    if x.dtype.kind == "f":
        return x - size
    size = int(size) - open_start
    low = -(2**63) + max(size, 0)
    return np.where(x >= low, x - size, -(2**63)) if size <= LIMIT else np.full(len(x), -(2**63))
