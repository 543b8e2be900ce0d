"""Stream generated trades through Spark: out of order, late, without a time, malformed; every result is checked.

    JSON files ──▶ Spark stream ──▶ sash, three windows ─▶ Parquet, results
                                                      └──▶ Parquet, side output, with the reason
                          compared, row by row, with ◀── the local engine on the same trades

`examples.demo` runs it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import sash
import sash.spark

TRADES = 100_000
FILES = 4
SYMBOLS = ("ACME", "BOLT", "CORE", "DUNE", "ECHO", "FLUX", "GALE", "HIVE")
OPEN = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
SCHEMA = "id long, symbol string, ts timestamp, price double, trader string, _corrupt_record string"
QUERY = sash.Query(
    {"10s": sash.Time("10s"), "5m": sash.Time("5m"), "1k": sash.Count(1000)},
    by="symbol",
    on=["ts", "id"],
    lateness="3s",
    high=sash.max("price"),
    who=sash.arg_max("price", "trader"),
    mean=sash.mean("price"),
    trades=sash.count(),
)
"""For each trade: the last 10 seconds, 5 minutes and 1,000 trades of its symbol."""


def trades() -> pa.Table:
    """Trades in order of arrival: most up to 3 seconds out of order, some by a minute, some without a time."""
    chance = np.random.default_rng(2026)
    moments = np.sort(chance.integers(0, 1800 * 1000, TRADES))
    delay = chance.integers(0, 3000, TRADES)
    delay[chance.random(TRADES) < 0.002] += 240_000
    times = np.datetime64(OPEN.replace(tzinfo=None), "us") + moments * 1000
    times[chance.random(TRADES) < 0.0005] = np.datetime64("NaT")
    prices = 100 + np.round(np.cumsum(chance.normal(0, 0.05, TRADES)), 2)
    table = pa.table(
        {
            "id": np.arange(TRADES),
            "symbol": np.array(SYMBOLS)[chance.integers(0, len(SYMBOLS), TRADES)],
            "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "price": np.maximum(prices, 1.0),
            "trader": np.char.add("trader ", chance.integers(0, 500, TRADES).astype(str)),
        }
    )
    return table.take(np.argsort(moments + delay, kind="stable"))


def written(folder: Path, table: pa.Table) -> int:
    """Write the trades to JSON files, with some broken lines, and return the number of these."""
    folder.mkdir(parents=True)
    chance = np.random.default_rng(7)
    broken = 0
    edges = np.linspace(0, table.num_rows, FILES + 1).astype(int).tolist()
    for i, (start, stop) in enumerate(pairwise(edges)):
        lines = []
        for row in table.slice(start, stop - start).to_pylist():
            row["ts"] = row["ts"] and row["ts"].isoformat()
            lines.append(json.dumps(row))
            if chance.random() < 0.0005:
                lines.append(lines[-1][: chance.integers(5, 60)])
                broken += 1
        path = folder / f"{i}.json"
        path.write_text("\n".join(lines))
        os.utime(path, (1_750_000_000 + i, 1_750_000_000 + i))  # Spark takes the oldest first
    return broken


def streamed(spark: Any, work: Path, progress: Callable[[Any], None]) -> Any:
    """Run the stream to its end, report after each micro-batch, and return the monitor."""
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(work / "trades"))
    both = sash.spark.with_side_output(QUERY, stream)
    writer = both.writeStream.foreachBatch(sash.spark.table_writer(work / "results", work / "side_output"))
    query = writer.option("checkpointLocation", str(work / "checkpoint")).trigger(availableNow=True).start()
    with sash.spark.monitor(query) as watched:
        while not query.awaitTermination(0.3):
            progress(watched)
    progress(watched)
    return watched


@dataclass(frozen=True)
class Outcome:
    """The tables that the stream has written."""

    results: pa.Table
    side_output: pa.Table

    @classmethod
    def read(cls, spark: Any, work: Path) -> Outcome:
        """Both tables, of trades in their columns."""
        names = ["_reason", "id", "symbol", "ts", "price", "trader"]
        results = spark.read.parquet(str(work / "results")).drop("_batch").toArrow()
        return cls(results, spark.read.parquet(str(work / "side_output")).select(*names).toArrow())

    @property
    def reasons(self) -> dict[str, int]:
        """The number of rejected trades, by reason."""
        counts = pc.value_counts(self.side_output["_reason"].combine_chunks()).to_pylist()
        return {row["values"]: row["counts"] for row in sorted(counts, key=lambda row: str(row["values"]))}

    def check(self, table: pa.Table) -> int:
        """Compare the stream's results with the local engine's; how many rows agree. Exits if one does not.

        A trade is in the side output, or has its result, or is so young that a trade before it may still come.
        """
        rejected = self.side_output.filter(pc.not_equal(self.side_output["_reason"], "malformed"))
        good = table.filter(pc.invert(pc.is_in(table["id"], rejected["id"])))
        watermark = pc.subtract(pc.max(good["ts"]), pa.scalar(timedelta(seconds=3)))
        local = QUERY.run(good)
        final = local.filter(pc.less(local["ts"], watermark)).sort_by("id")
        found = self.results.sort_by("id")
        if found.num_rows != final.num_rows:
            raise SystemExit(f"DIFFERS: the stream gave {found.num_rows:,} results, and {final.num_rows:,} are final")
        for name in final.column_names:
            require_alike(name, found[name].combine_chunks(), final[name].combine_chunks())
        return final.num_rows


def require_alike(name: str, one: pa.Array, other: pa.Array) -> None:
    """Exit unless they are equal, floats except for the last digits, since hosts combine partials differently."""
    if pa.types.is_floating(one.type):
        pair = [array.to_numpy(zero_copy_only=False) for array in (one, other)]
        same = np.allclose(*pair, rtol=1e-9, atol=0, equal_nan=True)
    else:
        same = one.equals(other.cast(one.type))
    if not same:
        raise SystemExit(f"DIFFERS: the column {name!r} is not that of the local engine")
