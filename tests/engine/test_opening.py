"""Opening an operator on a store: without a schema, after a crash, and while another operator uses it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.stores import MemoryStore, PageError
from tests.fuzz.envelopes import unwrapped
from tests.shared.effort import THOROUGH
from tests.shared.small_state import small_buckets

SCHEMA = pa.schema([("k", pa.dictionary(pa.int32(), pa.string())), ("t", pa.timestamp("s", "UTC")), ("x", pa.int64())])
EMITS = ["final", "changes", "eager"]


def moment(seconds: int) -> pa.Scalar:
    return pa.scalar(seconds, SCHEMA.field("t").type)


def query(emit: str = "final", **more: Any) -> sash.Query:
    return sash.Query("60s", by="k", on="t", lateness="10s", emit=emit, total=sash.sum("x"), **more)  # type: ignore[arg-type]


def batch(first: int, count: int = 5) -> pa.RecordBatch:
    keys = pa.array([f"key {i % 3}" for i in range(count)]).dictionary_encode()
    times = pa.array(range(first, first + count)).cast(SCHEMA.field("t").type)
    return pa.RecordBatch.from_arrays([keys, times, pa.array(range(count))], schema=SCHEMA)


@pytest.fixture(autouse=True)
def _interpreted(interpreted_kernels: Any, interpreted_trees: Any) -> None:
    """Nothing is compiled."""


@pytest.fixture(autouse=True)
def small_pages() -> Iterator[None]:
    """Pages are dropped often."""
    with small_buckets(1500, 4, 2):
        yield


# ---- without a schema ----


@pytest.mark.parametrize("emit", EMITS)
def test_a_store_says_its_schema(emit: str) -> None:
    store = MemoryStore()
    first = query(emit).operator(store=store)
    assert first.offset is None
    assert first.watermark is None
    first.process(batch(0), offset={"partition": 2, "next": 5})
    again = query(emit).operator(store=store)
    assert again.schema == SCHEMA
    assert (again.offset, again.watermark) == ({"partition": 2, "next": 5}, first.watermark)
    beside = query(emit).operator(SCHEMA)
    beside.process(batch(0))
    assert again.lookup({"k": ["key 1"]}).to_pydict() == beside.lookup({"k": ["key 1"]}).to_pydict()
    assert again.process(batch(40)).to_pylist() == beside.process(batch(40)).to_pylist()
    assert again.finish(offset=9).to_pylist() == beside.finish().to_pylist()
    assert query(emit).operator(store=store).offset == 9


def test_advance_and_finish_take_an_offset() -> None:
    store = MemoryStore()
    op = query().operator(SCHEMA, store=store)
    op.process(batch(0), offset=1)
    op.advance(moment(3), offset=2)
    assert op.offset == 2
    op.advance(moment(2))
    assert op.offset == 2
    op.advance(moment(99), offset=[3])
    assert query().operator(store=store).offset == [3]


def test_an_offset_is_copied() -> None:
    """A call that fails, and one without an offset, keep the last one, whatever the caller does to its own object."""
    store, position = MemoryStore(), {"next": [5], "file": (1, 2)}
    op = query().operator(SCHEMA, store=store)
    op.process(batch(0), offset=position)
    position["next"].append(6)  # type: ignore[attr-defined]
    op.offset["file"] = "another"
    op.process(batch(9))
    assert op.offset == query().operator(store=store).offset == {"next": [5], "file": [1, 2]}


def test_nothing_is_due_before_the_first_batch() -> None:
    assert query().operator().due is None
    assert query().reader(MemoryStore()).due is None


def test_another_query_is_refused_when_it_is_opened() -> None:
    store = MemoryStore()
    query().operator(store=store).process(batch(0))
    with pytest.raises(PageError, match="page 'root' was written by another query"):
        sash.Query("61s", by="k", on="t", lateness="10s", total=sash.sum("x")).operator(store=store)
    with pytest.raises(PageError, match=r"page 'root' was written by another query.*names the column 'y'"):
        sash.Query("60s", by="k", on="t", lateness="10s", total=sash.sum("y")).operator(store=store)


def test_a_damaged_root_is_refused() -> None:
    store = MemoryStore()
    query().operator(store=store).process(batch(0))
    whole = store.pages["root"]
    store.pages["root"] = whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:]
    with pytest.raises(PageError, match="page 'root' is damaged"):
        query().operator(store=store)
    store.pages["root"] = whole
    assert query().operator(store=store).metrics.rows_in == 5


def test_a_root_without_a_schema_is_incomplete() -> None:
    store = MemoryStore()
    query().operator(store=store).process(batch(0), offset=5)
    root = unwrapped(store.pages["root"])
    root.items.pop()
    store.pages["root"] = root.wrapped()
    says = "page 'root' with the schema of the rows is missing"
    for open_it in (lambda: query().operator(store=store), lambda: query().reader(store).offset):
        with pytest.raises(PageError, match=says):
            open_it()
    op = query().operator(SCHEMA, store=store)
    assert op.offset == 5
    op.process(batch(9))
    assert (op.offset, op.metrics.rows_in) == (5, 10)


# ---- what a crash leaves ----


class Undeleted(MemoryStore):
    """A store whose process dies before anything is deleted."""

    def delete_many(self, ids: Iterable[str]) -> None:  # noqa: ARG002
        """Delete nothing."""
        raise ConnectionError("the process is gone")


@pytest.mark.parametrize("emit", EMITS)
def test_pages_that_a_crash_has_left_are_deleted(emit: str) -> None:
    left = 0
    for calls in range(1, 40, 1 if THOROUGH else 6):
        crashed, whole = Undeleted(), MemoryStore()
        for store in (crashed, whole):
            op = query(emit).operator(SCHEMA, store=store)
            for i in range(calls):
                op.process(batch(9 * i))
        crashed.pages["host"] = b"of another owner"
        found = MemoryStore(dict(crashed.pages))
        assert found.pages.keys() >= whole.pages.keys() | {"host"}
        left = max(left, len(found) - len(whole) - 1)
        again = query(emit).operator(store=found)
        assert found.pages.keys() == whole.pages.keys() | {"host"}
        assert again.process(batch(9 * calls)).to_pylist() == op.process(batch(9 * calls)).to_pylist()
    assert left > 3, "nothing was left behind"


class Doubting(MemoryStore):
    """A store that refuses its first writes: one before it happens, one after."""

    calls = 0

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self.calls += 1
        if self.calls != 1:
            super().put_many(pages)
        if self.calls <= 2:
            raise ConnectionError("no answer")


@pytest.mark.parametrize("emit", EMITS)
def test_a_first_call_that_is_repeated_leaves_a_whole_state(emit: str) -> None:
    store = Doubting()
    op = query(emit).operator(store=store)
    for _ in range(2):
        with pytest.raises(ConnectionError, match="no answer"):
            op.process(batch(0))
    op.process(batch(0), offset=1)
    assert query(emit).operator(store=MemoryStore(dict(store.pages))).offset == 1


@pytest.mark.parametrize("name", ["../x", "header", "root", "host", "b1", "q", 7])
def test_only_pages_of_an_operator_are_ever_deleted(name: Any) -> None:
    store = MemoryStore()
    query().operator(store=store).process(batch(0))
    header = unwrapped(store.pages["header"])
    store.pages["header"] = header.with_meta(header.meta | {"garbage": [name]}).wrapped()
    with pytest.raises(PageError, match="page 'header' is damaged: its field 'garbage'"):
        query().operator(store=store)


# ---- two operators ----


@pytest.mark.parametrize("emit", EMITS)
def test_the_operator_that_was_opened_last_has_the_store(emit: str) -> None:
    store = MemoryStore()
    old = query(emit).operator(store=store)
    old.process(batch(0), offset=1)
    new = query(emit).operator(store=store)
    before = dict(store.pages)
    calls = [
        lambda: old.process(batch(9)),
        lambda: old.advance(moment(40)),
        old.finish,
        lambda: old.lookup({"k": ["key 1"]}),
        old.snapshot,
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match=r"another operator was opened on the store .* use that one"):
            call()
    assert store.pages == before
    assert (old.offset, old.metrics.rows_in) == (1, 5), "what it knows, it still says"
    new.process(batch(9))
    del new
    with pytest.raises(RuntimeError, match="another operator"):
        old.process(batch(9))


def test_an_operator_that_cannot_be_opened_takes_nothing_over() -> None:
    store = MemoryStore()
    op = query().operator(store=store)
    op.process(batch(0))
    with pytest.raises(PageError):
        query("eager").operator(store=store)
    with pytest.raises(PageError):
        query().operator(store=store, mode="given")
    assert op.process(batch(9)).num_rows == 3
    assert op.metrics.rows_in == 10
