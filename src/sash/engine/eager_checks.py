"""Checks of the pages of an eager engine, before they go into it and when all of them have.

Compiled loops follow row numbers and indices without a look at bounds, and find slides by counting from a time. So keys
are there once, rows and slides name keys of their page, times leave room for the ends of slides, a key has as many rows
as it says, and slides by rows end at rows that are there. What a check refuses is a ValueError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.engine import slide_grid
from sash.engine.eager_engine import EagerEngine
from sash.engine.eager_records import VANISHED, RowRecords, TimeRecords
from sash.engine.input_encoding import numbers
from sash.engine.row_errors import RoomCheck
from sash.engine.state_checks import LARGEST, require
from sash.kernels.loops.eager_windows import COUNT, PASSED

Ints = NDArray[np.int64]


class EagerChecks:
    """What must hold of the pages of one engine."""

    def __init__(self, engine: EagerEngine) -> None:
        self.engine, self.state = engine, engine.state
        self.room = RoomCheck(engine.bound_query)

    def page(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Raises ValueError for a page that cannot be."""
        keys, rows, revisions, *slides = batches
        self._check_keys(keys)
        self._check_rows(rows, keys.num_rows)
        for name in ("arrival", "revision"):
            _present(revisions, name)
        for batch in slides:
            for name in batch.schema.names:
                _present(batch, name)
            _check_entries(numbers(batch.column("key")), keys.num_rows)

    def _check_keys(self, keys: pa.RecordBatch) -> None:
        for name in ("kept", "passed"):
            counts = _present(keys, name)
            require((counts >= 0) & (counts < LARGEST), f"a key has a number of rows {name} that cannot be")
        self._check_key_times(keys, "last")
        for a in range(self.state.rules.anchors):
            _present(keys, f"anchored{a}")
            self._check_key_times(keys, f"begin{a}")
            for p in range(len(self.state.aggregates)):
                _present(keys, f"base{a}:{p}")

    def _check_rows(self, rows: pa.RecordBatch, keys: int) -> None:
        _check_entries(_present(rows, "key"), keys)
        self._check_times(_present(rows, "time"))
        arrival, revision = _present(rows, "arrival"), _present(rows, "revision")
        require((arrival >= 0) & (arrival < self.engine.arrived), "it has a row that never came")
        require((revision >= -2) & (revision < LARGEST), "a row has a revision that cannot be")
        for name in self.state.rows.deltas:
            values = _present(rows, f"delta:{name}")
            require(values.dtype.kind != "f" or np.isfinite(values), f"column {name!r} has a value that is no number")
        for p in range(len(self.state.aggregates)):
            _present(rows, f"state:{p}")

    def _check_key_times(self, keys: pa.RecordBatch, name: str) -> None:
        """A key whose rows were all taken back before the call ended has no time yet: the least there is."""
        time = _present(keys, name)
        has_none = time == (-np.inf if time.dtype.kind == "f" else np.iinfo(np.int64).min)
        require(~has_none | (_present(keys, "kept") == 0), f"a key with rows has no time {name!r}")
        self._check_times(time[~has_none])

    def _check_times(self, time: NDArray[Any]) -> None:
        if time.dtype.kind == "f":
            require(np.isfinite(time), "a time is no number")
        if self.engine.bound_query.time is not None:
            slide_grid.require_room(self.room.sliding, time, self.room.column)

    def loaded(self, slots: Ints, kept: Ints, records: Sequence[TimeRecords | RowRecords]) -> None:
        """Raises ValueError unless all pages together give each key its rows, and slides by rows rows to end at."""
        heads = self.state.rows.heads
        require(heads[slots, COUNT] == kept[slots], "a key has fewer rows than its page says")
        for rule, record in zip(self.state.rules.rules, records, strict=False):
            if isinstance(record, RowRecords):
                for slot, (first, ends, revisions) in record.slots.items():
                    rows = int(heads[slot, PASSED] + heads[slot, COUNT])
                    there = ends[ends != VANISHED]
                    require(0 <= first < LARGEST and len(ends) == len(revisions), "a slide has no number")
                    require(ends[: len(there)] == there, "slides that are gone come before others")
                    require((there >= 1) & (there <= rows // rule.every), "a slide ends at a row that is not there")
                    require(there[1:] > there[:-1], "slides are not in the order of their rows")
                    require((revisions >= -1) & (revisions < LARGEST), "a slide has a revision that cannot be")


def _present(batch: pa.RecordBatch, name: str) -> NDArray[Any]:
    """A column of numbers, none of which is missing."""
    column = batch.column(name)
    require(not column.null_count, f"a number is missing in column {name!r}")
    return numbers(column)


def _check_entries(entry: Ints, count: int) -> None:
    require((entry >= 0) & (entry < count), "it has rows or slides of a key that is not in it")
