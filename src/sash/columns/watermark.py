"""The watermark: classifies rows as accepted, late or untimed, and rises with their times.

arrival     5    9    7    2   null  12           lateness 3
W           2    6    6    6    6     9           the greatest time so far, less the lateness
row         ✓    ✓    ✓   late untimed ✓          late: below W when it arrives
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import all_false, all_true, word_type, words_of
from sash.columns.keys import format_row
from sash.columns.time_numbers import Watermark, earliest, time_type
from sash.kernels.loops.array_types import Flags, Ints, Numbers
from sash.plan.bound_query import BoundQuery
from sash.plan.time_axis import Number
from sash.windows.rules import LIMIT

_ONE, _NO_ONE = np.ones(1, np.bool_), np.zeros(1, np.bool_)


@dataclass(slots=True)
class ClassifiedRows:
    """The rows of a batch: their times, which are accepted, late and untimed, and W after them."""

    time: Numbers
    taken: Flags
    late: Flags
    untimed: Flags
    watermark: Watermark
    newest: Watermark = None
    """The greatest time of the accepted rows; None if there are none, or no times."""
    late_rows: int = 0
    untimed_rows: int = 0

    @property
    def all_taken(self) -> bool:
        """Is no row late or untimed?"""
        return not self.late_rows and not self.untimed_rows


class WatermarkTracker:
    """Classifies rows by their times. W is a number in units of time; None: no row yet, or no time at all."""

    def __init__(self, bound_query: BoundQuery, mode: str, clock: Callable[[], float]) -> None:
        self.bound_query, self.mode = bound_query, mode
        self.use_clock(clock)
        axis = bound_query.time
        self.kind = time_type(bound_query)
        self.is_rising = mode == "rows" and bound_query.ahead is None
        """Whether a row alone decides how far W rises."""
        self.place: int | str = ""
        """The column of times: its place, which takes two thirds of the time that its name takes. In mode "sorted" a
        host may pass more columns, in another order."""
        if axis is not None:
            self.place = axis.column if mode == "sorted" else bound_query.schema.get_field_index(axis.column)
        self.words = axis is not None and word_type(bound_query.schema.field(axis.column).type) == np.int64
        """Whether the column stores times as 64-bit integers in units of the axis, and not as a dictionary."""
        self.least = earliest(self.kind)
        lateness = bound_query.lateness or 0
        self.lateness = int(min(lateness, LIMIT)) if self.kind.kind == "i" else float(lateness)
        self.floor = self.least + self.lateness if self.kind.kind == "i" else -np.inf

    def use_clock(self, clock: Callable[[], float]) -> None:
        """Take the current time, for `ahead`, from this clock from now on."""
        self.clock = clock

    def classify(self, batch: pa.RecordBatch, watermark: Watermark, first: int) -> ClassifiedRows:
        """Classify a batch whose first row has the arrival number `first`. Without `on`, arrival is the time."""
        axis = self.bound_query.time
        count = batch.num_rows
        if axis is None:
            return ClassifiedRows(
                np.arange(first, first + count), all_true(count), all_false(count), all_false(count), watermark
            )
        column = batch.column(self.place)
        if self.words and not column.null_count:
            time = words_of(column, self.kind)
            if count == 1 and self.is_rising:
                at = time.item(0)  # the usual case of a small call, without a loop
                if watermark is None or at >= watermark:
                    reached = at - self.lateness if at >= self.floor else self.least
                    if watermark is not None and reached < watermark:
                        reached = watermark
                    return ClassifiedRows(time, _ONE, _NO_ONE, _NO_ONE, reached, at)
            timed = all_true(count)
        else:
            time, timed = axis.numbers(column)
            time = np.ascontiguousarray(time)
        if self.bound_query.ahead is not None:
            timed = timed & (time <= self._latest())
        untimed = count - int(np.count_nonzero(timed))
        if self.mode == "rows":
            late, watermark = self._in_rows(time, None if not untimed else np.flatnonzero(timed), watermark)
        elif self.mode == "given" and watermark is not None:
            late = timed & (time < watermark)
        else:
            late = all_false(count)
        late_rows = int(np.count_nonzero(late))
        if not late_rows and not untimed:
            return ClassifiedRows(time, all_true(count), all_false(count), all_false(count), watermark, _greatest(time))
        taken = timed & ~late
        return ClassifiedRows(time, taken, late, ~timed, watermark, _greatest(time[taken]), late_rows, untimed)

    def _in_rows(self, time: Numbers, some: Ints | None, watermark: Watermark) -> tuple[Flags, Watermark]:
        """Which rows are late, and W after them; `some` are the rows with a time, None: all."""
        from sash.kernels.loops.loop_cache import call_loop
        from sash.kernels.loops.slot_loops import classify_rows

        late = np.zeros(len(time), np.bool_)
        timed = time if some is None else time[some]
        if not len(timed):
            return late, watermark
        if watermark == np.inf:
            late[slice(None) if some is None else some] = True
            return late, watermark
        before = np.array([] if watermark is None else [watermark], self.kind)
        flags = np.empty(len(timed), np.bool_)
        arguments = (timed, self.lateness, self.floor, self.least, before, flags)
        count, reached = call_loop(classify_rows, self.kind.str, arguments)
        if count:
            late[slice(None) if some is None else some] = flags
        return late, reached

    def _latest(self) -> Number:
        """The greatest time that a row may have now."""
        axis = self.bound_query.time
        assert axis is not None
        assert self.bound_query.ahead is not None
        now = self.clock()
        units = int(now * 1e9) // axis.unit if axis.timed else now
        return units + self.bound_query.ahead

    def refuse(self, classified: ClassifiedRows, batch: pa.RecordBatch) -> None:
        """Raises ValueError for late and untimed rows, if they are an error; call it if there are some."""
        late, query = classified.late, self.bound_query.query
        axis = self.bound_query.time
        if axis is None or self.mode == "sorted":
            return
        bad = np.flatnonzero(late | (classified.untimed if query.late == "error" else False))
        in_order = self.bound_query.lateness is None
        if in_order and late.any():
            at = int(np.flatnonzero(late)[0])
            raise ValueError(
                f"{format_row(batch, at)} is out of order: its {axis.column!r} is before the watermark. "
                "Rows must be in time order, unless lateness= sets how late they may be"
            )
        if query.late == "error" and len(bad):
            at = int(bad[0])
            why = "late" if late[at] else f"untimed (its {axis.column!r} is null, NaN, infinite or too far ahead)"
            raise ValueError(f"{format_row(batch, at)} is {why}, and late='error' refuses it")


def _greatest(time: Numbers) -> Watermark:
    """The greatest of these times; None if there are none."""
    return np.maximum.reduce(time).item() if len(time) else None
