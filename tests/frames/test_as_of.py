"""`sash.as_of`: the events before each row of a spine, on every kind of frame, compared with DuckDB; and errors."""

from datetime import date, datetime
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash
import sash.frames  # registers df.sash
from tests.frames.frame_kinds import KINDS, blurred
from tests.shared.as_of_oracle import brute_force

EVENTS = pa.table(
    {
        "k": ["a", "b", "a", None, "a", "a", "c"],
        "t": pa.array([5, 2, 1, 3, 3, 5, None], pa.int64()),
        "x": pa.array([1.5, 2.0, None, 4.0, 0.5, 3.0, 9.0]),
        "i": pa.array([7, 1, 2, None, 5, 6, 9], pa.int64()),
    }
)
SPINE = pa.table(
    {
        "id": [10, 11, 12, 13, 14, 15, 16],
        "k": ["b", "a", None, "a", "nobody", "a", "c"],
        "t": pa.array([9, 5, 4, 2, 5, None, 5], pa.int64()),
    }
)
WINDOWS: dict[str, Any] = {"3": sash.Time(3), "two": sash.Count(2), "all": sash.Lifetime()}
SUMS: dict[str, Any] = {"n": sash.count(), "total": sash.sum("x"), "last": sash.last("i")}


def test_the_events_before_each_row() -> None:
    found = sash.as_of(SPINE, EVENTS, WINDOWS, by="k", on="t", **SUMS)
    assert found.select(SPINE.schema.names).equals(SPINE)
    assert found.schema.names[3:] == [f"{name}_{window}" for window in WINDOWS for name in SUMS]
    # of a at 5 there are 1 and 3 before it, of which 3 is within 3; c has an event without a time
    assert found["n_3"].to_pylist() == [0, 1, 1, 1, 0, None, 0]
    assert found["n_two"].to_pylist() == [1, 2, 1, 1, 0, None, 0]
    assert found["total_all"].to_pylist() == [2.0, 0.5, 4.0, None, None, None, None]
    assert found["last_all"].to_pylist() == [1, 5, None, 2, None, None, None]


def test_results_may_be_named_as_columns_of_the_events() -> None:
    """Results are added to the columns of the spine, not to those of the events."""
    found = sash.as_of(SPINE, EVENTS, sash.Lifetime(), by="k", on="t", x=sash.sum("x"), i=sash.last("i"))
    assert found.schema.names == [*SPINE.schema.names, "x", "i"]
    assert found["x"].to_pylist() == [2.0, 0.5, 4.0, None, None, None, None]
    assert found["i"].to_pylist() == [1, 5, None, 2, None, None, None]
    with pytest.raises(ValueError, match="two columns 'k', because the spine keeps its columns"):
        sash.as_of(SPINE, EVENTS, sash.Lifetime(), by="k", on="t", k=sash.last("k"))


@pytest.mark.parametrize("closed", ["left", "right", "both", "neither"])
def test_which_ends_belong_to_the_windows(closed: Any) -> None:
    query = sash.Query(WINDOWS, by="k", on="t", **SUMS)
    found = query.as_of(SPINE, EVENTS, closed=closed)
    batches = [table.combine_chunks().to_batches()[0] for table in (SPINE, EVENTS)]
    expected = brute_force(query, *batches, closed)
    assert found.select(expected.schema.names).to_pydict() == expected.to_pydict()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame_gives_its_own(kind: str) -> None:
    made = KINDS[kind]
    # a spine of one kind with events of another
    for events in (made.make(EVENTS), pl.from_arrow(EVENTS), EVENTS.to_pandas()):
        found = sash.as_of(made.make(SPINE), events, sash.Count(2), by="k", on="t", n=sash.count(), best=sash.max("i"))
        assert isinstance(found, made.comes_back)
        rows = blurred(made.rows(found))
        assert [row["id"] for row in rows] == SPINE["id"].to_pylist()
        assert [row["n"] for row in rows] == [1, 2, 1, 1, 0, None, 0]
        assert [row["best"] for row in rows] == [1, 5, None, 2, None, None, None]


def test_compared_with_a_range_join_of_duckdb() -> None:
    random = np.random.default_rng(3)
    events = pa.table(
        {"k": random.integers(0, 20, 3000), "t": random.integers(0, 500, 3000), "x": random.normal(size=3000)}
    )
    spine = pa.table({"id": np.arange(400), "k": random.integers(0, 25, 400), "t": random.integers(-5, 520, 400)})
    found = sash.as_of(
        spine,
        events,
        {"10": sash.Time(10), "100": sash.Time(100)},
        by="k",
        on="t",
        n=sash.count(),
        total=sash.sum("x"),
        high=sash.max("x"),
        mid=sash.median("x"),
        spread=sash.std("x"),
    )
    for size in (10, 100):
        query = (
            "SELECT count(e.k), sum(x), max(x), median(x), stddev_samp(x) FROM spine s LEFT JOIN events e "
            f"ON s.k = e.k AND e.t < s.t AND e.t >= s.t - {size} GROUP BY s.id ORDER BY s.id"
        )
        theirs = duckdb.sql(query).fetchnumpy()
        names = [f"{name}_{size}" for name in ("n", "total", "high", "mid", "spread")]
        for name, column in zip(names, theirs.values(), strict=True):
            expected = np.ma.filled(column.astype(float), np.nan)
            np.testing.assert_allclose(found[name].to_numpy(), expected, rtol=1e-9, atol=1e-12, err_msg=name)


def test_names_that_differ_and_conditions_and_formulas() -> None:
    spine = SPINE.rename_columns(["id", "user", "at"])
    found = sash.as_of(
        spine,
        EVENTS,
        by="k",
        on="t",
        spine_by="user",
        spine_on="at",
        min_periods=1,
        large=sash.count(where="x > 1").over(sash.Lifetime()),
        ratio=sash.sum("i").over(sash.Count(2)) / sash.sum(sash.expr("i * 2")).over(sash.Count(2)),
    )
    assert found.schema.names == ["id", "user", "at", "large", "ratio"]
    assert found["large"].to_pylist() == [1, None, 1, None, None, None, None]
    assert found["ratio"].to_pylist() == [0.5, 0.5, None, 0.5, None, None, None]


def test_a_spine_that_is_its_own_events_equals_rolling() -> None:
    random = np.random.default_rng(8)
    rows = {"k": random.integers(0, 9, 500), "t": random.permutation(500), "x": random.normal(size=500)}
    query = sash.Query({"t": sash.Time(40), "c": sash.Count(7)}, by="k", on="t", s=sash.sum("x"), m=sash.mode("x"))
    mine, theirs = query.as_of(rows, rows, closed="right"), query.run(rows)
    for name in ("s_t", "m_t", "s_c", "m_c"):
        np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-12)


def test_more_rows_than_one_thread_takes_and_any_number_of_threads() -> None:
    random = np.random.default_rng(1)
    count, rows = 300_000, 150_000
    events = {"k": random.integers(0, 50, count), "t": np.sort(random.integers(0, 10**6, count)), "x": np.ones(count)}
    spine = {"k": random.integers(0, 60, rows), "t": random.integers(-10, 10**6, rows)}
    found = [
        sash.as_of(
            spine, events, {"s": sash.Time(5000), "a": sash.Lifetime()}, by="k", on="t", options=options,
            n=sash.count(), total=sash.sum("x")
        )
        for options in (sash.Options(threads=1), sash.Options(threads=3))
    ]  # fmt: skip
    keys = np.argsort(events["k"], kind="stable")
    code = events["k"][keys] * 10**7 + events["t"][keys]
    ends, starts = (np.searchsorted(code, spine["k"] * 10**7 + np.maximum(spine["t"] - by, 0)) for by in (0, 5000))
    for one in found:
        assert (one["n_s"] == ends - starts).all()
        assert (np.nan_to_num(one["total_s"]) == ends - starts).all()
        assert (one["n_a"] == ends - np.searchsorted(code, spine["k"] * 10**7)).all()


def test_results_have_the_types_of_the_events_columns() -> None:
    events = pd.DataFrame({"t": [1, 2], "c": pd.Categorical(["u", "v"]), "f": pd.array([1.5, None], "Float64")})
    asked: dict[str, Any] = {"on": "t", "newest": sash.last("c"), "high": sash.max("f")}
    mine = pd.DataFrame({"t": [3, 1]}).sash.as_of(events, sash.Lifetime(), **asked)
    assert (str(mine["newest"].dtype), str(mine["high"].dtype)) == ("category", "Float64")
    assert mine["newest"].tolist()[0] == "v"
    other = sash.as_of(pl.DataFrame({"t": [3, 1]}), events, sash.Lifetime(), **asked)
    assert other.rows() == [(3, "v", 1.5), (1, None, None)]


def test_a_sketch_over_a_lifetime() -> None:
    found = sash.as_of(SPINE, EVENTS, sash.Lifetime(), by="k", on="t", users=sash.approx_distinct("i"))
    assert [None if value is None else round(value) for value in found["users"].to_pylist()][:2] == [1, 2]


def test_no_rows_on_either_side() -> None:
    arguments: dict[str, Any] = {"by": "k", "on": "t", **SUMS}
    none = sash.as_of(SPINE, EVENTS.slice(0, 0), WINDOWS, **arguments)
    assert none["n_all"].to_pylist() == [0, 0, 0, 0, 0, None, 0]
    assert none["total_3"].null_count == SPINE.num_rows
    full = sash.as_of(SPINE, EVENTS.slice(0, 0), sash.Count(2, full=True), by="k", on="t", n=sash.count())
    assert full["n"].null_count == SPINE.num_rows
    empty = sash.as_of(SPINE.slice(0, 0), EVENTS, WINDOWS, **arguments)
    assert (empty.num_rows, empty.schema) == (0, none.schema)
    assert sash.as_of(SPINE.slice(0, 0), EVENTS.slice(0, 0), WINDOWS, **arguments).schema == none.schema


def test_an_aggregate_of_ones_own_and_its_error() -> None:
    pairs = sash.monoid(
        identity=(1, 0), lift=lambda x: (x, x), combine=lambda a, b: (a[0] * b[0] % 97, a[1] + b[1]),
        lower=lambda a: a[0] + a[1]
    )  # fmt: skip
    query = sash.Query(sash.Count(2), by="k", on="t", p=pairs("i"))
    batches = [table.combine_chunks().to_batches()[0] for table in (SPINE, EVENTS)]
    assert query.as_of(*batches)["p"].to_pylist() == brute_force(query, *batches)["p"].to_pylist()
    large = {"t": np.array([1, 2]), "x": np.array([2**62, 2**62])}
    with pytest.raises(OverflowError, match=r"the aggregate 'total' failed .*in the column 'x'"):
        sash.as_of({"t": np.array([5])}, large, sash.Lifetime(), on="t", total=sash.sum("x"))
    far = {"t": np.array([1, 2]), "x": np.array([-(2**62) - 9, 2**62 + 9])}
    with pytest.raises(OverflowError, match="the aggregate 'd': a difference of integers exceeds 64 bits"):
        sash.as_of({"t": np.array([5])}, far, sash.Lifetime(), on="t", d=sash.delta("x"))


# ---- times and keys of other types ----


def test_times_of_another_unit_or_zone_are_compared_exactly() -> None:
    events = pa.table({"t": pa.array([1, 2, 3], pa.timestamp("s", "UTC")), "x": [1, 10, 100]})
    finer = pa.table({"t": pa.array([2_000_000, 2_000_001, 2_999_999, 3_000_000], pa.timestamp("us", "Asia/Tokyo"))})
    asked: dict[str, Any] = {"on": "t", "s": sash.sum("x")}
    sums = {"left": [1, 11, 11, 11], "right": [11, 11, 11, 111], "both": [11, 11, 11, 111], "neither": [1, 11, 11, 11]}
    for closed, expected in sums.items():
        assert sash.as_of(finer, events, "9s", closed=closed, **asked)["s"].to_pylist() == expected  # type: ignore[arg-type]
    starts = {"left": [1, 10, 10, 10], "right": [10, 10, 10, 100]}
    starts |= {"both": [11, 10, 10, 110], "neither": [None, 10, 10, None]}
    for closed, expected in starts.items():
        assert sash.as_of(finer, events, "1s", closed=closed, **asked)["s"].to_pylist() == expected  # type: ignore[arg-type]
    coarser = pa.table({"t": pa.array([3], pa.timestamp("s", "UTC"))})
    exact = pa.table({"t": pa.array([2_999_999_999, 3_000_000_000], pa.timestamp("ns", "UTC")), "x": [1, 2]})
    assert sash.as_of(coarser, exact, "1s", **asked)["s"].to_pylist() == [1]
    month = sash.as_of(finer, events, "1mo", **asked)
    assert month["s"].to_pylist() == [1, 11, 11, 11]


def test_floats_and_integers() -> None:
    """pandas makes floats of integers with a null."""
    asked: dict[str, Any] = {"on": "t", "s": sash.sum("x")}
    whole, parts = {"t": np.array([1, 2]), "x": np.array([1, 10])}, {"t": np.array([1.0, 1.5, 2.0, np.nan])}
    for closed, expected in {"left": [None, 1, 1, None], "right": [1, 1, 11, None]}.items():
        assert sash.as_of(parts, whole, sash.Time(5), closed=closed, **asked)["s"].tolist() == expected  # type: ignore[arg-type]
    halves = {"t": np.array([0.5, 2.0]), "x": np.array([1, 10])}
    assert sash.as_of({"t": np.array([1, 2, 3])}, halves, sash.Time(2), **asked)["s"].tolist() == [1, 1, 10]


def test_keys_of_other_types_that_compare() -> None:
    spine = {"k": np.array([1, 2], np.int8), "t": np.array([5, 5])}
    events = pd.DataFrame({"k": [1, 1, 3], "t": [1, 2, 3]})
    assert sash.as_of(spine, events, sash.Time(9), by="k", on="t", n=sash.count())["n"].tolist() == [2, 0]
    categories = pd.DataFrame({"k": pd.Categorical(["b", "a"]), "t": [5, 5]})
    others = pd.DataFrame({"k": pd.Categorical(["b", "c", "b"], ["c", "b"]), "t": [1, 2, 3]})
    for mine in (categories, categories.astype({"k": str})):
        found = sash.as_of(mine, others, sash.Time(9), by="k", on="t", n=sash.count())
        assert found["n"].tolist() == [2, 0]


UNLIKE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "zones": (
        {"t": pa.array([1], pa.timestamp("us", "UTC"))},
        {"t": pa.array([1], pa.timestamp("us"))},
        r"the spine's time 't' is of type timestamp\[us, tz=UTC\] and the events' 't' of type timestamp\[us\]: one has",
    ),
    "dates": (
        {"t": [date(2024, 1, 1)]},
        {"t": [datetime(2024, 1, 1)]},
        r"type date32\[day\] and the events' 't' of type timestamp\[us\], which do not compare: cast one",
    ),
    "far floats": ({"t": [1e19]}, {"t": [1]}, r"time 't' holds 1e\+19, which is beyond the events' 't' of type int64"),
    "far integers": ({"t": [2**53 + 1]}, {"t": [1.5]}, "holds 9007199254740993, which is beyond the events' 't'"),
    "numbers": ({"t": [1]}, {"t": pa.array([1], pa.timestamp("us"))}, "which do not compare: cast one"),
    "text": ({"t": ["1"]}, {"t": [1]}, r"on= \(of the spine\) names the column 't' of type string"),
    "keys": (
        {"t": [1], "k": ["1"]},
        {"t": [1], "k": [1]},
        "the spine's column 'k' is of type string and the events' 'k' of type int64, which do not compare",
    ),
    "unsigned keys": (
        {"t": [1], "k": pa.array([2**64 - 1], pa.uint64())},
        {"t": [1], "k": [1]},
        "the spine's column 'k' of type uint64 and the events' 'k' of type int64 hold values that the other cannot",
    ),
    "far": (
        {"t": pa.array([2**60], pa.timestamp("s"))},
        {"t": pa.array([1], pa.timestamp("ns"))},
        "which is beyond the events' 't' of type timestamp",
    ),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_columns_that_do_not_compare_are_refused(name: str) -> None:
    spine, events, message = UNLIKE[name]
    by = ["k"] if "k" in spine else []
    with pytest.raises((TypeError, ValueError), match=message):
        sash.as_of(pa.table(spine), pa.table(events), sash.Count(3), by=by, on="t", n=sash.count())


# ---- what is refused ----

REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "slides": (sash.Time(8, every=4), {}, r"Time\(8, every=4\), has a result for each slide"),
    "delta": (sash.Delta("x", 3), {}, r"Delta\('x', 3\), depends on the row it ends at.*takes Time, Count"),
    "ahead": (sash.Time(8, shift=1), {}, r"Time\(8, shift=1\), holds events after the row's time, which would leak"),
    "closed window": (sash.Time(8, closed="both"), {}, r"closed 'both', and as_of\(\) has closed='left' for all"),
    "closed": (3, {"closed": "up"}, "closed= must be one of"),
    "no time": (3, {"on": None}, r"as_of\(\) compares times: set the column"),
    "spine_by": (3, {"spine_by": ["k", "t"]}, r"names 2 columns of the spine, and by=\['k'\] 1 of the events"),
    "spine_on": (3, {"spine_on": ["k", "t"]}, "spine_on= names the time of the spine, one column"),
    "unknown": (3, {"spine_on": "time"}, r"on= \(of the spine\) names the column 'time', which does not exist"),
    "unknown event": (3, {"s": sash.sum("y")}, "names the column 'y', which does not exist"),
    "taken": (3, {"id": sash.sum("x")}, "two columns 'id', because the spine keeps its columns"),
    "lateness": (3, {"lateness": 5}, r"as_of\(\) has no lateness=, which is for streams: leave it out"),
    "emit": (3, {"emit": sash.sum("x")}, "an aggregate cannot be named 'emit'"),
    "named": (3, {"closed": sash.sum("x")}, "an aggregate cannot be named 'closed'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_is_refused(name: str) -> None:
    windows, arguments, message = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=message):
        sash.as_of(SPINE, EVENTS, windows, **{"by": "k", "on": "t", "n": sash.count(), **arguments})


def test_what_takes_rows_back_and_what_is_no_frame_is_refused() -> None:
    query = sash.Query(3, by="k", on="t", forget=5, n=sash.count())
    with pytest.raises(
        ValueError, match=r"forget=5 removes earlier rows from windows, which as_of\(\) does not support"
    ):
        query.as_of(SPINE, EVENTS)
    with pytest.raises(TypeError, match=r"as_of\(\) takes frames .*; events= is a builtins\.list"):
        sash.as_of(SPINE, [1], 3, on="t", n=sash.count())
    with pytest.raises(TypeError, match=r"spine= is a builtins\.dict whose 'k' is a int"):
        sash.as_of({"k": 1}, EVENTS, 3, on="t", n=sash.count())


def test_a_column_of_events_may_have_the_name_of_a_result() -> None:
    """It is not read, and only the spine's columns are in the output."""
    found = sash.as_of(SPINE, EVENTS, sash.Lifetime(), by="k", on="t", x=sash.count())
    assert found["x"].to_pylist() == [1, 2, 1, 1, 0, None, 0]
