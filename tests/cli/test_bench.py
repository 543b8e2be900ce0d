"""`sash bench`: the same query is measured everywhere, and ratios are computed from the times."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sash
from sash.cli.bench import BenchCase, Comparable, comparable, measure, rivals, standard_cases
from tests.cli.typed import in_a_terminal, typed

SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.float64())])
ENGINES = ["sash", "pandas", "polars", "duckdb"]


def table(rows: int) -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table({"k": [*"abc"] * (rows // 3), "t": np.arange(rows) * 2, "x": rng.normal(size=rows)}, SCHEMA)


def test_all_engines_give_the_same_for_the_standard_queries() -> None:
    cases = [*standard_cases(rows=600, keys=3)]
    for case in (cases[0], cases[-1]):  # rows, and time
        found = measure(case, rounds=1)
        assert [one.engine for one in found] == ENGINES
        assert all(one.equal for one in found)
    assert all(isinstance(comparable(case.query, case.table.schema), Comparable) for case in cases)


@pytest.mark.parametrize("by", [(), ("k",)])
@pytest.mark.parametrize("window", [3, sash.Time(7)])
def test_rivals_by_row(by: tuple[str, ...], window: Any) -> None:
    """Row by row, on whole numbers as times: a window has those above t - 7 up to t."""
    rows = table(30)
    query = sash.Query(window, by=by, on="t", high=sash.max("x"), total=sash.sum("x"))
    expected = query.run(rows)
    found = comparable(query, SCHEMA)
    assert isinstance(found, Comparable)
    for name, compute in rivals(found, rows).items():
        got = compute()
        for column in ("high", "total"):
            wanted = expected.column(column).to_numpy()
            # of a query by key, pandas and DuckDB give key after key
            np.testing.assert_allclose(np.sort(got[column]), np.sort(wanted), atol=1e-9, err_msg=name)


def test_ratios_follow_from_the_clock() -> None:
    ticks = count()
    case = BenchCase("three", sash.Query(3, by="k", on="t", high=sash.max("x")), table(9))
    found = measure(case, 2, clock=lambda: float(next(ticks)) ** 2)
    # the readings of a round are 0 1, 4 9, 16 25, 36 49: the first round is the fastest of each
    assert [one.seconds for one in found] == [1.0, 5.0, 9.0, 13.0]
    assert [one.ratio for one in found] == [1.0, 5.0, 9.0, 13.0]
    assert found[1].rows_per_second == 9 / 5


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (sash.Query(sash.Time(9, every=3), on="t", high=sash.max("x")), "no rival has Time(9, every=3) at each row"),
        (sash.Query(sash.Session(9), on="t", high=sash.max("x")), "no rival has Session(9) at each row"),
        (sash.Query({"a": 3, "b": 4}, high=sash.max("x")), "it has several windows"),
        (sash.Query(3, high=sash.quantile("x", q=0.9)), "not all rivals have high = quantile('x', q=0.9)"),
        (sash.Query(3, high=sash.std("x", ddof=0)), "not all rivals have high = std('x', ddof=0)"),
        (sash.Query(3, high=sash.max("x", where="x > 1")), "not all rivals have high = max('x', where='x > 1')"),
        (sash.Query(3, band=sash.max("x") - sash.min("x")), "not all rivals have band = max('x') - min('x')"),
        (sash.Query(3, min_periods=2, high=sash.max("x")), "min_periods="),
    ],
)
def test_what_rivals_do_not_have(query: sash.Query, why: str) -> None:
    found = comparable(query, SCHEMA)
    assert isinstance(found, str)
    assert why in found


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(table(30), "rows.parquet")
    Path("job.yaml").write_text("""\
source: {kind: parquet, path: rows.parquet}
query: {windows: 3, by: k, on: t, lateness: 0, where: x < 99, aggregates: {high: max(x)}}
sink: {kind: parquet, path: results}
""")
    done = typed("bench", "job.yaml", "--rounds", "1", "--rows", "12", "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert found["rows"] == 12
    assert [(one["engine"], one["equal"]) for one in found["measured"]] == [(name, True) for name in ENGINES]
    assert found["measured"][0]["ratio"] == 1.0
    done = typed("bench", "job.yaml", "--rounds", "1", "--set", "query.windows=Session(9)")
    assert done.out.startswith("query,engine,ms,rows/s,× sash,equal\njob.yaml,sash,")
    assert done.out.count("\n") == 2
    assert done.err == "sash: job.yaml: measured without rivals: no rival has Session(9) at each row\n"
    done = typed("bench", "job.yaml", "--set", "query.where=x > 99")
    assert (done.code, done.err) == (1, "sash: job.yaml: the source has no rows to measure with\n")
    assert not Path("results").exists()


def test_in_a_terminal() -> None:
    done = in_a_terminal("bench", "--rows", "300", "--keys", "2", "--rounds", "1", NO_COLOR="1")
    assert done.code == 0
    assert "│ max of 100 rows    │ sash   │" in done.out
    assert "300 rows, the fastest of 1; × sash: how many times the time of sash" in done.out
