"""Aggregates of two columns, on every pair of numeric types with values at the limits of each.

Frames and the operator give what the definition gives: an integer beyond int64 is never taken for a negative one.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.testing import Reference
from tests.shared.discovery import monoids

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
OF_TWO = {name: monoid for name, monoid in monoids().items() if len(monoid.domain) == 2 and name != "longest_run"}
"""`longest_run` gives differences, which leave 64 bits at the limits: the test at the end has it."""

MOMENTS = ("covariance", "correlation", "slope", "intercept")


def near_limits(kind: str, chance: np.random.Generator, count: int) -> pa.Array:
    """Values of a type, most of them at its limits; one is null."""
    values: list[Any]
    if kind == "bool":
        values = [bool(x) for x in chance.integers(0, 2, count)]
    elif kind in INTEGERS:
        limits = np.iinfo(kind)
        near = [*range(limits.max - 9, limits.max + 1), *range(limits.min, limits.min + 5), limits.max // 2 + 1, 3]
        values = [near[place] for place in chance.integers(0, len(near), count)]
    else:
        values = [np.dtype(kind).type(x) for x in chance.integers(-9, 9, count) / 4]
    values[count // 2] = None
    return pa.array(values, pa.bool_() if kind == "bool" else kind)


def admits(bound: Any, schema: pa.Schema) -> bool:
    """Do columns of these types have the aggregate?"""
    try:
        sash.Query(1, x=bound).bind(schema)
    except TypeError:
        return False
    return True


def test_the_aggregates_of_two_columns_are_those_below() -> None:
    known = {"arg_max", "arg_min", "weighted_mean", "covariance", "correlation", "slope", "intercept"}
    assert known == set(OF_TWO)


@pytest.mark.parametrize("name", OF_TWO)
@pytest.mark.parametrize("window", [3, sash.Time(4, every=2)], ids=["rows", "slides"])
def test_frames_and_the_operator_agree_on_every_pair_of_numeric_types(name: str, window: Any) -> None:
    monoid = OF_TWO[name]
    chance = np.random.default_rng(len(name))
    kinds = ("bool", *INTEGERS, *FLOATS)
    columns = {f"{side}_{kind}": near_limits(kind, chance, 24) for side in "xy" for kind in kinds}
    batch = pa.record_batch({"t": pa.array(range(24)), **columns})
    pairs = [(x, y) for x, y in itertools.product(kinds, kinds) if admits(monoid(f"x_{x}", f"y_{y}"), batch.schema)]
    query = sash.Query(window, on="t", **{f"{x}_and_{y}": monoid(f"x_{x}", f"y_{y}") for x, y in pairs})
    reference = Reference(query, batch.schema)
    expected = [reference.process(batch), reference.finish()]
    operator = query.operator(batch.schema)
    live = [operator.process(batch.slice(at, 1)) for at in range(24)]
    for found in (pa.Table.from_batches([*live, operator.finish()]), query.run(pa.Table.from_batches([batch]))):
        assert_columns(found, pa.Table.from_batches(expected), within=1e-12 if name in MOMENTS else 0.0)


def assert_columns(found: pa.Table, expected: pa.Table, within: float) -> None:
    """The columns are equal, floats within a share of the greatest one of their column: products of moments cancel."""
    for name in expected.column_names:
        one, other = (table[name].to_pylist() for table in (found, expected))
        most = max((abs(x) for x in other if isinstance(x, float)), default=0.0) * within
        for x, y in zip(one, other, strict=True):
            assert x == y or (x is not None and y is not None and abs(x - y) <= most), (name, one, other)


@pytest.mark.parametrize(("x", "w"), [("uint64", "int64"), ("int64", "uint64"), ("uint64", "uint64")])
def test_a_weighted_mean_of_integers_close_to_two_to_the_64_is_positive(x: str, w: str) -> None:
    """As int64 they are small negative numbers, which floats hold exactly."""
    values = {kind: [np.iinfo(kind).max - i if kind == "uint64" else i + 1 for i in range(3)] for kind in (x, w)}
    table = pa.table({"x": pa.array(values[x], x), "w": pa.array(values[w], w)})
    found = sash.rolling(table, 3, m=sash.weighted_mean("x", "w"))["m"].to_pylist()
    for end in range(3):
        exact = sum(a * b for a, b in zip(values[x][: end + 1], values[w][: end + 1], strict=True))
        assert found[end] == exact / sum(values[w][: end + 1])


@pytest.mark.parametrize("run", ["frame", "operator"])
def test_a_position_of_longest_run_beyond_int64_is_an_error(run: str) -> None:
    table = pa.table({"on": [True, True], "at": pa.array([2**64 - 2, 2**64 - 1], pa.uint64())})
    query = sash.Query(2, longest=sash.longest_run("on", "at"))
    with pytest.raises((TypeError, OverflowError), match="longest"):
        query.run(table) if run == "frame" else query.operator().process(table)
