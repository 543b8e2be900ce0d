"""PartWorker: a query on parts of keys, from blobs. What runs in a worker behind the shuffle of a split.

(part, piece, own, blob) in order ──▶ rows of a piece, in order ──▶ flow, or operator ──▶ the part's own results
                                      tail: as much of it as windows hold
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from sash.operator import Operator
from sash.operator.arrays import array
from sash.operator.flow import Flow
from sash.operator.keys import key_column, keys_of
from sash.operator.segments import ranks
from sash.query.query import Query
from sash.query.resolved import Resolved
from sash.spark.blobs import batches_of
from sash.spark.pack import BLOB, OWN, PART, PIECE
from sash.spark.ranges import Part, Reach, shows
from sash.spark.worker import Worker


class PartWorker(Worker):
    """A query on parts of keys: of its results those leave that are the part's own.

    `extra` is a column beside those of the rows that does not leave: per row whether a row is the part's own or of its
    tail, and for slides the number of the part, by which the rows are keyed. A part after the last is of keys that are
    whole.
    """

    def __init__(self, query: Query, schema: pa.Schema, now: float, extra: str, parts: list[Part]) -> None:
        super().__init__(query, schema, now)
        self.extra, self.parts = extra, parts

    def _given(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        resolved = self.query.resolve(self.schema)
        tail: list[pa.RecordBatch] = []
        of = -1
        for part, own, piece in pieces(batches):
            rows = in_order(piece, resolved, resolved.by if part >= len(self.parts) else ())
            if tail and (own or part != of):  # with no row of its own a part still has windows that end within it
                yield self._told(tail[0], of, False)
                tail = []
            if own:
                for start in range(0, rows.num_rows, self.rows):
                    yield self._told(rows.slice(start, self.rows), part, True)
            else:
                of = part
                tail = [held(pa.concat_batches([*tail, rows]), resolved, self.parts[part].begin)]
        if tail:
            yield self._told(tail[0], of, False)

    def _told(self, rows: pa.RecordBatch, part: int, own: bool) -> pa.RecordBatch:
        """Rows with the extra column before theirs."""
        kind = self.schema.field(0).type
        extra = pa.repeat(pa.scalar(own if pa.types.is_boolean(kind) else part, kind), rows.num_rows)
        return pa.RecordBatch.from_arrays([extra, *rows.columns], schema=self.schema)

    def _shown(self, operator: Flow | Operator, found: pa.RecordBatch) -> pa.RecordBatch:
        resolved = operator.resolved
        kept = found.column(self.extra) if resolved.per_row else self._slides(resolved, found)
        found = found.drop_columns([self.extra])
        return super()._shown(operator, found if kept.true_count == len(kept) else found.filter(kept))

    def _slides(self, resolved: Resolved, found: pa.RecordBatch) -> pa.Array:
        assert resolved.time is not None
        ends = resolved.time.numbers(found.column("window_end"))[0]
        numbers = found.column(self.extra).to_numpy()
        named = found.column("window").to_numpy(zero_copy_only=False) if "window" in found.schema.names else None
        shown = np.ones(len(ends), np.bool_)
        for number in np.unique(numbers):
            for span in resolved.spans:
                at = np.flatnonzero((numbers == number) & (True if named is None else named == span.name))
                if number < len(self.parts) and len(at):
                    shown[at] = shows(self.parts[number], span, ends[at])
        return pa.array(shown)


def pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bool, pa.RecordBatch]]:
    """The rows of each piece, its part, and whether they are the part's own, from blobs ordered by part and piece."""
    waiting: list[pa.RecordBatch] = []
    known: tuple[Any, ...] = ()
    for batch in batches:
        told = zip(*(batch.column(name).to_pylist() for name in (PART, PIECE, OWN)), strict=True)
        for at, piece in enumerate(told):
            if piece != known and waiting:
                yield known[0], known[2], pa.concat_batches(waiting)
                waiting = []
            known = piece
            waiting += batches_of(batch.column(BLOB)[at].as_buffer())
    if waiting:
        yield known[0], known[2], pa.concat_batches(waiting)


def in_order(rows: pa.RecordBatch, resolved: Resolved, by: tuple[str, ...]) -> pa.RecordBatch:
    """Rows by key, time and tie-breakers, those without a time first. Costs a look at rows that are in order."""
    assert resolved.time is not None
    time, timed = resolved.time.numbers(rows.column(resolved.time.column))
    if not timed.all():
        least = -np.inf if time.dtype.kind == "f" else np.iinfo(np.int64).min
        time = np.where(timed, time, least)
    columns = [key_column(rows.column(name)) for name in by if name in rows.schema.names]
    codes = [keys_of(columns, rows.num_rows).codes] if columns else []
    after, same = np.zeros(rows.num_rows - 1, np.bool_), np.ones(rows.num_rows - 1, np.bool_)
    for numbers in (*codes, time):
        after, same = after | (same & (numbers[1:] > numbers[:-1])), same & (numbers[1:] == numbers[:-1])
    if after.all() or (not resolved.ties and (after | same).all()):
        return rows
    ties = [ranks(rows.column(name)) for name in resolved.ties]
    return rows.take(array(np.lexsort((*reversed(ties), time, *codes))))


def held(tail: pa.RecordBatch, resolved: Resolved, begin: Any) -> pa.RecordBatch:
    """What windows hold of the rows before a part that begins at `begin`: in time, or in rows, whichever is more."""
    reach = Reach.of(resolved)
    assert resolved.time is not None
    time, timed = resolved.time.numbers(tail.column(resolved.time.column))
    if not timed.all():
        tail, time = tail.filter(array(timed)), time[timed]
    start = int(np.searchsorted(time, begin - reach.time)) if reach.time else len(time)
    if reach.rows > 0:
        # with all peers of the oldest
        oldest = time[max(len(time) - reach.rows, 0)] if len(time) else 0
        start = min(start, int(np.searchsorted(time, oldest)))
    return tail.slice(start)
