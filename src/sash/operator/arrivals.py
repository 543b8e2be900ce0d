"""Arrivals: of the rows of a batch, which are taken, which are late, which have no time; and how the watermark rises.

arrival     5    9    7    2   null  12           lateness 3
W           2    6    6    6    6     9           the greatest time so far, less the lateness
row         ✓    ✓    ✓   late untimed ✓          late: below W when it arrives
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sash.operator.frame import Flags, Numbers
from sash.operator.keys import told
from sash.query.resolved import Resolved

INT = np.iinfo(np.int64)


@dataclass
class Arrived:
    """The rows of a batch: their times, which are taken, late and untimed, and W after them."""

    time: Numbers
    taken: Flags
    late: Flags
    untimed: Flags
    watermark: Any


class Arrivals:
    """Judges rows by their times. W is a number in units of time; None: no row yet, or no time at all."""

    def __init__(self, resolved: Resolved, mode: str, clock: Callable[[], float]) -> None:
        self.resolved, self.mode, self.clock = resolved, mode, clock

    def judge(self, batch: pa.RecordBatch, watermark: Any, first: int) -> Arrived:
        """Judge a batch whose first row is the `first` that ever came. Without `on`, arrival is the time."""
        axis = self.resolved.time
        count = batch.num_rows
        nobody = np.zeros(count, np.bool_)
        if axis is None:
            return Arrived(np.arange(first, first + count), ~nobody, nobody, nobody, watermark)
        time, timed = axis.numbers(batch.column(axis.column))
        time = np.ascontiguousarray(time)
        if self.resolved.ahead is not None:
            timed = timed & (time <= self._latest())
        if self.mode == "sorted":
            return Arrived(time, timed, nobody, ~timed, watermark)
        if self.mode == "given":
            late = timed & (time < watermark) if watermark is not None else nobody
            return Arrived(time, timed & ~late, late, ~timed, watermark)
        return self._in_rows(time, timed, watermark)

    def _in_rows(self, time: Numbers, timed: Flags, watermark: Any) -> Arrived:
        lateness = self.resolved.lateness or 0
        least = INT.min if time.dtype.kind == "i" else -np.inf
        greatest = np.maximum.accumulate(np.where(timed, time, least)) if len(time) else time
        floor = INT.min + int(min(lateness, INT.max)) if time.dtype.kind == "i" else -np.inf
        w = np.where(greatest >= floor, greatest - _in_kind(lateness, time), least)
        if watermark is not None:
            w = np.maximum(w, watermark)
        late = timed & (time < w)
        if timed.any():
            watermark = w[-1].item()
        return Arrived(time, timed & ~late, late, ~timed, watermark)

    def _latest(self) -> Any:
        """The greatest time that a row may have now."""
        axis = self.resolved.time
        assert axis is not None
        assert self.resolved.ahead is not None
        now = self.clock()
        units = int(now * 1e9) // axis.unit if axis.timed else now
        return units + self.resolved.ahead

    def refuse(self, arrived: Arrived, batch: pa.RecordBatch) -> None:
        """Raises ValueError for late rows where they are an error."""
        late, query = arrived.late, self.resolved.query
        axis = self.resolved.time
        if axis is None or self.mode == "sorted":
            return
        bad = np.flatnonzero(late | (arrived.untimed if query.late == "error" else False))
        in_order = self.resolved.lateness is None
        if in_order and late.any():
            at = int(np.flatnonzero(late)[0])
            raise ValueError(
                f"{told(batch, at)} is behind: its {axis.column!r} is before the watermark. "
                "Rows come in order of time, unless lateness= says how late they may be"
            )
        if query.late == "error" and len(bad):
            at = int(bad[0])
            why = "late" if late[at] else f"untimed (its {axis.column!r} is null, NaN, infinite or too far ahead)"
            raise ValueError(f"{told(batch, at)} is {why}, and late='error' refuses it")


def _in_kind(value: Any, like: Numbers) -> Any:
    return int(min(value, INT.max)) if like.dtype.kind == "i" else float(value)
