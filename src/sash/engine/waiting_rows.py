"""Rows that wait for later rows, with the results that are known already.

    ring     e0  e1  e2  e3  e4          elements of a slot
                     ▲                   the first row that waits
    codes    -1  -1  7   9   12   ──▶  log of rows: their columns, and the results of windows that do not look ahead

A code is a place in the log; -1: the row has left. The log is compacted when most of its rows have left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.engine.arena import Arena, RingRanges
from sash.engine.arrow_arrays import all_true, array
from sash.engine.atomic import all_at_once, attributes, items
from sash.engine.chunk_log import RowLog
from sash.engine.input_encoding import numbers
from sash.engine.key_values import decoded_schema
from sash.engine.step_data import StepRows, WindowRanges, WindowResults
from sash.engine.value_encoder import is_wasteful
from sash.kernels.loops.array_types import NO_INTS, Flags, Ints, Numbers
from sash.kernels.loops.live_loops import BACK
from sash.plan.bound_query import BoundQuery

CODE = "row"
"""The column of the arena with the codes."""

WAITS = "waits"


class WaitingRows:
    """The rows of an arena's elements that wait; `early`: the windows whose results are known already."""

    columns: ClassVar[Sequence[str]] = (CODE,)

    def __init__(self, bound_query: BoundQuery, early: Sequence[int], arena: Arena) -> None:
        self.arena, self.early = arena, early
        asked = bound_query.projection.asked
        self.asked = {w: [p for p in range(len(bound_query.aggregates)) if (w, p) in asked] for w in early}
        """By early window: the aggregates that are computed over it."""
        self.aggregates = len(bound_query.aggregates)
        self.schema = decoded_schema(bound_query.schema)
        fields = {f"c{i}": field.type for i, field in enumerate(self.schema)} | {"arrival": pa.int64()}
        for w in early:
            for p in self.asked[w]:
                aggregate = bound_query.aggregates[p]
                fields |= {f"r{w}.{p}": aggregate.result, f"l{w}.{p}": pa.int64(), f"h{w}.{p}": pa.int64()}
        self.log = RowLog(pa.schema(fields))
        arena.add(CODE, np.int64)
        self._left: tuple[Ints, Ints] | None = None
        """Places and codes of the rows that have left in this step."""
        self._compact_above = 0

    # ---- a step ----

    def put(self, rows: StepRows, early: Sequence[WindowResults], places: Ints) -> None:
        """Add rows that wait, at these places, with the results of the early windows in their order."""
        if not len(places):
            return
        arrays = [*rows.table.columns, array(rows.arrival)]
        for found in early:
            on = found.results.on
            for p in self.asked[found.results.window]:
                low, high = found.low[p], found.high[p]
                # the counts of a window that has no result yet are stored as complements
                arrays += [
                    found.columns[p],
                    array(np.where(on, low, ~low)),
                    array(np.ascontiguousarray(high, np.int64)),
                ]
        self.arena.columns[CODE][places] = self.log.append(pa.RecordBatch.from_arrays(arrays, schema=self.log.schema))

    def leave(self, places: Ints) -> pa.RecordBatch:
        """Remove the rows at these places, and return them."""
        codes = self.arena.columns[CODE][places]
        found = self.log.take(codes)
        self._left = places, codes
        self.arena.columns[CODE][places] = -1
        return found

    def table(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of rows that have left."""
        return pa.RecordBatch.from_arrays(batch.columns[: len(self.schema)], schema=self.schema)

    def arrival(self, batch: pa.RecordBatch) -> Ints:
        """The arrival numbers of rows that have left."""
        return numbers(batch.column(len(self.schema)))

    def early_results(
        self, batch: pa.RecordBatch, slots: Ints, time: Numbers, restarted: Ints | None
    ) -> list[WindowResults]:
        """The results of early windows of rows that leave."""
        found, at = [], len(self.schema) + 1
        for w in self.early:
            asked = self.asked[w]
            parts = batch.columns[at : at + 3 * len(asked)]
            at += 3 * len(asked)
            first = numbers(parts[1]) if parts else NO_INTS
            on = first >= 0 if parts else all_true(len(slots))
            columns: list[pa.Array] = [None] * self.aggregates
            lows, highs = [NO_INTS] * self.aggregates, [NO_INTS] * self.aggregates
            for i, p in enumerate(asked):
                low = numbers(parts[3 * i + 1])
                columns[p], lows[p], highs[p] = parts[3 * i], np.where(on, low, ~low), numbers(parts[3 * i + 2])
            ranges = WindowRanges(w, slots, on, time, time, slots, restarted=restarted)
            found.append(WindowResults(ranges, columns, lows, highs))
        return found

    def undo(self) -> None:
        """Restore the rows that have left in this step. May be called again."""
        if self._left is not None:
            places, codes = self._left
            self.arena.columns[CODE][places] = codes

    def settle(self) -> None:
        """Discard the undo information of the last step."""
        self._left = None

    def is_due_for_compaction(self, slots: int) -> bool:
        """Whether the log has grown so much that a scan of all slots pays off."""
        return len(self.log) > max(self._compact_above, slots)

    def compact(self, live: Ints, asked: Ints) -> None:
        """Drop rows from the log that have left, if most have; `asked`: the first position that waits of each slot."""
        places = RingRanges(self.arena, live, asked, self.arena.heads[live, BACK]).places
        self._compact_above = 4 * len(places)
        if is_wasteful(len(self.log), len(places)):
            log = RowLog(self.log.schema)
            codes = log.append(self.log.take(self.arena.columns[CODE][places]))
            all_at_once(items(self.arena.columns[CODE], places, codes), attributes(self, log=log))

    @property
    def nbytes(self) -> int:
        """The memory of the rows."""
        return self.log.nbytes

    # ---- state at rest ----

    @property
    def fields(self) -> Mapping[str, pa.DataType]:
        """The columns in which rows are stored with their elements."""
        return {WAITS: pa.bool_()} | {field.name: field.type for field in self.log.schema}

    def store(self, take: Callable[[NDArray[Any]], NDArray[Any]]) -> list[pa.Array]:
        """The rows of the elements that `take` selects; nulls for those that have left."""
        codes = take(self.arena.columns[CODE])
        waits = codes >= 0
        found = self.log.take(codes[waits])
        at = array(np.cumsum(waits) - 1, waits)
        return [array(waits), *(column.take(at) for column in found.columns)]

    def check(self, batch: pa.RecordBatch, waiting: Flags) -> None:
        """Raises ValueError unless a batch of elements has the rows of those that wait."""
        rows = batch.filter(array(waiting))
        if not rows.column(WAITS).fill_null(False).to_numpy(zero_copy_only=False).all():
            raise ValueError("rows that wait for later rows are missing")
        counts = [field.name for field in self.log.schema if field.name[0] in "lh" or field.name == "arrival"]
        if any(rows.column(name).null_count for name in counts):
            raise ValueError("it has rows that wait without their counts")

    def load(self, places: Ints, columns: Sequence[pa.Array]) -> None:
        """Load stored rows into the places of their elements."""
        waits = columns[0].fill_null(False)
        batch = pa.RecordBatch.from_arrays(list(columns[1:]), schema=self.log.schema).filter(waits)
        codes = np.full(len(places), -1)
        codes[numbers(waits).astype(np.bool_)] = self.log.append(batch)
        self.arena.columns[CODE][places] = codes
