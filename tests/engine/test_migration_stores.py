"""Migration of stores: in place all or nothing, to another store, and state of earlier versions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash import Count, Query, Session, Time
from sash.engine import Operator
from sash.stores import MemoryStore, PageError, RocksDBStore, Store, StoreError
from sash.testing import assert_same
from tests.fixtures.cases import CASES
from tests.fixtures.files import FOLDER, read
from tests.fixtures.make import play
from tests.shared.effort import seldom

pytestmark = pytest.mark.compiled  # what state keeps depends on its layout

SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64(), "x": pa.float64(), "y": pa.float64()})
GIVEN: dict[str, Any] = {"by": "k", "on": "t", "lateness": 2}
OLD = Query({"long": Time(9), "last": Count(4)}, **GIVEN, high=sash.max("x"), total=sash.sum("x"))
NEW = Query({"short": Time(5), "last": Count(3)}, **GIVEN, high=sash.max("x"), low=sash.min("x"))


def batch(first: int, count: int = 20) -> pa.RecordBatch:
    rows = [
        {"k": "abc"[i % 3], "t": i + (i % 4), "x": float(i * 7 % 11), "y": 1.0} for i in range(first, first + count)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def filled(store: Store) -> Store:
    OLD.operator(SCHEMA, store=store).process(batch(0), offset={"next": 20})
    return store


def expected() -> pa.RecordBatch:
    reference = NEW.operator(SCHEMA)
    reference.process(batch(0))
    return reference.process(batch(20))


def names(store: Store) -> set[str]:
    return {name for name, _ in store.scan()}


class Failing(MemoryStore):
    """A store whose writes fail, or only its deletions."""

    fails = ""

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        if self.fails == "put":
            raise StoreError("the disk is gone")
        super().put_many(pages)

    def delete_many(self, ids: Iterable[str]) -> None:
        if self.fails:
            raise StoreError("the disk is gone")
        super().delete_many(ids)


def test_a_store_is_migrated_in_place(tmp_path: Path) -> None:
    with RocksDBStore(tmp_path / "state") as store:
        filled(store)
        assert NEW.migrate(store, from_query=OLD) is store
    with RocksDBStore(tmp_path / "state") as store:
        operator = NEW.operator(store=store)
        assert operator.offset == {"next": 20}
        assert operator.metrics.rows_in == 20
        assert_same(operator.process(batch(20)), expected(), by=["k"])
        with pytest.raises(PageError, match="another query"):
            OLD.operator(store=store)


def test_an_operator_that_is_open_is_refused_after_a_migration() -> None:
    store = MemoryStore()
    operator = OLD.operator(SCHEMA, store=store)
    operator.process(batch(0))
    NEW.migrate(store, from_query=OLD)
    with pytest.raises(RuntimeError, match="another operator was opened on the store"):
        operator.process(batch(20))


def test_a_migration_that_fails_leaves_the_old_state() -> None:
    store = Failing()
    filled(store)
    before = dict(store.items())
    store.fails = "put"
    with pytest.raises(StoreError, match="the disk is gone"):
        NEW.migrate(store, from_query=OLD)
    assert dict(store.items()) == before
    store.fails = ""
    reference = OLD.operator(SCHEMA)
    reference.process(batch(0))
    assert_same(OLD.operator(store=store).process(batch(20)), reference.process(batch(20)), by=["k"])


def test_a_process_that_ends_before_old_pages_are_deleted_leaves_the_new_state() -> None:
    old = Query(Count(8000), total=sash.sum("x"))
    new = Query(Count(10), total=sash.sum("x"))
    schema, store = pa.schema({"x": pa.int64()}), Failing()
    operator = old.operator(schema, store=store)
    for first in (0, 4000):
        operator.process(pa.record_batch({"x": range(first, first + 4000)}, schema=schema))
    assert any(name.startswith("s") for name in names(store))
    store.fails = "delete"
    new.migrate(store, from_query=old)
    assert any(name.startswith("s") for name in names(store))
    store.fails = ""
    operator = new.operator(store=store)
    assert names(store) == {"header", "root", "b0000000000000000"}
    found = operator.process(pa.record_batch({"x": [0]}, schema=schema))
    assert found["total"].to_pylist() == [sum(range(7991, 8000))]


def test_a_migration_to_another_store_leaves_the_first_one() -> None:
    store, target = filled(MemoryStore()), MemoryStore()
    before = dict(store.scan())
    assert NEW.migrate(store, from_query=OLD, to=target) is target
    assert dict(store.scan()) == before
    assert_same(NEW.operator(store=target).process(batch(20)), expected(), by=["k"])
    with pytest.raises(ValueError, match="to= of migrate\\(\\) must be an empty store"):
        NEW.migrate(store, from_query=OLD, to=target)


@pytest.mark.parametrize("mode", ["given", "sorted"])
def test_other_modes_are_migrated(mode: Any) -> None:
    rows = batch(0, 40).sort_by([("k", "ascending"), ("t", "ascending")]) if mode == "sorted" else batch(0, 40)
    parts = [rows.slice(0, 17), rows.slice(17)]
    old, new = (query.rewritten(lateness=None) for query in (OLD, NEW)) if mode == "sorted" else (OLD, NEW)
    before, reference = old.operator(SCHEMA, mode=mode), new.operator(SCHEMA, mode=mode)
    for operator in (before, reference):
        operator.process(parts[0])
        if mode == "given":
            operator.advance(9)
    after = Operator.restore(new, new.migrate(before.snapshot(), from_query=old))
    for call in ("process", "finish"):
        arguments = [parts[1]] if call == "process" else []
        assert_same(getattr(after, call)(*arguments), getattr(reference, call)(*arguments), by=["k"])


def test_lateness_may_change() -> None:
    longer = NEW.rewritten(lateness=30)
    before = OLD.operator(SCHEMA)
    before.process(batch(0))
    after = Operator.restore(longer, longer.migrate(before.snapshot(), from_query=OLD))
    assert after.watermark == before.watermark  # it does not go back
    assert after.process(batch(20)).num_rows == 0
    assert after.finish().num_rows == 40 - before.metrics.rows_out


def test_late_rows_that_were_not_taken_yet_are_in_the_snapshot() -> None:
    before = OLD.operator(SCHEMA)
    before.process(batch(50))
    before.process(batch(0, 2))
    after = Operator.restore(NEW, NEW.migrate(before.snapshot(), from_query=OLD))
    assert after.late_rows().num_rows == 2


# ---- refusals ----


def refuses(old: Query, new: Query, words: str) -> None:
    operator = old.operator(SCHEMA)
    operator.process(batch(0))
    with pytest.raises(ValueError, match=re.escape(words)):
        new.migrate(operator.snapshot(), from_query=old)
    store = MemoryStore()
    old.operator(SCHEMA, store=store).process(batch(0))
    before = dict(store.items())
    with pytest.raises(ValueError, match=re.escape(words)):
        new.migrate(store, from_query=old)
    assert dict(store.items()) == before


X = {"high": sash.max("x")}

REFUSED = {
    "longer": (Query(Time(5), **GIVEN, **X), Query(Time(6), **GIVEN, **X), "(window 5 → 6): window Time(6) needs"),
    "kind": (Query(Time(5), **GIVEN, **X), Query(Count(2), **GIVEN, **X), "it has those of Time(5). Run the new query"),
    "gap": (Query(Session(5), **GIVEN, **X), Query(Session(4), **GIVEN, **X), "window Session(4) needs elements"),
    "pane": (
        Query(Time(8, every=4), **GIVEN, **X),
        Query(Time(5, every=4), **GIVEN, **X),
        "window Time(5, every=4) starts within panes of the state",
    ),
    "every": (
        Query(Time(8, every=4), **GIVEN, **X),
        Query(Time(8, every=2), **GIVEN, **X),
        "window Time(8, every=2) needs elements that the state does not hold: it has those of Time(8, every=4)",
    ),
    "column": (
        Query(Time(5), **GIVEN, **X),
        Query(Time(5), **GIVEN, **X, other=sash.sum("y")),
        "aggregate other reads 'y', whose values the state has not kept (it has kept those of 'k', 't', 'x')",
    ),
    "partial": (
        Query(Time(8, every=4), **GIVEN, **X),
        Query(Time(8, every=4), **GIVEN, **X, low=sash.min("x")),
        "aggregate low is new, and it cannot be computed from the state, which has partial aggregates",
    ),
    "by": (Query(Time(5), **GIVEN, **X), Query(Time(5), **(GIVEN | {"by": ()}), **X), "by= determines the keys"),
    "on": (Query(Time(5), **GIVEN, **X), Query(Time(5), **(GIVEN | {"on": ("t", "x")}), **X), "on= determines"),
    "forget": (Query(Time(5), **GIVEN, **X), Query(Time(5), **GIVEN, forget=9, **X), "forget= has determined"),
    "eager": (Query(Time(5), **GIVEN, **X), Query(Time(5), **GIVEN, emit="eager", **X), "state of emit='eager'"),
    "was eager": (Query(Time(5), **GIVEN, emit="eager", **X), Query(Time(4), **GIVEN, **X), "state of emit='eager'"),
    "ahead": (
        Query(Count(3, shift=1), **GIVEN, **X),
        Query(Count(2, shift=1), **GIVEN, **X),
        "rows that wait for windows with a positive shift=",
    ),
    "changes": (
        Query(Time(5), **GIVEN, emit="changes", **X),
        Query(Time(5), **GIVEN, emit="changes", **X, low=sash.min("x")),
        "with emit='changes' a result is emitted if it differs from the last one",
    ),
}


@pytest.mark.usefixtures("interpreted_trees")
@pytest.mark.parametrize("name", REFUSED)
def test_what_the_state_does_not_have_is_refused_in_words(name: str) -> None:
    refuses(*REFUSED[name])


def test_arguments_are_checked() -> None:
    operator = OLD.operator(SCHEMA)
    operator.process(batch(0))
    with pytest.raises(PageError, match=r"another query: .*aggregate total=sum\('x'\) removed"):
        NEW.migrate(operator.snapshot(), from_query=Query({"long": Time(9), "last": Count(4)}, **GIVEN, **X))
    with pytest.raises(TypeError, match="from_query= of migrate"):
        NEW.migrate(operator.snapshot(), from_query="old")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="to= of migrate"):
        NEW.migrate(operator.snapshot(), from_query=OLD, to=MemoryStore())  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="has no state to migrate"):
        NEW.migrate(MemoryStore(), from_query=OLD)


# ---- state of earlier versions ----

FEW = ("count-final-int-exact", "time-every-final-int-others", "several-given", "sorted", "large-key", "flagged")
KEPT = [name for name, case in CASES.items() if case.query.emit == "final" and not case.is_sketched]
KEPT = [name for name in KEPT if not CASES[name].is_keyed_by_code and len(CASES[name].query.aggregates) > 1]


@pytest.mark.filterwarnings("ignore:.*runs interpreted")
@pytest.mark.parametrize("how", ["snapshot", "store"])
@pytest.mark.parametrize("name", [seldom(name, unless=name in FEW, id=name) for name in KEPT])
def test_state_of_earlier_versions_is_migrated(name: str, how: str) -> None:
    case, fixture = CASES[name], read(FOLDER / "format5" / f"{name}.zip")
    lost = list(case.query.aggregates)[-1]
    new = Query(
        case.query.windows.get("", case.query.windows),
        **{key: getattr(case.query, key) for key in ("by", "on", "lateness", "late", "forget")},
        **{key: one for key, one in case.query.aggregates.items() if key != lost},
    )
    if how == "snapshot":
        operator = Operator.restore(new, new.migrate(fixture.snapshot, from_query=case.query))
    else:
        store = MemoryStore(dict(fixture.pages))
        operator = new.operator(store=new.migrate(store, from_query=case.query), mode=case.mode)  # type: ignore[arg-type]
    found = [*play(operator, fixture.rest, case.mode), operator.finish()]
    kept = found[0].schema.names
    assert_same(found, [part.select(kept) for part in fixture.expected])
