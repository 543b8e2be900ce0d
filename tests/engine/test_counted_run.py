"""The ⊕ that `Queries.explain` counts on a sample are those that structures call."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import sash
from sash.monoids.op_counter import OpCounter

ROWS = pa.record_batch({"k": ["a", "b"] * 100, "t": list(range(200)), "x": [float(i * 7919 % 101) for i in range(200)]})


class Counted(NamedTuple):
    """The ⊕ of queries together, and of each apart."""

    together: int
    apart: dict[str, int]


def counted(queries: sash.Queries) -> Counted:
    """What the explanation says that was counted, of queries that have one operator."""
    found = re.search(r"counted: ([\d,]+) together, [\d,]+ apart \((.*?)\)", queries.explain(sample=ROWS))
    assert found is not None
    apart = (one.rsplit(" ", 1) for one in found[2].split(", "))
    return Counted(int(found[1].replace(",", "")), {name: int(count.replace(",", "")) for name, count in apart})


def own_count(query: sash.Query) -> Any:
    """A query of one aggregate that counts by itself."""
    (name,) = query.aggregates
    counter = OpCounter(query.aggregates[name].monoid)
    made = sash.Query(*query.windows.values(), by=query.by, on=query.on, **{name: counter("x")})
    operator = made.operator(ROWS.schema)
    counter.taken()
    operator.process(ROWS)
    operator.finish()
    return counter.taken()


@pytest.mark.parametrize("window", [10, sash.Time(20), sash.Time(20, every=5)], ids=repr)
@pytest.mark.parametrize("aggregate", [sash.max("x"), sash.first("x")], ids=repr)
def test_apart_is_what_each_takes_alone(window: Any, aggregate: Any) -> None:
    query = sash.Query(window, by="k", on="t", out=aggregate)
    found = counted(sash.Queries(one=query, two=query))
    assert found.together == found.apart["one"] == own_count(query) > 0


def test_many_sizes_cost_about_one() -> None:
    queries = {f"q{n}": sash.Query(10 + n, by="k", high=sash.max("x")) for n in range(20)}
    found = counted(sash.Queries(**queries))
    assert found.together < 2 * found.apart["q0"]
    assert sum(found.apart.values()) > 15 * found.apart["q0"]


def test_aggregates_that_share_a_state_are_counted_once() -> None:
    """The sum is lowered from the state of the mean."""
    queries = sash.Queries(
        mean=sash.Query(10, by="k", out=sash.mean("x")), sum=sash.Query(10, by="k", out=sash.sum("x"))
    )
    found = counted(queries)
    assert found.together == found.apart["mean"] > 0


def test_the_text() -> None:
    queries = sash.Queries(
        short=sash.Query(10, by="k", high=sash.max("x")),
        same=sash.Query(10, by="k", high=sash.max("x")),
        other=sash.Query(3, high=sash.max("x")),
    )
    text = queries.explain(sample=ROWS)
    assert "assumed" not in text
    lines = [line.strip() for line in text.splitlines() if "counted" in line]
    assert len(lines) == 2
    counts = re.fullmatch(
        r"⊕ on 200 rows, counted: (\d+) together, ([\d,]+) apart \(same \1, short \1\), 2× fewer", lines[0]
    )
    assert counts is not None
    assert int(counts[2].replace(",", "")) == 2 * int(counts[1]) > 200
    assert "counted" not in queries.explain(ROWS.schema)


@pytest.mark.parametrize("emit", ["changes", "eager"])
def test_other_emissions(emit: Any) -> None:
    query = sash.Query(sash.Time(20), by="k", on="t", lateness=5, emit=emit, high=sash.max("x"))
    found = counted(sash.Queries(one=query, two=query))
    assert found.together == found.apart["one"] == found.apart["two"] > 0


def test_the_text_has_a_rate_where_the_sample_has_times() -> None:
    times = pa.array([1_000 * t for t in range(200)], pa.timestamp("ms"))
    rows = ROWS.set_column(1, "t", times)
    queries = sash.Queries(one=sash.Query(10, by="k", on="t", high=sash.max("x")))
    together = counted(queries).together
    assert f"⊕ per second, counted: {together / 199:.4g} together" in queries.explain(sample=rows)
    assert "⊕ per second, counted" not in queries.explain(sample=rows.slice(0, 1))
