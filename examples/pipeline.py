"""A pipeline that is killed several times, and whose output equals that of a batch in the end.

Trades arrive as files. A pipeline computes the highest price and the volume of the last minute of each symbol, and
writes them as Parquet. It is killed with -9 several times in the middle of its work, and started again.

    files ──▶ pipeline ──▶ Parquet        killed ──▶ started again with the same store ──▶ killed ──▶ …

Run by `python -m examples.pipeline`.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sash
from sash.pipeline import Summary, read
from sash.stores import RocksDBStore

QUERY = sash.Query("1m", by="symbol", on="ts", lateness="5s", high=sash.max("price"), volume=sash.sum("size"))


def trades(count: int) -> pa.Table:
    """Trades of five symbols, up to four seconds out of order."""
    chance = np.random.default_rng(7)
    time = 1_714_550_400_000 + 50 * np.arange(count) - chance.integers(0, 4000, count)
    symbols = np.array(["AAA", "BBB", "CCC", "DDD", "EEE"])[chance.integers(0, 5, count)]
    columns = {"symbol": symbols, "price": chance.integers(90, 110, count), "size": chance.integers(1, 100, count)}
    return pa.table({"ts": pa.array(time, pa.timestamp("ms", "UTC")), **columns})


def work(folder: Path) -> None:
    """Run the pipeline of a directory, from where it stopped."""

    def show(done: Summary) -> None:
        print(f"  step {done.steps:3}: {done.rows_in:6} rows in, {done.rows_out:6} out", flush=True)

    with RocksDBStore(folder / "state") as store:
        sash.pipe(folder / "trades", QUERY, folder / "highs", store=store, batch_size=500, progress=show)


def main(rows: int = 50_000, kills: int = 5) -> None:
    """Kill the pipeline several times, let it finish, and compare."""
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as made:
        folder, table = Path(made), trades(rows)
        (folder / "trades").mkdir()
        for number in range(4):
            part = table.slice(number * rows // 4, rows // 4)
            pq.write_table(part, folder / "trades" / f"{number}.parquet")
        for kill in range(kills + 1):
            command = [sys.executable, "-m", "examples.pipeline", str(folder)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                lines = [line for line, _ in zip(process.stdout, range(chance.randint(1, 12)), strict=False)]
                if kill < kills:
                    process.kill()
                lines += process.stdout.readlines()
            print(f"{'killed' if process.returncode else 'finished'} after\n{lines[-1].rstrip()}")
        order = [("ts", "ascending"), ("symbol", "ascending"), ("price", "ascending"), ("size", "ascending")]
        got, expected = (found.sort_by(order) for found in (read(folder / "highs"), QUERY.run(table)))
        print(f"{got.num_rows} results; equal to those of a batch: {got.equals(expected)}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(Path(sys.argv[1]))
    else:
        main()
