"""Queries on streams, and rows as they arrive: out of order within the lateness, split at random into micro-batches."""

from __future__ import annotations

import random
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sash import Count, Query
from sash.plan.time_axis import TimeAxis
from tests.shared.queries import rewritten
from tests.spark.cases import CASES, SCHEMA, rows

LATENESS: dict[str, Any] = {"t": 6, "tf": 1.5, "ts": "3m", "d": "12h", "day": "6d"}
"""By time column, how far a row may be behind."""

LAST = {"t": 10**6, "tf": 1e6, "ts": datetime(2030, 1, 1), "d": datetime(2030, 1, 1), "day": date(2030, 1, 1)}
"""A time for each column after which all else is final."""


FORGET = 10**5
"""Longer than any gap, shorter than the time up to `LAST`: it ends the wait of rows for later rows of their key."""


def _stream(query: Query) -> Query:
    waits = any(isinstance(window, Count) and window.shift > 0 for window in query.windows.values())
    return rewritten(query, lateness=LATENESS[query.on[0]], forget=FORGET if waits else query.forget)


STREAMS = {name: _stream(query) for name, query in CASES.items()}
"""The cases of a batch, with a lateness."""


def end() -> pa.Table:
    """A row of a key of its own, so late in time that all others are final."""
    last: dict[str, Any] = dict.fromkeys(SCHEMA.names) | LAST
    last |= {"k": "end", "j": 9.0, "row": 10**9, "n": 0, "p": False, "g": 10**9}
    return pa.Table.from_pylist([last], schema=SCHEMA)


def timed(table: pa.Table, column: str) -> pa.Table:
    """The rows that have a time: no others give results on a stream."""
    kept = pc.is_finite(table.column(column)) if column == "tf" else pc.is_valid(table.column(column))
    return table.filter(pc.fill_null(kept, False))


def arriving(query: Query, seed: int, batches: int | None = None, count: int = 160) -> list[list[pa.RecordBatch]]:
    """The rows in micro-batches of some partitions, none late, and at the end the one that closes all."""
    table, draw = rows(count), random.Random(seed)
    axis = TimeAxis.of(query.on[0], SCHEMA.field(query.on[0]).type)
    times, known = axis.numbers(table.column(axis.column))
    lateness = axis.number(query.lateness, "lateness=")
    greatest = max(times)
    jittered = [
        time + draw.random() * lateness if ok else draw.uniform(0, greatest)
        for time, ok in zip(times.tolist(), known.tolist(), strict=True)
    ]
    order = sorted(range(count), key=jittered.__getitem__)
    table = table.take(order)
    cuts = sorted(draw.sample(range(1, count), (batches or draw.choice([3, 6, 10])) - 1))
    found = []
    for start, stop in zip([0, *cuts], [*cuts, count], strict=True):
        part = table.slice(start, stop - start)
        middle = draw.randrange(part.num_rows + 1)
        pieces = [part.slice(0, middle), part.slice(middle)]
        found.append([piece.combine_chunks().to_batches()[0] for piece in pieces if piece.num_rows])
    return [*found, [end().to_batches()[0]]]


def expected(query: Query) -> pa.Table:
    """The results of a batch of the same rows."""
    return query.run(timed(rows(), query.on[0]))
