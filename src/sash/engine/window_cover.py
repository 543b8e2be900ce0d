"""Find the window of a state that holds all elements that another window needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sash.plan.bound_query import WindowSpec
from sash.plan.fingerprint import window_meaning
from sash.plan.slicing import EdgeGrid
from sash.plan.time_axis import Number

_SIZED = ("time", "count", "delta")
_FINEST = 2**20
"""Floats that are multiples of 1 / this, and below it, are added without rounding."""


def covering(held: Sequence[WindowSpec], window: WindowSpec) -> int | None:
    """The place of the smallest held window that covers another: equal but for its size, which is at least as large.

    None if there is none.
    """
    places = [place for place, one in enumerate(held) if _covers(one, window)]
    return min(places, key=lambda place: held[place].size or 0, default=None)


def _covers(held: WindowSpec, window: WindowSpec) -> bool:
    if _meaning(held) == _meaning(window):
        return True
    if window.kind not in _SIZED or held.calendar_size or window.calendar_size or held.grid or window.grid:
        return False
    sizes = held.size, window.size
    if None in sizes or sizes[1] > sizes[0]:  # type: ignore[operator]
        return False
    return _meaning(replace(held, size=window.size)) == _meaning(window)


def _meaning(window: WindowSpec) -> list[Any]:
    """The meaning of a window without its name and `full`, on which state does not depend."""
    return window_meaning(replace(window, name="", full=False))


# ---- panes ----


def is_cut_there(held: Sequence[WindowSpec], window: WindowSpec) -> bool:
    """Are there edges of panes wherever a window starts or ends?"""
    if any(_meaning(one) == _meaning(window) for one in held):
        return True
    cuts = [cut for one in held for cut in _cuts(one)]
    return all(any(cut.lies_on(other) for other in cuts) for cut in _cuts(window))


def _cuts(window: WindowSpec) -> Iterator[EdgeGrid]:
    """The edges of a window's panes, if they are computed without rounding; empty for calendars."""
    numbers = [window.every or 0, window.offset, window.size or 0]
    if window.grid is None and all(map(_is_plain, numbers)) and window.every:
        every, offset, size = map(Fraction, numbers)
        yield EdgeGrid.through(offset, every)
        yield EdgeGrid.through(offset - size, every)


def _is_plain(x: Number) -> bool:
    return isinstance(x, int) or (abs(x) < _FINEST and (x * _FINEST).is_integer())
