"""RangeTask: a query on parts of keys, from blobs. What runs in a worker behind the shuffle of a split.

(part, piece, own, blob) in order ──▶ rows of a piece, in order ──▶ flow, or operator ──▶ the part's own results
                                      tail: as much of it as windows hold
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from sash.engine import Operator
from sash.engine.arrow_arrays import array
from sash.plan.bound_query import BoundQuery
from sash.plan.query import Query
from sash.spark.batch.partial_carry import SERIES, CarriedPartials, seed
from sash.spark.batch.partition_task import PartitionTask
from sash.spark.batch.time_ranges import Lookback, TimeRange, shows
from sash.spark.batch.unpack_ranges import in_order, unpack_ranges


class RangeTask(PartitionTask):
    """A query on parts of keys: of its results those leave that are the part's own.

    `extra` is a column beside those of the rows that does not leave: per row whether a row is the part's own or of its
    tail, and for slides the number of the part, by which the rows are keyed. A part after the last is of keys that are
    whole.
    """

    def __init__(self, query: Query, schema: pa.Schema, now: float, extra: str, parts: list[TimeRange]) -> None:
        super().__init__(query, schema, now)
        self.extra, self.parts = extra, parts

    def _results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        operator = None
        for one in self._told_of(batches):
            if operator is not None and isinstance(one, CarriedPartials):
                yield self._own_results(operator.finish())
                operator = None
            if operator is None:
                operator = self._operator()
            if isinstance(one, CarriedPartials):
                assert isinstance(operator, Operator)
                seed(operator, one, not operator.bound_query.per_row)
            else:
                yield self._own_results(operator.process(one))
        if operator is not None:
            yield self._own_results(operator.finish())

    def _told_of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch | CarriedPartials]:
        """Rows in order, those of a tail before the part's own; and before all of them what is carried."""
        bound_query = self.query.bind(self.schema)
        tail: list[pa.RecordBatch] = []
        folds: list[tuple[int, pa.RecordBatch]] = []
        of = -1
        for one in unpack_ranges(batches):
            if folds and (one.piece >= 0 or one.part != of):
                yield CarriedPartials(of, folds)
                folds = []
            if tail and (one.own or one.part != of):  # with no row of its own a part still has windows that end in it
                yield self._encode(tail[0], of, False)
                tail = []
            of = one.part
            if one.piece < 0:
                folds.append((one.piece % SERIES, one.rows))
                continue
            rows = in_order(one.rows, bound_query, bound_query.by if of >= len(self.parts) else ())
            if one.own:
                for start in range(0, rows.num_rows, self.rows):
                    yield self._encode(rows.slice(start, self.rows), of, True)
            else:
                tail = [held(pa.concat_batches([*tail, rows]), bound_query, self.parts[of].begin)]
        if folds:
            yield CarriedPartials(of, folds)
        if tail:
            yield self._encode(tail[0], of, False)

    def _encode(self, rows: pa.RecordBatch, part: int, own: bool) -> pa.RecordBatch:
        """Rows with the extra column before theirs."""
        kind = self.schema.field(0).type
        extra = pa.repeat(pa.scalar(own if pa.types.is_boolean(kind) else part, kind), rows.num_rows)
        return pa.RecordBatch.from_arrays([extra, *rows.columns], schema=self.schema)

    def _own_results(self, results: pa.RecordBatch) -> pa.RecordBatch:
        bound_query = self.query.bind(self.schema)
        kept = results.column(self.extra) if bound_query.per_row else self._slides(bound_query, results)
        results = results.drop_columns([self.extra])
        return super()._own_results(results if kept.true_count == len(kept) else results.filter(kept))

    def _slides(self, bound_query: BoundQuery, found: pa.RecordBatch) -> pa.Array:
        assert bound_query.time is not None
        ends = bound_query.time.numbers(found.column("window_end"))[0]
        numbers = found.column(self.extra).to_numpy()
        named = found.column("window").to_numpy(zero_copy_only=False) if "window" in found.schema.names else None
        shown = np.ones(len(ends), np.bool_)
        for number in np.unique(numbers):
            for span in bound_query.windows:
                at = np.flatnonzero((numbers == number) & (True if named is None else named == span.name))
                if number < len(self.parts) and len(at):
                    shown[at] = shows(self.parts[number], span, ends[at])
        return pa.array(shown)


def held(tail: pa.RecordBatch, bound_query: BoundQuery, begin: Any) -> pa.RecordBatch:
    """What windows hold of the rows before a part that begins at `begin`: in time, or in rows, whichever is more."""
    reach = Lookback.of(bound_query)
    assert bound_query.time is not None
    time, timed = bound_query.time.numbers(tail.column(bound_query.time.column))
    if not timed.all():
        tail, time = tail.filter(array(timed)), time[timed]
    start = int(np.searchsorted(time, begin - reach.time)) if reach.time else len(time)
    if reach.rows > 0:
        # with all peers of the oldest
        oldest = time[max(len(time) - reach.rows, 0)] if len(time) else 0
        start = min(start, int(np.searchsorted(time, oldest)))
    return tail.slice(start)
