"""Carry: what Lifetime windows of a part need of the parts before it: the fold of each, as an operator keeps it.

    part 0    · · · · │                      ──▶ fold f₀ ──┬──────────┐
    part 1            │ · · · · │            ──▶ fold f₁ ──┼──────────┤
    part 2                      │ · · ·      starts with   f₀, f₁     ▼

All parts are folded at once, then all are computed at once: rows are read twice, and no part waits for the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sash.operator import Operator
from sash.operator.arrays import array
from sash.operator.keys import Keys, key_column, keys_of
from sash.operator.large import LARGE
from sash.operator.loaded import Kept, together
from sash.operator.output import plain_batch
from sash.query.query import Query
from sash.query.resolved import Resolved
from sash.spark.blobs import blob_of
from sash.spark.pack import PACKED
from sash.spark.unpack import in_order, pieces
from sash.spark.worker import clearly

MOST = LARGE
"""Parts of a key: as many folds as an operator keeps in one page."""


def lifetimes(resolved: Resolved) -> dict[str, Any]:
    """The windows whose folds are carried."""
    return {span.name: span.window for span in resolved.spans if span.kind == "lifetime"}


class Fold:
    """The rows of parts in, their folds out, once for each later part of the key: what runs in a worker.

    `lasts` says for each part which is the last of its key.
    """

    def __init__(self, query: Query, schema: pa.Schema, lasts: list[int]) -> None:
        windows = lifetimes(query.resolve(schema))
        self.query = Query(windows.get("", windows), by=query.by, on=query.on, ahead=query.ahead, **query.aggregates)
        self.schema, self.lasts, self.windows = schema, lasts, len(windows)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return clearly(self._folds(batches))

    def _folds(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        operator, of = None, -1
        for one in pieces(batches):
            if operator is None or one.part != of:
                if operator is not None:
                    yield self._told(operator, of)
                operator, of = Operator(self.query, self.schema, mode="sorted"), one.part
            _absorb(operator, in_order(one.rows, operator.resolved, ()))
        if operator is not None:
            yield self._told(operator, of)

    def _told(self, operator: Operator, part: int) -> pa.RecordBatch:
        """The folds of a part, one a window, for all parts behind it. Numbered so as to come before all rows."""
        nobody = Keys(np.zeros(0, np.int64), (), 0)
        loaded = operator.engine.shelf.load(nobody, None, everything=True)
        found = []
        for window, cells in enumerate(loaded.cells):
            if cells.num_rows:
                columns = {f"key{i}": column for i, column in enumerate(loaded.columns)}
                columns |= dict(zip(cells.schema.names, cells.columns, strict=True))
                blob = blob_of(pa.RecordBatch.from_pydict(columns))
                place = (part - len(self.lasts)) * self.windows + window
                found += [(later, place, False, blob) for later in range(part + 1, self.lasts[part] + 1)]
        arrays = zip(*found, strict=True) if found else [[]] * len(PACKED)
        return pa.RecordBatch.from_arrays(
            [pa.array(values, field.type) for values, field in zip(arrays, PACKED, strict=True)], schema=PACKED
        )


def _absorb(operator: Operator, rows: pa.RecordBatch) -> None:
    """Take rows that are settled: no peer of the last one follows."""
    assert operator.schema is not None
    arrived = operator.arrivals.judge(rows, None, 0)
    table = plain_batch(rows, operator.plain)
    time = arrived.time[arrived.taken]
    if not len(time):
        return
    if len(time) < table.num_rows:
        table = table.filter(array(arrived.taken))
    now, arrival = time[-1].item(), np.arange(len(time))
    step = operator.engine.step(table, time, arrival, before=operator._before, now=now, last_key_open=True)
    operator.engine.keep(step)
    operator._before = now
    operator.pages.commit()


@dataclass(frozen=True)
class Carried:
    """The folds of the parts before a part, in order: the number of the window, and key and state as columns."""

    part: int
    folds: list[tuple[int, pa.RecordBatch]]


def seed(operator: Operator, carried: Carried, numbered: bool) -> None:
    """Let an operator that has seen nothing start with what is carried. `numbered`: its keys begin with the part."""
    engine = operator.engine
    by = len(operator.resolved.by) - numbered
    first = carried.folds[0][1]
    columns = [pa.array([carried.part], pa.int32())] if numbered else []
    keys = keys_of([*columns, *(key_column(column) for column in first.columns[:by])], 1)
    loaded = engine.shelf.load(keys, None, everything=False)
    window = 0
    kept, stored = [], []
    everyone = np.ones(1, np.bool_)
    for s, series in enumerate(engine.series):
        mine: list[pa.RecordBatch] = []
        if operator.resolved.spans[series.places[0]].kind == "lifetime":
            mine = [fold for number, fold in carried.folds if number == window]
            window += 1
        layout = engine.layouts[s]
        cells = [pa.RecordBatch.from_arrays(fold.columns[by:], schema=layout.cell) for fold in mine]
        own, free, places = np.zeros(len(cells), np.int64), np.full(len(cells), -1), np.arange(len(cells))
        no_run, no_runs = np.zeros(0, np.int64), np.zeros(0, np.bool_)
        kept.append(Kept(together(cells, layout.cell), own, free, places, no_run, None, no_runs))
        stored.append(engine.shelf.stored(loaded, s, everyone, None))
    last = carried.folds[-1][1].column("last")[0].as_py()
    loaded.rows[0] = sum(fold.column("rows")[0].as_py() for number, fold in carried.folds if number == 0)
    loaded.last[0] = last
    engine.shelf.keep(loaded, everyone, everyone, kept, stored)
    operator.pages.commit()
    operator._before = last
