"""Options(failed="side") on frames: null results where something fails, one warning, and all else as without it."""

import random
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pytest

import sash
from tests.engine.test_failed_rows import LIMIT, SIDE, fitting, plus, unlucky

LIFTED = sash.monoid(identity=0, lift=unlucky, combine=plus, lower=lambda a: a, returns="int64")("x")
FAILING: dict[str, Any] = {
    "lifted": LIFTED,
    "total": sash.sum("y"),
    "doubled": sash.max(sash.expr("y + y")),
    "change": sash.delta("y"),
    "rows": sash.count(),
}
TOTAL = sash.monoid(identity=0, lift=lambda y: y, combine=plus, lower=fitting, returns="int64")("y")
WINDOWS: dict[str, Any] = {
    "count": sash.Count(3),
    "time": sash.Time(5),
    "session": sash.Session(2),
    "delta": sash.Delta("d", 4),
    "sliding": sash.Time(6, every=2),
}


def drawn(seed: int) -> pa.Table:
    draw = random.Random(seed)
    rows = [
        {"k": draw.choice("ab"), "t": draw.choice([None, *range(20)]), "x": draw.choice([1, 2, 13]),
         "y": draw.choice([1, 5, LIMIT - 1, LIMIT, -LIMIT])}
        for _ in range(40)
    ]  # fmt: skip
    return pa.Table.from_pylist([row | {"d": row["t"] or 0} for row in rows])


def without(table: pa.Table) -> tuple[list[int], pa.Table]:
    good = [
        i for i, row in enumerate(table.to_pylist()) if row["x"] != 13 and -(2**63) <= 2 * row["y"] < 2**63
    ]  # fmt: skip
    return good, table.take(good)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("emit", ["final", "changes"])
def test_results_are_those_without_the_rows_that_fail(window: str, emit: Any) -> None:
    aggregates = {name: FAILING[name] for name in FAILING if name != "change" or window != "sliding"}
    right = {**aggregates, "total": TOTAL} | ({"change": TOTAL} if "change" in aggregates else {})
    given: Any = {"by": "k", "on": "t", "emit": emit}
    for seed in range(3):
        table = drawn(seed)
        good, rest = without(table)
        with pytest.warns(UserWarning, match=r"rows failed and are in no window.*results failed and are null"):
            found = sash.rolling(table, WINDOWS[window], options=SIDE, **given, **aggregates)
        expected = sash.rolling(rest, WINDOWS[window], **given, **right)
        names = [name for name in aggregates if name != "change"]
        if window == "sliding":
            ends = {(row["k"], row["window_end"]) for row in expected.to_pylist()}
            found = pa.Table.from_pylist(
                [r for r in found.to_pylist() if (r["k"], r["window_end"]) in ends], found.schema
            )
            order = [("k", "ascending"), ("window_end", "ascending")]
            found, expected = found.sort_by(order), expected.sort_by(order)
            assert found.select(names).to_pylist() == expected.select(names).to_pylist()
        elif emit == "final":
            assert found.select(table.column_names).equals(table)
            assert found.take(good).select(names).to_pylist() == expected.select(names).to_pylist()
            bad = [i for i in range(40) if i not in good]
            assert all(found.take(bad).column(name).null_count == len(bad) for name in names)


def test_results_that_fail_are_null_and_counted_once() -> None:
    table = pa.table({"t": [1, 2, 3], "y": [LIMIT, LIMIT, 1]})
    with pytest.warns(
        UserWarning, match=r"^0 rows failed .* 1 results failed .*the aggregate 's' failed with Overflow"
    ):
        found = sash.rolling(table, 2, on="t", options=SIDE, s=sash.sum("y"), n=sash.count())
    assert found["s"].to_pylist() == [LIMIT, None, LIMIT + 1]
    with pytest.warns(
        UserWarning, match=r"^0 rows failed .* 2 results failed .*the result 'p', sum\('y'\) \* sum\('y'\)"
    ):
        found = sash.rolling(table, 1, on="t", options=SIDE, p=sash.sum("y") * sash.sum("y"))
    assert found["p"].to_pylist() == [None, None, 1]
    with pytest.raises(OverflowError, match=r"options=sash.Options\(failed=\"side\"\) goes on without it"):
        sash.rolling(table, 2, on="t", s=sash.sum("y"))
    with pytest.raises(ValueError, match=r"options=sash.Options\(failed=\"side\"\) goes on without it"):
        sash.rolling(table, 2, on="t", s=sash.sum(sash.expr("y * 4")))


def test_queries_fail_alone() -> None:
    table = pa.table({"t": [1, 2, 3], "x": [1, 13, 3], "y": [LIMIT, LIMIT, 1]})
    given: Any = {"on": "t", "options": SIDE}
    queries = sash.Queries(
        n=sash.Query(2, **given, n=sash.count()),
        s=sash.Query(2, **given, s=sash.sum("y")),
        x=sash.Query(2, **given, sum=LIFTED, n=sash.count()),
        w=sash.Query(sash.Time(4, every=2), **given, x=LIFTED, n=sash.count()),
    )
    with pytest.warns(UserWarning, match="failed"):
        found = queries.run(table)
    assert found["n"]["n"].to_pylist() == [1, 2, 2]
    assert found["s"]["s"].to_pylist() == [LIMIT, None, LIMIT + 1]
    assert (found["x"]["sum"].to_pylist(), found["x"]["n"].to_pylist()) == ([1, None, 4], [1, None, 2])
    assert found["w"]["n"].to_pylist() == [1, 2, 1]


@pytest.mark.parametrize("window", [2, sash.Time(2), sash.Session(3), sash.Lifetime()])
def test_events_that_fail_are_in_no_window_of_a_spine(window: Any) -> None:
    events = pa.table({"t": [1, 2, 3, 4, 5, 6], "x": [1, 13, 3, 4, 13, 5], "y": [1, 1, LIMIT - 1, LIMIT - 1, 5, 7]})
    spine = pa.table({"t": [1, 3, 5, 7, None]})
    names: dict[str, Any] = {"lifted": LIFTED, "total": sash.sum("y"), "rows": sash.count()}
    with pytest.warns(UserWarning, match="^2 rows failed"):
        found = sash.as_of(spine, events, window, on="t", options=SIDE, **names, doubled=sash.sum(sash.expr("y + y")))
    rest = events.filter(pa.compute.not_equal(events["x"], 13))
    right = sash.as_of(spine, rest, window, on="t", **(names | {"total": TOTAL}))
    assert found.select([*names]).to_pylist() == right.select([*names]).to_pylist()
