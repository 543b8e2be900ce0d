"""rolling: the same arguments as Query; errors that name things, on every kind of frame; accessors."""

import subprocess
import sys
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash
import sash.frames
from tests.frames.frame_kinds import KINDS

TABLE = pa.table({"k": ["a", "b", "a"], "t": [3, 1, 2], "x": [1.0, 2.0, 3.0], "s": ["u", "v", "w"]})


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"total": sash.sum("y")}, KeyError, "total=sum.'y'. names the column 'y', which does not exist.*'k', 't'"),
        ({"total": sash.sum("s")}, TypeError, "total=sum.'s'. reads numbers; the column 's' is of type"),
        ({"by": "z", "total": sash.sum("x")}, KeyError, "by= names the column 'z'"),
        ({"on": "s", "total": sash.sum("x")}, TypeError, "on= names the column 's' of type"),
        ({"x": sash.sum("x")}, ValueError, "the results would have two columns 'x'"),
        ({"s": sash.sum("x")}, ValueError, "the results would have two columns 's'"),
        (
            {"emit": "eager", "on": "t", "total": sash.sum("x")},
            ValueError,
            "emit='eager' .* on a frame all results are final",
        ),
    ],
)
def test_errors_name_things(name: str, arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sash.rolling(KINDS[name].make(TABLE), 2, **arguments)


def test_rolling_is_a_query_that_runs() -> None:
    keywords: dict[str, Any] = {"by": "k", "on": "t", "lateness": 1, "forget": 5, "late": "flag", "emit": "changes"}
    windows = {"a": sash.Time(2), "b": sash.Count(2)}
    total = sash.sum("x")
    options = sash.Options(structure="Recalc")
    got = sash.rolling(TABLE, windows, options=options, total=total, **keywords)
    assert got == sash.Query(windows, options=options, total=total, **keywords).run(TABLE)
    assert got.schema.names[-2:] == ["total_a", "total_b"]


def test_reserved_names() -> None:
    with pytest.raises(TypeError, match="cannot be named 'by'"):
        sash.rolling(TABLE, 2, by=sash.sum("x"))
    with pytest.raises(TypeError, match="cannot be named 'data'"):
        sash.rolling(data=sash.sum("x"), windows=2)
    with pytest.raises(TypeError, match="needs at least one aggregate"):
        sash.rolling(TABLE, 2)


# ---- accessors ----


@pytest.mark.parametrize("name", ["pandas.DataFrame", "polars.DataFrame", "polars.LazyFrame"])
def test_accessors(name: str) -> None:
    kind = KINDS[name]
    frame = kind.make(TABLE)
    wanted = sash.rolling(TABLE, 2, by="k", on="t", total=sash.sum("x")).to_pylist()
    assert kind.rows(frame.sash.rolling(2, by="k", on="t", total=sash.sum("x"))) == wanted
    assert kind.rows(frame.sash.run(sash.Query(2, by="k", on="t", total=sash.sum("x")))) == wanted


BEFORE = "import pandas, polars, sash.frames"
AFTER = "import sash.frames, sys; assert not {'pandas', 'polars'} & set(sys.modules); import pandas, polars"


@pytest.mark.parametrize("imports", [BEFORE, AFTER])
def test_accessors_whatever_is_imported_first(imports: str) -> None:
    program = f"{imports}\nfor frame in pandas.DataFrame, polars.DataFrame, polars.LazyFrame: assert frame.sash"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_frame_at_all() -> None:
    with pytest.raises(TypeError, match="got a ChunkedArray"):
        sash.rolling(pa.chunked_array([[1]]), 2, n=sash.count())


def test_the_frame_given_gets_no_columns() -> None:
    frame = pd.DataFrame({"x": [1]})
    assert "n" in sash.rolling(frame, 1, n=sash.count())
    assert "n" not in frame
    other = pl.DataFrame({"x": [1]})
    assert "n" in sash.rolling(other, 1, n=sash.count())
    assert "n" not in other


def test_a_query_on_polars_imports_no_pandas() -> None:
    program = """
import sys, polars, sash
frame = polars.DataFrame({"k": ["a", "b", "a"], "t": [3, 1, 2], "x": [1.0, 2.0, 3.0]})
aggregates = {"n": sash.count(), "m": sash.max("x"), "w": sash.arg_min("x", "k"), "s": sash.skewness("x")}
for windows, keywords in ((2, {}), (sash.Time(2), {"on": "t", "by": "k"})):
    sash.rolling(frame, windows, **keywords, **aggregates)
assert "pandas" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
