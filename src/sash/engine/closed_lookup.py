"""Lookups with `closed=`: the same windows as `as_of` at that time, from the state of an operator.

    state    rows below the watermark W        reorder buffer    rows at W and later
             ────────────────────────── W ─────────────────────── at
                    all before `at`                those before `at`, or at it

A window that is open at its start evicts a row that is exactly `size` before W, or before a buffered row that the
lookup processes. A window closed at its start that ends there would need that row: such a lookup is refused.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from sash.engine.input_checks import GivenTime
from sash.engine.time_numbers import Watermark
from sash.kernels.loops.array_types import Flags, Numbers
from sash.plan import validation
from sash.plan.bound_query import BoundQuery, WindowSpec
from sash.windows.specs import CLOSED, Closed


def holds_own_time(closed: str) -> bool:
    """Does a window hold the rows at the time that it ends at?"""
    return closed in ("right", "both")


def closed_as(window: WindowSpec, closed: str | None) -> WindowSpec:
    """The window with these ends, if it is measured in time; None: its own."""
    return window if closed is None or window.kind != "time" else replace(window, closed=closed)


def ends_with_peers(window: WindowSpec, closed: str | None) -> bool:
    """Does a window that is looked up hold the rows at its own time?"""
    own = window.closed if window.kind == "time" else "right"
    return holds_own_time(own if closed is None else closed)


def require_closed(
    bound_query: BoundQuery, closed: Closed, at: GivenTime | None, reached: Watermark, watermark: Watermark
) -> None:
    """Raises ValueError for a lookup with `closed` that the state cannot answer; `reached`: `at` as a number."""
    validation.one_of("closed", closed, CLOSED)
    if reached is None:
        raise ValueError(f"lookup(closed={closed!r}) needs at=: it defines whether rows at that time count")
    for window in bound_query.windows:
        if window.slide != "row":
            raise ValueError(
                f"lookup(closed={closed!r}) is for windows that end at a row, and {window.window!r} slides: leave "
                "closed= out"
            )
        if window.kind != "time" or window.closed in ("left", "both") or closed in ("right", "neither"):
            continue
        if closed == "both" or (watermark is not None and reached <= watermark):
            where = "" if closed == "both" else " is at the watermark, and"
            raise ValueError(
                f"lookup(at={at!r}, closed={closed!r}){where} needs the row at the start of {window.window!r}, "
                f"which may have been evicted: give the window closed={closed!r}"
                + ("" if closed == "both" else ", or ask for a later time")
            )


def require_before(last: Numbers, at: float, closed: str, window: WindowSpec) -> None:
    """Raises ValueError if a running partial holds rows that a window at this time does not."""
    if ((last > at) | ((last == at) & (not holds_own_time(closed)))).any():
        raise ValueError(
            f"lookup(at=…, closed={closed!r}): {window.window!r} is one total of all rows, and some of them are not "
            "before that time: ask for a later time"
        )


def with_empty(bound_query: BoundQuery, pair: tuple[int, int], column: pa.Array, absent: Flags) -> pa.Array:
    """Give keys without state what a window without rows gives: the empty value of their aggregate."""
    window, aggregate = bound_query.windows[pair[0]], bound_query.aggregates[pair[1]]
    if aggregate.monoid.empty is None or window.full or not absent.any():
        return column
    return pc.if_else(pa.array(absent), aggregate.array([aggregate.monoid.empty])[0], column)
