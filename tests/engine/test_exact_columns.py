"""Later batches get the types of the first: what a type cannot hold is an error that names column and value."""

from __future__ import annotations

import datetime as dt
from collections import UserList, deque
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash

UTC = dt.UTC
NOON = dt.datetime(2020, 1, 1, 12)
HALF = dt.datetime(2020, 1, 1, 0, 0, 0, 500_000)
FINE = pd.Timestamp("2020-01-01 00:00:00.000000005")


def arrays(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.array(values) for name, values in columns.items()}


def objects(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.array(values, object) for name, values in columns.items()}


WAYS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "lists": dict,
    "arrays": arrays,
    "objects": objects,
    "series": lambda columns: {name: pd.Series(values) for name, values in columns.items()},
    "polars series": lambda columns: {name: pl.Series(name, values) for name, values in columns.items()},
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
}

LOSSY: list[tuple[pa.DataType, list[Any], str]] = [
    (pa.int64(), [1.0, 1.7], r"int64 cannot hold 1\.7"),
    (pa.float64(), ["2.5"], r"double cannot hold '2\.5'"),
    (pa.float64(), [2**53 + 1], "double cannot hold 9007199254740993"),
    (pa.float32(), [0.5, 0.1], r"float cannot hold 0\.1"),
    (pa.int8(), [1, 300], "int8 cannot hold 300"),
    (pa.bool_(), [5], "bool cannot hold 5"),
    (pa.int64(), ["a"], "int64 cannot hold 'a'"),
    (pa.string(), [1], "string cannot hold 1"),
    (pa.int64(), [Decimal("1.5")], r"int64 cannot hold Decimal\('1\.5'\)"),
    (pa.float64(), [Decimal("0.1")], r"double cannot hold Decimal\('0\.1'\)"),
    (pa.decimal128(10, 2), [Decimal("1.555")], r"decimal128\(10, 2\) cannot hold Decimal\('1\.555'\)"),
    (pa.timestamp("s"), [HALF], r"timestamp\[s\] cannot hold .*500000"),
    (pa.duration("s"), [dt.timedelta(seconds=1.5)], r"duration\[s\] cannot hold .*500000"),
    (pa.date32(), [NOON], r"date32\[day\] cannot hold .*12"),
    (pa.timestamp("us", "UTC"), [NOON], r"cannot hold .*12.* no time zone: localize"),
    (pa.timestamp("us"), [NOON.replace(tzinfo=UTC)], r"cannot hold .*, which has a time zone"),
    (pa.float64(), [None, "2.5"], r"double cannot hold '2\.5'"),
    (pa.decimal32(5, 2), [1, 2**62], r"decimal32\(5, 2\) cannot hold 4611686018427387904"),
    (pa.timestamp("s"), [1_700_000_000], r"timestamp\[s\] cannot hold 1700000000"),
    (pa.timestamp("us", "UTC"), [1.7e9], "cannot hold 1700000000"),
    (pa.date32(), [19_000], r"date32\[day\] cannot hold 19000"),
    (pa.time64("us"), [5], r"time64\[us\] cannot hold 5"),
    (pa.duration("ms"), [5], r"duration\[ms\] cannot hold 5"),
    (pa.list_(pa.int64()), [[1.0], [1.5]], r"list<item: int64> cannot hold \[1\.5\]"),
]

EXACT: list[tuple[pa.DataType, list[Any], list[Any]]] = [
    (pa.float64(), [1, 2**53], [1.0, 2.0**53]),
    (pa.float32(), [1, 2], [1.0, 2.0]),
    (pa.float32(), [0.5], [0.5]),
    (pa.int64(), [1.0, 3.0], [1, 3]),
    (pa.int8(), [100], [100]),
    (pa.uint64(), [2**63], [2**63]),
    (pa.decimal128(10, 2), [1, 2], [Decimal("1.00"), Decimal("2.00")]),
    (pa.decimal128(10, 3), [Decimal("1.55")], [Decimal("1.550")]),
    (pa.timestamp("s"), [NOON], [NOON]),
    (pa.timestamp("ns"), [NOON], [pd.Timestamp(NOON)]),
    (pa.timestamp("us", "Europe/Berlin"), [NOON.replace(tzinfo=UTC)], [NOON.replace(tzinfo=UTC)]),
    (pa.date32(), [NOON.replace(hour=0)], [dt.date(2020, 1, 1)]),
    (pa.dictionary(pa.int32(), pa.string()), ["a", "b"], ["a", "b"]),
    (pa.large_string(), ["a"], ["a"]),
    (pa.list_(pa.int64()), [[1.0]], [[1]]),
    (pa.list_(pa.float64()), [None, [0.5]], [None, [0.5]]),
    (pa.decimal32(5, 2), [1, 999], [Decimal(1), Decimal(999)]),
    (pa.float16(), [0.5, 2], [0.5, 2.0]),
]

LISTS_ONLY = ("arrays", "objects", "series", "polars series")


def made(way: str, values: list[Any]) -> Any:
    if isinstance(values[0], list) and way in LISTS_ONLY:
        pytest.skip("arrays of lists have two dimensions")
    if values == [2**63] and way == "polars series":
        return {"x": pl.Series("x", values, pl.UInt64)}
    return WAYS[way]({"x": values})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("kind", "values", "message"), LOSSY, ids=str)
def test_a_lossy_cast_is_an_error_that_names_column_and_value(
    way: str, kind: pa.DataType, values: list[Any], message: str
) -> None:
    for op in (QUERY.operator(pa.schema([("x", kind)])), sash.Queries(n=QUERY).operator(pa.schema([("x", kind)]))):
        with pytest.raises(ValueError, match=rf"the column 'x' of type .*{message}"):
            op.process(made(way, values))
    assert QUERY.operator(pa.schema([("x", kind)])).process({"x": []}).num_rows == 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("kind", "values", "expected"), EXACT, ids=str)
def test_a_cast_that_loses_nothing_is_made(way: str, kind: pa.DataType, values: list[Any], expected: list[Any]) -> None:
    op = QUERY.operator(pa.schema([("x", kind)]))
    found = op.process(made(way, values))
    assert found.schema.field("x").type == kind
    assert found["x"].to_pylist() == expected


QUERY = sash.Query(2, n=sash.count())


def column_of(name: str, values: Any, kind: pa.DataType | None) -> pa.Array:
    """A column of values as results have it."""
    return QUERY.operator(None if kind is None else pa.schema([(name, kind)])).process({name: values})[name]


def test_the_first_batch_decides_the_types() -> None:
    op = sash.Query(2, total=sash.sum("x")).operator()
    op.process({"x": [1, 2]})
    with pytest.raises(ValueError, match=r"the column 'x' of type int64 cannot hold 1\.7"):
        op.process({"x": [3, 1.7]})
    assert op.process({"x": [3]})["total"].to_pylist() == [5]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "kind",
    [pa.float16(), pa.float64(), pa.decimal128(9, 2), pa.timestamp("us", "UTC"), pa.string(), pa.list_(pa.int64())],
    ids=str,
)
def test_a_batch_of_nulls_fits_every_type(way: str, kind: pa.DataType) -> None:
    op = QUERY.operator(pa.schema([("x", kind)]))
    assert op.process(WAYS[way]({"x": [None, None]}))["x"].to_pylist() == [None, None]


@pytest.mark.parametrize("odd", [5, 5.5, True, np.float64(0.5), np.int64(7), Decimal("1.5")], ids=repr)
@pytest.mark.parametrize("time", [NOON, NOON.date(), NOON.time(), dt.timedelta(1), FINE], ids=repr)
def test_numbers_among_times_are_refused(time: Any, odd: Any) -> None:
    """Arrow takes them as units since 1970, without fractions."""
    for kind in (None, pa.timestamp("us")):
        with pytest.raises(TypeError, match="the column 'x' has"):
            column_of("x", [time, odd], kind)
    for given in (
        {"x": [time, odd]},
        {"x": np.array([time, odd], object)},
        pd.DataFrame({"x": [time, odd]}, dtype=object),
    ):
        with pytest.raises(TypeError, match="the column 'x'"):
            sash.rolling(given, 2, n=sash.count("x"))
        with pytest.raises(TypeError, match="the column 'x'"):
            QUERY.operator().process(given)


@pytest.mark.parametrize("values", [[1.5, True], [np.float64(1.5), np.True_], [1, np.True_], [True, 1]], ids=repr)
def test_booleans_among_numbers_are_refused(values: list[Any]) -> None:
    with pytest.raises(TypeError, match=r"the column 'x' has (numbers and|values whose type).* (np\.)?(True|1)"):
        column_of("x", values, None)


def test_missing_values_of_pandas_among_objects_are_null() -> None:
    frame = pd.DataFrame({"x": pd.Series([NOON, np.nan, None, pd.NaT], dtype=object)})
    assert QUERY.operator().process(frame)["x"].to_pylist() == [NOON, None, None, None]


@pytest.mark.parametrize("value", [2**64, 2**100])
def test_an_integer_beyond_64_bits_is_an_error_that_names_the_column(value: int) -> None:
    for kind in (pa.int64(), None):
        schema = None if kind is None else pa.schema([("x", kind)])
        for given in (
            {"x": [value]},
            pd.DataFrame({"x": [value]}),
            pl.DataFrame({"x": pl.Series([value], dtype=pl.Int128)}),
        ):
            with pytest.raises((TypeError, ValueError), match="the column 'x'"):
                QUERY.operator(schema).process(given)


def test_texts_of_numpy_keep_what_is_after_a_nul() -> None:
    """Arrow ends texts of NumPy at their first NUL: two keys would be one."""
    keys = np.array(["a\0b", "a\0c"])
    assert sash.rolling({"k": keys}, 2, by="k", n=sash.count())["n"].tolist() == [1, 1]
    masked = np.ma.MaskedArray(keys, mask=[False, True])
    assert sash.rolling({"k": masked}, 1, x=sash.last("k"))["x"].tolist() == ["a\0b", None]
    assert sash.Query(2, by="k", n=sash.count()).operator().process({"k": keys})["n"].to_pylist() == [1, 1]


def test_text_is_no_list_and_no_struct() -> None:
    for kind, value in ((pa.list_(pa.int64()), b"a"), (pa.struct({"a": pa.int64()}), "")):
        with pytest.raises(ValueError, match=r"the column 'x' of type (list|struct).* cannot hold b?'"):
            column_of("x", [value], kind)


@pytest.mark.parametrize("kind", [deque, UserList, iter], ids=lambda kind: kind.__name__)
def test_other_sequences_are_checked_as_lists_are(kind: Callable[[list[Any]], Any]) -> None:
    for values in ([NOON, NOON.replace(tzinfo=UTC)], [NOON.date(), 5.5], [NOON.date(), NOON]):
        with pytest.raises(TypeError, match="the column 'x' has"):
            QUERY.operator().process({"x": kind(values)})
    assert QUERY.operator().process({"x": kind([FINE])})["x"].to_pylist() == [FINE]
    with pytest.raises(ValueError, match="cannot hold 0"):
        QUERY.operator(pa.schema([("x", pa.timestamp("us"))])).process({"x": range(2)})


def test_integers_of_64_bits_without_a_sign_are_served() -> None:
    for given in ({"x": [1, 2**64 - 1, None]}, pd.DataFrame({"x": pd.Series([1, 2**64 - 1, None], dtype=object)})):
        assert sash.rolling(given, 2, y=sash.max("x"))["y"][1] == 2**64 - 1
        assert QUERY.operator().process(given).schema.field("x").type == pa.uint64()
    with pytest.raises(TypeError, match="the column 'x'"):
        column_of("x", [-1, 2**63], None)


def test_the_first_of_many_bad_values_is_named() -> None:
    values = [float(i) for i in range(1000)]
    values[613], values[800] = 613.5, 0.5
    with pytest.raises(ValueError, match=r"cannot hold 613\.5"):
        column_of("x", np.array(values), pa.int64())


def test_nulls_and_nan_are_no_loss() -> None:
    assert column_of("x", [None, 1], pa.float64()).to_pylist() == [None, 1.0]
    assert column_of("x", [], pa.int64()).to_pylist() == []
    assert column_of("x", np.array([np.nan]), pa.float32()).to_pylist() != [0.0]
    with pytest.raises(ValueError, match="cannot hold nan"):
        column_of("x", [float("nan")], pa.int64())
    op = QUERY.operator(pa.schema([("x", pa.int64())]))
    assert op.process(pd.DataFrame({"x": [1.0, np.nan]}))["x"].to_pylist() == [1, None]


@pytest.mark.parametrize("way", ["lists", "objects", "object frame"])
def test_times_of_pandas_keep_their_nanoseconds_in_the_first_batch(way: str) -> None:
    given = pd.DataFrame({"x": pd.Series([FINE], dtype=object)}) if way == "object frame" else WAYS[way]({"x": [FINE]})
    assert QUERY.operator().process(given)["x"].to_pylist() == [FINE]


def test_frames_of_objects_keep_nanoseconds() -> None:
    frame = pd.DataFrame({"t": pd.Series([FINE, FINE + pd.Timedelta(3, "ns")], dtype=object)})
    for given in (frame, {"t": frame["t"].to_numpy()}):
        assert list(sash.rolling(given, 2, d=sash.range("t"))["d"]) == [pd.Timedelta(0), pd.Timedelta(3, "ns")]


def test_dates_among_times_are_refused() -> None:
    with pytest.raises(TypeError, match=r"the column 'x' has dates and times: give only one of them"):
        column_of("x", [dt.date(2020, 1, 1), NOON], None)
    with pytest.raises(TypeError, match=r"the column 'x' has values whose type is not an Arrow type .*: cast it"):
        column_of("x", ["a", 1], None)


@pytest.mark.parametrize(("key", "value"), [(pa.int64(), "x"), (pa.int64(), 1.5), (pa.timestamp("us", "UTC"), NOON)])
def test_a_lookup_names_the_key_column_and_its_type(key: pa.DataType, value: Any) -> None:
    op = sash.Query(2, by="k", n=sash.count()).operator(pa.schema([("k", key)]))
    with pytest.raises(ValueError, match=r"lookup\(\): the column 'k' of type (int64|timestamp\[us, tz=UTC\]) cannot "):
        op.lookup({"k": [value]})
    for columns in (pa.table({"k": [value]}), pd.DataFrame({"k": [value]}), {"k": np.array([value])}):
        with pytest.raises(ValueError, match=r"lookup\(\): the column 'k' of type"):
            op.lookup(columns)


def test_an_advance_within_a_day_is_rounded_up() -> None:
    """A column of dates has no rows after the watermark's midnight."""
    op = sash.Query("1d", on="t", n=sash.count()).operator(pa.schema([("t", pa.date32())]))
    op.advance(NOON)
    assert op.watermark == (dt.date(2020, 1, 2) - dt.date(1970, 1, 1)).days
    with pytest.raises(TypeError, match=r"advance\(\) takes a time of column 't'"):
        op.advance(NOON.replace(tzinfo=UTC) + dt.timedelta(days=9))
    numbers = sash.Query(sash.Time(4), on="t", n=sash.count()).operator(pa.schema([("t", pa.int64())]))
    with pytest.raises(TypeError, match=r"advance\(\) takes a time of column 't', of type int64; got Decimal"):
        numbers.advance(Decimal("1.5"))  # type: ignore[arg-type]
