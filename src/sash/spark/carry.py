"""Carry: what windows of a part need of the parts before it, as partials: the folds of each, as an operator keeps them.

    part 0    · · · · │                      ──▶ fold f₀ ──┬──────────┐
    part 1            │ · · · · │            ──▶ fold f₁ ──┼──────────┤
    part 2                      │ · · ·      starts with   f₀, f₁     ▼

All parts are folded at once, then all are computed at once: rows are read twice, and no part waits for the one before.
Of a Lifetime window a fold is one partial. Of Time windows that slide it is one a slice, as far back as they reach: the
tail of a part as aggregates, where rows would go to many parts.
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
from sash.spark.types import bytes_of
from sash.spark.unpack import in_order, pieces
from sash.spark.worker import clearly

MOST = LARGE
"""Partials of a key, and parts: as many as an operator keeps of it in one page."""

SERIES = 1024
"""More than a query has of those series of windows whose folds are carried."""

CARRIED = ("lifetime", "time")
"""The kinds of windows whose folds are carried, where any are."""


def partials(resolved: Resolved, parts: int) -> int:
    """How many partials are carried to one of so many parts, at most."""
    longest = max((span.size or 0 for span in resolved.spans if span.kind == "time"), default=0)
    slides = [span.every or 0 for span in resolved.spans if span.kind == "time"]
    # a window cuts at most twice a slide, and a slice may lie in several parts
    return parts + sum(2 * (int(longest // every) + 2) for every in slides)


def partial_bytes(resolved: Resolved) -> int | None:
    """About how many bytes a partial has; None if there is no telling: a list may hold all that the rows do."""
    operator = Operator(_folded(resolved.query, resolved), resolved.schema, mode="sorted")
    sizes = [bytes_of(field.type) for layout in operator.engine.layouts for field in layout.cell]
    return None if None in sizes else sum(size or 0 for size in sizes)


def _folded(query: Query, resolved: Resolved) -> Query:
    """The query of the windows whose folds are carried."""
    windows: dict[str, Any] = {span.name: span.window for span in resolved.spans if span.kind in CARRIED}
    return Query(windows.get("", windows), by=query.by, on=query.on, ahead=query.ahead, **query.aggregates)


class Fold:
    """The rows of parts in, their folds out, once for each later part that needs them: what runs in a worker.

    `lasts` says for each part which is the last that needs its folds.
    """

    def __init__(self, query: Query, schema: pa.Schema, lasts: list[int]) -> None:
        self.query = _folded(query, query.resolve(schema))
        self.schema, self.lasts = schema, lasts

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
        """The folds of a part, one a series, for parts behind it. Numbered so as to come before all rows."""
        nobody = Keys(np.zeros(0, np.int64), (), 0)
        loaded = operator.engine.shelf.load(nobody, None, everything=True)
        found = []
        for s, cells in enumerate(loaded.cells):
            assert s < SERIES
            assert (loaded.large[s] < 0).all()  # `partials` has seen to it
            if cells.num_rows:
                its_key = pa.array(np.zeros(cells.num_rows, np.int64))
                columns = {f"key{i}": column.take(its_key) for i, column in enumerate(loaded.columns)}
                columns |= dict(zip(cells.schema.names, cells.columns, strict=True))
                blob = blob_of(pa.RecordBatch.from_pydict(columns))
                place = (part - len(self.lasts)) * SERIES + s
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
    """The folds of the parts before a part, in order: the number of the series, and key and states as columns."""

    part: int
    folds: list[tuple[int, pa.RecordBatch]]


def seed(operator: Operator, carried: Carried, numbered: bool) -> None:
    """Let an operator that has seen nothing start with what is carried. `numbered`: its keys begin with the part."""
    engine = operator.engine
    by = len(operator.resolved.by) - numbered
    first = carried.folds[0][1]
    columns = [pa.array([carried.part], pa.int32())] if numbered else []
    keys = keys_of([*columns, *(key_column(column.slice(0, 1)) for column in first.columns[:by])], 1)
    loaded = engine.shelf.load(keys, None, everything=False)
    number = 0
    kept, stored = [], []
    everyone = np.ones(1, np.bool_)
    for s, series in enumerate(engine.series):
        mine: list[pa.RecordBatch] = []
        if operator.resolved.spans[series.places[0]].kind in CARRIED:
            mine = [fold for place, fold in carried.folds if place == number]
            number += 1
        layout = engine.layouts[s]
        cells = together(
            [pa.RecordBatch.from_arrays(fold.columns[by:], schema=layout.cell) for fold in mine], layout.cell
        )
        count = cells.num_rows
        no_run, no_runs = np.zeros(0, np.int64), np.zeros(0, np.bool_)
        own, free = np.zeros(count, np.int64), np.full(count, -1)
        kept.append(Kept(cells, own, free, np.arange(count), no_run, None, no_runs))
        stored.append(engine.shelf.stored(loaded, s, everyone, None))
    last = max(fold.column("last")[-1].as_py() for _, fold in carried.folds)
    loaded.rows[0] = sum(sum(fold.column("rows").to_pylist()) for place, fold in carried.folds if place == 0)
    loaded.last[0] = last
    engine.shelf.keep(loaded, everyone, everyone, kept, stored)
    operator.pages.commit()
    operator._before = last
