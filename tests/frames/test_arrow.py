"""Arrow and NumPy: encodings, chunks, metadata; what NumPy has for nulls."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash import Count, Time


def test_metadata_and_fields_stay() -> None:
    field = pa.field("x", pa.int64(), nullable=False, metadata={"unit": "kg"})
    given = pa.table({"x": [1, 2]}, pa.schema([field], metadata={"who": "me"}))
    for frame in (given, given.to_batches()[0]):
        got = sash.rolling(frame, 2, total=sash.sum("x"))
        assert got.schema.metadata == {b"who": b"me"}
        assert got.schema.field("x").equals(field, check_metadata=True)
        assert got.column("total").to_pylist() == [1, 3]


_TEXTS = ["b", "a", None, "b"]
_WORDS = pa.array(_TEXTS)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(_TEXTS, pa.large_string()),
        pa.array(_TEXTS, pa.string_view()),
        _WORDS.dictionary_encode(),
        pa.chunked_array([pa.array(["b", "a"]).dictionary_encode(), pa.array([None, "b"]).dictionary_encode()]),
        pa.array(_TEXTS).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
        pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3, 4], pa.int32()), _WORDS),
        pa.array([None if text is None else text.encode() for text in _TEXTS], pa.large_binary()),
        pa.array([None if text is None else text.encode() for text in _TEXTS], pa.binary(1)),
        pa.array([Decimal("2.5"), Decimal("1.5"), None, Decimal("2.5")], pa.decimal128(5, 2)),
        pa.array([2.5, 1.5, None, 2.5], pa.float16()),
    ],
    ids=lambda column: str(column.type)[:40],
)
def test_encodings_are_keys_and_values(column: Any) -> None:
    given = pa.table({"k": column})
    got = sash.rolling(given, 9, by="k", n=sash.count(), last=sash.last("k"))
    assert got.column("n").to_pylist() == [1, 1, 1, 2]
    assert got.column("last").to_pylist() == given.column("k").to_pylist()
    assert got.schema.field("k").type == column.type
    slides = sash.rolling(given, Count(9, every=1), by="k", n=sash.count())
    assert slides.schema.field("k").type == column.type
    assert slides.column("n").to_pylist() == [1, 2, 1, 1]


def test_an_extension_type_is_refused_by_name() -> None:
    column = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0123456789abcdef"], pa.binary(16)))
    with pytest.raises(TypeError, match=r"the column 'x' is of the extension type .*uuid"):
        sash.rolling(pa.table({"x": column}), 2, last=sash.last("x"))


@pytest.mark.parametrize(
    ("kind", "length"),
    [(pa.int16(), 1), (pa.float32(), 1), (pa.timestamp("s"), "1d"), (pa.date32(), "1d"), (pa.date64(), "1d")],
    ids=str,
)
def test_rows_without_a_time_are_kept(kind: pa.DataType, length: Any) -> None:
    day = pa.array([None, 1, None], pa.int32()).cast(pa.date32())
    column = day.cast(kind) if pa.types.is_temporal(kind) else day.cast(pa.int32()).cast(kind)
    got = sash.rolling(pa.table({"t": column}), Time(length), on="t", n=sash.count())
    assert got.column("n").to_pylist() == [None, 1, None]


def test_infinite_times_are_none() -> None:
    given = pa.table({"t": [float("inf"), 1.0, float("nan"), -float("inf"), 0.5]})
    got = sash.rolling(given, Time(9), on="t", n=sash.count())
    assert got.column("n").to_pylist() == [None, 2, None, None, 1]
    slides = sash.rolling(given, Time(9, every=9), on="t", n=sash.count())
    assert slides.to_pylist() == [{"window_start": 0.0, "window_end": 9.0, "n": 2}]


def test_times_ahead_of_the_clock_are_none() -> None:
    given = pa.table({"t": pa.array([0, 2**40], pa.timestamp("s"))})
    got = sash.rolling(given, "1h", on="t", ahead="1d", n=sash.count())
    assert got.column("n").to_pylist() == [1, None]


def test_lateness_and_late_do_not_matter() -> None:
    given = pa.table({"t": [9, 1, None]})
    for late in ("drop", "flag", "error"):
        got = sash.rolling(given, Time(5), on="t", lateness=1, late=late, n=sash.count())
        assert got.to_pydict() == {"t": [9, 1, None], "n": [1, 1, None]}


def test_forget_starts_over() -> None:
    given = pa.table({"t": [20, 1, 2]})
    got = sash.rolling(given, 9, on="t", forget=10, n=sash.count())
    assert got.column("n").to_pylist() == [1, 1, 2]


# ---- without rows ----


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("window", [Time(2), Time(2, every=1), Count(2)])
def test_no_row_and_one(window: Any, rows: int) -> None:
    given = pa.table({"k": ["a"], "t": [1], "x": [1.0]}).slice(0, rows)
    got = sash.rolling(given, window, by="k", on="t", high=sash.max("x"))
    assert got.schema.field("high").type == pa.float64()
    assert set(got.column("high").to_pylist()) == {1.0} if rows else got.num_rows == 0
    batch = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in given.schema], schema=given.schema)
    assert sash.rolling(batch, window, by="k", on="t", high=sash.max("x")).num_rows == 0
    reader = sash.rolling(given.slice(0, 0).to_reader(), window, by="k", on="t", high=sash.max("x"))
    assert reader.read_all().schema == got.schema


def test_no_column_is_read() -> None:
    assert sash.rolling(pa.table({"x": [1, 2, 3]}), 2, n=sash.count()).column("n").to_pylist() == [1, 2, 2]
    assert sash.rolling(pa.table({"row": [1, 2]}), 2, row_=sash.count()).column("row_").to_pylist() == [1, 2]


# ---- NumPy ----


def test_null_results_in_numpy() -> None:
    days = np.array(["2024-01-01", "NaT", "2024-01-02"], "M8[D]")
    given = {"x": np.array([1, 2, 3]), "t": days, "s": np.array(list("abc"))}
    got = sash.rolling(given, "2d", on="t", total=sash.sum("x"), m=sash.mean("x"), at=sash.last("t"), s1=sash.last("s"))
    assert all(got[name] is given[name] for name in given)
    assert got["total"].tolist() == [1, None, 4]
    assert isinstance(got["total"], np.ma.MaskedArray)
    np.testing.assert_array_equal(got["m"], [1.0, np.nan, 2.0])
    np.testing.assert_array_equal(got["at"], given["t"])
    assert got["s1"].tolist() == ["a", None, "c"]


def test_nan_of_numpy_is_a_value_and_a_mask_is_null() -> None:
    floats = np.array([1.0, np.nan])
    assert sash.rolling({"x": floats}, 2, n=sash.count("x"))["n"].tolist() == [1, 2]
    masked = np.ma.MaskedArray(floats, mask=[False, True])
    assert sash.rolling({"x": masked}, 2, n=sash.count("x"))["n"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("columns", "kind", "message"),
    [
        ({"x": np.zeros((2, 2))}, ValueError, "the column 'x' has 2 dimensions"),
        ({"x": np.zeros(2), "y": np.zeros(3)}, ValueError, "the column 'y' has 3 rows, and 'x' has 2"),
        ({0: np.zeros(2)}, TypeError, "column names must be text; got the column 0, a int"),
        ({"x": np.zeros(2, "c16")}, TypeError, "the column 'x' is of type complex128, which is not an Arrow type"),
        ({"x": 5}, TypeError, "got a builtins.dict whose 'x' is a int: make it an array or a list"),
        ({}, TypeError, "got a builtins.dict without columns"),
    ],
)
def test_what_is_no_table(columns: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        sash.rolling(columns, 2, total=sash.sum("x"))
