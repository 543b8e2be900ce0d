"""The monitor: metrics of micro-batches, from their progress; over Connect, too."""

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sash
import sash.spark
from sash import Query, Time
from sash.spark.stream.monitor import Monitor
from tests.spark.stream import over_connect


class FinishedQuery:
    """A query whose progress is complete."""

    def __init__(self, *progress: Any) -> None:
        self.recentProgress = list(progress)


def progress(number: int, name: str = "sash 1000 ab", **counts: Any) -> dict[str, Any]:
    flows = dict.fromkeys(sash.spark.stream.shard_progress.FLOWS, 0)
    row = flows | {"greatest": None, "watermark": None, "shards": []} | counts
    return {"batchId": number, "durationMs": {"triggerExecution": 500}, "observedMetrics": {name: row, "other": {}}}


def shard(label: int, keys: int) -> dict[str, int]:
    return {"shard": label, "keys": keys, "elements": 10 * keys, "state_bytes": 1000 * keys}


def test_flows_add_up_and_levels_are_those_of_all_shards() -> None:
    first = progress(0, rows_in=100, late=2, shards=[shard(0, 3), shard(2, 4)], greatest=10_000_000.0)
    second = progress(1, rows_in=50, late=1, shards=[shard(2, 6)], greatest=9_000_000.0, watermark=7_500_000.0)
    watched = Monitor(FinishedQuery(first, second, first), None).update()
    assert watched.totals["rows_in"] == 150
    assert watched.totals["late"] == 3
    assert watched.last is not None
    assert (watched.last.keys, watched.last.elements, watched.last.state_bytes) == (9, 90, 9000)
    assert watched.last.rows_per_second == 100
    assert [batch.lag for batch in watched.batches] == [None, 2.5]


def test_lag_of_numbers_is_in_their_units() -> None:
    watched = Monitor(FinishedQuery(progress(0, "sash 0 ab", greatest=10.0, watermark=7.0)), None).update()
    assert watched.last is not None
    assert watched.last.lag == 3


def test_rows_come_over_connect_as_values_and_schema() -> None:
    def sent(row: dict[str, Any]) -> dict[str, Any]:
        return {"values": list(row.values()), "schema": {"fields": [{"name": name} for name in row]}}

    sent_progress = progress(0, rows_in=7, shards=[sent(shard(0, 3))])
    sent_progress["observedMetrics"] = {
        name: sent(row) for name, row in sent_progress["observedMetrics"].items() if row
    }
    watched = Monitor(FinishedQuery(sent_progress), None).update()
    assert watched.last is not None
    assert (watched.last.rows_in, watched.last.keys) == (7, 3)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_one_line_and_a_file_one_a_batch() -> None:
    said = [progress(0, rows_in=123456, late=7, malformed=1, shards=[shard(0, 3)]), progress(1)]
    terminal, file = Terminal(), io.StringIO()
    Monitor(FinishedQuery(*said), terminal).update()
    Monitor(FinishedQuery(*said), file).update()
    first, second = file.getvalue().splitlines()
    assert first == (
        "batch 0 · 123,456 rows · 246,912 rows/s · 3 keys · 7 late · 1 malformed · state 3.0 KB · "
        "pages 0 read, 0 written"
    )
    assert terminal.getvalue() == "\r" + first + "\r" + second.ljust(len(first))


def test_a_query_is_followed_while_it_runs(spark: Any, tmp_path: Path) -> None:
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 500).load()
    frame = Query(Time("5s", every="1s"), on="timestamp", lateness="1s", n=sash.count()).run(rate)
    stream = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    said = io.StringIO()
    with sash.spark.monitor(stream, to=said) as watched:
        while len(watched.batches) < 2:
            stream.awaitTermination(0.2)
            assert stream.exception() is None
        stream.stop()
    assert watched.batches[0].rows_in == 500
    assert watched.totals["rows_in"] >= 1000
    assert len(said.getvalue().splitlines()) == len(watched.batches)


@pytest.mark.all_compiled  # a server of its own; how its rows are read is tested above, and Connect by the parity tests
def test_so_it_is_over_connect(tmp_path: Path) -> None:
    # with this set the server takes a port that is free, not always the same
    surroundings = os.environ | {"SPARK_TESTING": "1"}
    command = [sys.executable, "-m", over_connect.__name__, str(tmp_path)]
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["agree"]


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 KB"), (2 * 10**12, "2000.0 GB")])
def test_sizes(size: int, text: str) -> None:
    from sash.spark.stream.monitor import _size

    assert _size(size) == text
