"""A lookup without `at` answers for the newest time seen over all keys, whichever keys are asked for.

key a    · · ·  ·                  │
key b               ·     · ·      ·     the newest row of all
lookup               ──────────────┘     both windows end here: that of a is empty
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash.engine import Operator
from sash.engine.query_state import QueryState
from sash.stores import MemoryStore
from tests.shared.effort import share

pytestmark = pytest.mark.usefixtures("interpreted_kernels", "interpreted_trees")

SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64(), "x": pa.int64(), "p": pa.bool_()})
KEYS = ["a", "b", "c", "nobody"]
GAP, FORGET = 5, 7
"""Odd, and all times are even: no two rows are exactly that far apart."""


class Row(NamedTuple):
    k: str
    t: int
    x: int | None
    p: bool


def table(rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row._asdict() for row in rows], SCHEMA)


Held = Callable[[list[Row], int], list[Row]]


def session(rows: list[Row], now: int) -> list[Row]:
    found: list[Row] = []
    for row in rows:
        found = [*found, row] if found and row.t - found[-1].t < GAP else [row]
    return found if found and now - found[-1].t < GAP else []


def counted(rows: list[Row], _: int) -> list[Row]:
    return rows[max((len(rows) // 2 + 1) * 2 - 4, 0) :]


def punctuated(rows: list[Row], _: int) -> list[Row]:
    return rows[max((i + 1 for i, row in enumerate(rows) if row.p), default=0) :]


WINDOWS: dict[str, tuple[Any, Held]] = {
    "time": (sash.Time(8), lambda rows, now: [row for row in rows if now - 8 < row.t <= now]),
    "left": (sash.Time(8, closed="left"), lambda rows, now: [row for row in rows if now - 8 <= row.t < now]),
    "before": (sash.Time(6, shift=-4), lambda rows, now: [row for row in rows if now - 10 < row.t <= now - 4]),
    "slides": (sash.Time(8, every=4), lambda rows, now: [row for row in rows if row.t >= (now // 4 + 1) * 4 - 8]),
    "count": (sash.Count(3), lambda rows, _: rows[-3:]),
    "counted": (sash.Count(4, every=2), counted),
    "session": (sash.Session(GAP), session),
    "lifetime": (sash.Lifetime(), lambda rows, _: rows),
    "total": (sash.Lifetime(every=sash.Time(4)), lambda rows, _: rows),
    "punctuation": (sash.Punctuation("p"), punctuated),
    "delta": (sash.Delta("t", 7), lambda rows, _: [row for row in rows if rows[-1].t - row.t < 7]),
}
UNTIMED = ("count", "counted", "lifetime", "punctuation")
"""Windows that need no `on`."""


def results(rows: list[Row]) -> dict[str, Any]:
    """The aggregates over some rows; an empty window has a count, and nulls."""
    values = [row.x for row in rows if row.x is not None]
    total = sum(values) if values else None
    return {"n": len(rows), "total": total, "high": max(values, default=None), "more": len(values) + 1}


def expected(name: str, rows: list[Row], now: int, forget: int | None) -> list[dict[str, Any]]:
    found = []
    for key in KEYS:
        mine = sorted((row for row in rows if row.k == key), key=lambda row: row.t)  # stable: without times by arrival
        if forget is not None:
            breaks = [i for i in range(1, len(mine)) if mine[i].t - mine[i - 1].t > forget]
            mine = mine[breaks[-1] if breaks else 0 :] if mine and now - mine[-1].t <= forget else []
        found.append({"k": key, **results(WINDOWS[name][1](mine, now))})
    return found


def asked(name: str, **arguments: Any) -> sash.Query:
    return sash.Query(
        WINDOWS[name][0],
        by="k",
        **arguments,
        n=sash.count(),
        total=sash.sum("x"),
        high=sash.max("x"),
        more=sash.count("x") + 1,
    )


def answers(query: sash.Query, op: Operator, store: MemoryStore | None) -> list[Operator | Any]:
    """The operator, and what else answers for its state."""
    others: list[Any] = [Operator.restore(query, op.snapshot())]
    if store is not None:
        others += [query.reader(store), query.operator(SCHEMA, mode=op.mode, store=store.copy())]
    return [op, *others]


def each(lookup: Callable[[dict[str, list[str]]], pa.RecordBatch], keys: list[str]) -> list[dict[str, Any]]:
    """The answers for keys that are asked for one at a time."""
    return [row for key in keys for row in lookup({"k": [key]}).to_pylist()]


events = st.builds(
    lambda k, on, behind, x, p: (k, on, behind, x, p),
    st.sampled_from("aaabbc"),
    st.sampled_from([0, 2, 2, 4, 8, 20]),
    st.sampled_from([0, 0, 0, 2, 4]),
    st.sampled_from([1, 5, -3, None]),
    st.booleans(),
)


@settings(max_examples=share(150))
@given(st.data())
def test_random_streams(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*WINDOWS]))
    emit = data.draw(st.sampled_from(["final", "changes", "eager"]))
    forget = data.draw(st.sampled_from([None, None, FORGET]))
    if emit == "eager" and (name in ("punctuation", "before") or (name == "counted" and forget is not None)):
        emit = "final"  # eager refuses the query
    store = MemoryStore() if data.draw(st.booleans()) else None
    query = asked(name, on="t", lateness=4, emit=emit, forget=forget)
    op = query.operator(SCHEMA, store=store)
    reader = None if store is None else query.reader(store)
    rows, newest, least = list[Row](), 0, 0
    for _ in range(data.draw(st.integers(1, 4))):
        call = list[Row]()
        for k, on, behind, x, p in data.draw(st.lists(events, max_size=8)):
            newest += on
            call.append(Row(k, max(newest - behind, least), x, p))
        op.process(table(call))
        rows += call
        if data.draw(st.integers(0, 4)) == 4:
            least = newest = newest + 10
            op.advance(newest)
        now = max([least, *(row.t for row in rows)])
        wanted = expected(name, rows, now, forget)
        for one in [*answers(query, op, store), *([] if reader is None else [reader])]:
            assert one.lookup({"k": KEYS}).to_pylist() == wanted
            assert each(one.lookup, KEYS[::-1]) == wanted[::-1]
            assert one.lookup({"k": KEYS}, at=now).to_pylist() == wanted


@pytest.mark.parametrize("emit", ["final", "changes", "eager"])
@pytest.mark.parametrize("name", UNTIMED)
def test_without_a_time_the_windows_of_a_key_end_at_its_last_row(name: str, emit: str) -> None:
    if (name, emit) == ("punctuation", "eager"):
        return  # eager refuses the query
    query, store = asked(name, emit=emit), MemoryStore()
    op = query.operator(SCHEMA, store=store)
    rows = [Row("ab"[i % 3 == 2], 0, i, i == 4) for i in range(9)]
    op.process(table(rows))
    wanted = expected(name, rows, 0, None)
    for one in answers(query, op, store):
        assert one.lookup({"k": KEYS}).to_pylist() == wanted
        assert each(one.lookup, KEYS) == wanted


def test_a_policy_window_answers_the_same_for_each_key_alone() -> None:
    window = sash.Policy(lambda total, prefix: total[0] - prefix[0] > 10, over=(sash.sum("x"), sash.last("x")))
    query, store = sash.Query(window, by="k", on="t", lateness=4, n=sash.count(), s=sash.sum("x")), MemoryStore()
    op = query.operator(SCHEMA, store=store)
    op.process(table([Row("ab"[i % 2], 2 * i, i, False) for i in range(9)]))
    op.process(table([Row("c", 60, 1, False)]))
    for one in (op, query.reader(store)):
        found = one.lookup({"k": KEYS}).to_pylist()
        assert found == each(one.lookup, KEYS)
        assert [row["n"] for row in found][2:] == [1, 0]
        assert all(row["n"] for row in found[:2]), "the start of a policy does not depend on the time"


@pytest.mark.parametrize("windows", [sash.Count(3, full=True), sash.Count(3)])
def test_full_and_min_periods_of_a_key_without_rows(windows: Any) -> None:
    made = {"n": sash.count(), "s": sash.sum("x")}
    op = sash.Query(windows, by="k", on="t", min_periods=0 if windows.full else 2, **made).operator(SCHEMA)
    op.process(table([Row("a", 2, 1, False)]))
    assert op.lookup({"k": ["a", "nobody"]}).to_pydict() == {"k": ["a", "nobody"], "n": [None] * 2, "s": [None] * 2}


def test_a_query_without_keys_has_an_empty_window_before_its_first_row() -> None:
    op = sash.Query(sash.Time(9), on="t", lateness=1, n=sash.count(), s=sash.sum("x")).operator(SCHEMA)
    assert op.lookup({}).to_pylist() == [{"n": 0, "s": None}]


@pytest.mark.parametrize("mode", ["rows", "given", "sorted"])
def test_the_newest_time_in_each_mode(mode: Any) -> None:
    query, store = asked("time", on="t"), MemoryStore()
    op = query.operator(SCHEMA, mode=mode, store=store)
    rows = [Row("a", 2, 1, False), Row("a", 20, 1, False), Row("b", 16, 1, False)]
    if mode == "rows":
        rows.sort(key=lambda row: row.t)
    op.process(table(rows))
    if mode == "given":
        op.advance(22)
    wanted = expected("time", rows, 22 if mode == "given" else 20, None)
    for one in answers(query, op, store):
        assert each(one.lookup, KEYS) == wanted


@pytest.mark.parametrize("name", ["time", "count", "lifetime"])
def test_after_finish_every_window_is_over(name: str) -> None:
    query, store = asked(name, on="t", lateness=4), MemoryStore()
    op = query.operator(SCHEMA, store=store)
    op.process(table([Row("a", 2, 1, False), Row("b", 4, 1, False)]))
    op.finish()
    for one in answers(query, op, store):
        assert one.lookup({"k": KEYS}).to_pylist() == [{"k": key, **results([])} for key in KEYS]


def test_late_and_untimed_rows_are_not_the_newest() -> None:
    query = sash.Query(sash.Time("8s"), by="k", on="t", lateness="4s", ahead="5s", n=sash.count())
    schema = pa.schema({"k": pa.string(), "t": pa.timestamp("s")})
    op = query.operator(schema, clock=lambda: 20.0)
    times = pa.array([16, 90, 2], pa.timestamp("s"))
    op.process(pa.record_batch([pa.array(["a", "b", "b"]), times], schema=schema))
    assert op.late_rows().num_rows == 2
    assert op.lookup({"k": ["a", "b"]})["n"].to_pylist() == [1, 0]


def test_several_queries_answer_for_the_newest_time() -> None:
    queries = sash.Queries(
        one=asked("time", on="t", lateness=4), two=sash.Query(sash.Time(4), by="k", on="t", lateness=4, n=sash.count())
    )
    op = queries.operator(SCHEMA)
    op.process(table([Row("a", 2, 1, False), Row("b", 20, 1, False)]))
    for keys in (["a"], ["a", "b"]):
        found = op.lookup({"k": keys})
        assert [found[name]["n"].to_pylist()[0] for name in ("one", "two")] == [0, 0]


@pytest.mark.parametrize("emit", ["final", "eager"])
def test_state_of_versions_that_did_not_save_the_newest_time(emit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = QueryState.header
    monkeypatch.setattr(QueryState, "header", lambda self, at=None: dataclasses.replace(now(self, at), newest=None))
    query, store = asked("time", on="t", lateness=4, emit=emit), MemoryStore()
    op = query.operator(SCHEMA, store=store)
    op.process(table([Row("a", 2, 1, False), Row("a", 10, 1, False), Row("b", 12, 1, False)]))
    assert b'"newest"' not in store.pages["header"]
    wanted = op.lookup({"k": KEYS})
    assert query.reader(store).lookup({"k": KEYS}).equals(wanted)
    assert query.operator(store=store).lookup({"k": ["a"]}).equals(wanted.slice(0, 1))
