"""RangeTask: runs a query on time ranges of keys in a Spark worker, after the shuffle of a split.

(range, piece, own, blob) sorted ──▶ rows of a piece, sorted ──▶ ChunkedExecutor or Operator ──▶ the range's own
results
                                     lookback: the rows that windows hold

PackRanges: the rows of a partition as blobs, one or more for each piece, before the shuffle.

    rows ──▶ grouped by piece ──▶ (range, piece, own, blob), once for each time range that reads the piece

Spark shuffles and sorts blobs of some thousand rows instead of single rows.

Unpack and sort the rows of pieces from blobs, after the shuffle of a split.

ShuffleRouting: assigns rows to pieces, and pieces to the time ranges that read them.

    a large key     ─┼────┼────┼──│─┼────┼────┼─      pieces of about equally many rows; │ a time range begins
                             └╌╌╌╌┘                   pieces in the lookback of the next range go to that one, too
    other keys      by hash: all rows of a key in one piece

A worker reads a range piece by piece, so it holds the rows of one piece and one window. Pieces are numbered by
time.

How a time range of a Lifetime window receives its lookback: as partials of the ranges before it.

    range 0   · · · · │                      ──▶ partial p₀ ──┬──────────┐
    range 1           │ · · · · │            ──▶ partial p₁ ──┼──────────┤
    range 2                     │ · · ·      starts with      p₀, p₁     ▼

All ranges are aggregated in parallel, then all are computed in parallel: rows are read twice, and no range waits
for
another. All other windows get rows as lookback. Partials for hopping Time windows were measured as well: eight
ranges
of 4 million rows, with windows of half the rows, took twice the CPU time of one partition, and were slower on two
cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array
from sash.columns.keys import key_column, keys_of
from sash.columns.row_order import order_rows
from sash.engine.operator import Operator
from sash.kernels.column.column_kernels import RowThreads
from sash.kernels.loops.array_types import Ints, Numbers
from sash.plan.bound_query import BoundQuery
from sash.plan.query import Query
from sash.plan.time_axis import Number
from sash.spark.arrow_ipc import batches_of, blob_array, blob_batch, blob_of
from sash.spark.batch.partition_task import PartitionTask, warn_of
from sash.spark.batch.time_ranges import Lookback, TimeRange, emitted, readers
from sash.spark.row_groups import grouped
from sash.spark.worker_io import WorkerTask, rechunk

# --- Shuffle routing ---


@dataclass(frozen=True)
class LargeKey:
    """The time ranges of a large key, and the times at which its pieces begin."""

    ranges: list[TimeRange]
    edges: list[Number]


@dataclass(frozen=True)
class ShuffleRouting:
    """The pieces of all rows. Ranges of groups of small keys are numbered after those of large keys."""

    keys: tuple[pa.Array, ...]
    """The large keys, a column for each of `by`."""
    edges: tuple[Numbers, ...]
    """By large key: the times at which its pieces begin, except the first."""
    readers: tuple[tuple[int, ...], ...]
    """By piece: the ranges that read it. It belongs to the first, and is lookback of the others."""
    groups: int

    @staticmethod
    def of(keys: tuple[pa.Array, ...], large: list[LargeKey], groups: int) -> ShuffleRouting:
        """The pieces of these keys, and of `groups` groups of all others."""
        edges: list[Numbers] = []
        found: list[tuple[int, ...]] = []
        first = 0
        for key in large:
            read = readers(key.ranges, first, key.edges)
            edges.append(np.array([until for until, _ in read[:-1]]))
            found += [ranges for _, ranges in read]
            first += len(key.ranges)
        found += [(first + group,) for group in range(groups)]
        return ShuffleRouting(keys, tuple(edges), tuple(found), groups)

    def piece_of(self, batch: pa.RecordBatch, bound_query: BoundQuery) -> Ints:
        """By row: its piece. A row without a time is in the first piece of its key."""
        assert bound_query.time is not None
        time, timed = bound_query.time.numbers(batch.column(bound_query.time.column))
        if not bound_query.by:
            return np.where(timed, np.searchsorted(self.edges[0], time, side="right"), 0)
        codes, groups = self._codes(batch, bound_query)
        pieces = groups[codes]
        first = 0
        for code, edges in enumerate(self.edges):
            rows = np.flatnonzero(codes == code)
            pieces[rows] = first + np.where(timed[rows], np.searchsorted(edges, time[rows], side="right"), 0)
            first += len(edges) + 1
        pieces[codes >= len(self.edges)] += first
        return pieces

    def _codes(self, batch: pa.RecordBatch, bound_query: BoundQuery) -> tuple[Ints, Ints]:
        """The key of each row as a code, large keys first; and by code the group that the key would be in."""
        columns = [
            pa.concat_arrays([key_column(known.cast(column.type)), key_column(column)])
            for known, column in zip(self.keys, map(batch.column, bound_query.by), strict=True)
        ]
        keys = keys_of(columns, len(self.edges) + batch.num_rows)
        return keys.codes[len(self.edges) :], (keys.hashes() % np.uint64(self.groups)).astype(np.int64)


# --- Pack ranges ---

ROWS = 1 << 18
"""Rows that are packed together, to spread the fixed cost of a blob."""

RANGE, PIECE, OWN, BLOB = "range", "piece", "own", "rows"
PACKED = pa.schema([(RANGE, pa.int32()), (PIECE, pa.int32()), (OWN, pa.bool_()), (BLOB, pa.binary())])


class PackRanges(WorkerTask):
    """Packs the rows of a partition in a worker, before the shuffle."""

    def __init__(self, query: Query, schema: pa.Schema, routing: ShuffleRouting) -> None:
        self.query, self.schema, self.routing, self.rows = query, schema, routing, ROWS

    def _results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bound_query = self.query.bind(self.schema)
        for batch in rechunk(batches, self.schema, self.rows):
            pieces = self.routing.piece_of(batch, bound_query)
            for piece, rows in grouped(batch, pieces, len(self.routing.readers)):
                yield from self._encode(rows, piece)

    def _encode(self, rows: pa.RecordBatch, piece: int) -> Iterator[pa.RecordBatch]:
        """A blob for each range that reads the piece: first the range that it belongs to."""
        blob = blob_array(rows)
        for place, number in enumerate(self.routing.readers[piece]):
            values = zip((number, piece, place == 0), PACKED, strict=False)
            columns = [pa.repeat(pa.scalar(value, field.type), len(blob)) for value, field in values]
            yield pa.RecordBatch.from_arrays([*columns, blob], schema=PACKED)


# --- Unpack ranges ---


@dataclass(frozen=True)
class RangeRows:
    """The rows of a piece that a time range reads: its own rows, or lookback."""

    range: int
    piece: int
    own: bool
    rows: pa.RecordBatch


def unpack_ranges(batches: Iterable[pa.RecordBatch]) -> Iterator[RangeRows]:
    """The rows of each piece, from blobs sorted by range and piece."""
    waiting: list[pa.RecordBatch] = []
    current = (-1, 0, False)
    for batch in batches:
        ranges, pieces, own = (batch.column(name).to_pylist() for name in (RANGE, PIECE, OWN))
        for at, place in enumerate(zip(ranges, pieces, own, strict=True)):
            blob = batch.column(BLOB)[at].as_buffer()
            if not blob.size:  # see `blob_array`
                continue
            if place != current and waiting:
                yield RangeRows(*current, pa.concat_batches(waiting))
                waiting = []
            current = place
            waiting += batches_of(blob)
    if waiting:
        yield RangeRows(*current, pa.concat_batches(waiting))


def in_order(rows: pa.RecordBatch, bound_query: BoundQuery, clock: Callable[[], float]) -> pa.RecordBatch:
    """Rows by key, time and tie-breakers, those without a time first. Cheap for rows that are sorted already."""
    order = order_rows(rows, {}, bound_query, RowThreads(1), clock)
    source = order.source
    if source is None:
        return rows
    if order.timed is not None:
        source = np.concatenate([np.flatnonzero(~order.timed), source])
    return rows.take(array(source))


# --- Partial carry ---

WINDOWS = 1024
"""An upper bound of the number of Lifetime windows of a query."""


@dataclass(frozen=True)
class CarriedPartials:
    """The partials of the ranges before a range, in order: the number of the Lifetime window, and key and states."""

    range: int
    partials: list[tuple[int, pa.RecordBatch]]


class PartialFold(WorkerTask):
    """Aggregates the rows of each range in a worker, and sends its partials to every later range of the key.

    `lasts`: by range, the last range of its key.
    """

    def __init__(self, query: Query, schema: pa.Schema, now: float, lasts: list[int]) -> None:
        windows: dict[str, Any] = {
            spec.name: spec.window for spec in query.bind(schema).windows if spec.rule.is_unbounded
        }
        aggregates: dict[str, Any] = query.aggregates
        options: dict[str, Any] = {"ahead": query.ahead, "min_periods": query.min_periods}
        self.query = Query(windows.get("", windows), by=query.by, on=query.on, **options, **aggregates)
        self.schema, self.now, self.lasts = schema, now, lasts

    def _results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        of_one_key = replace(self.query.bind(self.schema), by=())
        operator, current = None, -1
        for one in unpack_ranges(batches):
            if operator is None or one.range != current:
                if operator is not None:
                    yield self._encode(operator, current)
                operator = Operator(self.query, self.schema, mode="sorted", clock=self._clock)
                current = one.range
            operator.absorb(in_order(one.rows, of_one_key, self._clock))
        if operator is not None:
            yield self._encode(operator, current)

    def _clock(self) -> float:
        return self.now

    def _encode(self, operator: Operator, number: int) -> pa.RecordBatch:
        """The partials of a range, one for each window, for the ranges after it.

        Their piece numbers are below those of all rows, so they are sorted first.
        """
        found = []
        for window, partials in enumerate(operator.export_partials()):
            assert window < WINDOWS
            if partials.num_rows:
                piece = (number - len(self.lasts)) * WINDOWS + window
                blob = blob_of(partials)
                found += [(later, piece, False, blob) for later in range(number + 1, self.lasts[number] + 1)]
        return blob_batch(found, PACKED)


def window_of(piece: int) -> int | None:
    """The number of the Lifetime window whose partials a piece has; None for a piece of rows."""
    return piece % WINDOWS if piece < 0 else None


def seed(operator: Operator, carried: CarriedPartials, numbered: bool) -> None:
    """Start an operator that has seen no rows with partials. `numbered`: its keys begin with the range."""
    by = len(operator.bound_query.by) - numbered
    number = [pa.array([carried.range], pa.int32())] if numbered else []
    keys = [*number, *(column.slice(0, 1) for column in carried.partials[0][1].columns[:by])]
    partials: list[list[pa.RecordBatch]] = []
    lifetimes = 0
    for group in operator.plan.groups:
        mine: list[pa.RecordBatch] = []
        if operator.bound_query.windows[group.windows[0]].rule.is_unbounded:
            mine = [partial for window, partial in carried.partials if window == lifetimes]
            lifetimes += 1
        partials.append(mine)
    operator.import_partials(keys, partials)


# --- Range task ---


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
