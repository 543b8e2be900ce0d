"""Validate slots and elements from a page before they are loaded into live state.

Compiled loops follow positions without bounds checks, and count slides up to the watermark. So a slot is loaded only if
these invariants hold:

    0 ≤ BEGIN ≤ FRONT ≤ BACK        the ring holds the elements [FRONT, BACK), and the page has all of them
    FRONT ≤ start ≤ BACK            for each window; over rows, a start before BEGIN counts as BEGIN
    times, edges, counts            do not decrease from one element to the next
    slides                          have ends that are 64-bit integers; the slides of panes match their edges

A failed check raises a ValueError; the reader of the page adds the name of the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.columns.input_encoding import numbers
from sash.engine.keyed.ahead_assigner import AheadAssigner
from sash.engine.keyed.live_engine import LiveEngine
from sash.engine.keyed.pane_assigner import CountedPanes, PaneAssigner
from sash.engine.keyed.row_assigner import RowAssigner
from sash.engine.keyed.running_assigner import RunningAssigner
from sash.engine.keyed.slot_table import ColumnName
from sash.engine.keyed.window_assigner import ArenaAssigner, WindowAssigner
from sash.kernels.loops.array_types import Flags, Ints, Numbers
from sash.kernels.loops.ring_loops import BACK, BEGIN, FRONT
from sash.kernels.loops.slot_loops import DUE, EXPIRY, LAST, ROWS
from sash.kernels.loops.window_loops import CLOSED, NEVER, OPEN, ROW, SLIDE
from sash.plan.bound_query import WindowSpec
from sash.windows.rules import LIMIT

Scalars = Mapping[ColumnName, NDArray[Any]]
"""The values of slots by their name in the slot table, a row each."""

LARGEST = 2**62
FINEST = 2**53
"""Numbers of slides over floats are below this: beyond it, floats do not distinguish slides."""


def require(holds: Any, what: str) -> None:
    """Raises ValueError unless a condition, or every condition of an array, is true."""
    if not (holds.all() if isinstance(holds, np.ndarray) else holds):  # np.all takes four times as long
        raise ValueError(what)


def are_distinct(values: NDArray[Any]) -> bool:
    """Whether no number occurs twice: in a quarter of the time of `np.unique`."""
    ordered = np.sort(values)
    return bool((ordered[1:] > ordered[:-1]).all())


def required_numbers(batch: pa.RecordBatch, name: str | int) -> Numbers:
    """A column of numbers. Raises ValueError for a null."""
    column = batch.column(name)
    if column.null_count:
        raise ValueError(f"a number is missing in column {batch.schema.field(name).name!r}")
    return numbers(column)


def require_entries(entry: Ints, count: int) -> None:
    """Raises ValueError for entries whose key is not in the page."""
    require((entry >= 0) & (entry < count), "it has rows, elements or slides of a key that is not in it")


class StateChecks:
    """The checks of one engine's slots."""

    def __init__(self, engine: LiveEngine) -> None:
        self.engine = engine

    # ---- slots ----

    def slots(self, scalars: Scalars) -> None:
        """Raises ValueError for invalid slots."""
        engine = self.engine
        rows = scalars["keys"][:, ROWS]
        require((rows >= 1) & (rows < LARGEST), "a key has an impossible number of rows")
        self._check_stamps(scalars["stamps"])
        for assigner, aggregates in engine.groups:
            heads = scalars[f"{assigner.name}.heads"]
            if isinstance(assigner, ArenaAssigner):
                self._check_heads(assigner, heads)
            elif isinstance(assigner, RunningAssigner):
                _check_running(assigner, heads, scalars[f"{assigner.name}.start"])
            for aggregate in aggregates:
                totals = scalars[aggregate.name, "totals"]
                require((totals >= 0) & (totals < LARGEST), "a key has an impossible number of values")
                if not isinstance(assigner, ArenaAssigner):
                    base = scalars[aggregate.name, "base"]
                    require((base >= 0) & (base <= totals), "a window begins after the last value of its key")

    def _check_stamps(self, stamps: Numbers) -> None:
        last = stamps[:, LAST]
        if stamps.dtype.kind == "f":
            require(np.isfinite(last), "the time of the last row of a key is not finite")
            require(~np.isnan(stamps[:, [DUE, EXPIRY]]), "a timer is NaN")
        if self.engine.bound_query.time is not None:
            self.engine.limits.require_times(last)

    def _check_heads(self, assigner: ArenaAssigner, heads: Ints) -> None:
        front, back, begin = heads[:, FRONT], heads[:, BACK], heads[:, BEGIN]
        require(
            (begin >= 0) & (begin <= front) & (front <= back) & (back < LARGEST),
            "the positions of a ring are not in order",
        )
        in_time = assigner.slides_in_time
        for w, window in enumerate(assigner.windows):
            start = heads[:, assigner.start_column(w)]
            require((start >= 0) & (start <= back), "a window starts outside of its ring")
            held = start if in_time else np.maximum(start, begin)
            require(held >= front, "a window starts before the first element of its ring")
            if isinstance(assigner, RowAssigner):
                self._check_rows(assigner, w, window, heads)
        if in_time:
            assert isinstance(assigner, PaneAssigner)
            for w, window in enumerate(assigner.windows):
                _, stop, number = (heads[:, column] for column in assigner.columns(w))
                require((stop >= 0) & (stop <= back), "a window ends outside of its ring")
                _check_slides(window, number[number != -NEVER], assigner.numbers)

    def _check_rows(self, assigner: RowAssigner, w: int, window: WindowSpec, heads: Ints) -> None:
        front, back, begin = heads[:, FRONT], heads[:, BACK], heads[:, BEGIN]
        if isinstance(assigner, AheadAssigner):
            asked, restart = heads[:, assigner.asked], heads[:, assigner.restart_column]
            require(
                (begin == restart) & (begin <= asked) & (front <= asked) & (asked <= back), "rows that wait are missing"
            )
            back = asked
        if window.rule.measure == "rows":
            least = np.maximum(back - window.rule.rows[0] + (w not in assigner.pending), begin)
            require(least >= front, "a window needs rows that are missing")
        if w in assigner.shifted and window.rule.in_time:
            start, end = heads[:, assigner.start_column(w)], heads[:, assigner.shifted[w]]
            require((start <= end) & (end <= heads[:, BACK]), "a window ends outside of its ring")
        if w in assigner.pending:
            slide, first = heads[:, assigner.pending[w]], heads[:, assigner.pending[w] + 1]
            waits = slide != NEVER
            require((first >= 0) & (first <= back), "a window starts outside of its ring")
            require((front < back) & (first >= begin) | ~waits, "a slide needs rows that are missing")
            _check_slides(window, slide[waits], assigner.numbers)

    # ---- elements ----

    def elements(self, a: ArenaAssigner, scalars: Scalars, entry: Ints, columns: Scalars) -> None:
        """Raises ValueError for invalid elements; `entry` has the index of each element's slot, in order."""
        same = entry[1:] == entry[:-1]
        if isinstance(a, RowAssigner):
            _check_rising(columns["time"], same, "times of rows")
            self._check_before(columns["time"], entry, scalars["stamps"][:, LAST])
        elif isinstance(a, PaneAssigner):
            _check_rising(columns["low"], same, "edges of panes")
            if isinstance(a, CountedPanes):
                self._check_before(columns["low"], entry, scalars["keys"][:, ROWS])
                require(columns["low"] >= 0, "a pane begins before the first row")
            else:
                self.engine.limits.require_times(columns["low"])
                for w, window in enumerate(a.windows):
                    first = window.rule.last_end(columns["low"], strict=False) + 1
                    require(columns["first", w] == first, "the first slide of a pane does not match its edge")
        for aggregate in self.engine.aggregates_of(a):
            require(columns[aggregate.name, "n"] >= 0, "a count of values is negative")

    def _check_before(self, values: Numbers, entry: Ints, ends: Numbers) -> None:
        require(values <= ends[entry], "an element is later than the last row of its key")

    def last_panes(self, a: ArenaAssigner, scalars: Scalars, entry: Ints, columns: Scalars) -> None:
        """Raises ValueError if the last pane of a slot is not that of its ring."""
        if isinstance(a, PaneAssigner):
            last = np.flatnonzero(np.append(entry[1:] != entry[:-1], True)) if len(entry) else entry
            require(columns["low"][last] == scalars[f"{a.name}.low"][entry[last]], "the last pane has another edge")


def _check_running(assigner: WindowAssigner, heads: Ints, start: Numbers) -> None:
    flags = heads[:, [OPEN, CLOSED]]
    require((flags == 0) | (flags == 1), "a window is neither open nor closed")
    require((heads[:, ROW] >= 0) & (heads[:, ROW] < LARGEST), "a window begins with an impossible row")
    if start.dtype.kind == "f":
        require(np.isfinite(start), "a window starts at a time that is not finite")
    slide = heads[:, SLIDE]
    if assigner.windows[0].slide == "time":
        _check_slides(assigner.windows[0], slide[slide != NEVER], assigner.numbers)


def _check_slides(window: WindowSpec, numbers: Ints, kind: np.dtype[Any]) -> None:
    """Raises ValueError for slides whose ends, or whose windows' starts, exceed 64-bit integers."""
    if window.grid is not None:
        least, greatest = window.grid.near(window.grid.least) - 4, window.grid.near(window.grid.greatest) + 4
        require((numbers >= least) & (numbers <= greatest), "a slide ends outside of the range of times")
        return
    most = FINEST
    if kind.kind == "i":
        offset, every, size, _ = window.rule.grid
        most = int((LIMIT - size - abs(offset)) // every)
    require((numbers >= -most) & (numbers <= most), "a slide ends outside of the range of times")


def _check_rising(values: Numbers, same: Flags, what: str) -> None:
    if values.dtype.kind == "f":
        require(np.isfinite(values), f"{what} are not finite")
    require((values[1:] >= values[:-1]) | ~same, f"{what} decrease from one element to the next")
