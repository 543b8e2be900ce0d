"""Which aggregates are lowered from the state of another."""

from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Options, Query
from tests.shared.discovery import kinds_of, monoids, sample_rows

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.float64()), ("i", pa.int64()), ("s", pa.string()), ("u", pa.uint64())])


def shared(**aggregates: Any) -> list[dict[str, str]]:
    """What each aggregate of a group reads, by name; the first keeps the state."""
    groups = Query(10, **aggregates).plan(SCHEMA).states
    return [{member.aggregate.name: member.reads for member in group} for group in groups]


def test_a_mean_holds_a_sum_and_a_count() -> None:
    asked = {"total": sash.sum("x"), "average": sash.mean("x"), "n": sash.count("x")}
    assert shared(**asked) == [{"average": "itself", "total": "sum", "n": "count"}]


@pytest.mark.parametrize("column", ["x", "i", "u"])
def test_whatever_the_numbers(column: str) -> None:
    assert shared(a=sash.mean(column), b=sash.sum(column)) == [{"a": "itself", "b": "sum"}]
    assert shared(a=sash.sum(column), b=sash.sum(column)) == [{"a": "itself", "b": "state"}]


def test_variances() -> None:
    asked = {"v": sash.var("x"), "sd": sash.std("x", ddof=0), "m": sash.mean("x"), "w": sash.var("i")}
    assert shared(**asked) == [{"v": "itself", "sd": "state"}, {"m": "itself"}, {"w": "itself"}]


def test_pairs() -> None:
    asked = {"c": sash.covariance("x", "i"), "r": sash.correlation("x", "i"), "other": sash.slope("i", "x")}
    assert shared(**asked) == [{"c": "itself", "r": "state"}, {"other": "itself"}]


def test_a_count_of_values_is_at_hand_wherever_they_are_seen() -> None:
    assert shared(n=sash.count("s"), last=sash.last("s")) == [{"last": "itself", "n": "count"}]
    assert shared(n=sash.count("x", "i"), c=sash.covariance("i", "x")) == [{"c": "itself", "n": "count"}]
    assert shared(n=sash.count("x"), m=sash.count("x")) == [{"n": "itself", "m": "count"}]


def test_what_is_not_shared() -> None:
    assert len(shared(a=sash.sum("x"), b=sash.mean("i"), c=sash.count())) == 3, "other columns"
    assert len(shared(a=sash.skewness("x"), b=sash.kurtosis("x"), c=sash.var("x"))) == 3, "other limits"
    assert len(shared(who=sash.arg_max("x", "s"), n=sash.count("x", "s"))) == 2, "it sees rows with a null payload"
    assert len(shared(a=sash.sum("x"), b=sash.sum_of_squares("x"))) == 2


@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "covariance", "correlation", "slope", "intercept"])
def test_states_are_equal_to_the_last_bit(name: str) -> None:
    """The claim behind the table: the same inputs, combined in the same order, leave the same scalars."""
    keeper = {"sum": "mean", "mean": "sum", "std": "var", "var": "std"}.get(name, "covariance")
    known = monoids()
    for kinds in kinds_of(known[name]):
        mine, theirs = known[name].typed(*kinds), known[keeper].typed(*kinds)
        rows = sample_rows(kinds, 200)
        a, b = mine.identity, theirs.identity
        for row in rows:
            a, b = mine.combine(a, mine.lift(*row)), theirs.combine(b, theirs.lift(*row))
        if name in ("sum", "mean"):
            a, b = (part[-2:] for part in (a, b))
        assert a == b


def test_the_fingerprint_names_the_layout_and_no_options() -> None:
    def of(options: Options | None = None, emit: str = "final") -> str:
        made = {"total": sash.sum("x"), "average": sash.mean("x")}
        return Query(10, options=options, emit=emit, **made).fingerprint(SCHEMA)

    assert of() == of(Options(prefer="latency")) == of(Options(structure="FiBA")) == of(emit="changes")


def test_the_fingerprint_of_a_query_without_sharing_is_as_before() -> None:
    schema = pa.schema([("x", pa.float64())])
    assert Query(10, high=sash.max("x")).fingerprint(schema) == "72f46aa91dad5bfb9c6c0a17990edd1a"
