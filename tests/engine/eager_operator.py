"""An operator around the eager engine, for tests: watermark, late rows, snapshots, and atomic calls."""

import math
import time
from typing import Any

import numpy as np
import pyarrow as pa

import sash
from sash.columns.arrow_arrays import array, together
from sash.columns.keys import chosen_rows, decoded_schema, plain_batch
from sash.columns.row_errors import RowLimits
from sash.columns.watermark import WatermarkTracker
from sash.engine.emit.output import Output
from sash.engine.intake.reorder_buffer import TimedRows
from sash.engine.revise.eager_engine import EagerEngine
from sash.state.eager_pages import EagerPages
from sash.state.header_page import Header
from sash.stores import MemoryStore


class EagerOperator:
    """A minimal operator of a query with emit="eager"."""

    def __init__(self, query: sash.Query, schema: pa.Schema, mode: str = "rows", retract: str | None = None) -> None:
        self.query, self.schema, self.mode = query, schema, mode
        self.bound_query = query.bind(schema)
        self.engine = EagerEngine(query.plan(schema), mode, retract)
        self.watermark_tracker = WatermarkTracker(self.bound_query, mode, time.time)
        self.limits = RowLimits(self.bound_query)
        self.plain = decoded_schema(schema)
        self.output = Output(self.bound_query, mode)
        self.watermark: Any = None
        self.rows_in = 0
        self.metrics = {"late": 0, "untimed": 0}
        self.late: list[pa.RecordBatch] = []

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.watermark == math.inf and self.bound_query.time is None:
            raise ValueError("finish() has been called")
        classified = self.watermark_tracker.classify(batch, self.watermark, self.rows_in)
        self.watermark_tracker.refuse(classified, batch)
        self.limits.require(batch, classified.time, classified.taken)
        arrival = np.arange(self.rows_in, self.rows_in + batch.num_rows)
        table = plain_batch(batch, self.plain)
        given = TimedRows(table, classified.time, arrival)
        if not classified.all_taken:
            given = TimedRows(
                table.filter(array(classified.taken)), classified.time[classified.taken], arrival[classified.taken]
            )
        try:
            found = self.engine.process(given, classified.watermark)
            self.engine.commit()
        except BaseException:
            self.engine.rollback()
            raise
        self.engine.compact()
        self.watermark = classified.watermark
        self.rows_in += batch.num_rows
        self.metrics["late"] += int(classified.late.sum())
        self.metrics["untimed"] += int(classified.untimed.sum())
        if classified.all_taken:
            return found
        late = chosen_rows(batch, self.schema, self.plain, ~classified.taken)
        self.late.append(late)
        if self.bound_query.per_row and self.query.late == "flag":
            return self.output.with_late(found, late, arrival[~classified.taken])
        return found

    def advance(self, watermark: Any) -> pa.RecordBatch:
        watermark = getattr(watermark, "value", watermark)  # that of an Arrow scalar
        if self.watermark is None or watermark > self.watermark:
            self.watermark = watermark
            closing = watermark == math.inf
            self.engine.settle(None if closing else watermark, closing)
            self.engine.commit()
        return self.output.empty()

    def finish(self) -> pa.RecordBatch:
        return self.advance(math.inf)

    def late_rows(self) -> pa.RecordBatch:
        late, self.late = self.late, []
        return together(late, self.schema)

    def snapshot(self) -> Any:
        """The state of the engine, in a store, and the operator itself."""
        store = MemoryStore()
        pages = EagerPages(self.engine, store, self.mode)
        pages.write_all(Header(self.watermark, None, (self.rows_in, 0, 0, 0), None, eager=True))
        pages.detach()
        return store, self

    @staticmethod
    def restore(query: sash.Query, snapshot: Any) -> "EagerOperator":
        store, old = snapshot
        new = EagerOperator(query, old.schema, old.mode, old.engine.retract)
        pages = EagerPages(new.engine, store, old.mode)
        pages.open()
        pages.detach()
        for name in ("watermark", "rows_in", "metrics", "late"):
            setattr(new, name, getattr(old, name))
        return new
