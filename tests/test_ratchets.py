"""Ratchets: what `import sash`, a first call and a warm call cost, as counts of modules and of Python calls.

Each figure may only fall. A change that lowers one writes the lower figure here; one that raises it says why, or finds
another way. Nothing is timed: counts are the same on every machine.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash

MODULES = {
    "import sash": 51,
    "import sash; sash.rolling({'x': [1.0, 2.0]}, 2, m=sash.mean('x'))": 100,
    "import sash, pandas; sash.rolling(pandas.DataFrame({'x': [1.0, 2.0]}), 2, m=sash.mean('x'))": 100,
    "from sash.cli.main import main; assert main(['run', 'misspelt.toml']) == 2": 60,
}
"""Our modules that a new process has loaded after a statement."""


@pytest.mark.parametrize("statement", MODULES)
def test_modules_loaded(statement: str, tmp_path: Path) -> None:
    job = '[source]\npath = "in.csv"\n[query]\nwindws = "1h"\n[query.aggregates]\nhigh = "max(x)"\n'
    (tmp_path / "misspelt.toml").write_text(job)
    program = f"{statement}\nimport sys\nprint(sum(name.partition('.')[0] == 'sash' for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= MODULES[statement]


def calls(of: Callable[[], Any]) -> int:
    """How many functions of ours a call runs; those of other packages depend on their versions."""
    found = 0

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal found
        found += event == "call" and frame.f_globals.get("__name__", "").partition(".")[0] == "sash"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        of()
    finally:
        sys.setprofile(before)
    return found


def warm(of: Callable[[], Any]) -> int:
    """The calls of the cheapest of several warm calls: now and then one does more, such as to enlarge arrays."""
    for _ in range(3):
        of()
    return min(calls(of) for _ in range(5))


X = np.arange(1000.0)
FRAMES: dict[str, tuple[Any, int]] = {
    "pandas": (pd.DataFrame({"x": X}), 140),
    "polars": (pl.DataFrame({"x": X}), 131),
    "arrow": (pa.table({"x": X}), 128),
    "dict": ({"x": X}, 128),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_calls_of_a_warm_rolling(kind: str) -> None:
    frame, most = FRAMES[kind]
    assert warm(lambda: sash.rolling(frame, 64, m=sash.mean("x"))) <= most


@pytest.mark.parametrize(("windows", "more"), [(64, 10), (sash.Count(64, every=8), 40)])
def test_queries_of_one_query_cost_what_the_query_costs(windows: Any, more: int) -> None:
    """Besides the dicts of results, and the names in errors."""
    table, query = pa.table({"x": X}), sash.Query(windows, m=sash.mean("x"))
    queries = sash.Queries(only=query)
    assert warm(lambda: queries.run(table)) <= warm(lambda: query.run(table)) + more


@pytest.mark.compiled
@pytest.mark.parametrize(("emit", "most"), [("final", 145), ("eager", 261)])
def test_calls_of_a_warm_one_row_call(emit: Any, most: int) -> None:
    """A window of an hour by key, ordered by time, with two aggregates."""
    arguments: dict[str, Any] = {"by": "k", "on": "t", "lateness": 0, "emit": emit}
    query = sash.Query(sash.Time(3600), **arguments, high=sash.max("x"), total=sash.sum("x"))
    schema = pa.schema({"k": pa.string(), "t": pa.int64(), "x": pa.float64()})
    operator = query.operator(schema)
    rows = iter([pa.record_batch({"k": ["a"], "t": [t], "x": [1.0]}, schema=schema) for t in range(1000, 2000)])
    assert warm(lambda: operator.process(next(rows))) <= most


def test_the_counts_see_calls() -> None:
    """A ratchet that counts nothing would never break."""
    assert calls(lambda: sash.Count(3)) > 0
    assert calls(lambda: len("abc")) == 0
