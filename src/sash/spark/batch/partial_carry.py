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

import pyarrow as pa

from sash.engine.operator import Operator
from sash.plan.bound_query import BoundQuery
from sash.plan.query import Query
from sash.spark.arrow_ipc import blob_of
from sash.spark.batch.pack_ranges import PACKED
from sash.spark.batch.partition_task import clearly
from sash.spark.batch.unpack_ranges import in_order, unpack_ranges
from sash.spark.spark_types import bytes_of

MOST = 2048
"""Partials of a key, and parts, that are carried at most."""

SERIES = 1024
"""More than a query has of those series of windows whose folds are carried."""

CARRIED = ("lifetime", "time")
"""The kinds of windows whose folds are carried, where any are."""


def partials(bound_query: BoundQuery, parts: int) -> int:
    """How many partials are carried to one of so many parts, at most."""
    longest = max((span.size or 0 for span in bound_query.windows if span.kind == "time"), default=0)
    slides = [span.every or 0 for span in bound_query.windows if span.kind == "time"]
    # a window cuts at most twice a slide, and a slice may lie in several parts
    return parts + sum(2 * (int(longest // every) + 2) for every in slides)


def partial_bytes(bound_query: BoundQuery) -> int | None:
    """About how many bytes a partial has; None if there is no telling: a list may hold all that the rows do."""
    operator = Operator(_folded(bound_query.query, bound_query), bound_query.schema, mode="sorted")
    sizes = [bytes_of(field.type) for batch in operator.export_partials() for field in batch.schema]
    return None if None in sizes else sum(size or 0 for size in sizes)


def _folded(query: Query, bound_query: BoundQuery) -> Query:
    """The query of the windows whose folds are carried."""
    windows: dict[str, Any] = {span.name: span.window for span in bound_query.windows if span.kind in CARRIED}
    aggregates: dict[str, Any] = query.aggregates
    return Query(windows.get("", windows), by=query.by, on=query.on, ahead=query.ahead, **aggregates)


class PartialFold:
    """The rows of parts in, their folds out, once for each later part that needs them: what runs in a worker.

    `lasts` says for each part which is the last that needs its folds.
    """

    def __init__(self, query: Query, schema: pa.Schema, lasts: list[int]) -> None:
        self.query = _folded(query, query.bind(schema))
        self.schema, self.lasts = schema, lasts

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return clearly(self._folds(batches))

    def _folds(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        operator, of = None, -1
        for one in unpack_ranges(batches):
            if operator is None or one.part != of:
                if operator is not None:
                    yield self._encode(operator, of)
                operator, of = Operator(self.query, self.schema, mode="sorted"), one.part
            operator.absorb(in_order(one.rows, operator.bound_query, ()))
        if operator is not None:
            yield self._encode(operator, of)

    def _encode(self, operator: Operator, part: int) -> pa.RecordBatch:
        """The folds of a part, one a group of windows, for parts behind it. Numbered so as to come before all rows."""
        found = []
        for s, partials in enumerate(operator.export_partials()):
            assert s < SERIES
            if partials.num_rows:
                place = (part - len(self.lasts)) * SERIES + s
                blob = blob_of(partials)
                found += [(later, place, False, blob) for later in range(part + 1, self.lasts[part] + 1)]
        arrays = zip(*found, strict=True) if found else [[]] * len(PACKED)
        return pa.RecordBatch.from_arrays(
            [pa.array(values, field.type) for values, field in zip(arrays, PACKED, strict=True)], schema=PACKED
        )


@dataclass(frozen=True)
class CarriedPartials:
    """The folds of the parts before a part, in order: the number of the series, and key and states as columns."""

    part: int
    folds: list[tuple[int, pa.RecordBatch]]


def seed(operator: Operator, carried: CarriedPartials, numbered: bool) -> None:
    """Let an operator that has seen nothing start with what is carried. `numbered`: its keys begin with the part."""
    by = len(operator.bound_query.by) - numbered
    first = carried.folds[0][1]
    columns = [pa.array([carried.part], pa.int32())] if numbered else []
    keys = [*columns, *(column.slice(0, 1) for column in first.columns[:by])]
    number = 0
    partials: list[list[pa.RecordBatch]] = []
    for series in operator.plan.series:
        mine: list[pa.RecordBatch] = []
        if operator.bound_query.windows[series.windows[0]].kind in CARRIED:
            mine = [fold for place, fold in carried.folds if place == number]
            number += 1
        partials.append(mine)
    operator.import_partials(keys, partials)
