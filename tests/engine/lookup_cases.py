"""Queries and batches for tests of lookups, and helpers that run them."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.engine import Operator
from tests.behaviour.differential import compare_with_reference
from tests.behaviour.test_operator import begin, resume
from tests.shared.streams import Case, StreamStep, sorted_by_key, split

MODES = ("rows", "given", "sorted")
LEAST, GREATEST = -(2**63), 2**63 - 1

SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.int64())])
every_mode = pytest.mark.parametrize("mode", MODES)


def batch(*rows: tuple[Any, ...], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def query(window: Any, **arguments: Any) -> sash.Query:
    arguments = {"by": "k", "on": "t", "lateness": 5, "high": sash.max("x"), "total": sash.sum("x")} | arguments
    return sash.Query(window, **arguments)


def play(window: Any, mode: str, *batches: pa.RecordBatch, **arguments: Any) -> None:
    """Compare the operator, restored from a snapshot after each batch, with the reference."""
    asked = query(window, **arguments)
    if mode == "sorted":
        cuts = np.cumsum([one.num_rows for one in batches])[:-1].tolist()
        whole = pa.concat_batches(batches)
        batches = tuple(split(sorted_by_key(whole, asked), cuts))
    steps = [step for one in batches for step in (StreamStep("process", one), StreamStep("snapshot"))]
    compare_with_reference(
        Case(asked, batches[0].schema, mode, (*steps, StreamStep("finish"), StreamStep("finish"))), begin, resume
    )


def results(asked: sash.Query, batches: list[pa.RecordBatch], mode: str = "rows") -> pa.Table:
    """All results, through a snapshot after each batch."""
    operator, found = asked.operator(mode=mode), []
    for one in batches:
        found.append(operator.process(one))
        operator = Operator.restore(asked, operator.snapshot())
    return pa.Table.from_batches([*found, operator.finish()])


def to_the_end(operator: Operator, data: pa.RecordBatch) -> list[pa.RecordBatch]:
    """All results of a batch and of `finish`."""
    return [operator.process(data), operator.finish()]
