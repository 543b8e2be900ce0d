"""Spark gives the results of the local engine: every kind of window, every aggregate, all query options."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from sash.spark.batch import partition_task
from tests.interpreted import SWITCHED_OFF
from tests.spark import over_connect
from tests.spark.cases import CASES, check, rows

SELDOM = {name for name in CASES if name.startswith(("row: ", "slide: "))} - {"row: lifetime"}
SELDOM |= {f"all windows of rows, by {by}" for by in (("k", "j"), ("d",))}
SELDOM |= {f"all windows with every, by {by}" for by in ((), ("j",))}
"""Every aggregate compiled for many windows: one window is enough for each run. And all windows by all keys: each key
is there once, with windows of rows or with those that have `every`.
"""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.all_compiled if name in SELDOM else ()) for name in CASES]
)
def test_spark_gives_the_rows_of_the_local_host(frame: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_task, "ROWS", 1)
    check(frame, rows(), CASES[name])


def test_what_is_seldom_run_is_there() -> None:
    assert CASES.keys() >= SELDOM


@pytest.fixture
def connect_server(spark: Any) -> Iterator[int]:
    """The port of a server of Spark Connect, in the JVM of the session."""
    java = spark.sparkContext._jvm
    service = getattr(getattr(java.org.apache.spark.sql.connect.service, "SparkConnectService$"), "MODULE$")
    service.start(spark.sparkContext._jsc.sc())
    yield service.localPort()
    service.stop(java.scala.Option.empty(), java.scala.Option.empty())


def test_so_it_does_over_connect(connect_server: int) -> None:
    surroundings = os.environ | SWITCHED_OFF
    program = [sys.executable, "-m", over_connect.__name__, f"sc://localhost:{connect_server}"]
    done = subprocess.run(program, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(len(over_connect.CHOSEN)), "agree"]
