"""Elements that leave the window while they are in the tail of a bucket page are in no segment: state opens again."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.engine import Operator
from sash.stores import MemoryStore

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "x": pa.float64()})


def rows(number: int, keys: int) -> pa.RecordBatch:
    """Few rows per key: windows of some keys move past all that they had in segments and in the tail."""
    draw = np.random.default_rng(number)
    times = np.sort(draw.integers(20 * number, 20 * number + 20, 300))
    return pa.record_batch([draw.integers(0, keys, 300), times, draw.random(300)], schema=SCHEMA)


def results(query: sash.Query, keys: int, reopen: bool) -> list[Any]:
    store, found = MemoryStore(), list[Any]()
    operator = Operator(query, SCHEMA, store=store)
    for number in range(14):
        if reopen:
            operator = Operator(query, SCHEMA, store=store)
        found += operator.process(rows(number, keys)).to_pylist()
    return found


@pytest.mark.parametrize("width", [10, 45])
@pytest.mark.parametrize("keys", [3, 150])
def test_an_operator_that_is_opened_at_each_call_equals_one_that_lives(width: int, keys: int) -> None:
    query = sash.Query(sash.Time(width), by="k", on="t", lateness=0, high=sash.max("x"), n=sash.count())
    assert results(query, keys, reopen=True) == results(query, keys, reopen=False)
