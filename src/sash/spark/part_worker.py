"""PartWorker: a query on parts of keys, from blobs. What runs in a worker behind the shuffle of a split.

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
from sash.engine.chunked import Flow
from sash.query.query import Query
from sash.query.resolved import Resolved
from sash.spark.carry import SERIES, Carried, seed
from sash.spark.ranges import Part, Reach, shows
from sash.spark.unpack import in_order, pieces
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

    def _results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        operator = None
        for one in self._told_of(batches):
            if operator is not None and isinstance(one, Carried):
                yield self._shown(operator, operator.finish())
                operator = None
            if operator is None:
                operator = self._operator()
            if isinstance(one, Carried):
                assert isinstance(operator, Operator)
                seed(operator, one, not operator.resolved.per_row)
            else:
                yield self._shown(operator, operator.process(one))
        if operator is not None:
            yield self._shown(operator, operator.finish())

    def _told_of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch | Carried]:
        """Rows in order, those of a tail before the part's own; and before all of them what is carried."""
        resolved = self.query.resolve(self.schema)
        tail: list[pa.RecordBatch] = []
        folds: list[tuple[int, pa.RecordBatch]] = []
        of = -1
        for one in pieces(batches):
            if folds and (one.piece >= 0 or one.part != of):
                yield Carried(of, folds)
                folds = []
            if tail and (one.own or one.part != of):  # with no row of its own a part still has windows that end in it
                yield self._told(tail[0], of, False)
                tail = []
            of = one.part
            if one.piece < 0:
                folds.append((one.piece % SERIES, one.rows))
                continue
            rows = in_order(one.rows, resolved, resolved.by if of >= len(self.parts) else ())
            if one.own:
                for start in range(0, rows.num_rows, self.rows):
                    yield self._told(rows.slice(start, self.rows), of, True)
            else:
                tail = [held(pa.concat_batches([*tail, rows]), resolved, self.parts[of].begin)]
        if folds:
            yield Carried(of, folds)
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
