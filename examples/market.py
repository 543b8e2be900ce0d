"""A market of trades through Spark: out of order, late, without a time, malformed; the result checked before your eyes.

    JSON files ──▶ Spark stream ──▶ sash, four windows ──▶ Parquet, results
                                                      └──▶ Parquet, side output, with the reason
                          compared, row by row, with ◀── the local engine on the same trades

Run by `make demo`, or alone: python -m examples.market
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import sash
import sash.spark

TRADES = 200_000
FILES = 8
SYMBOLS = ("ACME", "BOLT", "CORE", "DUNE", "ECHO", "FLUX", "GALE", "HIVE")
OPEN = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
SCHEMA = "id long, symbol string, ts timestamp, price double, trader string, _corrupt_record string"
QUERY = sash.Query(
    {"10s": sash.Time("10s"), "5m": sash.Time("5m"), "1k": sash.Count(1000), "pause": sash.Session("2s")},
    by="symbol",
    on=["ts", "id"],
    lateness="3s",
    high=sash.max("price"),
    who=sash.arg_max("price", "trader"),
    mean=sash.mean("price"),
    std=sash.std("price"),
    trades=sash.count(),
)
"""For each trade: the last 10 seconds, 5 minutes and 1,000 trades of its symbol, and all since it last paused."""


def trades() -> pa.Table:
    """Trades in the order in which they arrive: most up to 3 seconds late, some a minute, some without a time."""
    chance = np.random.default_rng(2026)
    moments = np.sort(chance.integers(0, 1800 * 1000, TRADES))
    delay = chance.integers(0, 3000, TRADES)
    delay[chance.random(TRADES) < 0.002] += 240_000
    times = [OPEN + timedelta(milliseconds=int(moment)) for moment in moments]
    for at in np.flatnonzero(chance.random(TRADES) < 0.0005):
        times[at] = None
    prices = 100 + np.round(np.cumsum(chance.normal(0, 0.05, TRADES)), 2)
    table = pa.table(
        {
            "id": np.arange(TRADES),
            "symbol": np.array(SYMBOLS)[chance.integers(0, len(SYMBOLS), TRADES)],
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "price": np.maximum(prices, 1.0),
            "trader": np.char.add("trader ", chance.integers(0, 500, TRADES).astype(str)),
        }
    )
    return table.take(np.argsort(moments + delay, kind="stable"))


def written(folder: Path, table: pa.Table) -> int:
    """The trades as files of JSON, now and then a broken line among them; how many of these there are."""
    folder.mkdir()
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


def streamed(spark: Any, work: Path) -> Any:
    """Run the stream to its end; gives what the monitor saw."""
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(work / "trades"))
    both = sash.spark.with_side_output(QUERY, stream)
    writer = both.writeStream.foreachBatch(sash.spark.table_writer(work / "results", work / "side_output"))
    query = writer.option("checkpointLocation", str(work / "checkpoint")).trigger(availableNow=True).start()
    with sash.spark.monitor(query, to=sys.stdout) as watched:
        query.awaitTermination()
    return watched


def check(table: pa.Table, results: pa.Table, side_output: pa.Table) -> int:
    """Compare the stream's results with the local engine's; how many rows agree.

    A trade is in the side output, or has its result, or is so young that a trade before it may still come.
    """
    good = table.filter(pc.invert(pc.is_in(table["id"], side_output["id"])))
    watermark = pc.subtract(pc.max(good["ts"]), pa.scalar(timedelta(seconds=3)))
    local = QUERY.run(good)
    final = local.filter(pc.less(local["ts"], watermark))
    results, final = results.sort_by("id"), final.sort_by("id")
    if results.num_rows != final.num_rows:
        raise SystemExit(f"  DIFFERS: the stream gave {results.num_rows:,} results, and {final.num_rows:,} are final")
    for name in final.column_names:
        if not alike(results[name].combine_chunks(), final[name].combine_chunks()):
            raise SystemExit(f"  DIFFERS: the column {name!r} of the stream is not that of the local engine")
    return final.num_rows


def alike(one: pa.Array, other: pa.Array) -> bool:
    """Equal, and for floats equal but for the last digits: the shape of a fold differs between hosts."""
    if not pa.types.is_floating(one.type):
        return one.equals(other.cast(one.type))
    pair = [array.to_numpy(zero_copy_only=False) for array in (one, other)]
    return np.allclose(*pair, rtol=1e-9, atol=0, equal_nan=True)


def print_results(results: pa.Table) -> None:
    """The last result of some symbols."""
    print(f"\n  {'symbol':8}{'trade at':16}{'price':>8}  {'high 10s':>9}{'high 5m':>9}  {'paid by':12}{'mean 1k':>9}")
    table = results.sort_by([("ts", "descending"), ("id", "descending")])
    for symbol in SYMBOLS[:5]:
        row = table.filter(pc.equal(table["symbol"], symbol)).slice(0, 1).to_pylist()[0]
        print(
            f"  {symbol:8}{row['ts']:%H:%M:%S.%f}  {row['price']:7.2f}  {row['high_10s']:9.2f}{row['high_5m']:9.2f}  "
            f"{row['who_5m']:12}{row['mean_1k']:9.3f}"
        )


def main() -> None:
    work = Path(tempfile.mkdtemp(prefix="sash-demo-"))
    table = trades()
    broken = written(work / "trades", table)
    print(f"  {TRADES:,} trades of {len(SYMBOLS)} symbols in {FILES} files; {broken} broken lines among them")
    spark = sash.spark.session(**{"sql.shuffle.partitions": 2, "log.level": "OFF"})
    began = time.perf_counter()
    watched = streamed(spark, work)
    took = time.perf_counter() - began
    names = ["id", "symbol", "ts", "price", "trader"]
    results = spark.read.parquet(str(work / "results")).drop("_batch").toArrow()
    side_output = spark.read.parquet(str(work / "side_output")).select("_reason", *names).toArrow()
    reasons = {
        row["values"]: row["counts"] for row in pc.value_counts(side_output["_reason"].combine_chunks()).to_pylist()
    }
    spark.stop()
    agreed = check(table, results, side_output.filter(pc.not_equal(side_output["_reason"], "malformed")))
    print_results(results)
    print(f"\n  {watched.totals['rows_in']:,} trades in {took:.0f} s, {results.num_rows:,} results")
    print(f"  not used:  {', '.join(f'{count:,} {reason}' for reason, count in sorted(reasons.items()))}")
    print(f"  checked:   {agreed:,} results of Spark's stream equal those of the local engine, row by row")
    print(f"  written:   {work / 'results'} and {work / 'side_output'}, Parquet")


if __name__ == "__main__":
    main()
