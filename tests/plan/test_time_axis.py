"""Axes: sizes in a column's units, columns as numbers and back, and what has no measure."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sash.plan.bound_query import TimeAxis
from sash.windows import Duration

HOUR = Duration.of("1h")


@pytest.mark.parametrize(
    ("type_", "size", "number"),
    [
        (pa.timestamp("s"), HOUR, 3600),
        (pa.timestamp("ms", "UTC"), HOUR, 3_600_000),
        (pa.timestamp("us", "Europe/Berlin"), HOUR, 3_600_000_000),
        (pa.timestamp("ns"), HOUR, 3_600_000_000_000),
        (pa.timestamp("ns"), Duration(1), 1),
        (pa.timestamp("ns"), Duration(2**63 - 1), 2**63 - 1),
        (pa.date32(), Duration.of("7d"), 7),
        (pa.date64(), Duration.of("7d"), 7 * 86_400_000),
        (pa.int8(), 5, 5),
        (pa.uint64(), 5.0, 5),
        (pa.float32(), 5, 5.0),
        (pa.float64(), 0.1, 0.1),
        (pa.timestamp("s"), 0, 0),
        (pa.dictionary(pa.int8(), pa.timestamp("s")), HOUR, 3600),
    ],
    ids=str,
)
def test_a_size_in_the_columns_units(type_: Any, size: Any, number: Any) -> None:
    found = TimeAxis.of("t", type_).number(size, "size= of Time")
    assert found == number
    assert type(found) is type(number)


@pytest.mark.parametrize(
    ("type_", "size", "error", "says"),
    [
        (
            pa.int64(),
            HOUR,
            TypeError,
            r"is the duration '1h', and the column 't' is of type int64: give a number in the",
        ),
        (
            pa.float64(),
            HOUR,
            TypeError,
            r"is the duration '1h', and the column 't' is of type double: give a number in the column's units, or cast",
        ),
        (
            pa.timestamp("s"),
            5,
            TypeError,
            r"is 5, and the column 't' is of type timestamp\[s\]: give a duration, such as",
        ),
        (pa.date32(), 7, TypeError, r"is 7, and the column 't' is of type date32\[day\]: give a duration"),
        (
            pa.timestamp("s"),
            Duration.of("500ms"),
            ValueError,
            r"is '500ms', not a whole number of s, and the column 't' is",
        ),
        (
            pa.timestamp("us"),
            Duration(1),
            ValueError,
            r"is '1ns', not a whole number of us, .* cast it to timestamp\('ns'\)",
        ),
        (pa.date32(), HOUR, ValueError, r"is '1h', not a whole number of days, and the column 't' is of type date32"),
        (pa.date64(), HOUR, ValueError, r"is '1h', not a whole number of days"),
        (pa.int64(), 2.5, ValueError, r"is 2\.5, and the column 't' is of type int64: give a whole number"),
        (pa.int64(), 2**63, ValueError, r"is 9223372036854775808, beyond 64 bits in the units of the column 't'"),
        (pa.timestamp("ns"), Duration.of("200000d"), ValueError, r"is '200000d', beyond 64 bits .*sash\.Lifetime\(\)"),
    ],
    ids=str,
)
def test_a_size_that_does_not_fit(type_: Any, size: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=r"size= of Time " + says):
        TimeAxis.of("t", type_).number(size, "size= of Time")


@pytest.mark.parametrize(
    "type_",
    [
        pa.string(),
        pa.bool_(),
        pa.decimal128(10, 2),
        pa.time64("us"),
        pa.duration("s"),
        pa.list_(pa.int64()),
        pa.binary(),
        pa.null(),
    ],
    ids=str,
)
def test_what_has_no_measure(type_: Any) -> None:
    with pytest.raises(TypeError, match=r"on= names the column 't' of type .*; it must be a timestamp, a d"):
        TimeAxis.of("t", type_)


@pytest.mark.parametrize(
    "type_",
    [
        *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "Asia/Tokyo")),
        *(pa.date32(), pa.date64(), pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()),
    ],
    ids=str,
)
def test_there_and_back(type_: Any) -> None:
    axis = TimeAxis.of("t", type_)
    step = 86_400_000 if type_ == pa.date64() else 1
    numbers = np.array([0, 1, 100, 7], np.float64 if axis.kind == "float" else np.int64) * step
    array = axis.array(numbers, np.array([True, True, True, False]))
    assert array.type == type_
    assert array.null_count == 1
    found, valid = axis.numbers(array)
    assert found.dtype == (np.float64 if axis.kind == "float" else np.int64)
    assert valid.tolist() == [True, True, True, False]
    assert found[:3].tolist() == numbers[:3].tolist()
    assert axis.array(numbers).null_count == 0


def test_integers_at_their_limits() -> None:
    axis = TimeAxis.of("t", pa.int64())
    limits = [-(2**63), 2**63 - 1, None]
    numbers, valid = axis.numbers(pa.array(limits, pa.int64()))
    assert numbers[:2].tolist() == limits[:2]
    assert axis.array(numbers, valid).to_pylist() == limits


def test_unsigned_integers_beyond_64_bits() -> None:
    axis = TimeAxis.of("t", pa.uint64())
    assert axis.numbers(pa.array([2**63 - 1], pa.uint64()))[0].tolist() == [2**63 - 1]
    with pytest.raises(ValueError, match=r"the column 't' of type uint64 holds integers beyond 2\*\*63 - 1: cast it"):
        axis.numbers(pa.array([2**63], pa.uint64()))


@pytest.mark.parametrize(("type_", "number"), [(pa.uint8(), -1), (pa.int8(), 128), (pa.date32(), 2**40)], ids=str)
def test_a_time_that_does_not_fit_the_column(type_: Any, number: int) -> None:
    with pytest.raises(
        ValueError, match=r"a time measured on the column 't' does not fit its type, .*: cast the column"
    ):
        TimeAxis.of("t", type_).array(np.array([number]))


def test_no_times() -> None:
    """Null, NaN and infinities are not valid, and stand as zeros."""
    found, valid = TimeAxis.of("t", pa.float64()).numbers(
        pa.array([1.5, None, float("nan"), float("inf"), -float("inf")])
    )
    assert valid.tolist() == [True, False, False, False, False]
    assert found.tolist() == [1.5, 0.0, 0.0, 0.0, 0.0]


def test_other_arrays() -> None:
    axis = TimeAxis.of("t", pa.dictionary(pa.int8(), pa.int64()))
    assert axis.type == pa.int64()
    assert axis.numbers(pa.array([5, 3, 5]).dictionary_encode())[0].tolist() == [5, 3, 5]
    assert axis.numbers(pa.chunked_array([[1], [2, None]]))[1].tolist() == [True, True, False]
    assert axis.numbers(pa.array([], pa.int64()))[0].tolist() == []
    assert axis.numbers(pa.array([1, 2, 3])[1:])[0].tolist() == [2, 3]
