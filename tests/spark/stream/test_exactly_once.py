"""Exactly once: a driver killed with -9 at random moments and started again loses no row and writes none twice."""

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
from tests.spark.cases import in_one_order
from tests.spark.stream import killed
from tests.spark.stream.running import files
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
    """Start the driver, and kill it some time after it has begun another micro-batch. Gives whether it came to its end.

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


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.all_compiled)])
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
