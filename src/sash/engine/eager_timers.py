"""Timers of a query with emit="eager": when keys expire, and when rows can be dropped."""

from __future__ import annotations

import numpy as np

from sash.engine import slide_grid
from sash.engine.eager_state import EagerState
from sash.engine.time_numbers import Watermark, beyond, later
from sash.kernels.loops.array_types import Flags, Ints, Numbers
from sash.kernels.loops.eager_windows import COUNT, SESSION, TIME

FEW = 16
"""The least number of rows to settle between two timers of a key."""


def expiry(state: EagerState, slots: Ints) -> tuple[Numbers, Flags]:
    """The watermark at which a key expires, and whether there is one.

    Time and Session windows end; all others last as long as the key, and slides by rows count its rows.
    """
    bound_query, rules = state.bound_query, state.rules.rules
    last = state.last[slots]
    ends = all(rule.kind in (TIME, SESSION) for rule in rules)
    if bound_query.time is None or any(rule.every for rule in rules) or not (ends or bound_query.forget is not None):
        return last, np.zeros(len(slots), np.bool_)
    when = None
    if ends:
        when = beyond(later(last, max(rule.window.size or 0 for rule in rules)))
    if bound_query.forget is not None:
        forgotten = beyond(later(last, bound_query.forget))
        when = forgotten if when is None else np.minimum(when, forgotten)
    assert when is not None
    for rule in rules:  # the record of a slide is needed until the slide is final
        if rule.window.slide == "time":
            right = rule.window.closed == "right"
            find = slide_grid.last_start if rule.kind == TIME else slide_grid.last_end
            number = find(rule.window, last, right) + (rule.kind != TIME)
            end = np.asarray(slide_grid.ends(rule.window, number), state.numbers)
            when = np.maximum(when, beyond(end) if right else end)
    return when, np.ones(len(slots), np.bool_)


def next_timers(state: EagerState, slots: Ints, now: Watermark, settled: Ints, when: Numbers) -> Numbers:
    """The next timer of keys: when a quarter more of their rows is settled, at the latest when they expire."""
    count, last = state.rows.heads[slots, COUNT], state.last[slots]
    index = np.minimum(count, settled + np.maximum(count // 4, FEW)) - 1
    some, filled = last.copy(), np.flatnonzero(count)
    some[filled] = state.rows.time_at(slots[filled], index[filled])
    reach = max((rule.window.size or 0 for rule in state.rules.rules if rule.kind == TIME), default=0)
    found = np.full(len(slots), state.timers.never, state.numbers)
    for time in (when, beyond(later(last, reach)), beyond(some)):
        found = np.where(time > now, np.minimum(found, time), found)
    return found
