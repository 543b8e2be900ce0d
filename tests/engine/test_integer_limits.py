"""Times and values at the limits of 64-bit integers: a difference that would leave them is never computed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sash
from sash.testing.reference import Reference

LEAST, GREATEST = -(2**63), 2**63 - 1
CLOSED = ("right", "left", "both", "neither")
SIZES = (1, 2, 5, 2**62, 2**63 - 2, 2**63 - 1)


def near_limits(chance: np.random.Generator, count: int) -> list[int]:
    """Rising integers, most of them within a few of the limits and of zero."""
    around = (LEAST, -(2**62), 0, 2**62, GREATEST)
    drawn = (int(chance.choice(len(around))) for _ in range(count))
    values = [around[place] + int(chance.integers(-3, 4)) for place in drawn]
    return sorted(min(max(value, LEAST), GREATEST) for value in values)


def windows(size: int) -> list[sash.windows.Window]:
    """Every kind of window whose bounds are differences."""
    times = [sash.Time(size, closed=closed) for closed in CLOSED]
    return [*times, sash.Session(size), sash.Delta("d", size), sash.Count(3), sash.Lifetime()]


@pytest.mark.parametrize("size", SIZES)
def test_every_window_at_the_limits_is_as_defined(size: int) -> None:
    """Whole columns, and an operator row by row."""
    chance = np.random.default_rng(size % 1000)
    for window in windows(size):
        for _ in range(4):
            times, values = near_limits(chance, 12), near_limits(chance, 12)
            keys = np.sort(chance.integers(0, 2, 12)) if isinstance(window, sash.Delta) else chance.integers(0, 2, 12)
            table = pa.record_batch({"k": keys, "t": pa.array(times, pa.int64()), "d": pa.array(values, pa.int64())})
            query = sash.Query(window, by="k", on="t", n=sash.count(), high=sash.max("d"), first=sash.first("d"))
            reference = Reference(query, table.schema)
            expected = pa.Table.from_batches([reference.process(table), reference.finish()])
            operator = query.operator(table.schema)
            found = [operator.process(table.slice(i, 1)) for i in range(table.num_rows)]
            assert by_row(pa.Table.from_batches([*found, operator.finish()])) == by_row(expected), (window, times)
            assert by_row(query.run(pa.Table.from_batches([table]))) == by_row(expected), (window, times)


def by_row(found: pa.Table) -> list[tuple[int, ...]]:
    """The rows in an order of their own: keys with equal times may come in any."""
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_a_window_longer_than_the_calendar_holds_all_rows() -> None:
    """Nanoseconds before 1970, less 100,000 days, are below what 64 bits hold."""
    frame = pd.DataFrame({"t": pd.date_range("1930", periods=5, freq="1000D"), "d": range(5)})
    assert sash.rolling(frame, "100000d", on="t", n=sash.count()).n.tolist() == [1, 2, 3, 4, 5]
    far = pa.table({"t": range(5), "d": pa.array([LEAST + 10 + i for i in range(5)], pa.int64())})
    assert sash.rolling(far, sash.Delta("d", 2**62), on="t", n=sash.count())["n"].to_pylist() == [1, 2, 3, 4, 5]
