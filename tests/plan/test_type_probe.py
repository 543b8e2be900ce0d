"""A user's aggregate: the type of its result, found by trying it or said with `returns=`."""

import math
from collections import namedtuple
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash import Query

GEO = sash.monoid(
    identity=(0, 0.0),
    lift=lambda x: (1, math.log(x)),
    combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
    lower=lambda a: math.exp(a[1] / a[0]),
    name="geo",
)


def rows(lower: Any, **keywords: Any) -> sash.monoids.Monoid:
    """A monoid that keeps its rows, and gives what `lower` makes of them."""
    return sash.monoid(identity=(), lift=lambda *row: (row,), combine=lambda a, b: a + b, lower=lower, **keywords)


def result(monoid: Any, *types: pa.DataType) -> pa.DataType:
    names = [f"c{i}" for i in range(len(types))]
    (part,) = Query(5, r=monoid(*names)).bind(pa.schema(list(zip(names, types, strict=True)))).aggregates
    return part.result


def oldest(a: Any) -> Any:
    return a[0][0]


@pytest.mark.parametrize(
    ("lower", "over", "wanted"),
    [
        (len, pa.string(), pa.int64()),
        (lambda a: len(a) / 2, pa.string(), pa.float64()),
        (lambda a: 1 if len(a) == 1 else 0.5, pa.string(), pa.float64()),
        (lambda a: np.int32(len(a)), pa.string(), pa.int64()),
        (lambda a: len(a) > 1, pa.string(), pa.bool_()),
        (str, pa.int8(), pa.string()),
        (lambda a: None if len(a) < 4 else 1.0, pa.int8(), pa.float64()),
        (lambda a: (len(a), 0.5), pa.int8(), pa.struct([("_1", pa.int64()), ("_2", pa.float64())])),
        (lambda a: [len(a)], pa.int8(), pa.list_(pa.int64())),
        (lambda a: [] if len(a) == 1 else [0.5], pa.int8(), pa.list_(pa.float64())),
        (lambda a: {"n": len(a), "s": "x"}, pa.int8(), pa.struct([("n", pa.int64()), ("s", pa.string())])),
        (lambda a: [(len(a), "x")], pa.int8(), pa.list_(pa.struct([("_1", pa.int64()), ("_2", pa.string())]))),
        (lambda a: 1 / (len(a) - 3), pa.int8(), pa.float64()),
    ],
)
def test_it_is_found_by_trying(lower: Any, over: pa.DataType, wanted: pa.DataType) -> None:
    assert result(rows(lower), over) == wanted


@pytest.mark.parametrize(
    ("over", "wanted"),
    [
        (pa.bool_(), pa.bool_()),
        (pa.int8(), pa.int64()),
        (pa.float32(), pa.float64()),
        *(
            (type_, type_)
            for type_ in (
                *(
                    pa.string(),
                    pa.large_string(),
                    pa.binary(),
                    pa.binary(3),
                    pa.timestamp("ns", "Asia/Tokyo"),
                    pa.timestamp("s"),
                ),
                *(pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns"), pa.duration("ms"), pa.decimal128(20, 3)),
            )
        ),
        (pa.list_(pa.string()), pa.list_(pa.string())),
        (pa.struct([("a", pa.string())]), pa.struct([("a", pa.string())])),
        (pa.dictionary(pa.int8(), pa.string()), pa.string()),
    ],
    ids=str,
)
def test_values_of_the_column_keep_its_type(over: pa.DataType, wanted: pa.DataType) -> None:
    """With unit, zone and digits; numbers are 64 bits wide, as Python's are."""
    assert result(rows(oldest), over) == wanted


def test_a_struct_is_named_as_the_tuple() -> None:
    low_high = namedtuple("low_high", "low high")
    assert str(result(rows(lambda _a: low_high(1, 2.5)), pa.int8())) == "struct<low: int64, high: double>"


def test_several_columns_and_none() -> None:
    assert result(rows(lambda a: a[0][0] * a[0][1]), pa.int8(), pa.float64()) == pa.float64()
    assert result(rows(len)) == pa.int64()
    assert result(GEO, pa.int32()) == pa.float64()


def test_a_column_of_nulls_has_no_samples() -> None:
    assert result(rows(len), pa.null()) == pa.int64()
    assert result(rows(oldest), pa.null()) == pa.null()
    assert result(rows(oldest, empty=0.5), pa.null()) == pa.float64()


def test_a_class_of_a_users_own_is_tried_too() -> None:
    class Longest(sash.monoids.Max):
        def lower(self, a: Any) -> Any:
            return len(str(a))

    assert result(Longest(), pa.string()) == pa.int64()

    class Declared(Longest):
        returns = "int8"

    assert result(Declared(), pa.string()) == pa.int8()


def test_warnings_of_a_probe_are_not_shown() -> None:
    assert result(rows(lambda a: np.float64(1) / np.float64(len(a) - 1)), pa.int8()) == pa.float64()


@pytest.mark.parametrize(
    ("lower", "over", "says"),
    [
        (
            lambda _a: None,
            pa.int8(),
            r"r=odd\('c0'\): the result type of odd could not be found by trying sample values \(every",
        ),
        (
            lambda a: a[0][0].no,
            pa.int8(),
            r"\(it raised AttributeError: .*\): set it with returns='float64' or another Arrow",
        ),
        (
            lambda _a: object(),
            pa.int8(),
            r"odd gave <object .*> on sample values, which have no common Arrow type .*returns=",
        ),
        (lambda a: len(a) if len(a) > 1 else "x", pa.int8(), r"\(the results are of int, str\): set it with returns="),
        (lambda a: len(a) if len(a) > 1 else True, pa.int8(), r"\(the results are of bool, int\)"),
        (lambda _a: [], pa.int8(), r"\(the results are of None alone\)"),
        (lambda _a: (), pa.int8(), r"\(the results are tuples of different lengths, or empty ones\)"),
        (lambda a: (1,) * len(a), pa.int8(), r"\(the results are tuples of different lengths, or empty ones\)"),
        (lambda _a: {1: 2}, pa.int8(), r"\(the fields of a struct must be named by text, not 1\)"),
        (
            lambda _a: __import__("decimal").Decimal(1),
            pa.int8(),
            r"\(samples do not show how many digits a Decimal has\)",
        ),
        (lambda _a: 2**70, pa.int8(), r"which have no common Arrow type"),
    ],
)
def test_a_probe_that_fails_asks_for_returns(lower: Any, over: pa.DataType, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        result(rows(lower, name="odd"), over)
    assert result(rows(lower, name="odd", returns="float64"), over) == pa.float64()


@pytest.mark.parametrize(
    ("returns", "type_"),
    [
        ("float64", pa.float64()),
        ("string", pa.string()),
        ("timestamp[us]", pa.timestamp("us")),
        (pa.list_(pa.int8()), pa.list_(pa.int8())),
    ],
)
def test_declared_result_types_are_used(returns: Any, type_: pa.DataType) -> None:
    monoid = rows(len, returns=returns)
    assert monoid.returns == returns
    assert result(monoid, pa.int8()) == type_


def test_returns_that_is_no_type() -> None:
    with pytest.raises(
        TypeError, match=r"returns= must be an Arrow type or the name of one, such as 'float64'; got <class 'float'>"
    ):
        rows(len, returns=float)
    with pytest.raises(TypeError, match=r"r=.*: returns= must be an Arrow type or the name of one, .*; got 'floaty'"):
        result(rows(len, returns="floaty"), pa.int8())
    assert rows(len).returns is None
    assert sash.monoids.Max().returns is None
