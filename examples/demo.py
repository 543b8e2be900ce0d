"""A Spark pipeline in a minute: a stream of trades, checked row by row and compared with Spark, with a chart.

Run by `make demo`. It writes to build/demo.
"""

from __future__ import annotations

import base64
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import sash
import sash.spark
from examples import market
from examples.market import FILES, QUERY, SYMBOLS, TRADES, Outcome

WORK = Path(__file__).resolve().parents[1] / "build" / "demo"
WIDTH = 24


@contextmanager
def quiet(log: Path) -> Iterator[None]:
    """Redirect the standard error to a file: Java, and the processes that it starts, keep writing there."""
    kept = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def compile_kernels(table: pa.Table) -> None:
    """Compile the kernels of the query while Java starts: Spark's workers then find them in the cache."""
    operator = QUERY.operator()
    operator.process(table)
    operator.finish()
    QUERY.run(table)


class Bar:
    """A progress bar, which is redrawn in a terminal; elsewhere only the end is printed."""

    def __init__(self) -> None:
        self.done = -1

    def __call__(self, watched: Any) -> None:
        """Draw what the monitor has seen so far."""
        done = min(len(watched.batches), FILES)
        if done == self.done:
            return
        self.done = done
        rate = f"{watched.batches[done - 1].rows_per_second:,.0f} rows/s" if done else "starting"
        full = WIDTH * done // FILES
        line = f"  [{'#' * full}{'.' * (WIDTH - full)}] {watched.totals['rows_in']:,} of {TRADES:,} trades, {rate}"
        if sys.stdout.isatty():
            print(f"\r{line:78}", end="\n" if done == FILES else "", flush=True)
        elif done == FILES:
            print(line)


def rate_when_warm(watched: Any) -> float:
    """Rows a second without the first micro-batches, which start workers and load kernels."""
    warm = watched.batches[2:FILES]
    return sum(batch.rows_in for batch in warm) / sum(batch.seconds for batch in warm)


def spark_window(table: Any) -> Any:
    """The highest and mean price and the number of trades of 2 minutes, by Spark's own window functions."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    micros = f.unix_micros("ts")
    window = Window.partitionBy("symbol").orderBy(micros).rangeBetween(-119_999_999, 0)
    return table.select(
        "id",
        f.max("price").over(window).alias("high"),
        f.avg("price").over(window).alias("mean"),
        f.count("*").over(window).alias("trades"),
    )


def sash_window(table: Any) -> Any:
    """The same by sash."""
    aggregates = {"high": sash.max("price"), "mean": sash.mean("price"), "trades": sash.count()}
    return sash.rolling(table, "2m", by="symbol", on=["ts", "id"], **aggregates).select("id", *aggregates)


def beside_spark(spark: Any, table: pa.Table) -> tuple[float, float]:
    """Seconds that Spark's own windows and sash take on the same trades, both warm; the results are compared."""
    timed = spark.createDataFrame(table.filter(pc.is_valid(table["ts"])).to_pandas()).repartition(2).cache()
    seconds, results = [], []
    for windows in (spark_window, sash_window):
        windows(timed.limit(1000)).collect()
        began = time.perf_counter()
        results.append(windows(timed).toArrow().sort_by("id"))
        seconds.append(time.perf_counter() - began)
    for name in results[0].column_names:
        market.require_alike(name, *(found[name].combine_chunks() for found in results))
    return seconds[0], seconds[1]


def chart(results: pa.Table) -> Path:
    """The last minutes of a symbol with two windows, as a picture and on a page; the path of the page."""
    import matplotlib

    matplotlib.use("Agg")
    mine = results.filter(pc.equal(results["symbol"], SYMBOLS[0])).sort_by("id").slice(0, 1500)
    windows = {"10s": sash.Time("10s"), "5m": sash.Time("5m")}
    figure = sash.plot(mine.select(["ts", "price"]), windows, on="ts", high=sash.max("price"), trades=sash.count())
    figure.savefig(WORK / "chart.png", dpi=120)
    picture = base64.b64encode((WORK / "chart.png").read_bytes()).decode()
    rows = "".join(
        f"<tr><td>{escape(symbol)}</td><td>{row['ts']:%H:%M:%S}</td><td>{row['price']:.2f}</td>"
        f"<td>{row['high_5m']:.2f}</td><td>{escape(row['who_5m'])}</td><td>{row['mean_1k']:.3f}</td></tr>"
        for symbol, row in newest(results).items()
    )
    (WORK / "chart.html").write_text(
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>sash demo</title>"
        "<style>body{font:16px sans-serif;margin:2em}td,th{padding:.2em 1em;text-align:left}img{max-width:100%}</style>"
        f"<h1>Trades of {SYMBOLS[0]}</h1><img src='data:image/png;base64,{picture}' alt='Prices with the highest of the"
        " last 10 seconds and 5 minutes, and the number of trades'><h2>The newest of each symbol</h2>"
        "<table><tr><th>symbol<th>at<th>price<th>high of 5 min<th>paid by<th>mean of 1,000 trades</tr>"
        f"{rows}</table></html>",
        encoding="utf-8",
    )
    return WORK / "chart.html"


def newest(results: pa.Table) -> dict[str, Any]:
    """The last result of each symbol."""
    table = results.sort_by([("ts", "descending"), ("id", "descending")])
    return {symbol: table.filter(pc.equal(table["symbol"], symbol)).slice(0, 1).to_pylist()[0] for symbol in SYMBOLS}


def main() -> None:
    began = time.perf_counter()
    shutil.rmtree(WORK, ignore_errors=True)
    table = market.trades()
    broken = market.written(WORK / "trades", table)
    print(
        f"{TRADES:,} trades of {len(SYMBOLS)} symbols as JSON: some late, some without a time, {broken} broken lines."
    )
    print(
        f"A Spark stream computes {len(QUERY.aggregates)} aggregates over {len(QUERY.windows)} windows for each trade."
    )
    compiling = threading.Thread(target=compile_kernels, args=(table.slice(0, 1000),))
    compiling.start()
    with quiet(WORK / "spark.log"):
        spark = sash.spark.session(**{"sql.shuffle.partitions": 2, "log.level": "OFF"})
        watched = market.streamed(spark, WORK, Bar())
        compiling.join()
        outcome = Outcome.read(spark, WORK)
        agreed = outcome.check(table)
        theirs, ours = beside_spark(spark, table)
        spark.stop()
    page = chart(outcome.results)
    print(f"\n{'symbol':8}{'at':10}{'price':>8}{'high 5 min':>12}  {'paid by':12}{'mean of 1,000':>14}")
    for symbol, row in newest(outcome.results).items():
        print(
            f"{symbol:8}{row['ts']:%H:%M:%S}  {row['price']:8.2f}{row['high_5m']:12.2f}  {row['who_5m']:12}"
            f"{row['mean_1k']:14.3f}"
        )
    not_used = ", ".join(f"{count:,} {reason}" for reason, count in outcome.reasons.items())
    lines = {
        "right": f"{agreed:,} results equal those of the local engine, row by row; in the side output: {not_used}",
        "rate": f"{rate_when_warm(watched):,.0f} trades/s through Spark, once it is warm",
        "batch": f"2-minute windows on the same trades: Spark's own {theirs:.1f} s, sash {ours:.1f} s "
        f"({theirs / ours:.1f}×), equal results",
        "chart": f"{page} and chart.png",
        "tables": f"{WORK / 'results'} and side_output, Parquet",
        "next": f"sash inspect {os.path.relpath(WORK / 'checkpoint')} shows the state and its largest keys",
        "took": f"{time.perf_counter() - began:.0f} s, Spark's start included",
    }
    print()
    for name, text in lines.items():
        print(f"{name:8}{text}")


if __name__ == "__main__":
    main()
