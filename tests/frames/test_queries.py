"""Several queries on a frame: each result is exactly that of the query alone, and rows are sorted once."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from polars.testing import assert_frame_equal

import sash
from sash.columns import many_sizes as many_sizes_of_frames
from sash.columns import row_order, stateless
from sash.frames import execute
from sash.kernels.column import prefix_sums
from sash.kernels.column.column_kernels import coded
from tests.shared.several_queries import SharedCase, shared_cases

pytestmark = pytest.mark.usefixtures("interpreted_kernels", "column_aggregates")


@given(shared_cases(modes=("given",), emits=("final", "changes")))
def test_together_as_alone(shared: SharedCase) -> None:
    table = shared.case.data
    found = shared.queries.run(table)
    assert list(found) == list(shared.queries.queries)
    for name, query in shared.queries.queries.items():
        alone = query.run(table)
        assert found[name].schema == alone.schema
        assert repr(found[name].to_pylist()) == repr(alone.to_pylist())  # NaN is not equal to itself


def test_one_query_is_the_query() -> None:
    table = pa.table(columns())
    for name, query in some().queries.items():
        assert sash.Queries(**{name: query}).run(table)[name].equals(query.run(table))


def some() -> sash.Queries:
    given: dict[str, Any] = {"by": "k", "on": "t"}
    return sash.Queries(
        row=sash.Query(sash.Time(3), **given, high=sash.max("x"), mean=sash.mean("x")),
        both=sash.Query({"s": sash.Time(3), "c": sash.Count(2)}, **given, min_periods=2, high=sash.max("x")),
        slide=sash.Query(sash.Time(4, every=2), **given, high=sash.max("x"), n=sash.count()),
        changes=sash.Query(2, **given, emit="changes", high=sash.max("x")),
        all=sash.Query(3, on="t", high=sash.max("x")),
        flags=sash.Query(sash.Time(5), **given, lateness=3, late="flag", high=sash.max("x")),
        errors=sash.Query(sash.Time(3, every=3), **given, lateness=1, late="error", high=sash.max("x")),
        forgets=sash.Query(sash.Session(2), **given, forget=6, n=sash.count()),
        ahead=sash.Query(sash.Count(3, shift=1), **given, high=sash.max("x")),
    )


def columns() -> dict[str, Any]:
    random = np.random.default_rng(5)
    return {"k": random.choice(["a", "b", "c"], 60), "t": random.integers(0, 20, 60), "x": random.normal(size=60)}


def test_pandas() -> None:
    frame = pd.DataFrame(columns())
    for name, found in some().run(frame).items():
        pd.testing.assert_frame_equal(found, some().queries[name].run(frame), check_exact=True)


def test_polars() -> None:
    frame = pl.DataFrame(columns())
    for name, found in some().run(frame).items():
        assert_frame_equal(found, some().queries[name].run(frame), check_exact=True)
    for name, lazy in some().run(frame.lazy()).items():
        assert isinstance(lazy, pl.LazyFrame)
        assert_frame_equal(lazy.collect(), some().queries[name].run(frame), check_exact=True)


def test_arrow_and_numpy() -> None:
    table = pa.table(columns())
    for name, found in some().run(table).items():
        assert found.equals(some().queries[name].run(table))
    for name, arrays in some().run(columns()).items():
        for column, values in some().queries[name].run(columns()).items():
            np.testing.assert_array_equal(arrays[column], values)


def test_no_two_frames_have_an_array_in_common() -> None:
    query = sash.Query(3, high=sash.max("x"), mean=sash.mean("x"))
    found = sash.Queries(one=query, two=query, three=sash.Query(3, mean=sash.mean("x"))).run(columns())
    made = [array for frame in found.values() for name, array in frame.items() if name not in columns()]
    for i, array in enumerate(made):
        for other in made[:i]:
            assert not np.shares_memory(array, other)


def test_rows_are_sorted_once_for_each_key_and_order(monkeypatch: pytest.MonkeyPatch) -> None:
    sorted_by: list[Any] = []

    def counted(table: Any, encoded: Any, bound_query: Any, *more: Any, **named: Any) -> Any:
        sorted_by.append(bound_query.by)
        return row_order.order_rows(table, encoded, bound_query, *more, **named)

    for module in (execute, stateless):
        monkeypatch.setattr(module, "order_rows", counted)
    queries = some().queries
    sash.Queries(**{name: queries[name] for name in ("row", "both", "slide", "all")}).run(pa.table(columns()))
    assert sorted_by == [("k",), ()]


def test_columns_are_converted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from sash.frames.dict_adapter import NumpyAdapter

    converted: list[str] = []
    convert = NumpyAdapter.column

    def counted(self: NumpyAdapter, name: str) -> Any:
        converted.append(name)
        return convert(self, name)

    monkeypatch.setattr(NumpyAdapter, "column", counted)
    some().run(columns())
    assert sorted(converted) == ["k", "t", "x"]


def test_results_named_as_the_added_column() -> None:
    """Without a column to read, a column of row numbers is added: neither query may have its name."""
    queries = sash.Queries(a=sash.Query(2, row=sash.count()), b=sash.Query(3, row_=sash.count()))
    found = queries.run({"x": np.zeros(4)})
    assert found["a"]["row"].tolist() == [1, 2, 2, 2]
    assert found["b"]["row_"].tolist() == [1, 2, 3, 3]


def test_a_row_that_one_query_fails_on_is_reported_with_its_name() -> None:
    queries = sash.Queries(
        fine=sash.Query(2, high=sash.max("x")), bad=sash.Query(2, total=sash.sum("x"), high=sash.max("x"))
    )
    with pytest.raises(OverflowError, match="total") as raised:
        queries.run({"x": np.array([2**62, 2**62])})
    assert any("bad" in note for note in raised.value.__notes__)


def test_eager_queries_are_refused() -> None:
    with pytest.raises(ValueError, match="emit='eager'") as raised:
        sash.Queries(now=sash.Query(2, on="t", emit="eager", n=sash.count())).run(columns())
    assert "in the queries now" in raised.value.__notes__


def many_sizes(sizes: list[int], **aggregates: Any) -> sash.Queries:
    return sash.Queries(**{f"last_{n}": sash.Query(n, by="k", on="t", **aggregates) for n in sizes})


@pytest.mark.parametrize("kind", ["floats", "ints", "texts", "nulls", "bools"])
@pytest.mark.parametrize("order", ["by time", "by key", "at random", "without times"])
def test_many_sizes_at_once(kind: str, order: str) -> None:
    random = np.random.default_rng(11)
    values: dict[str, list[Any]] = {
        "floats": [0.0, -0.0, 1.5, -2.0, float("nan"), float("inf")],
        "ints": [0, 1, -1, 2**63 - 1, -(2**63)],
        "texts": ["", "b", "a", "ab"],
        "nulls": [None, 1.0, 2.0],
        "bools": [True, False],
    }
    rows = 90
    x = pa.array([values[kind][i] for i in random.integers(0, len(values[kind]), rows)])
    k, t = random.choice(["a", "b", "c"], rows, p=[0.8, 0.15, 0.05]), np.arange(rows) // 2
    if order == "at random":
        random.shuffle(t)
    times = pa.array(t, mask=random.random(rows) < 0.2 if order == "without times" else None)
    table = pa.table({"k": k, "t": times, "x": x})
    if order == "by key":
        table = table.sort_by([("k", "ascending"), ("t", "ascending")])
    queries = many_sizes([1, 2, 3, 5, 19, 60, 200], high=sash.max("x"), low=sash.min("x"))
    for name, found in queries.run(table).items():
        assert repr(found.to_pylist()) == repr(queries.queries[name].run(table).to_pylist())


def test_each_of_many_sizes_is_joined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[int] = []

    def counted(kernel: Any, arguments: Any) -> Any:
        code = coded(kernel, arguments)

        def run(x: Any, by: int, edges: Any, out: Any) -> None:
            joined.append(by)
            code(x, by, edges, out)

        return run

    monkeypatch.setattr(many_sizes_of_frames, "coded", counted)
    sizes = [1, 2, 7, 9, 10, 16, 30, 59, 400, 500]
    given = {**columns(), "k": np.zeros(60)}
    queries = many_sizes(sizes, high=sash.max("x"))
    found = queries.run(given)
    # 2, 4, 7, 9, 10, 16, 30, 59, 60: windows beyond all 60 rows are equal
    assert sum(joined) == 59
    assert len(joined) == 9
    for name, query in queries.queries.items():
        np.testing.assert_array_equal(found[name]["high"], query.run(given)["high"])


def sums_of(sizes: list[int], window: Any) -> sash.Queries:
    aggregates: Any = {"total": sash.sum("x"), "mean": sash.mean("x")}
    return sash.Queries(**{f"last_{n}": sash.Query(window(n), by="k", on="t", **aggregates) for n in sizes})


@pytest.mark.parametrize("kind", ["halves", "one spike", "infinite", "nulls"])
@pytest.mark.parametrize("order", ["by time", "by key", "at random", "without times"])
@pytest.mark.parametrize("window", [sash.Count, sash.Time, lambda n: sash.Time(n, closed="both")])
def test_sums_of_many_sizes_at_once(window: Any, order: str, kind: str) -> None:
    """Also where results are not certain."""
    random = np.random.default_rng(5)
    rows = 90
    x = random.integers(-8, 9, rows) / 2
    x[40] = {"one spike": 1e300, "infinite": np.inf}.get(kind, 0.5)
    times = np.arange(rows) // 2
    if order == "at random":
        random.shuffle(times)
    table = pa.table(
        {
            "k": random.choice(["a", "b", "c"], rows, p=[0.8, 0.15, 0.05]),
            "t": pa.array(times, mask=random.random(rows) < 0.2 if order == "without times" else None),
            "x": pa.array(x, mask=random.random(rows) < 0.2 if kind == "nulls" else None),
        }
    )
    if order == "by key":
        table = table.sort_by([("k", "ascending"), ("t", "ascending")])
    queries = sums_of([1, 2, 3, 5, 19, 60, 200, 300, 7, 11], window)
    for name, found in queries.run(table).items():
        assert repr(found.to_pylist()) == repr(queries.queries[name].run(table).to_pylist())


@pytest.mark.parametrize("window", [sash.Count, sash.Time])
def test_sums_of_many_sizes_split_a_row_once(window: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Any] = []

    def counted(kernel: Any, arguments: Any) -> Any:
        called.append(kernel)
        return coded(kernel, arguments)

    monkeypatch.setattr(many_sizes_of_frames, "coded", counted)
    given = {**columns(), "k": np.zeros(60), "t": np.arange(60)}
    queries = sums_of([1, 2, 7, 9, 30, 60, 400, 500], window)
    found = queries.run(given)
    rows, ranges = ("sum_of_sizes", "mean_of_sizes"), ("sum_of_ranges", "mean_of_ranges")
    assert called == [getattr(prefix_sums, name) for name in (rows if window is sash.Count else ranges)]
    for name, query in queries.queries.items():
        np.testing.assert_array_equal(found[name]["mean"], query.run(given)["mean"])
