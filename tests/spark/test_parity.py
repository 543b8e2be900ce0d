"""Spark beside the local host: every kind of window, every aggregate, and all that a query may say."""

import os
import subprocess
import sys
from typing import Any

import pytest

from sash.spark import worker
from tests.spark import over_connect
from tests.spark.cases import CASES, check, rows


@pytest.mark.parametrize("name", CASES)
def test_spark_gives_the_rows_of_the_local_host(frame: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "ROWS", 1)
    check(frame, rows(), CASES[name])


def test_so_it_does_over_connect() -> None:
    # with this set the server takes a port that is free, not always the same
    surroundings = os.environ | {"SPARK_TESTING": "1"}
    program = [sys.executable, "-m", over_connect.__name__]
    done = subprocess.run(program, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(len(over_connect.CHOSEN)), "agree"]
