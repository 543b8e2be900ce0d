"""Which rows each window holds, by its definition, on every host: frames, operators, eager, loops, as-of and lookups.

`collect("id")` gives the rows of a window, so a wrong bound shows as a row too many, too few, or in a wrong place. The
definitions are written out here once more, without `sash.testing.Reference`.
"""

from __future__ import annotations

import calendar
import datetime as dt
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

import sash

Row = dict[str, Any]
Held = Callable[[list[Row], int], list[Row]]
"""The rows of one key in order, and the number of a row: the rows of the window that ends there."""


def stream(seed: int, rows: int, keys: str = "aab", ties: bool = True) -> list[Row]:
    """Rows in order of time, with peers, gaps, marks, nulls, and a value `g` that never decreases within a key."""
    chance = random.Random(seed)
    time, found, grown = 5, [], dict.fromkeys(keys, 0)
    for number in range(rows):
        time += chance.choice([0, 0, 1, 1, 2, 3, 6] if ties else [1, 1, 2, 3, 6])
        key = chance.choice(keys)
        grown[key] += chance.choice([0, 0, 1, 2])
        x = chance.choice([None, -3, 0, 1, 2, 5, 8])
        found.append({"k": key, "t": time, "id": number, "g": grown[key], "p": chance.random() < 0.2, "x": x})
    return found


SCHEMA = pa.schema(
    [("k", pa.string()), ("t", pa.int64()), ("id", pa.int64()), ("g", pa.int64()), ("p", pa.bool_()), ("x", pa.int64())]
)


def batch(rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def between(low: int, high: int, closed: str) -> Held:
    """The rows from t + low to t + high, with the ends that are closed."""

    def held(rows: list[Row], i: int) -> list[Row]:
        start, end = rows[i]["t"] + low, rows[i]["t"] + high
        return [
            row
            for row in rows
            if (start < row["t"] or (start == row["t"] and closed in ("left", "both")))
            and (row["t"] < end or (row["t"] == end and closed in ("right", "both")))
        ]

    return held


def session(rows: list[Row], i: int) -> list[Row]:
    start = max((j for j in range(1, i + 1) if rows[j]["t"] - rows[j - 1]["t"] > 3), default=0)
    return [row for row in rows[start:] if row["t"] <= rows[i]["t"]]


def punctuated(rows: list[Row], i: int) -> list[Row]:
    return rows[max((j + 1 for j in range(i) if rows[j]["p"]), default=0) : i + 1]


WINDOWS: dict[str, tuple[Any, Held]] = {
    "count": (sash.Count(3), lambda rows, i: rows[max(i - 2, 0) : i + 1]),
    "count long": (sash.Count(20), lambda rows, i: rows[max(i - 19, 0) : i + 1]),
    "count before": (sash.Count(3, shift=-2), lambda rows, i: rows[max(i - 4, 0) : max(i - 1, 0)]),
    "count ahead": (sash.Count(4, shift=2), lambda rows, i: rows[max(i - 1, 0) : i + 3]),
    "time": (sash.Time(4), between(-4, 0, "right")),
    "time long": (sash.Time(50), between(-50, 0, "right")),
    "time left": (sash.Time(4, closed="left"), between(-4, 0, "left")),
    "time both": (sash.Time(4, closed="both"), between(-4, 0, "both")),
    "time neither": (sash.Time(4, closed="neither"), between(-4, 0, "neither")),
    "time before": (sash.Time(4, shift=-3), between(-7, -3, "right")),
    "time before both": (sash.Time(4, shift=-3, closed="both"), between(-7, -3, "both")),
    "time ahead": (sash.Time(4, shift=2), between(-2, 2, "right")),
    "delta": (sash.Delta("g", 3), lambda rows, i: [row for row in rows[: i + 1] if rows[i]["g"] - row["g"] < 3]),
    "session": (sash.Session(3), session),
    "punctuation": (sash.Punctuation("p"), punctuated),
    "lifetime": (sash.Lifetime(), lambda rows, i: [row for row in rows if row["t"] <= rows[i]["t"]]),
}


def expected(rows: list[Row], held: Held) -> dict[int, list[Row]]:
    """The rows of the window that ends at each row, by its id."""
    found = {}
    for key in {row["k"] for row in rows}:
        mine = [row for row in rows if row["k"] == key]
        found |= {row["id"]: held(mine, i) for i, row in enumerate(mine)}
    return found


def ids(rows: list[Row]) -> list[int] | None:
    return [row["id"] for row in rows] or None


def shuffled(rows: list[Row], seed: int, reach: int) -> list[Row]:
    """The rows out of order: each at most `reach` behind; rows of equal time keep their order."""
    chance = random.Random(seed)
    delay: dict[int, float] = {}
    for row in rows:
        delay.setdefault(row["t"], row["t"] + chance.random() * reach)
    return sorted(rows, key=lambda row: delay[row["t"]])


def collected(found: Any) -> dict[int, Any]:
    """The last result of each row."""
    batches = found if isinstance(found, list) else [found]
    return {row["id"]: row["held"] for one in batches for row in one.to_pylist()}


def query_of(window: Any, **arguments: Any) -> sash.Query:
    return sash.Query(window, by="k", on="t", **arguments, held=sash.collect("id"))


@pytest.mark.parametrize("name", WINDOWS)
def test_rows_of_windows_on_frames(name: str) -> None:
    window, held = WINDOWS[name]
    rows = stream(1, 300)
    right = {number: ids(some) for number, some in expected(rows, held).items()}
    chance = random.Random(2)
    mixed = shuffled(rows, 3, 1000)
    for given in (rows, mixed):
        assert collected(query_of(window).run(pa.Table.from_batches([batch(given)]))) == right
    chance.shuffle(mixed)
    found = query_of(window).run(pa.Table.from_batches([batch([row | {"t": row["id"]} for row in mixed])]))
    by_row = [row | {"t": row["id"]} for row in rows]
    assert collected(found) == {number: ids(some) for number, some in expected(by_row, held).items()}


@pytest.mark.parametrize("name", WINDOWS)
def test_rows_of_windows_on_operators(name: str) -> None:
    """In calls of several sizes, out of order, restored from a snapshot and opened from a store in the middle."""
    window, held = WINDOWS[name]
    rows = stream(4, 120)
    right = {number: ids(some) for number, some in expected(rows, held).items()}
    given = shuffled(rows, 5, 8)
    query = query_of(window, lateness=9)
    for store in (None, sash.stores.MemoryStore()):
        operator, found, at = query.operator(SCHEMA, store=store), [], 0
        for size in (1, 1, 5, 20, 1, 40, 2, 50):
            found.append(operator.process(batch(given[at : at + size])))
            at += size
            if store is None:
                operator = sash.engine.Operator.restore(query, operator.snapshot())
            else:
                operator = query.operator(SCHEMA, store=store)
        assert operator.metrics.late == 0
        assert collected([*found, operator.finish()]) == right


@pytest.mark.parametrize("name", [name for name in WINDOWS if name.split()[-1] not in ("before", "ahead", "both")])
def test_rows_of_windows_on_eager_operators(name: str) -> None:
    window, held = WINDOWS[name]
    if name == "punctuation":
        with pytest.raises(ValueError, match="does not support"):
            query_of(window, emit="eager")
        return
    rows = stream(6, 100)
    right = {number: ids(some) for number, some in expected(rows, held).items()}
    given = shuffled(rows, 7, 12)
    if name == "delta":
        given = rows
    operator = query_of(window, lateness=15, emit="eager").operator(SCHEMA)
    found = [operator.process(batch(given[at : at + 7])) for at in range(0, 100, 7)]
    assert operator.metrics.late == 0
    assert collected([*found, operator.finish()]) == right


@pytest.mark.parametrize("emit", ["final", "eager"])
@pytest.mark.parametrize("closed", ["left", "right", "both", "neither"])
def test_rows_of_windows_on_times_that_are_floats(closed: Any, emit: Any) -> None:
    rows = stream(16, 60)
    right = {number: ids(some) for number, some in expected(rows, between(-4, 0, closed)).items()}
    table = pa.table({"k": [row["k"] for row in rows], "t": [row["t"] / 4 for row in rows], "id": [*range(60)]})
    query = query_of(sash.Time(1.0, closed=closed), lateness=0.5, emit=emit)
    operator = query.operator(table.schema)
    found = [operator.process(table.slice(at, 7).combine_chunks()) for at in range(0, 60, 7)]
    assert collected([*found, operator.finish()]) == right
    if emit == "final":
        assert collected(query.run(table)) == right


@pytest.mark.parametrize("name", [name for name in WINDOWS if not name.endswith("ahead")])
def test_rows_of_windows_in_a_loop(name: str) -> None:
    """One event at a time: peers are those pushed before."""
    window, held = WINDOWS[name]
    rows = stream(8, 80, "a", ties=False)
    loop = sash.Window(window, held=sash.collect("id"), n=sash.count())
    for i, row in enumerate(rows):
        found = loop.push(row, row["t"])
        right = held(rows[: i + 1], i)
        assert (found["held"], found["n"]) == (ids(right), len(right)), (i, row)


def test_a_loop_that_advances_without_events() -> None:
    rows = stream(9, 40, "a", ties=False)
    for name in ("time", "time left", "time both", "time neither"):
        closed = name.partition(" ")[2] or "right"
        loop = sash.Window(WINDOWS[name][0], held=sash.collect("id"))
        for row, following in pairwise(rows):
            loop.push(row, row["t"])
            for now in range(row["t"] + 1, following["t"]):
                some = [one for one in rows if one["t"] <= row["t"]]
                right = between(-4, 0, closed)([*some, {"t": now, "id": None}], len(some))
                assert loop.advance(now)["held"] == ids([one for one in right if one["id"] is not None]), (name, now)
    gap = sash.Window(sash.Session(3), held=sash.collect("id"))
    gap.push({"id": 1}, 10)
    assert [gap.advance(now)["held"] for now in (12, 13, 14)] == [[1], [1], None]


# ---- at the rows of a spine, and by lookups ----


def at_time(name: str, rows: list[Row], now: int, closed: str) -> list[Row]:
    """The rows of a window that ends at a time without a row, by `closed`."""
    before = [row for row in rows if row["t"] < now or (row["t"] == now and closed in ("right", "both"))]
    if name == "time":
        return between(-4, 0, closed)([*rows, {"t": now}], len(rows))
    if name == "count":
        return before[-3:]
    if name == "count before":
        return before[-5:-2]
    if name == "session":
        start = max((j for j in range(1, len(before)) if before[j]["t"] - before[j - 1]["t"] > 3), default=0)
        return before[start:] if before and now - before[-1]["t"] <= 3 else []
    if name == "time before":
        return between(-7, -3, closed)([*rows, {"t": now}], len(rows))
    return before


@pytest.mark.parametrize("closed", ["left", "right", "both", "neither"])
@pytest.mark.parametrize("name", ["time", "time before", "count", "count before", "session", "lifetime"])
def test_rows_of_windows_as_of_a_spine(name: str, closed: Any) -> None:
    rows = stream(10, 120)
    chance = random.Random(11)
    spine = [{"k": chance.choice("abz"), "t": chance.randrange(0, rows[-1]["t"] + 9)} for _ in range(90)]
    events = rows.copy()
    table = pa.Table.from_pylist(spine, schema=SCHEMA.empty_table().select(["k", "t"]).schema)
    found = query_of(WINDOWS[name][0]).as_of(table, pa.Table.from_batches([batch(events)]), closed=closed)
    assert found.select(["k", "t"]).to_pylist() == spine
    for row, got in zip(spine, found["held"].to_pylist(), strict=True):
        mine = [one for one in rows if one["k"] == row["k"]]
        right = [one for one in at_time(name, mine, row["t"], closed) if "id" in one]
        assert got == ids(right), row


def test_a_spine_in_finer_units_than_its_events() -> None:
    events = pa.table({"t": pa.array([1, 2, 3, 4], pa.timestamp("s")), "id": [1, 2, 3, 4]})
    spine = pa.table({"t": pa.array([2000, 2500, 3000, 3001], pa.timestamp("ms"))})
    found = {
        closed: sash.as_of(spine, events, "2s", on="t", closed=closed, held=sash.collect("id"))["held"].to_pylist()
        for closed in ("left", "right", "both", "neither")
    }
    assert found == {
        "left": [[1], [1, 2], [1, 2], [2, 3]],
        "right": [[1, 2], [1, 2], [2, 3], [2, 3]],
        "both": [[1, 2], [1, 2], [1, 2, 3], [2, 3]],
        "neither": [[1], [1, 2], [2], [2, 3]],
    }


@pytest.mark.parametrize("emit", ["final", "eager"])
@pytest.mark.parametrize("name", ["time", "time left", "time both", "time neither", "count", "session", "lifetime"])
def test_lookups_at_a_time(name: str, emit: Any) -> None:
    """With rows below the watermark, rows that wait above it, and times after all of them; nothing changes."""
    rows = stream(12, 60)
    operator = query_of(WINDOWS[name][0], lateness=6, emit=emit).operator(SCHEMA)
    for at in range(0, 60, 9):
        operator.process(batch(rows[at : at + 9]))
        seen = rows[: at + 9]
        before = operator.snapshot()
        for now in [*range(seen[-1]["t"] - 5, seen[-1]["t"] + 6), seen[-1]["t"] + 99]:
            closed = name.partition(" ")[2] or "right"
            found = operator.lookup({"k": ["b", "a", "z"]}, at=now).to_pylist()
            for row in found:
                mine = [one for one in seen if one["k"] == row["k"]]
                right = [one for one in at_time(name.partition(" ")[0], mine, now, closed) if "id" in one]
                assert row["held"] == ids(right), (row, now)
        assert operator.snapshot() == before
    with pytest.raises(ValueError, match="watermark"):
        operator.lookup({"k": ["a"]}, at=rows[-1]["t"] - 7)


@pytest.mark.parametrize("closed", ["left", "right", "neither"])
@pytest.mark.parametrize("name", ["time", "count", "session", "lifetime"])
@pytest.mark.parametrize("emit", ["final", "eager"])
def test_lookups_with_ends_as_those_of_a_spine(name: str, closed: Any, emit: Any) -> None:
    rows = stream(15, 50)
    window = sash.Time(4, closed=closed) if name == "time" else WINDOWS[name][0]
    operator = query_of(window, lateness=6, emit=emit).operator(SCHEMA)
    operator.process(batch(rows))
    for now in range(rows[-1]["t"] - 5, rows[-1]["t"] + 8):
        for row in operator.lookup({"k": ["a", "b"]}, at=now, closed=closed).to_pylist():
            mine = [one for one in rows if one["k"] == row["k"]]
            right = [one for one in at_time(name, mine, now, closed) if "id" in one]
            assert row["held"] == ids(right), (row, now)


@pytest.mark.parametrize("shift", [-2, -1, 1])
def test_lookups_of_windows_that_are_moved_by_rows(shift: int) -> None:
    """The window of the newest row at a time: moved back it leaves out the newest, moved on it begins later."""
    rows = stream(17, 40)
    operator = query_of(sash.Count(3, shift=shift), lateness=6).operator(SCHEMA)
    operator.process(batch(rows))
    for now in (rows[-1]["t"], rows[-1]["t"] + 3):
        for row in operator.lookup({"k": ["a", "b"]}, at=now).to_pylist():
            mine = [one for one in rows if one["k"] == row["k"] and one["t"] <= now]
            end = len(mine) + shift
            assert row["held"] == ids(mine[max(0, end - 3) : max(0, end)]), (row, now)


@pytest.mark.parametrize("emit", ["final", "eager"])
def test_lookups_of_forgotten_keys(emit: Any) -> None:
    operator = query_of(sash.Count(9), lateness=0, emit=emit, forget=10).operator(SCHEMA)
    operator.process(batch([{"k": "a", "t": 5, "id": 1}, {"k": "b", "t": 9, "id": 2}]))
    found = [operator.lookup({"k": ["a", "b"]}, at=now)["held"].to_pylist() for now in (9, 15, 16, 19, 20)]
    assert found == [[[1], [2]], [[1], [2]], [None, [2]], [None, [2]], [None, None]]


@pytest.mark.parametrize("last", [1, 2, 3])
def test_lookups_of_a_shorter_range(last: int) -> None:
    rows = stream(13, 40)
    for window in (sash.Count(3), sash.Time(4)):
        operator = query_of(window, lateness=0).operator(SCHEMA)
        operator.process(batch(rows))
        now = rows[-1]["t"]
        for row in operator.lookup({"k": ["a", "b"]}, last=last).to_pylist():
            mine = [one for one in rows if one["k"] == row["k"]]
            right = mine[-last:] if isinstance(window, sash.Count) else [one for one in mine if one["t"] > now - last]
            assert row["held"] == ids(right)


def test_windows_of_months_that_are_moved_by_days() -> None:
    """The month that ends some days before a row, on frames, through operators and by the definition."""
    days = [
        dt.datetime(2024, month, day)
        for month in (1, 2, 3, 4)
        for day in (1, 2, 15, 28, 29, 30)
        if (month, day) != (2, 30)
    ]
    table = pa.table({"t": pa.array(days, pa.timestamp("s")), "id": range(len(days))})
    query = sash.Query(sash.Time("1mo", shift="-2d"), on="t", held=sash.collect("id"))
    wanted = []
    for now in days:
        end = now - dt.timedelta(days=2)
        year, month = (end.year, end.month - 1) if end.month > 1 else (end.year - 1, 12)
        start = end.replace(year=year, month=month, day=min(end.day, calendar.monthrange(year, month)[1]))
        wanted.append([i for i, day in enumerate(days) if start < day <= end] or None)
    assert query.run(table)["held"].to_pylist() == wanted
    assert pa.Table.from_batches(list(query.run(iter(table.to_batches(7)))))["held"].to_pylist() == wanted


# ---- what aggregates make of the rows ----


def mean(values: list[int]) -> float | None:
    return sum(values) / len(values) if values else None


def variance(values: list[int], ddof: int) -> float | None:
    if len(values) <= ddof:
        return None
    middle = sum(values) / len(values)
    return sum((value - middle) ** 2 for value in values) / (len(values) - ddof)


AGGREGATES: dict[str, tuple[Any, Callable[[list[Any], list[int]], Any]]] = {
    "rows": (sash.count(), lambda rows, _: len(rows)),
    "known": (sash.count("x"), lambda _, values: len(values)),
    "positive": (sash.count(where="x > 0"), lambda _, values: sum(value > 0 for value in values)),
    "total": (sash.sum("x"), lambda _, values: sum(values) if values else None),
    "high": (sash.max("x"), lambda _, values: max(values, default=None)),
    "low": (sash.min("x"), lambda _, values: min(values, default=None)),
    "middle": (sash.mean("x"), lambda _, values: mean(values)),
    "var": (sash.var("x"), lambda _, values: variance(values, 1)),
    "var0": (sash.var("x", ddof=0), lambda _, values: variance(values, 0)),
    "oldest": (sash.first("x"), lambda _, values: values[0] if values else None),
    "newest": (sash.last("x"), lambda _, values: values[-1] if values else None),
    "second": (sash.nth("x", n=2), lambda _, values: values[1] if len(values) > 1 else None),
    "second_last": (sash.nth("x", n=-2), lambda _, values: values[-2] if len(values) > 1 else None),
    "before": (sash.lag("x", n=2), lambda rows, _: rows[-3]["x"] if len(rows) > 2 else None),
    "distinct": (sash.count_distinct("x"), lambda _, values: len(set(values))),
}


@pytest.mark.parametrize("least", [0, 2])
@pytest.mark.parametrize("host", ["frame", "operator", "eager"])
@pytest.mark.parametrize("name", ["time", "count", "lifetime"])
def test_aggregates_of_the_rows(name: str, host: str, least: int) -> None:
    window, held = WINDOWS[name]
    rows = stream(14, 90)
    made = {label: bound for label, (bound, _) in AGGREGATES.items()}
    emit: Any = "eager" if host == "eager" else "final"
    query = sash.Query(window, by="k", on="t", lateness=0, emit=emit, min_periods=least, **made)
    if host == "frame":
        found = query.run(pa.Table.from_batches([batch(rows)])).to_pylist()
    else:
        operator = query.operator(SCHEMA)
        found = [
            row
            for at in range(0, 90, 13)
            for one in [operator.process(batch(rows[at : at + 13]))]
            for row in one.to_pylist()
        ]
        found += operator.finish().to_pylist()
    last = {row["id"]: row for row in found}
    assert len(last) == 90
    for number, some in expected(rows, held).items():
        values = [row["x"] for row in some if row["x"] is not None]
        for label, (bound, define) in AGGREGATES.items():
            right = define(some, values)
            inputs = len(some) if not bound.columns else len(values)
            if label == "positive":
                inputs = right
            if least and inputs < least:
                right = None
            got = last[number][label]
            assert got == (right if not isinstance(right, float) else pytest.approx(right, rel=1e-12)), (label, number)
