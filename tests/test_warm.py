"""`python -m sash.warm`: what it compiles, later processes find. Kernels are counted, not timed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sash import warm

FRAME = """
import pyarrow as pa
import sash
from sash.kernels.jit.compile import compiled_kernels
sash.rolling(pa.table({"x": [1.0, 2.0]}), 2, out=sash.max("x"))
print(len(compiled_kernels))
"""


def run(cache: Path, *arguments: str) -> str:
    environment = {**os.environ, "SASH_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_is_warm_is_not_compiled_again(tmp_path: Path) -> None:
    command = ["-m", "sash.warm", "--jobs", "1", "--only", "frame: max of floats"]
    first = run(tmp_path / "other", *command)
    assert "greatest" in first
    assert int(run(tmp_path / "other", "-c", FRAME)) == 0


OTHERS = """
import numpy as np, sash
from sash.kernels.jit.compile import compiled_kernels
columns = {"x": np.arange(400.0) % 7, "i": np.arange(400)}
for size in (5, 200):
    sash.rolling(
        columns, size, m=sash.median("x"), q=sash.quantile("i", q=0.9), n=sash.count_distinct("x"), e=sash.delta("i"),
        w=sash.ewm_mean("x", span=9), l=sash.lag("x"), c=sash.count_distinct("i"), v=sash.weighted_mean("x", "i"),
    )
print(compiled_kernels)
"""


@pytest.mark.all_compiled
def test_order_statistics_and_weighted_aggregates_are_warm(tmp_path: Path) -> None:
    for name in (
        "median of floats",
        "count_distinct",
        "weighted_mean of floats",
        "ewm_mean of floats",
        "lag of floats",
    ):
        run(tmp_path / "other", "-m", "sash.warm", "--jobs", "2", "--only", f"frame: {name}")
    assert run(tmp_path / "other", "-c", OTHERS) == "[]\n"


def test_every_task_names_an_aggregate_once() -> None:
    assert len(warm.tasks()) == len(warm.COLUMNS) * (len(warm.AGGREGATES) + len(warm.LIVE))


@pytest.mark.parametrize(
    ("arguments", "reason"), [(["--jobs", "0"], "--jobs must be at least 1"), (["--only", "mode"], "no task name")]
)
def test_bad_arguments_are_named(arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        warm.main(arguments)
    assert reason in capsys.readouterr().err
