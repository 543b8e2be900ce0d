"""What hosts and queries share: frames equal the reference, several queries equal each alone, slides lie on their grid.

The other claims of queries that a drawn stream seldom meets stand here, too: calendars, limits of integers, threads,
many sizes, retractions, and the words with which rows are refused.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from statistics import variance
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings

import sash
from sash.stores import MemoryStore
from sash.testing import Reference, assert_same
from tests.behaviour.differential import compare, run_step, split_side_output
from tests.shared.queries import loose
from tests.shared.several_queries import SharedCase, shared_cases
from tests.shared.streams import Case, cases, sorted_by_key

# ---- frames ----


@settings(max_examples=40)
@given(cases(modes=("rows",), emits=("final",), lates=("drop",)))
def test_frames_give_what_the_reference_gives(case: Case) -> None:
    """Rows in any order; untimed ones are kept, without results."""
    case = Case(case.query, case.schema, "sorted", case.steps)
    table = case.data.combine_chunks()
    compare_frame(case, (table.to_batches() or [pa.RecordBatch.from_pylist([], schema=case.schema)])[0])


def compare_frame(case: Case, rows: pa.RecordBatch) -> None:
    """Run a query on a frame, and on the reference, which takes rows in order."""
    table = pa.Table.from_batches([rows])
    reference = Reference(case.query, case.schema, mode="sorted")
    try:
        expected = [reference.process(sorted_by_key(rows, case.query)), reference.finish()]
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011 (what it says is tested where the rule is)
            case.query.run(table)
        return
    found = case.query.run(table)
    names = expected[0].schema.names
    assert found.schema.names == names
    mine, my_side = split_side_output(case, found.to_pylist())
    theirs, their_side = split_side_output(case, [row for one in expected for row in one.to_pylist()])
    by = [*case.query.by, *(["window"] if "window" in names else [])]
    assert_same(mine, theirs, by=by, ordered=False, loose=loose(case.query))
    assert_same(my_side, their_side, ordered=False)


def test_frames_keep_the_order_of_their_rows() -> None:
    table = pa.table({"k": ["b", "a", "b", None, "a"], "t": [9, 1, 3, 4, None], "x": [1, 2, 4, 8, 16]})
    found = sash.rolling(table, sash.Time(10), by="k", on="t", total=sash.sum("x"))
    assert found.select(["k", "t", "x"]).equals(table)
    assert found["total"].to_pylist() == [5, 2, 4, 8, None]


PLACES: dict[str, tuple[Any, dict[str, Any]]] = {
    "places of values": (sash.Time(4), {"who": sash.arg_max("x", "w"), "least": sash.arg_min("x", "k")}),
    "values at places": (
        {"a": sash.Time(4), "b": 2},
        {"f": sash.first("x"), "l": sash.last("w"), "n": sash.nth("x", n=2), "e": sash.nth("k", n=-2)},
    ),
    "text": (2, {"high": sash.max("k"), "low": sash.min("w")}),
    "ends": ({"a": sash.Count(2, full=True), "b": sash.Time(3, closed="neither")}, {"n": sash.count("x")}),
    "spread": (sash.Count(3), {"v": sash.var("x"), "s": sash.std("x", ddof=0)}),
    "one's own": (sash.Session(3), {"g": sash.monoid(identity=0.0, lift=abs, combine=lambda a, b: a + b)("x")}),
}


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("by", [(), "k", ("k", "w")])
def test_frames_of_rows_in_no_order(name: str, by: Any) -> None:
    windows, aggregates = PLACES[name]
    rows = pa.record_batch(
        {
            "k": pa.array(["a", "b", "a", None, "b", "a", "a"]),
            "t": pa.array([5, 1, 2, 2, 9, None, 2]),
            "x": pa.array([1.0, None, 4.0, 2.0, 8.0, 3.0, 16.0]),
            "w": pa.array(["u", "v", None, "w", "x", "y", "z"]),
        }
    )
    compare_frame(Case(sash.Query(windows, by=by, on="t", **aggregates), rows.schema, "sorted", ()), rows)


def test_results_that_a_column_kernel_leaves_to_the_aggregate() -> None:
    inf, nan = math.inf, math.nan
    x = [1.0, inf, nan, -inf, 2.0, nan, 1e308, 1e308]
    found = sash.rolling(pa.table({"t": range(8), "x": x}), 2, on="t", total=sash.sum("x"))["total"].to_pylist()
    assert repr(found) == repr([1.0, inf, nan, nan, -inf, nan, nan, inf])


@pytest.mark.parametrize("window", [sash.Time(50), sash.Count(40), sash.Session(3), sash.Time(30, shift=5)], ids=repr)
def test_threads_change_nothing(window: Any) -> None:
    """Each of the threads begins in the middle of keys and windows."""
    chance = random.Random(1)
    rows = 140_000
    times = [number // 3 + chance.randrange(3) * (number % 7 == 0) for number in range(rows)]
    table = pa.table(
        {
            "k": [number * 5 // rows for number in range(rows)],
            "t": times,
            "x": [n % 97 for n in range(rows)],
            "f": [n * 7919 % 61 / 4 for n in range(rows)],
        }
    )
    aggregates: dict[str, Any] = {"n": sash.count()}
    on = () if isinstance(window, sash.Count) else "t"
    if isinstance(window, sash.Time):
        aggregates["high"] = sash.max("x")
    if isinstance(window, sash.Count):
        aggregates |= {name: getattr(sash, name)("f") for name in ("sum", "mean", "var", "min")}
        aggregates |= {"first": sash.first("x"), "total": sash.sum("x")}
    one, three = (
        sash.rolling(table, window, by="k", on=on, options=sash.Options(threads=threads), **aggregates)
        for threads in (1, 3)
    )
    assert one.equals(three)
    for at in range(69_995, 70_045) if isinstance(window, sash.Count) else ():  # in the middle of all rows and of a key
        held = [n * 7919 % 61 / 4 for n in range(at - 39, at + 1)]
        row = {name: three[name][at].as_py() for name in three.column_names}
        assert (row["sum"], row["mean"], row["min"]) == (sum(held), sum(held) / 40, min(held))
        assert (row["first"], row["total"]) == ((at - 39) % 97, sum(n % 97 for n in range(at - 39, at + 1)))
        assert row["var"] == pytest.approx(variance(held), rel=1e-12)
    for at in (0, 1, 27_999, 28_000, 69_999, 70_001, 93_334, rows - 1):
        row = {name: one[name][at].as_py() for name in one.column_names}
        if window == sash.Time(50):
            same = [i for i in range(max(at - 400, 0), min(at + 400, rows)) if at * 5 // rows == i * 5 // rows]
            assert row["n"] == sum(row["t"] - 50 < times[i] <= row["t"] for i in same)


def without_nulls(column: pa.ChunkedArray) -> list[float]:
    """Numbers with NaN for null: `pytest.approx` takes no None."""
    found: list[float] = column.fill_null(math.nan).to_pylist()
    return found


@pytest.mark.parametrize("kind", [int, float])
def test_windows_of_many_sizes_are_as_each_alone(kind: type) -> None:
    chance = random.Random(2)
    rows = 200
    table = pa.table(
        {
            "k": [chance.choice("aab") for _ in range(rows)],
            "t": sorted(kind(chance.randrange(300)) for _ in range(rows)),
            "f": [chance.choice([0.1, 2.5, -3.0, 1e9]) for _ in range(rows)],
        }
    )
    sizes = (3, 1, 17, 5, 5, 40, 300)
    ends = ("left", "right", "both", "neither")
    made = {"low": sash.min("f"), "high": sash.max("f"), "total": sash.sum("f"), "middle": sash.mean("f")}
    for windows in (
        {f"w{size}": sash.Count(size) for size in sizes} | {"again": sash.Count(5)},
        {f"w{size}": sash.Time(size) for size in sizes} | {"again": sash.Time(5)},
        {f"{closed}{size}": sash.Time(size, closed=closed) for size in sizes[:3] for closed in ends},
    ):
        together = sash.rolling(table, windows, by="k", on="t", **made)
        for name, window in windows.items():
            alone = sash.rolling(table, window, by="k", on="t", **made)
            operator = sash.Query(window, by="k", on="t", lateness=0, **made).operator()
            streamed = pa.Table.from_batches([operator.process(table), operator.finish()])
            for label in made:
                expected = pytest.approx(without_nulls(alone[label]), rel=1e-12, nan_ok=True)
                assert without_nulls(together[f"{label}_{name}"]) == expected
                assert without_nulls(streamed[label]) == expected


def test_sums_have_all_their_digits() -> None:
    spikes = [1.0, 1e16, 3.0, -1e16, 0.5, 1e16, 2.0, -1e16, 0.25] * 3
    table = pa.table({"t": range(len(spikes)), "x": spikes})
    whole = sash.rolling(table, 4, on="t", total=sash.sum("x"), middle=sash.mean("x"))
    operator = sash.Query(4, on="t", lateness=0, total=sash.sum("x"), middle=sash.mean("x")).operator()
    streamed = pa.Table.from_batches([operator.process(table), operator.finish()])
    loop = sash.Window(4, sash.monoids.Sum())
    looped = [loop.push(x) for x in spikes]
    for i in range(len(spikes)):
        exact = sum(map(int, (x * 4 for x in spikes[max(i - 3, 0) : i + 1]))) / 4
        held = min(i + 1, 4)
        assert whole["total"][i].as_py() == streamed["total"][i].as_py() == looped[i] == exact
        assert whole["middle"][i].as_py() == streamed["middle"][i].as_py() == exact / held


def test_extremes_of_nan() -> None:
    """A NaN is a value, and takes precedence over every number; a null is none."""
    nan, x = float("nan"), [3.0, None, float("nan"), 1.0, 2.0, 7.0, None, None]
    table = pa.table({"t": range(8), "x": pa.array(x)})
    low, high = [3.0, 3.0, nan, nan, nan, 1.0, 2.0, 7.0], [3.0, 3.0, nan, nan, nan, 7.0, 7.0, 7.0]
    for window in (sash.Count(3), sash.Time(3)):
        query = sash.Query(window, on="t", lateness=0, low=sash.min("x"), high=sash.max("x"))
        operator = query.operator(table.schema)
        for found in (query.run(table), pa.Table.from_batches([operator.process(table), operator.finish()])):
            assert repr(found["low"].to_pylist()) == repr(low)
            assert repr(found["high"].to_pylist()) == repr(high)


def test_sums_of_fractions_beside_spikes() -> None:
    chance = random.Random(4)
    x = [chance.choice([0.1, 0.3, -0.7, 1e-9, 1e16, -1e16]) for _ in range(200)]
    table = pa.table({"t": range(200), "x": x})
    for window, most in ((sash.Count(7), 1), (sash.Time(7), 4)):
        found = sash.rolling(table, window, on="t", total=sash.sum("x"))["total"].to_pylist()
        for i, total in enumerate(found):
            exact = math.fsum(x[max(i - 6, 0) : i + 1])
            assert abs(total - exact) <= most * math.ulp(exact), i


def test_sums_of_panes_that_cancel() -> None:
    table = pa.table({"t": [0, 1, 2, 3], "x": [1e16, 1.0, -1e16, 1.0]})
    found = sash.rolling(table, sash.Time(4, every=2), on="t", total=sash.sum("x"))
    assert found["total"].to_pylist() == [1e16, 2.0, -1e16 + 1]


# ---- several queries ----


def compare_together(shared: SharedCase, store: MemoryStore | None = None) -> None:
    """Run a case on one operator of all queries, and on a reference for each. With a store it is reopened."""
    queries, case = shared.queries, shared.case
    mode: Any = case.mode
    engine = queries.operator(case.schema, mode=mode, store=store)
    truths = {name: Reference(query, case.schema, mode=case.mode) for name, query in queries.queries.items()}
    got: dict[str, list[pa.RecordBatch]] = {name: [] for name in truths}
    expected: dict[str, list[pa.RecordBatch]] = {name: [] for name in truths}
    for step in case.steps:
        if step.call == "snapshot":
            if store is None:
                engine = type(engine).restore(queries, engine.snapshot())
            else:
                engine = queries.operator(case.schema, mode=mode, store=store)
            continue
        try:
            right = {name: run_step(reference, step) for name, reference in truths.items()}
        except ValueError:
            with pytest.raises(ValueError):  # noqa: PT011 (what it says is tested where the rule is)
                getattr(engine, step.call)(*(() if step.argument is None else (step.argument,)))
            break
        found = getattr(engine, step.call)(*(() if step.argument is None else (step.argument,)))
        assert list(found) == list(truths)
        for name in truths:
            assert found[name].schema == right[name].schema
            got[name].append(found[name])
            expected[name].append(right[name])
    for name in truths:
        compare(shared.of(name), got[name], expected[name])


@settings(max_examples=25)
@given(shared_cases(emits=("final", "changes", "eager")))
def test_queries_together_as_each_alone(shared: SharedCase) -> None:
    compare_together(shared)


@settings(max_examples=12)
@given(shared_cases())
def test_queries_together_with_a_store(shared: SharedCase) -> None:
    compare_together(shared, MemoryStore())


def test_queries_that_differ_in_one_argument_keep_their_results_apart() -> None:
    """What they share must not be shared where an argument, a condition, a parameter or a column differs."""
    rows = [{"k": "ab"[i % 3 == 0], "t": i // 2, "x": i * 7 % 11, "y": i * 5 % 13, "b": i % 4 > 1} for i in range(60)]
    table = pa.Table.from_pylist(rows)
    given: dict[str, Any] = {"by": "k", "on": "t", "lateness": 3}
    alone = {
        "plain": sash.Query(sash.Time(6), **given, a=sash.sum("x"), n=sash.count("x")),
        "where": sash.Query(sash.Time(6), **given, a=sash.sum("x", where="b"), n=sash.count("x", where="b")),
        "unless": sash.Query(sash.Time(6), **given, a=sash.sum("x", where="not b"), n=sash.count("x", where="not b")),
        "column": sash.Query(sash.Time(6), **given, a=sash.sum("y"), n=sash.count("y")),
        "closed": sash.Query(sash.Time(6, closed="left"), **given, a=sash.sum("x")),
        "shift": sash.Query(sash.Time(6, shift=-2), **given, a=sash.sum("x")),
        "few": sash.Query(sash.Time(6), **given, min_periods=4, a=sash.sum("x")),
        "ddof": sash.Query(sash.Time(6), **given, a=sash.var("x"), v=sash.var("x", ddof=0), c=sash.std("x", ddof=2)),
        "quantile": sash.Query(sash.Time(6), **given, a=sash.quantile("x", q=0.2), v=sash.quantile("x", q=0.9)),
        "mean": sash.Query(sash.Time(6), **given, a=sash.mean("x"), s=sash.sum("x"), o=sash.sum("y")),
        "slide": sash.Query(sash.Time(6, every=2), **given, a=sash.sum("x"), m=sash.max("x")),
        "offset": sash.Query(sash.Time(6, every=2, offset=1), **given, a=sash.sum("x"), m=sash.max("x")),
        "longer": sash.Query(sash.Time(8, every=4), **given, a=sash.sum("x"), m=sash.max("x")),
        "late": sash.Query(sash.Time(6), by="k", on="t", lateness=9, a=sash.sum("x")),
        "key": sash.Query(sash.Time(6), on="t", lateness=3, a=sash.sum("x")),
    }
    queries = sash.Queries(**alone)
    whole, operator = queries.run(table), queries.operator()
    streamed = [operator.process(table.slice(at, 13)) for at in range(0, 60, 13)] + [operator.finish()]
    for name, query in alone.items():
        own = query.operator()
        right = [own.process(table.slice(at, 13)) for at in range(0, 60, 13)] + [own.finish()]
        for found, expected in zip(streamed, right, strict=True):
            assert_same(found[name], expected, by=query.by)
        assert_same(whole[name], query.run(table))
        reference = Reference(query, table.schema)
        assert_same(
            pa.Table.from_batches(right),
            pa.Table.from_batches([reference.process(table.combine_chunks().to_batches()[0]), reference.finish()]),
            by=query.by, ordered=False,
        )  # fmt: skip


# ---- slides ----


@pytest.mark.parametrize("emit", ["final", "eager"])
@pytest.mark.parametrize("closed", ["left", "right"])
@pytest.mark.parametrize(
    "grid",
    [(6, 2, 0, "end"), (5, 3, 0, "end"), (5, 3, 1, "end"), (5, 3, 0, "start"), (2, 5, 1, "end"), (4, 4, 3, "start")],
)
@pytest.mark.parametrize("units", [1, 0.1])
def test_slides_lie_on_their_grid(grid: tuple[int, int, int, Any], closed: Any, emit: Any, units: float) -> None:
    """Each slide with a row, by its definition; times are integers, or floats of a tenth."""
    size, every, offset, align = grid
    chance = random.Random(size * every)
    ticks = sorted(chance.randrange(-20, 60) for _ in range(40))
    scaled = (lambda value: value) if units == 1 else (lambda value: round(value * units, 1))
    window = sash.Time(scaled(size), every=scaled(every), offset=scaled(offset), closed=closed, align=align)
    query = sash.Query(window, on="t", lateness=scaled(5), emit=emit, held=sash.collect("id"))
    data = {"t": [scaled(tick) for tick in ticks], "id": [*range(40)]}
    operator = query.operator(pa.table(data).schema)
    found: dict[Any, Any] = {}
    for at in range(0, 40, 9):
        for row in operator.process({name: values[at : at + 9] for name, values in data.items()}).to_pylist():
            found[row["window_start"], row["window_end"]] = row["held"]
    for row in operator.finish().to_pylist():
        found[row["window_start"], row["window_end"]] = row["held"]
    right = {}
    for number in range(-40, 60):
        end = offset + number * every if align == "end" else offset + number * every + size
        start = end - size
        some = [
            i for i, tick in enumerate(ticks)
            if (start <= tick < end if closed == "left" else start < tick <= end)
        ]  # fmt: skip
        if some:
            right[scaled(start), scaled(end)] = some
    assert {(round(a, 9), round(b, 9)): held for (a, b), held in found.items()} == right
    if emit == "final":
        table = query.run(pa.table(data)).to_pylist()
        assert {(round(row["window_start"], 9), round(row["window_end"], 9)): row["held"] for row in table} == right


@pytest.mark.parametrize("emit", ["final", "eager"])
def test_slides_by_rows(emit: Any) -> None:
    for size, every in ((3, 2), (2, 3), (4, 4)):
        query = sash.Query(sash.Count(size, every=every), by="k", on="t", lateness=0, emit=emit, held=sash.collect("t"))
        operator = query.operator(pa.schema({"k": "string", "t": "int64"}))
        found = []
        for at in range(0, 40, 7):
            found += operator.process({"k": ["a"] * 7, "t": [*range(at, at + 7)]}).to_pylist()
        found += operator.finish().to_pylist()
        assert [row["held"] for row in found] == [[*range(max(at - size, 0), at)] for at in range(every, 43, every)]
        full = sash.Query(sash.Count(size, every=every, full=True), on="t", n=sash.count())
        got = full.run(pa.table({"t": range(20)}))["n"].to_pylist()
        assert got == [size if at >= size else None for at in range(every, 21, every)]


def last_results(query: sash.Query, data: dict[str, list[Any]], names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """The last result of each row or slide of an operator that gets two rows a call."""
    operator = query.operator(pa.table(data).schema)
    count = len(next(iter(data.values())))
    calls = [{name: values[at : at + 2] for name, values in data.items()} for at in range(0, count, 2)]
    found: dict[Any, Any] = {}
    for one in [*map(operator.process, calls), operator.finish()]:
        for row in one.to_pylist():
            found[row.get("_row", len(found))] = tuple(row[name] for name in names)
    return [*found.values()]


@pytest.mark.parametrize("emit", ["final", "eager"])
def test_rows_and_totals_at_slides_in_time(emit: Any) -> None:
    """A slide with new rows gives the last rows, or all; one without gives none."""
    data: dict[str, list[Any]] = {"t": [1, 2, 3, 4, 7, 8, 16, 17], "id": [*range(8)]}
    for window, right in (
        (sash.Count(3, every=sash.Time(4)), [(4, [0, 1, 2]), (8, [2, 3, 4]), (12, [3, 4, 5]), (20, [5, 6, 7])]),
        (sash.Lifetime(every=sash.Time(4)), [(4, [0, 1, 2]), (8, [*range(5)]), (12, [*range(6)]), (20, [*range(8)])]),
    ):
        query = sash.Query(window, on="t", lateness=2, emit=emit, held=sash.collect("id"))
        assert last_results(query, data, ("window_end", "held")) == right
        if emit == "final":
            table = query.run(pa.table(data))
            assert [*zip(table["window_end"].to_pylist(), table["held"].to_pylist(), strict=True)] == right


@pytest.mark.parametrize("emit", ["final", "eager"])
def test_windows_that_must_be_full(emit: Any) -> None:
    data: dict[str, list[Any]] = {"t": [*range(6)], "x": [5, 1, 2, 8, 3, 4]}
    query = sash.Query(sash.Count(3, full=True), on="t", lateness=1, emit=emit, n=sash.count(), high=sash.max("x"))
    right = [(0, None, None), (1, None, None), (2, 3, 5), (3, 3, 8), (4, 3, 8), (5, 3, 8)]
    assert sorted(last_results(query, data, ("t", "n", "high"))) == right
    assert query.rewritten(emit="final").run(pa.table(data)).select(["n", "high"]).to_pylist() == [
        {"n": n, "high": x} for _, n, x in right
    ]
    loop = sash.Window(sash.Count(3, full=True), sash.monoids.Max())
    assert [loop.push(x) for x in data["x"]] == [high for _, _, high in right]


@pytest.mark.parametrize("emit", ["final", "eager"])
def test_rows_of_equal_time_are_in_the_order_of_further_columns(emit: Any) -> None:
    data: dict[str, list[Any]] = {"t": [1, 2, 2, 2, 2, 3], "q": [0, 3, 1, None, 2, 0], "id": [*range(6)]}
    query = sash.Query(sash.Count(2), on=["t", "q"], lateness=9, emit=emit, held=sash.collect("id"))
    right = [(0, [0]), (1, [4, 1]), (2, [0, 2]), (3, [1, 3]), (4, [2, 4]), (5, [3, 5])]
    assert sorted(last_results(query, data, ("id", "held"))) == right
    whole = query.operator(pa.table(data).schema)
    found = [row for one in (whole.process(data), whole.finish()) for row in one.to_pylist()]
    assert sorted((row["id"], row["held"]) for row in found) == right
    table = query.rewritten(emit="final").run(pa.table(data))
    assert [*zip(table["id"].to_pylist(), table["held"].to_pylist(), strict=True)] == right


@pytest.mark.parametrize("emit", ["final", "eager"])
def test_a_key_restarts_after_forget(emit: Any) -> None:
    data: dict[str, list[Any]] = {"t": [1, 6, 11, 17, 18, 30], "id": [*range(6)]}
    for window in (sash.Count(9), sash.Lifetime(), sash.Time(100)):
        query = sash.Query(window, on="t", lateness=2, emit=emit, forget=5, held=sash.collect("id"))
        right = [(0, [0]), (1, [0, 1]), (2, [0, 1, 2]), (3, [3]), (4, [3, 4]), (5, [5])]
        assert sorted(last_results(query, data, ("id", "held"))) == right
        if emit == "final":
            assert query.run(pa.table(data))["held"].to_pylist() == [held for _, held in right]


@pytest.mark.parametrize("emit", ["final", "eager"])
@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Paris", "UTC"])
def test_days_and_months_of_a_zone(zone: str, emit: Any) -> None:
    """A year of rows each 7 hours, through both changes of the clock."""
    start = datetime(2023, 1, 1, tzinfo=UTC)
    times = [start + timedelta(hours=7 * i) for i in range(1250)]
    column = pa.array(times, pa.timestamp("s", zone))
    own = [time.astimezone(ZoneInfo(zone)) for time in times]

    def counted(window: Any) -> dict[datetime, int]:
        query = sash.Query(window, on="t", lateness="1h", emit=emit, n=sash.count())
        operator = query.operator(pa.schema({"t": column.type}))
        batches = [operator.process({"t": column.slice(at, 400)}) for at in range(0, 1250, 400)]
        return {row["window_start"]: row["n"] for one in [*batches, operator.finish()] for row in one.to_pylist()}

    days = counted(sash.Time("1d", every="1d", tz=zone))
    assert sum(days.values()) == 1250
    for midnight, count in days.items():
        assert (midnight.astimezone(ZoneInfo(zone)).hour, midnight.minute) == (0, 0)
        assert count == sum(time.date() == midnight.astimezone(ZoneInfo(zone)).date() for time in own)
    months = counted(sash.Time("1mo", every="1mo", tz=zone))
    assert len(months) == 12 or zone != "UTC"
    for first, count in months.items():
        day = first.astimezone(ZoneInfo(zone))
        assert (day.day, day.hour) == (1, 0)
        assert count == sum((time.year, time.month) == (day.year, day.month) for time in own)


def test_a_window_of_a_month_before_each_row() -> None:
    times = [
        datetime(2024, 1, 31),
        datetime(2024, 2, 29),
        datetime(2024, 3, 1),
        datetime(2024, 3, 29, 1),
        datetime(2024, 3, 31),
    ]
    table = pa.table({"t": pa.array(times, pa.timestamp("s")), "id": range(5)})
    frame = sash.rolling(table, "1mo", on="t", held=sash.collect("id"))["held"].to_pylist()
    operator = sash.Query("1mo", on="t", lateness="1d", held=sash.collect("id")).operator()
    streamed = pa.Table.from_batches([operator.process(table), operator.finish()])["held"].to_pylist()
    loop = sash.Window(sash.Time("1mo"), sash.monoids.Collect())
    assert frame == streamed == [loop.push(i, time) for i, time in enumerate(times)]
    assert frame == [[0], [0, 1], [1, 2], [2, 3], [2, 3, 4]]


# ---- the watermark, late rows and emission ----


def test_late_untimed_and_in_time() -> None:
    """W is the greatest time less the lateness; a row at W is not late, one below it is."""
    query = sash.Query(sash.Time(10), on="t", lateness=3, n=sash.count())
    operator = query.operator(pa.schema({"t": "int64"}))
    assert operator.watermark is None
    first = operator.process({"t": [5, 9, 7, 2, None, 6, 5]})
    assert (operator.watermark, operator.metrics.late, operator.metrics.untimed) == (6, 2, 1)
    assert [row["t"] for row in operator.late_rows().to_pylist()] == [2, None, 5]
    assert operator.late_rows().num_rows == 0
    assert [(row["t"], row["n"]) for row in first.to_pylist()] == [(5, 1)]
    assert operator.process({"t": [6]}).num_rows == 0  # equal to W
    assert operator.process({"t": [5]}).num_rows == 0
    assert operator.metrics.late == 3
    assert operator.advance(4).num_rows == 0
    assert operator.watermark == 6
    assert [(row["t"], row["n"]) for row in operator.advance(7).to_pylist()] == [(6, 3), (6, 3)]
    assert [(row["t"], row["n"]) for row in operator.advance(8).to_pylist()] == [(7, 4)]
    assert [(row["t"], row["n"]) for row in operator.finish().to_pylist()] == [(9, 5)]
    with pytest.raises(ValueError, match="after finish"):
        operator.process({"t": [99]})
    for times, reached in (([9], 6), ([9, 4], 6), ([-(2**63) + 1], -(2**63)), ([2**63 - 1], 2**63 - 4)):
        started = query.operator(pa.schema({"t": "int64"}))
        started.process({"t": times})
        assert started.watermark == reached
        assert started.metrics.elements == 1


@pytest.mark.parametrize("ties", [(), ("tie",), ("second", "tie")])
def test_rows_leave_in_the_order_of_time_further_columns_and_arrival(ties: tuple[str, ...]) -> None:
    """Rows of many calls of one row, of a few and of hundreds wait; a call that fails in between leaves no row."""
    chance, limits = random.Random(20), (2**63 - 9, 2**63 - 2, -(2**63), -(2**63) + 3)
    query = sash.Query(1, on=["t", *ties], lateness=0, late="error", id=sash.last("row"))
    operator = query.operator(
        pa.schema({"t": "int64", "tie": "string", "second": "int16", "row": "int64"}), mode="given"
    )
    waiting: list[tuple[Any, ...]] = []
    reached, arrived = None, 0
    columns_in_order = [("t", "tie", "second").index(name) for name in ("t", *ties)]

    def place(row: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Nulls come last; the sort is stable, so rows that are equal stay in the order of arrival."""
        return [(True,) if row[column] is None else (False, row[column]) for column in columns_in_order]

    for number in range(140):
        low = -(2**63) if reached is None else reached
        rows = [
            (
                chance.choice(
                    [max(low, number // 9 + chance.randrange(9)), *(limit for limit in limits if limit >= low)]
                ),
                chance.choice([None, "", "a", "b", "ß"]),
                chance.choice([None, -2, 0, 1]),
                arrived + i,
            )
            for i in range(chance.choice([1, 1, 1, 2, 7, 300 if number % 35 == 1 else 1]))
        ]
        arrived += len(rows)
        columns = dict(zip(("t", "tie", "second", "row"), map(list, zip(*rows, strict=True)), strict=True))
        assert operator.process(columns).num_rows == 0
        waiting += rows
        if number % 20 == 19:
            with pytest.raises(ValueError, match="is late"):
                operator.process({"t": [10**6, low - 1], "tie": ["z"] * 2, "second": [9] * 2, "row": [-1, -2]})
        if number % 9 == 8:
            reached = number // 9 + 2
            waiting.sort(key=place)
            gone = [row[3] for row in waiting if row[0] < reached]
            waiting = waiting[len(gone) :]
            assert operator.advance(reached)["id"].to_pylist() == gone
            assert operator.metrics.elements <= len(waiting) + 1
    assert operator.finish()["id"].to_pylist() == [row[3] for row in sorted(waiting, key=place)]


def test_rules_for_late_rows() -> None:
    schema = pa.schema({"t": "int64"})
    flagged = sash.Query(2, on="t", lateness=0, late="flag", n=sash.count()).operator(schema)
    found = [*flagged.process({"t": [5, 3, 6]}).to_pylist(), *flagged.finish().to_pylist()]
    assert {(row["t"], row["n"], row["_late"]) for row in found} == {(3, None, True), (5, 1, False), (6, 2, False)}
    strict = sash.Query(2, on="t", lateness=0, late="error", n=sash.count()).operator(schema)
    strict.process({"t": [5]})
    with pytest.raises(ValueError, match="is late, and late='error' refuses it"):
        strict.process({"t": [4]})
    ordered = sash.Query(2, on="t", n=sash.count()).operator(schema)
    ordered.process({"t": [5, 5]})
    with pytest.raises(ValueError, match="lateness="):
        ordered.process({"t": [4]})
    assert ordered.process({"t": [5]}).num_rows + ordered.finish().num_rows == 3


def test_times_too_far_ahead_of_the_clock_are_untimed() -> None:
    schema = pa.schema({"t": pa.timestamp("s")})
    query = sash.Query("10s", on="t", lateness="0s", ahead="60s", n=sash.count())
    operator = query.operator(schema, clock=lambda: 1000.0)
    operator.process({"t": pa.array([1000, 1060, 1061], pa.timestamp("s"))})
    assert (operator.metrics.untimed, operator.watermark) == (1, 1060)


def test_only_changes_are_emitted() -> None:
    query = sash.Query(3, on="t", lateness=0, emit="changes", high=sash.max("x"), rough=sash.sum("f"))
    exact = sash.Query(3, by="k", on="t", lateness=0, emit="changes", high=sash.max("x"))
    rows = {"k": ["a"] * 8, "t": [*range(8)], "x": [5, 5, 5, 5, 1, 1, 1, 1], "f": [0.5] * 8}
    for one, right in ((exact, [0, 6]), (query, [*range(8)])):
        operator = one.operator()
        found = [*operator.process(rows).to_pylist(), *operator.finish().to_pylist()]
        assert [row["t"] for row in found] == right


def test_eager_revisions_and_retractions() -> None:
    query = sash.Query(
        sash.Time(5), by="k", on="t", lateness=100, emit="eager", retract="gone", high=sash.max("x"), n=sash.count()
    )
    operator = query.operator(pa.schema({"k": "string", "t": "int64", "x": "int64", "gone": "bool"}))

    def call(*rows: tuple[int, int, bool]) -> list[tuple[int, Any, int, int]]:
        times, values, gone = zip(*rows, strict=True)
        found = operator.process({"k": ["a"] * len(rows), "t": times, "x": values, "gone": gone}).to_pylist()
        return [(row["t"], row["high"], row["_row"], row["_revision"]) for row in found]

    assert call((1, 9, False), (3, 3, False), (8, 1, False)) == [(1, 9, 0, 0), (3, 9, 1, 0), (8, 1, 2, 0)]
    assert call((4, 7, False)) == [(4, 9, 3, 0), (8, 7, 2, 1)]
    assert call((2, 0, False)) == [(2, 9, 4, 0), (3, 9, 1, 1), (4, 9, 3, 1)]
    assert call((1, 0, True)) == [(1, None, 0, 1), (2, 0, 4, 1), (3, 3, 1, 2), (4, 7, 3, 2)]
    assert call((1, 0, True)) == []
    assert call((20, 4, False), (20, 6, False), (20, 0, True)) == [(20, 4, 7, 0)]
    assert operator.lookup({"k": ["a"]}, at=20).to_pydict() == {"k": ["a"], "high": [4], "n": [1]}


def test_eager_results_that_have_not_changed_are_not_emitted_again() -> None:
    for made in ({"total": sash.sum("f")}, {"high": sash.max("f")}, {"total": sash.sum("f"), "high": sash.max("f")}):
        operator = sash.Query(sash.Time(5), on="t", lateness=9, emit="eager", **made).operator(
            pa.schema({"t": "int64", "f": "float64"})
        )
        operator.process({"t": [1, 3], "f": [0.5, 0.5]})
        found = operator.process({"t": [2], "f": [None]})
        assert found.select(["t", "_row", "_revision"]).to_pylist() == [{"t": 2, "_row": 2, "_revision": 0}]
        low = operator.process({"t": [2], "f": [-1.0]}).to_pylist()
        assert [row["t"] for row in low] == ([2, 2, 3] if "total" in made else [2])


def test_retractions_of_one_call_and_of_whole_slides() -> None:
    given: dict[str, Any] = {"by": "k", "on": "t", "lateness": 100, "emit": "eager", "retract": "gone"}
    schema = pa.schema({"k": "string", "t": "int64", "x": "int64", "gone": "bool"})
    rows = {"k": ["a"] * 4, "t": [1, 1, 1, 9], "x": [5, 7, 6, 1], "gone": [False] * 4}
    back = {"k": ["a"] * 2, "t": [1, 1], "x": [0, 0], "gone": [True] * 2}
    operator = sash.Query(sash.Time(20), **given, held=sash.collect("x")).operator(schema)
    operator.process(rows)
    left = {(row["_row"], tuple(row["held"] or ())) for row in operator.process(back).to_pylist()}
    assert left == {(0, (5,)), (1, ()), (2, ()), (3, (5, 1))}
    assert operator.lookup({"k": ["a"]}, at=9)["held"].to_pylist() == [[5, 1]]
    counted = sash.Query(sash.Count(3), **given, held=sash.collect("t")).operator(schema)
    counted.process({"k": ["a"] * 5, "t": [*range(5)], "x": [0] * 5, "gone": [False] * 5})
    found = counted.process({"k": ["a"], "t": [0], "x": [0], "gone": [True]}).to_pylist()
    assert [(row["t"], row["held"]) for row in found] == [(0, None), (1, [1]), (2, [1, 2])]
    slides = sash.Query(sash.Time(4, every=4), **given, n=sash.count()).operator(schema)
    slides.process(rows)
    found = slides.process({"k": ["a"] * 3, "t": [1] * 3, "x": [0] * 3, "gone": [True] * 3}).to_pylist()
    assert [(row["window_start"], row["n"], row["_revision"]) for row in found] == [(0, None, 1)]


def test_a_call_that_fails_for_one_query_changes_none() -> None:
    queries = sash.Queries(
        patient=sash.Query(3, on="t", lateness=10, total=sash.sum("x")),
        strict=sash.Query(2, on="t", n=sash.count()),
        keyed=sash.Query(sash.Lifetime(), by="k", on="t", lateness=10, emit="eager", n=sash.count()),
    )
    schema = pa.schema({"k": "string", "t": "int64", "x": "int64"})
    for store in (None, MemoryStore()):
        operator, clean = queries.operator(schema, store=store), queries.operator(schema)
        good = [{"k": ["a"] * 2, "t": [5, 6], "x": [1, 2]}, {"k": ["a"] * 2, "t": [7, 20], "x": [4, 8]}]
        assert operator.process(good[0]) == clean.process(good[0])
        before = operator.watermark, operator.metrics["patient"].rows_in
        with pytest.raises(ValueError, match="lateness="):
            operator.process({"k": ["a"] * 2, "t": [9, 3], "x": [100, 200]})
        assert (operator.watermark, operator.metrics["patient"].rows_in) == before
        assert operator.process(good[1]) == clean.process(good[1])
        assert operator.finish() == clean.finish()


class RefusingStore(MemoryStore):
    """A store that may refuse to write."""

    refuses = False

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        if self.refuses:
            raise OSError("disk full")
        super().put_many(pages)


@pytest.mark.parametrize("several", [False, True])
def test_a_store_that_fails_changes_none_of_several_queries(several: bool) -> None:
    """Queries that share one state, and with one that has its own."""
    more = {"keyed": sash.Query(sash.Lifetime(), by="k", on="t", lateness=10, n=sash.count())} if several else {}
    queries = sash.Queries(patient=sash.Query(3, on="t", lateness=10, total=sash.sum("x")), **more)
    schema, store = pa.schema({"k": "string", "t": "int64", "x": "int64"}), RefusingStore()
    operator, clean = queries.operator(schema, store=store), queries.operator(schema)
    for number, times in enumerate(([5, 6], [7, 20], [21, 40])):
        given, before = {"k": ["a"] * 2, "t": times, "x": [1, 2]}, (operator.watermark, operator.offset)
        store.refuses = True
        with pytest.raises(OSError, match="disk full"):
            operator.process(given, offset=number)
        assert (operator.watermark, operator.offset) == before
        store.refuses = False
        assert operator.process(given, offset=number) == clean.process(given)
    assert operator.finish() == clean.finish()


def test_limits_of_integers() -> None:
    """Times and sums at the limits of 64 bits: windows hold all rows, and an overflow is an error with its row."""
    least, greatest = -(2**63), 2**63 - 1
    table = pa.table({"t": [least, least + 1, 0, greatest - 1], "id": range(4)})
    for window, right in (
        (sash.Time(2), [[0], [0, 1], [2], [3]]),
        (sash.Time(greatest), [[0], [0, 1], [1, 2], [2, 3]]),
        (sash.Time(5, closed="both"), [[0], [0, 1], [2], [3]]),
        (sash.Time(5, shift=-3), [None, None, None, None]),
    ):
        found = sash.rolling(table, window, on="t", held=sash.collect("id"))["held"].to_pylist()
        operator = sash.Query(window, on="t", lateness=1, held=sash.collect("id")).operator(table.schema)
        streamed = pa.Table.from_batches([operator.process(table), operator.finish()])["held"].to_pylist()
        if window == sash.Time(greatest):
            assert found == streamed
            continue
        assert found == streamed == right, window
    big = pa.table({"x": pa.array([2**62, 2**62, -(2**62)])})
    with pytest.raises(OverflowError, match=r"the aggregate 's' failed with OverflowError: the sum left .* at row"):
        sash.rolling(big, 2, s=sash.sum("x"))
    operator = sash.Query(2, s=sash.sum("x")).operator(big.schema)
    with pytest.raises(OverflowError, match="the aggregate 's' failed"):
        operator.process(big)
    assert operator.process({"x": [7]})["s"].to_pylist() == [7], "the failed call has left rows"


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"windows": sash.Time(5)}, ValueError, "measured in time: set its column with on="),
        ({"windows": sash.Count(3), "min_periods": 4}, ValueError, "more than the 3 rows"),
        ({"windows": sash.Time(5, every=2), "on": "t", "late": "flag"}, ValueError, "late='flag' marks rows"),
        ({"windows": {"a": sash.Count(2), "b": sash.Count(2, every=2)}}, ValueError, "one query cannot have both"),
        ({"windows": sash.Count(2, every=2), "on": "t", "emit": "eager", "forget": 5}, ValueError, "with forget="),
        ({"windows": sash.Session(5, every="close"), "on": "t", "emit": "eager"}, ValueError, "every='close'"),
        ({"windows": sash.Count(2), "retract": "b"}, ValueError, "retract="),
        ({"windows": sash.Count(2), "lateness": 3}, ValueError, "lateness=3 is a length of time"),
        ({"windows": sash.Count(2), "emit": "often"}, ValueError, "emit= must be one of"),
        ({"windows": sash.Count(2, shift=1), "emit": "eager"}, ValueError, "because of shift="),
    ],
)
def test_queries_that_are_refused(arguments: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        sash.Query(**arguments, n=sash.count())


def test_arguments_at_their_limits_are_accepted() -> None:
    query = sash.Query(sash.Count(3), min_periods=3, n=sash.count("x"))
    assert query.run(pa.table({"x": [1, 2, 3, 4]}))["n"].to_pylist() == [None, None, 3, 3]
    loop = sash.Window(sash.Time(3), sash.monoids.Sum())
    assert [loop.push(1, 5), loop.push(2, 5)] == [1, 3]
    with pytest.raises(ValueError, match="time=4 is before 5, the last one"):
        loop.push(4, 4)
    assert loop.push(8, 6) == 11


def test_columns_that_do_not_fit_are_named() -> None:
    query = sash.Query(2, by="k", on="t", s=sash.sum("x"))
    with pytest.raises(KeyError, match="did you mean 'x1'"):
        query.run(pa.table({"k": ["a"], "t": [1], "x1": [1]}))
    with pytest.raises(TypeError, match="on= names the column 't' of type string"):
        query.run(pa.table({"k": ["a"], "t": ["1"], "x": [1]}))
    with pytest.raises(ValueError, match="two columns 'x'"):
        sash.rolling(pa.table({"x": [1]}), 2, x=sash.sum("x"))
    falling = sash.Query(sash.Delta("g", 3), by="k", n=sash.count())
    with pytest.raises(ValueError, match="must not decrease"):
        falling.run(pa.table({"k": ["a", "a"], "g": [2, 1]}))
    assert falling.run(pa.table({"k": ["a", "b"], "g": [2, 1]}))["n"].to_pylist() == [1, 1]
    for query in (falling, falling.rewritten(emit="eager")):
        operator = query.operator(pa.schema({"k": "string", "g": "int64"}))
        operator.process({"k": ["a", "b"], "g": [2, 3]})
        with pytest.raises(ValueError, match="must not decrease"):
            operator.process({"k": ["a"], "g": [1]})
        assert operator.process({"k": ["a"], "g": [2]})["n"].to_pylist() == [2]


def test_a_result_that_looks_ahead_waits_for_rows_at_the_end_of_its_window() -> None:
    for closed, first in (("right", 0), ("left", 1)):
        query = sash.Query(sash.Time(4, shift=2, closed=closed), by="k", on="t", lateness=0, held=sash.collect("t"))
        operator = query.operator(pa.schema({"k": "string", "t": "int64"}), mode="given")
        operator.process({"k": ["a", "a"], "t": [10, 11]})
        assert operator.advance(12).num_rows == first
        operator.process({"k": ["a"], "t": [12]})
        rest = [*operator.advance(13).to_pylist(), *operator.finish().to_pylist()]
        held = {row["t"]: row["held"] for row in rest}
        assert held[11] == [10, 11, 12]
        assert held.get(10, "left") == ([10, 11, 12] if closed == "right" else "left")


@pytest.mark.parametrize("structure", ["DABA", "TwoStacks", "FlatFAT", "AMTA"])
def test_structures_keep_their_invariants(structure: str) -> None:
    chance, window = random.Random(structure), getattr(sash.aggregators, structure)(sash.monoids.Concat(separator=""))
    held: list[str] = []
    for _ in range(400):
        if held and chance.random() < 0.45:
            window.evict()
            held.pop(0)
        else:
            held.append(chance.choice("abc"))
            window.insert(held[-1])
        window.check_invariants()
        assert (window.query() or "") == "".join(held)
