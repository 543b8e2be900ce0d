"""The bounds of windows that end at the rows of a spine, over its events.

    Time        the events within the window's size of the row's time
    Count       the last `size` events
    Lifetime    all events of the key
    Session     the events of the session in progress: none if more than its gap has passed

`closed` determines whether events at the row's own time count, and for Time windows also those at its start. A negative
shift moves a window into the past.
"""

from __future__ import annotations

import numpy as np

from sash.engine.spine_rows import SpineRows
from sash.engine.time_numbers import is_gap, moved_bound
from sash.kernels.column.column_kernels import RangeBounds, RowThreads, index_type
from sash.kernels.column.spine_bounds import spine_places
from sash.kernels.loops.array_types import Numbers
from sash.kernels.loops.bound_rules import MovedBound
from sash.plan.bound_query import WindowSpec
from sash.plan.time_axis import Number


class SpineWindows:
    """Finds the bounds of windows; bounds that several windows share are found once."""

    def __init__(self, rows: SpineRows, closed: str, threads: RowThreads) -> None:
        self.rows, self.threads = rows, threads
        self.closed_start, self.closed_end = closed in ("left", "both"), closed in ("right", "both")
        self._found: dict[tuple[Number, bool], Numbers] = {}
        lengths = np.diff(rows.spine.edges)
        self.begins = np.repeat(rows.events.edges[:-1], lengths).astype(index_type(len(rows.events)))

    def of(self, window: WindowSpec) -> RangeBounds:
        """The bounds of a window, by place in the spine."""
        if window.kind == "time":
            his = self._moved(window.shift, not self.closed_end)
            return _ranges(self._time_starts(window), his)
        ends = self._moved(0, not self.closed_end)
        if window.kind == "count":
            longest = len(self.rows.events) + 1
            behind, shift = (int(min(max(by, -longest), longest)) for by in (window.behind, window.shift))
            return _ranges(np.maximum(ends - behind, self.begins), np.maximum(ends + shift, self.begins))
        if window.kind == "session":
            return _ranges(self._session_starts(window, ends), ends)
        assert window.kind == "lifetime", window
        return _ranges(self.begins, ends)

    def _time_starts(self, window: WindowSpec) -> Numbers:
        if window.calendar_size is None:
            return self._moved(-window.behind, self.closed_start)
        # a time between two units starts its window between two others
        later = self.rows.ceiling - self.rows.floor if self.closed_start else 1
        least = window.calendar_size.before(self.rows.floor) + later
        return self._places(least, moved_bound(0, least.dtype, True))

    def _session_starts(self, window: WindowSpec, ends: Numbers) -> Numbers:
        events, time = self.rows.events, self.rows.events.time
        starts = np.zeros(len(time), np.bool_)
        starts[1:] = is_gap(window.size or 0, time[1:], time[:-1])
        starts[events.edges[:-1][events.edges[:-1] < len(time)]] = True
        first = np.maximum.accumulate(np.where(starts, np.arange(len(time)), 0))
        last = np.maximum(ends, 1) - 1
        some = ends > self.begins
        silent = is_gap(window.size or 0, self.rows.ceiling, np.where(some, time[last], self.rows.ceiling))
        return np.where(some & ~silent, first[last], ends).astype(ends.dtype)

    def _moved(self, by: Number, inclusive: bool) -> Numbers:
        """The places of the first events that do not precede a bound at a distance from the rows."""
        if (by, inclusive) not in self._found:
            bound = moved_bound(by, self.rows.floor.dtype, inclusive)
            self._found[by, inclusive] = self._places(self.rows.targets(inclusive), bound)
        return self._found[by, inclusive]

    def _places(self, targets: Numbers, bound: MovedBound) -> Numbers:
        events, spine = self.rows.events, self.rows.spine
        out = np.empty(len(spine), index_type(len(events)))
        before = (events.time, np.ascontiguousarray(targets), bound, events.edges, spine.edges)
        self.threads.loop(spine_places, len(spine), before, (out,))
        return out


def _ranges(los: Numbers, his: Numbers) -> RangeBounds:
    los = np.minimum(los, his)
    lengths = his - los
    return RangeBounds(los, his, int(lengths.min(initial=len(his))), int(lengths.max(initial=0)))
