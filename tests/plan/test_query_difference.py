"""Queries in words: what has changed from one to another, and which descriptions of a page are believed."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Count, Lifetime, Policy, Query, Time
from sash.plan.fingerprint import described_state, difference, is_description

SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64(), "x": pa.float64()})
GIVEN: dict[str, Any] = {"by": "k", "on": "t"}
HIGH = {"high": sash.max("x")}


def changes(old: Query, new: Query, schema: pa.Schema = SCHEMA) -> list[str]:
    """As a page has the first description: through JSON."""
    before = json.loads(json.dumps(described_state(old.bind(SCHEMA))))
    assert is_description(before)
    return difference(before, described_state(new.bind(schema)))


def own(by: int) -> Any:
    return sash.monoid(identity=0.0, lift=lambda x: x * by, combine=lambda a, b: a + b, returns="float64")


def first_of(total: Any, prefix: Any) -> Any:
    return total - prefix > 3


def last_of(total: Any, prefix: Any) -> Any:
    return total - prefix > 4


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (Query(5, **HIGH), Query(5, **HIGH), []),
        (
            Query(Time(5), **GIVEN, **HIGH),
            Query(Time(5, every=2), **GIVEN, **HIGH),
            ["window Time(5) → Time(5, every=2)"],
        ),
        (
            Query({"a": 5, "b": 3}, **HIGH),
            Query({"a": 4}, **HIGH),
            ["window 'a': 5 → 4", "window 'b': Count(3) removed"],
        ),
        (Query({"a": 5, "b": 3}, **HIGH), Query({"b": 3, "a": 5}, **HIGH), ["the order of windows: a, b → b, a"]),
        (Query(Lifetime(), **HIGH), Query(Count(2, shift=-1), **HIGH), ["window Lifetime() → Count(2, shift=-1)"]),
        (
            Query(5, a=sash.sum("x"), b=sash.max("x")),
            Query(5, b=sash.max("x"), a=sash.sum("x")),
            ["the order of aggregates: a, b → b, a"],
        ),
        (
            Query(5, a=sash.var("x")),
            Query(5, a=sash.var("x", ddof=0)),
            ["aggregate a: var('x') with ddof=1 → var('x') with ddof=0"],
        ),
        (Query(5, f=own(2)("x")), Query(5, f=own(3)("x")), ["the code or the parameters of aggregate f have changed"]),
        (
            Query(Policy(first_of, sash.count()), **HIGH),
            Query(Policy(last_of, sash.count()), **HIGH),
            ["window Policy(first_of, over=count()) → Policy(last_of, over=count())"],
        ),
        (Query(5, min_periods=2, **HIGH), Query(5, **HIGH), ["min_periods: 2 → none"]),
        (
            Query(Time(5), **GIVEN, lateness=3, **HIGH),
            Query(Time(5), on="t", **HIGH),
            ["by: k → nothing", "lateness: 3 → none"],
        ),
    ],
)
def test_a_difference_is_described_in_words(old: Query, new: Query, said: list[str]) -> None:
    assert changes(old, new) == said
    assert (old.fingerprint(SCHEMA) == new.fingerprint(SCHEMA)) == (not said)


def test_columns_are_compared_by_name_and_type() -> None:
    query = Query(5, **HIGH)
    other = pa.schema({"t": pa.int64(), "k": pa.string(), "x": pa.float32()})
    assert changes(query, query, other) == ["column x: double → float", "the order of columns: k, t, x → t, k, x"]
    more = pa.schema({"k": pa.string(), "x": pa.float64(), "y": pa.int8()})
    assert changes(query, query, more) == ["column t removed", "column y of type int8 added"]


@pytest.mark.parametrize(
    "broken",
    [
        *({"windows": 3}, {"windows": {"a": 1}}, {"aggregates": ["x"]}, {"by": "k"}, {"on": [1]}, {"lateness": 3}),
        *({"columns": {"x": None}}, {"keys": []}, {"keys": {"windows": 1}}),
    ],
    ids=repr,
)
def test_a_description_that_is_none_is_passed_over(broken: dict[str, Any]) -> None:
    found = described_state(Query(5, **HIGH).bind(SCHEMA))
    assert is_description(found)
    assert not is_description(found | broken)
    assert not is_description(None)
