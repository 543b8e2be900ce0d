"""Helpers for the tests of pipelines: rows, queries, files and a sink."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import sash

SCHEMA = pa.schema([("k", pa.string()), ("t", pa.timestamp("ms", "UTC")), ("x", pa.int64())])
QUERY = sash.Query("10s", by="k", on="t", lateness="3s", high=sash.max("x"), n=sash.count())
SLIDES = sash.Query(sash.Time("10s", every="5s"), by="k", on="t", lateness="3s", high=sash.max("x"), n=sash.count())


def rows(count: int, seed: int = 0, keys: int = 3) -> pa.Table:
    """Rows of some keys, 100 ms apart, each up to 2 seconds out of order."""
    chance = random.Random(seed)
    times = [1_700_000_000_000 + 100 * i - chance.randrange(2000) for i in range(count)]
    columns = [
        pa.array([f"k{chance.randrange(keys)}" for _ in times]),
        pa.array(times, pa.timestamp("ms", "UTC")),
        pa.array([chance.randrange(1000) for _ in times]),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def write_files(folder: Path, table: pa.Table, count: int, layout: str = "parquet") -> Path:
    """A table as some files of nearly equal size."""
    folder.mkdir(exist_ok=True)
    size = -(-len(table) // count)
    for number in range(count):
        write_file(folder / f"{number:04d}.{layout}", table.slice(number * size, size))
    return folder


def write_file(path: Path, table: pa.Table) -> None:
    """A table as a file of the format that its suffix names, which appears as a whole."""
    fresh = path.with_suffix(".new")
    if path.suffix == ".parquet":
        pq.write_table(table, fresh, row_group_size=7)
    elif path.suffix == ".csv":
        pyarrow.csv.write_csv(table, fresh)
    else:
        fresh.write_text("".join(f"{json.dumps(row, default=str)}\n" for row in table.to_pylist()), "utf-8")
    fresh.rename(path)


def ordered(table: Any) -> list[dict[str, Any]]:
    """The rows of results in an order that does not depend on how they were cut into steps."""
    return sorted(table.to_pylist(), key=repr)


def expected(query: sash.Query, table: pa.Table) -> list[dict[str, Any]]:
    """What a batch gives."""
    return ordered(query.run(table))


TABLE = rows(200)


class Collected:
    """A function sink that records its calls and raises at call number `fails_at`."""

    def __init__(self) -> None:
        self.calls: list[tuple[pa.RecordBatch, str]] = []
        self.fails_at: int | None = None

    def __call__(self, batch: pa.RecordBatch, name: str) -> None:
        if self.fails_at == len(self.calls):
            raise ConnectionError("no receiver")
        self.calls.append((batch, name))

    @property
    def table(self) -> pa.Table:
        return pa.Table.from_batches([batch for batch, _ in self.calls])
