"""The plan on Spark as text. It needs the schema of a DataFrame, and no session."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.spark import explain
from sash.spark.spark_types import spark_schema

FRAME = SimpleNamespace(schema=spark_schema(pa.schema({"k": pa.string(), "t": pa.int64(), "x": pa.float64()})))


@pytest.mark.parametrize(
    ("window", "arguments", "line"),
    [
        (3, {"by": "k"}, "not split: options=sash.Options(split=n) would spread a hot key"),
        (3, {}, "split: all rows, by ranges of time, into up to spark.sql.shuffle.partitions ranges"),
        (3, {"options": sash.Options(split=1)}, "not split: split=1"),
        (3, {"by": "k", "options": sash.Options(split=8)}, "split: a key with a large share of the rows, by ranges"),
        (sash.Delta("x", 3), {}, "not split: Delta('x', 3) depends on all rows before"),
        (sash.Count(3, shift=-1), {}, "split: all rows, by ranges of time"),
        (sash.Count(3, shift=1), {}, "not split: Count(3, shift=1) holds rows after its own"),
        (sash.Lifetime(), {}, "split: all rows, by ranges of time"),
    ],
)
def test_what_it_says_about_the_split(window: Any, arguments: dict[str, Any], line: str) -> None:
    query = sash.Query(window, on="t", high=sash.max("x"), **arguments)
    text = explain(query, FRAME)
    assert line in text
    assert text.startswith(repr(query))


def test_it_raises_as_the_query_would() -> None:
    with pytest.raises(ValueError, match="have no order"):
        explain(sash.Query(3, n=sash.count()), FRAME)


def test_several_queries() -> None:
    high: Any = {"high": sash.max("x")}
    queries = sash.Queries(
        a=sash.Query(3, by="k", on="t", **high),
        b=sash.Query(sash.Time(4, every=2), by="k", on="t", **high),
        c=sash.Query(3, on="t", **high),
    )
    text = explain(queries, FRAME)
    assert "state 1 of 2: a, b" in text
    assert (
        "  a, b: one shuffle by k, one pass, persisted\n    computed together, with the input columns stored once: a"
        in text
    )
    assert "  c: a plan of its own" in text
