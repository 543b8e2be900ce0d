"""Exactly once: a driver that dies at any moment and is started again loses no row and writes none twice."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sash.testing import assert_same
from tests.interpreted import SWITCHED_OFF
from tests.spark.cases import SCHEMA, in_one_order
from tests.spark.stream import killed
from tests.spark.stream.running import files, source, start
from tests.spark.stream.stream_rows import arriving, expected

ENVIRONMENT = os.environ | SWITCHED_OFF
SILENT: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def command(folder: Path) -> list[str]:
    """Runs the stream of a folder."""
    return [sys.executable, "-m", killed.__name__, str(folder)]


def begun(folder: Path) -> int:
    """How many micro-batches have begun."""
    offsets = folder / "checkpoint" / "offsets"
    return sum(not path.name.startswith(".") for path in offsets.iterdir()) if offsets.exists() else 0


def run(folder: Path, draw: random.Random) -> bool:
    """Start the driver, and kill it some time after it has begun another micro-batch. Returns whether it has finished.

    Half of the time it is killed in the middle of that micro-batch, else between it and the next, or in that.
    """
    before = begun(folder)
    driver = subprocess.Popen(
        command(folder), env=ENVIRONMENT, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while driver.poll() is None and begun(folder) == before:
            time.sleep(0.02)
        time.sleep(draw.uniform(0, draw.choice([1.0, 4.0])))
        return driver.poll() is not None
    finally:
        os.killpg(driver.pid, signal.SIGKILL) if driver.poll() is None else None
        driver.wait()


def crash(folder: Path, batch: int, after_sink: bool) -> None:
    """Turn an ended stream into one that crashed in a micro-batch, before or after the sink has written it.

    Its offsets are there and its commit is not; and state of versions that nobody has committed.
    """
    logs = {"checkpoint/offsets": batch, "checkpoint/commits": batch - 1, "out/_spark_metadata": batch - 1 + after_sink}
    for log, last in logs.items():
        for path in (folder / log).iterdir():
            number = path.name.strip(".").partition(".")[0]
            if number.isdigit() and int(number) > last:
                path.unlink()


def test_a_crash_before_or_after_the_sink_has_written(spark: Any, tmp_path: Path) -> None:
    query = killed.QUERY
    files(tmp_path / "in", arriving(query, seed=4, batches=2))
    expected_rows = in_one_order(expected(query), query)
    for moment in (None, (1, True), (2, False)):
        if moment is not None:
            crash(tmp_path, *moment)
        start(query.run(source(spark, tmp_path / "in", SCHEMA)), tmp_path).awaitTermination()
        assert_same(in_one_order(spark.read.parquet(str(tmp_path / "out")).toArrow(), query), expected_rows)


@pytest.mark.all_compiled  # a JVM for each of them
@pytest.mark.parametrize("kills", [20])
def test_no_row_is_lost_and_none_is_there_twice(spark: Any, tmp_path: Path, kills: int) -> None:
    query, draw = killed.QUERY, random.Random(kills)
    files(tmp_path / "in", arriving(query, seed=4, batches=kills + 2))
    for _ in range(kills):
        if run(tmp_path, draw):
            break
    last = subprocess.run(command(tmp_path), env=ENVIRONMENT, capture_output=True, check=False)
    assert last.returncode == 0, last.stderr.decode()[-2000:]
    got = spark.read.parquet(str(tmp_path / "out")).toArrow()
    assert_same(in_one_order(got, query), in_one_order(expected(query), query))
