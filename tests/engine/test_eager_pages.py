"""Eager operators on a store: what a call writes, and that a reopened store continues."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import sash
from sash.engine import Operator
from sash.state import eager_pages
from sash.stores import MemoryStore, PageError
from sash.testing import Reference, assert_same
from tests.behaviour.differential import compare_with_reference
from tests.shared.effort import seldom, share
from tests.shared.streams import Case, cases

SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.int64())])


def batch(times: Any, values: Any, key: str = "a") -> pa.RecordBatch:
    times = list(times)
    columns = [pa.array([key] * len(times)), pa.array(times, pa.int64()), pa.array(list(values), pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class WriteSizes(MemoryStore):
    """Records the sizes of written pages; raises OSError while `fails` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.put: list[int] = []
        self.fails = False

    def put_many(self, pages: Any) -> None:
        if self.fails:
            raise OSError("the disk is full")
        self.put += map(len, pages.values())
        super().put_many(pages)

    def taken(self) -> list[int]:
        put, self.put = self.put, []
        return put


# ---- what is written ----

WINDOWS = {"rows": sash.Time(20), "slides": sash.Time(20, every=5), "lifetime": sash.Lifetime(), "count": sash.Count(5)}


@pytest.mark.compiled
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_a_call_writes_by_its_own_rows(window: Any) -> None:
    store = WriteSizes()
    query = sash.Query(window, by="k", on="t", lateness=10**9, emit="eager", a=sash.max("x"))
    operator = query.operator(SCHEMA, store=store)
    rows = 100_000
    operator.process(batch(range(0, 2 * rows, 2), [0] * rows))
    assert sum(store.taken()) > 10 * rows
    sizes = []
    for i in range(50):
        operator.process(batch([2 * rows - 2 * i - 1], [0]))
        put = store.taken()
        assert len(put) <= 4  # the header, the call's own page, at times one that was merged
        sizes.append(sum(put))
    assert sum(sizes) / len(sizes) < 20_000
    assert max(sizes) < 60_000


def test_pages_of_rows_that_have_gone_go() -> None:
    store = WriteSizes()
    query = sash.Query(sash.Time(10), by="k", on="t", lateness=20, emit="eager", a=sash.max("x"))
    operator = query.operator(SCHEMA, store=store)
    for start in range(0, 20_000, 100):
        operator.process(batch(range(start, start + 100), range(100), key=f"key {start // 1000}"))
    assert len(dict(store.items())) < 60
    assert sum(len(page) for page in dict(store.items()).values()) < 300_000
    operator.finish()
    assert set(dict(store.items())) == {"header", "root"}


# ---- opening again ----


class Reopened:
    """An operator that is reopened from its store before each call."""

    def __init__(self, query: sash.Query, schema: pa.Schema, mode: str = "rows") -> None:
        self.query, self.schema, self.mode, self.store = query, schema, mode, MemoryStore()
        self.operator = self.opened()

    def opened(self) -> Operator:
        return self.query.operator(self.schema, mode=self.mode, store=self.store)

    def snapshot(self) -> "Reopened":
        return self

    @staticmethod
    def resume(_: sash.Query, snapshot: "Reopened") -> "Reopened":
        return snapshot

    def __getattr__(self, name: str) -> Any:
        if name in ("process", "advance", "finish"):
            self.operator = self.opened()
        return getattr(self.operator, name)


@pytest.fixture(params=[2, seldom(4)])
def small_pages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager_pages, "FAN_OUT", request.param)
    monkeypatch.setattr(eager_pages, "SPARSE", 2)


@pytest.mark.usefixtures("interpreted_trees", "small_pages")
def test_a_store_opened_before_each_call_gives_what_the_reference_gives() -> None:
    @given(cases(emits=("eager",), modes=("rows", "given")))
    def agrees(case: Case) -> None:
        compare_with_reference(case, Reopened, Reopened.resume)

    agrees()


MORE = {
    **WINDOWS,
    "session": sash.Session(4),
    "slides by rows": sash.Count(7, every=3),
    "lifetime by time": sash.Lifetime(every=sash.Time(6)),
}


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("window", MORE.values(), ids=MORE)
def test_many_calls_on_a_store(window: Any) -> None:
    query = sash.Query(window, by="k", on="t", lateness=12, emit="eager", a=sash.max("x"), b=sash.sum("x"))
    engine, reference = Reopened(query, SCHEMA), Reference(query, SCHEMA)
    random = np.random.default_rng(11)
    for i in range(share(80)):
        count = int(random.integers(1, 3))
        rows = batch(
            2 * i + random.integers(-9, 3, count), random.integers(0, 9, count), "abc"[int(random.integers(3))]
        )
        if i % 5 == 4:  # several calls without opening it
            engine.operator.process(rows)
            reference.process(rows)
            continue
        per_row = query.bind(SCHEMA).per_row
        assert_same(engine.process(rows), reference.process(rows), by=["k"], without=[] if per_row else ["_row"])


def test_a_store_that_fails_changes_nothing() -> None:
    store = WriteSizes()
    query = sash.Query(sash.Time(10), by="k", on="t", lateness=50, emit="eager", a=sash.max("x"), n=sash.count())
    operator, reference = query.operator(SCHEMA, store=store), Reference(query, SCHEMA)
    for i in range(60):
        rows = batch([i - i % 7], [i], "ab"[i % 2])
        if i % 3 == 2:
            store.fails = True
            with pytest.raises(OSError, match="the disk is full"):
                operator.process(rows)
            store.fails = False
        assert_same(operator.process(rows), reference.process(rows), by=["k"])
        if i % 10 == 9:
            operator = query.operator(SCHEMA, store=store)


def test_rows_taken_back_stay_so() -> None:
    schema = pa.schema([*SCHEMA, ("gone", pa.bool_())])
    query = sash.Query(
        sash.Time(10), by="k", on="t", lateness=50, emit="eager", retract="gone", a=sash.max("x"), n=sash.count()
    )
    engine = Reopened(query, schema)
    rows = [("a", 1, 9, False), ("a", 2, 3, False), ("a", 1, 0, True), ("a", 3, 1, False)]
    for row in rows:
        found = engine.process(pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True))], schema=schema))
    assert found.select(["t", "a", "n"]).to_pylist() == [{"t": 3, "a": 3, "n": 2}]


def test_state_of_another_emit_is_refused() -> None:
    arguments: dict[str, Any] = {"by": "k", "on": "t", "lateness": 5, "a": sash.max("x")}
    for written, opened, says in (
        ("final", "eager", "needs the rows"),
        ("eager", "final", "open it with emit='eager'"),
    ):
        store = MemoryStore()
        sash.Query(5, **arguments, emit=written).operator(SCHEMA, store=store).process(batch([1], [1]))
        with pytest.raises(PageError, match=says):
            sash.Query(5, **arguments, emit=opened).operator(SCHEMA, store=store)
