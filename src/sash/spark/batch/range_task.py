"""RangeTask: runs a query on time ranges of keys in a Spark worker, after the shuffle of a split.

(range, piece, own, blob) sorted ──▶ rows of a piece, sorted ──▶ ChunkedExecutor or Operator ──▶ the range's own results
                                     lookback: the rows that windows hold
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sash.engine import Operator
from sash.engine.arrow_arrays import array
from sash.plan.bound_query import BoundQuery
from sash.plan.query import Query
from sash.plan.time_axis import Number
from sash.spark.batch.partial_carry import CarriedPartials, seed, window_of
from sash.spark.batch.partition_task import PartitionTask, warn_of
from sash.spark.batch.time_ranges import Lookback, TimeRange, emitted
from sash.spark.batch.unpack_ranges import in_order, unpack_ranges


class RangeTask(PartitionTask):
    """A query on time ranges of keys: a range emits its own results, and none of its lookback.

    `extra` is an additional column that is dropped from results: per row, whether a row is the range's own or lookback;
    for slides, the number of the range, which is part of the key. Higher range numbers are groups of keys that are not
    split.
    """

    def __init__(self, query: Query, schema: pa.Schema, now: float, extra: str, ranges: list[TimeRange]) -> None:
        super().__init__(query, schema, now)
        self.extra, self.ranges = extra, ranges

    def _results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        operator = None
        for one in self._inputs(batches):
            if operator is not None and isinstance(one, CarriedPartials):
                yield self._own_results(operator.finish())
                warn_of(operator)
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
            warn_of(operator)

    def _inputs(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch | CarriedPartials]:
        """For each range its partials, or its lookback, then its own rows, sorted."""
        bound_query = self.query.bind(self.schema)
        of_one_key = replace(bound_query, by=())
        of_groups = replace(bound_query, by=tuple(name for name in bound_query.by if name != self.extra))
        lookback: list[pa.RecordBatch] = []
        partials: list[tuple[int, pa.RecordBatch]] = []
        current = -1
        for one in unpack_ranges(batches):
            window = window_of(one.piece)
            if partials and (window is None or one.range != current):
                yield CarriedPartials(current, partials)
                partials = []
            if lookback and (one.own or one.range != current):  # windows may end in a range that has no rows
                yield self._keyed(lookback[0], current, own=False)
                lookback = []
            current = one.range
            if window is not None:
                partials.append((window, one.rows))
                continue
            rows = in_order(one.rows, of_groups if current >= len(self.ranges) else of_one_key, lambda: self.now)
            if one.own:
                for start in range(0, rows.num_rows, self.rows):
                    yield self._keyed(rows.slice(start, self.rows), current, own=True)
            else:
                earlier = pa.concat_batches([*lookback, rows])
                begin = self.ranges[current].begin
                assert begin is not None, "the first range has no lookback"
                lookback = [trimmed_lookback(earlier, bound_query, begin)]
        if partials:
            yield CarriedPartials(current, partials)
        if lookback:
            yield self._keyed(lookback[0], current, own=False)

    def _keyed(self, rows: pa.RecordBatch, number: int, own: bool) -> pa.RecordBatch:
        """Rows with the extra column before theirs."""
        kind = self.schema.field(0).type
        extra = pa.repeat(pa.scalar(own if pa.types.is_boolean(kind) else number, kind), rows.num_rows)
        return pa.RecordBatch.from_arrays([extra, *rows.columns], schema=self.schema)

    def _own_results(self, results: pa.RecordBatch) -> pa.RecordBatch:
        bound_query = self.query.bind(self.schema)
        own = results.column(self.extra) if bound_query.per_row else self._own_slides(bound_query, results)
        results = results.drop_columns([self.extra])
        return super()._own_results(results if own.true_count == len(own) else results.filter(own))

    def _own_slides(self, bound_query: BoundQuery, results: pa.RecordBatch) -> pa.Array:
        assert bound_query.time is not None
        ends = bound_query.time.numbers(results.column("window_end"))[0]
        numbers = results.column(self.extra).to_numpy()
        names = results.column("window").to_numpy(zero_copy_only=False) if "window" in results.schema.names else None
        own = np.ones(len(ends), np.bool_)
        for number in np.unique(numbers):
            for spec in bound_query.windows:
                at = np.flatnonzero((numbers == number) & (True if names is None else names == spec.name))
                if number < len(self.ranges) and len(at):
                    own[at] = emitted(self.ranges[number], spec, ends[at])
        return pa.array(own)


def trimmed_lookback(rows: pa.RecordBatch, bound_query: BoundQuery, begin: Number) -> pa.RecordBatch:
    """The rows before a range at `begin` that its windows hold: by time or by number, whichever is more."""
    lookback = Lookback.of(bound_query)
    assert bound_query.time is not None
    time, timed = bound_query.time.numbers(rows.column(bound_query.time.column))
    if not timed.all():
        rows, time = rows.filter(array(timed)), time[timed]
    start = int(np.searchsorted(time, begin - lookback.time)) if lookback.time else len(time)
    if lookback.rows > 0:
        # with all peers of the oldest row
        oldest = time[max(len(time) - lookback.rows, 0)] if len(time) else 0
        start = min(start, int(np.searchsorted(time, oldest)))
    return rows.slice(start)
