"""Real-world input: columns of nulls, an index of times, mixed time zones, nanoseconds."""

from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash
from sash import Count, Lifetime, Query, Time
from sash.monoids import functions
from sash.monoids.functions import AGGREGATES
from sash.testing import Reference, assert_same

# ---- columns of type null ----

PARAMETERS: dict[str, Any] = {"nth": {"n": 2}, "count_min": {"items": ("a", 1)}, "approx_quantile": {"q": 0.5}}
PARAMETERS |= {"quantile": {"q": 0.5}} | {name: {"halflife": 2} for name in ("ewm_mean", "ewm_var", "ewm_std")}
SKETCHES = ("approx_distinct", "approx_quantile", "frequent_items", "count_min")
NAMES = [name for name in AGGREGATES if find_spec("datasketches") or name not in SKETCHES]
COUNTS = ("count", "approx_distinct", "count_distinct")


def of_nulls(name: str) -> Any:
    """An aggregate of the column x, and of y if it takes two."""
    least = AGGREGATES[name](**PARAMETERS.get(name, {})).arity[0]
    return getattr(functions, name)(*["x", "y"][: max(least, 1)], **PARAMETERS.get(name, {}))


@pytest.mark.parametrize("name", NAMES)
def test_a_column_of_type_null_gives_nulls(name: str) -> None:
    batch = pa.record_batch({"t": [1, 2, 3], "x": pa.nulls(3), "y": [1, 2, 3]})
    query = Query(Lifetime(), on="t", r=of_nulls(name))
    wanted = [0 if name in COUNTS else None] * 3
    assert query.run(pa.Table.from_batches([batch]))["r"].to_pylist() == wanted
    operator, reference = query.operator(batch.schema), Reference(query, batch.schema)
    assert_same(operator.process(batch), reference.process(batch))
    last = operator.finish()
    assert_same(last, reference.finish())
    assert last["r"].to_pylist() == wanted[:1]


def test_columns_of_nulls_in_frames() -> None:
    asked: dict[str, Any] = {"s": sash.sum("x"), "m": sash.max("x"), "n": sash.count("x"), "t": sash.concat("x")}
    pandas = sash.rolling(pd.DataFrame({"x": [None, None]}), 2, **asked)
    assert pandas["s"].isna().all()
    assert pandas["m"].isna().all()
    assert pandas["n"].tolist() == [0, 0]
    polars = sash.rolling(pl.DataFrame({"x": [None, None]}), Count(2, every=2), **asked)
    assert polars.select("s", "m", "n", "t").rows() == [(None, None, 0, None)]
    assert polars.schema["s"] == pl.Float64
    assert sash.rolling(pa.table({"x": pa.nulls(2)}), 2, s=sash.mean("x")).schema.field("s").type == pa.float64()


@pytest.mark.filterwarnings("ignore::sash.kernels.InterpretedWarning")
def test_a_users_aggregate_of_nulls() -> None:
    mine = sash.monoid(identity=0, combine=lambda a, b: a + b, name="mine")
    assert sash.rolling(pa.table({"x": pa.nulls(2)}), 2, m=mine("x"))["m"].to_pylist() == [None, None]


# ---- an index of times ----

TIMES = pd.to_datetime(["2024-01-03", "2024-01-01", "2024-01-02"])


@pytest.mark.parametrize("name", [None, "when"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_an_index_of_times_is_the_time(name: Any, zone: Any) -> None:
    """Rows need not be in order: the index is what `on` would be."""
    frame = pd.DataFrame({"x": [1, 2, 4]}, index=TIMES.tz_localize(zone).rename(name))
    found = sash.rolling(frame, "2d", s=sash.sum("x"))
    assert found["s"].tolist() == [5, 2, 6]
    assert found.index.equals(frame.index)
    slides = sash.rolling(frame, Time("2d", every="2d"), s=sash.sum("x"))
    assert slides["window_end"].dtype == frame.index.dtype
    named = frame.reset_index()
    assert sash.rolling(named, "2d", on=name or "index", s=sash.sum("x"))["s"].tolist() == [5, 2, 6]


def test_rows_are_counted_in_their_order_even_if_the_index_has_times() -> None:
    frame = pd.DataFrame({"x": [1, 2, 4]}, index=TIMES)
    assert sash.rolling(frame, 2, s=sash.sum("x"))["s"].tolist() == [1, 3, 6]
    assert sash.rolling(frame, 2, on="index", s=sash.sum("x"))["s"].tolist() == [5, 2, 6]


def test_what_is_no_index_of_times() -> None:
    with pytest.raises(ValueError, match=r"Time\('2d'\), is measured in time: set its column with on="):
        sash.rolling(pd.DataFrame({"x": [1]}), "2d", s=sash.sum("x"))
    twice = pd.DataFrame({"when": [1]}, index=TIMES[:1].rename("when"))
    with pytest.raises(ValueError, match="both the index of times and a column are named 'when'"):
        sash.rolling(twice, "2d", n=sash.count())


def test_columns_of_several_levels() -> None:
    frame = pd.DataFrame({("a", "b"): [1], ("c", "d"): [2]}, index=TIMES[:1])
    assert sash.rolling(frame, "2d", n=sash.count())["n"].tolist() == [1]


# ---- times with a zone and without ----

MIXED = [datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)]


@pytest.mark.parametrize(
    "run",
    [
        lambda query: query.run(pd.DataFrame({"t": pd.Series(MIXED, dtype=object)})),
        lambda query: query.run({"t": np.array(MIXED, dtype=object)}),
        lambda query: query.operator().process(pd.DataFrame({"t": pd.Series(MIXED, dtype=object)})),
        lambda query: query.operator().process({"t": MIXED}),
    ],
    ids=["pandas", "numpy", "operator, pandas", "operator, dict"],
)
def test_mixed_zones_are_refused_by_name(run: Any) -> None:
    with pytest.raises(TypeError, match="the column 't' has times with a time zone and times without"):
        run(Query("1h", on="t", n=sash.count()))


# ---- nanoseconds ----


def test_nanoseconds_are_exact() -> None:
    times = pd.DatetimeIndex([2**60, 2**60 + 1, 2**60 + 3]).rename("t")
    frame = pd.DataFrame({"t": times, "x": [1, 2, 4]})
    found = sash.rolling(frame, "2ns", on="t", s=sash.sum("x"), last=sash.last("t"), over=sash.range("t"))
    assert found["s"].tolist() == [1, 3, 4]
    assert found["last"].tolist() == times.tolist()
    assert found["over"].tolist() == [pd.Timedelta(0), pd.Timedelta(1), pd.Timedelta(0)]
    slides = sash.rolling(frame, Time("2ns", every="2ns"), on="t", s=sash.sum("x"))
    assert slides["window_end"].astype("int64").tolist() == [2**60 + 2, 2**60 + 4]
