"""Medians and quantiles between two decimals, durations or times: exact, on every host."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.monoids.rank_statistics import quantile_place
from sash.testing import Reference, assert_same

KINDS = [
    pa.duration("us"),
    pa.duration("ns"),
    pa.timestamp("ms"),
    pa.timestamp("us", "Europe/Berlin"),
    pa.time32("s"),
    pa.time64("us"),
    pa.date32(),
    pa.date64(),
    pa.decimal128(9, 2),
    pa.decimal128(38, 0),
]
AGGREGATES = {
    "median": sash.median("x"),
    "linear": sash.quantile("x", q=0.3),
    "highest": sash.quantile("x", q=1.0),
    "midpoint": sash.quantile("x", q=0.3, interpolation="midpoint"),
    "lower": sash.quantile("x", q=0.3, interpolation="lower"),
    "mode": sash.mode("x"),
}
WINDOWS = [3, sash.Time(4), sash.Time(6, every=3), sash.Session(3, every="close"), sash.Lifetime(every=5)]


def values(kind: pa.DataType, count: int, seed: int) -> pa.Array:
    """Values of a type, of either sign where it has one, with ties and nulls."""
    chance = np.random.default_rng(seed)
    drawn = chance.integers(0 if pa.types.is_time(kind) else -9, 40, count).tolist()
    if pa.types.is_decimal(kind):
        made: list[Any] = [Decimal(x).scaleb(-kind.scale) for x in drawn]
    elif pa.types.is_date64(kind):
        made = [x * 86_400_000 for x in drawn]
    else:
        made = drawn
    return pa.array([None if at % 7 == 3 else x for at, x in enumerate(made)], kind)


def batch(kind: pa.DataType, count: int = 40) -> pa.RecordBatch:
    keys = [f"k{at % 3}" for at in range(count)]
    return pa.record_batch({"k": keys, "t": list(range(count)), "x": values(kind, count, 5)})


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_frames_and_operators_give_what_the_definition_gives(kind: pa.DataType, window: Any) -> None:
    given = batch(kind)
    query = sash.Query(window, by="k", on="t", **AGGREGATES)  # type: ignore[arg-type]
    reference = Reference(query, given.schema)
    expected = [reference.process(given), reference.finish()]
    operator = query.operator(given.schema)
    live = [operator.process(given.slice(at, 3)) for at in range(0, 40, 3)]
    assert_same([*live, operator.finish()], expected, by=["k"])
    assert_same(query.run(pa.Table.from_batches([given])), expected, by=["k"])


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_results_are_those_of_exact_arithmetic(kind: pa.DataType) -> None:
    given = batch(kind)
    found = sash.rolling(pa.Table.from_batches([given]), 5, middle=sash.median("x"), low=sash.quantile("x", q=0.25))
    rows = [None if x is None else Fraction(x) for x in units(given["x"])]
    for name, q in (("middle", 0.5), ("low", 0.25)):
        column = found[name].combine_chunks()
        assert column.type == result_type(kind)
        for end, result in enumerate(units(column)):
            window = sorted(x for x in rows[max(0, end - 4) : end + 1] if x is not None)
            place, fraction = quantile_place(len(window), q, 0)
            after = window[min(place + 1, len(window) - 1)]
            exact = (window[place] + (after - window[place]) * Fraction(fraction)) * scale_of(kind)
            assert result == half_up(exact), (name, window)


def units(column: pa.Array) -> list[int | None]:
    """Values as integers: decimals without their point, times in units of their type."""
    if pa.types.is_decimal(column.type):
        return [None if x is None else int(x.scaleb(column.type.scale)) for x in column.to_pylist()]
    return column.view(pa.int32() if column.type.bit_width == 32 else pa.int64()).to_pylist()  # type: ignore[no-any-return]


def result_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(38, kind.precision + 4), kind.scale + 4)
    if pa.types.is_date(kind):
        return pa.timestamp("s" if pa.types.is_date32(kind) else "ms")
    return kind


def scale_of(kind: pa.DataType) -> int:
    return 10**4 if pa.types.is_decimal(kind) else 86_400 if pa.types.is_date32(kind) else 1


def half_up(x: Fraction) -> int:
    return int(math.copysign(math.floor(abs(x) + Fraction(1, 2)), x))


@pytest.mark.parametrize("kind", [pa.duration("us"), pa.decimal128(9, 2), pa.date32()], ids=str)
def test_eager_results_lookups_and_state_at_rest_agree(kind: pa.DataType) -> None:
    given = batch(kind)
    query = sash.Query(sash.Count(5), by="k", on="t", lateness=2, emit="eager", middle=sash.median("x"))
    eager = query.operator(given.schema)
    rows = [eager.process(given.slice(at, 7)) for at in range(0, 40, 7)]
    final = sash.Query(sash.Count(5), by="k", on="t", middle=sash.median("x"))
    expected = final.run(pa.Table.from_batches([given]))
    newest = {row["_row"]: row["middle"] for one in rows for row in one.to_pylist()}
    assert [newest[row] for row in sorted(newest)] == expected["middle"].to_pylist()
    operator = final.operator(given.schema)
    operator.process(given.slice(0, 20))
    again = sash.engine.Operator.restore(final, operator.snapshot())
    again.process(given.slice(20))
    last = {row["k"]: row["middle"] for row in expected.to_pylist()}
    assert again.lookup({"k": [*last]})["middle"].to_pylist() == [*last.values()]
    spine = pa.table({"k": ["k0", "k1", "nobody"], "t": [99, 99, 99]})
    now = final.as_of(spine, pa.Table.from_batches([given]))["middle"].to_pylist()
    assert now == [last["k0"], last["k1"], None]


def test_a_loop_takes_objects() -> None:
    window = sash.Window(2, sash.median("x"))
    day = dt.date(2024, 5, 1)
    for low, high, middle in (
        (Decimal("0.10"), Decimal("0.25"), Decimal("0.175000")),
        (dt.timedelta(seconds=1), dt.timedelta(seconds=2), dt.timedelta(seconds=1.5)),
        (dt.datetime(2024, 5, 1), dt.datetime(2024, 5, 2), dt.datetime(2024, 5, 1, 12)),
        (day, day + dt.timedelta(1), dt.datetime(2024, 5, 1, 12)),
        (dt.time(1), dt.time(2), dt.time(1, 30)),
    ):
        window.clear()
        window.push({"x": high})
        assert window.push({"x": low}) == middle


def test_extremes_do_not_overflow() -> None:
    ends = pa.table({"t": pa.array([-(2**63), 2**63 - 1, 2**63 - 1], pa.timestamp("us"))})
    found = sash.rolling(ends, 2, y=sash.median("t"))["y"].combine_chunks().view(pa.int64()).to_pylist()
    assert found == [-(2**63), -1, 2**63 - 1]
    most = Decimal(10**38 - 1)
    with pytest.raises(OverflowError, match="a result of y has more than 38 digits: cast the column to fewer decimal"):
        sash.rolling(pa.table({"x": pa.array([most], pa.decimal128(38, 0))}), 2, y=sash.median("x"))
    with pytest.raises(TypeError, match="decimals of up to 38 digits, durations and times have values between them"):
        sash.rolling(pa.table({"x": pa.array([Decimal(1)], pa.decimal256(50, 0))}), 2, y=sash.median("x"))
