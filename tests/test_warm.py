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
    assert run(tmp_path / "other", *command).endswith("\n0 kernels compiled\n")
    assert int(run(tmp_path / "other", "-c", FRAME)) == 0


def test_every_task_names_an_aggregate_once() -> None:
    assert len(warm.tasks()) == len(warm.COLUMNS) * (len(warm.AGGREGATES) + len(warm.LIVE))


@pytest.mark.parametrize(
    ("arguments", "reason"), [(["--jobs", "0"], "--jobs must be at least 1"), (["--only", "mode"], "no task contains")]
)
def test_bad_arguments_are_named(arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        warm.main(arguments)
    assert reason in capsys.readouterr().err
