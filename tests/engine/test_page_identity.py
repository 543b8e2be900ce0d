"""Pages under another name, from another call, or partially written are refused."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.state import buffer_pages
from sash.state.root_page import HEADER, ROOT
from sash.stores import MemoryStore, PageError
from tests.shared.small_state import small_buckets

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("x", pa.float64())])
QUERIES: dict[str, dict[str, Any]] = {
    "final": {"windows": {"time": sash.Time(500), "count": sash.Count(7)}},
    "slides": {"windows": sash.Time(60, every=10)},
    "eager": {"windows": sash.Time(50), "emit": "eager"},
}


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch, interpreted_trees: None) -> Iterator[None]:  # noqa: ARG001
    """Many pages of every kind."""
    monkeypatch.setattr(buffer_pages, "ROWS", 8)
    with small_buckets(1500, 8):
        yield


def query(name: str) -> sash.Query:
    arguments = dict(QUERIES[name])
    windows = arguments.pop("windows")
    return sash.Query(windows, by="k", on="t", lateness=20, **arguments, high=sash.max("x"), n=sash.count())


def batches() -> list[pa.RecordBatch]:
    chance = np.random.default_rng(8)
    return [
        pa.record_batch(
            [
                pa.array(np.where(chance.random(12) < 0.5, 0, chance.integers(0, 30, 12))),
                pa.array(start + chance.integers(0, 15, 12)),
                pa.array(chance.random(12)),
            ],
            schema=SCHEMA,
        )
        for start in range(0, 300, 10)
    ]


def stored(name: str, calls: int) -> dict[str, bytes]:
    """The pages after this many calls."""
    return history(name, calls)[-1]


def history(name: str, calls: int) -> list[dict[str, bytes]]:
    """The pages after each of this many calls."""
    store, found = MemoryStore(), []
    operator = query(name).operator(SCHEMA, store=store)
    for batch in batches()[:calls]:
        operator.process(batch)
        found.append(dict(store.items()))
    return found


def reopened(name: str, pages: dict[str, bytes]) -> list[Any]:
    """The remaining results of an operator that is opened on the pages, in any order of keys."""
    operator = query(name).operator(SCHEMA, store=MemoryStore(dict(pages)))
    found = [operator.process(batches()[-1]), operator.finish()]
    return sorted(pa.Table.from_batches(found).to_pylist(), key=repr)


def kind(page: str) -> str:
    return page if page in (HEADER, ROOT) else page[0]


@pytest.mark.parametrize("name", QUERIES)
def test_pages_in_the_place_of_one_another_are_refused(name: str) -> None:
    pages = stored(name, 29)
    pairs = [(a, b) for a, b in combinations(sorted(pages), 2) if kind(a) == kind(b)]
    assert len(pairs) >= 5
    kinds = {kind(page) for page in pages}
    assert kinds >= {"final": {"b", "q", "s"}, "slides": {"b", "q"}, "eager": {"e"}}[name]
    for one, other in pairs[:: max(1, len(pairs) // 20)]:
        with pytest.raises(PageError, match="pages were mixed up"):
            reopened(name, {**pages, one: pages[other], other: pages[one]})


@pytest.mark.parametrize("name", QUERIES)
def test_an_older_copy_of_a_page_is_refused(name: str) -> None:
    """An older header is refused, too: its pages are newer or gone. Pages of an eager operator are written once."""
    *earlier, pages = history(name, 30 if name == "eager" else 29)
    if (
        name == "eager"
    ):  # an older header with all the pages that it lists is a valid earlier state: take those that lack one
        earlier = [old for old in earlier if not set(old) <= set(pages)]
    refused = r"is not of the call that the header lists|is missing from the store"
    stale = {(page, old[page]) for old in earlier[-4:] for page in old if page in pages and old[page] != pages[page]}
    assert {kind(page) for page, _ in stale} >= ({HEADER} if name == "eager" else {HEADER, "b"})
    for page, data in stale:
        with pytest.raises(PageError, match=refused):
            reopened(name, {**pages, page: data})


@pytest.mark.parametrize("name", QUERIES)
def test_a_write_that_reached_the_store_in_part_is_found_out(name: str) -> None:
    """A process that dies during a write leaves the previous state, the new one, or one that is refused."""

    class Torn(MemoryStore):
        left: int | None = None

        def put_many(self, items: Any) -> None:
            if self.left is None:
                super().put_many(items)
                return
            super().put_many(dict(list(dict(items).items())[: self.left]))
            raise OSError("the machine has stopped")

    before, after = reopened(name, stored(name, 27)), reopened(name, stored(name, 28))
    outcomes = set()
    pages = stored(name, 27)
    for left in range(60):
        store = Torn(dict(pages))
        operator = query(name).operator(SCHEMA, store=store)
        store.left = left
        with pytest.raises(OSError, match="the machine has stopped"):
            operator.process(batches()[27])
        try:
            found = reopened(name, dict(store.items()))
        except PageError:
            outcomes.add("refused")
            continue
        assert found in (before, after)
        outcomes.add("before" if found == before else "after")
        if found == after:
            break
    assert outcomes >= {"before", "after"}


def test_a_segment_of_a_write_that_never_was_is_refused() -> None:
    """Two writes are torn: the first leaves a segment behind, the second all but its own segment of that name."""

    class Picky(MemoryStore):
        def put_many(self, items: Any) -> None:
            super().put_many({name: page for name, page in items.items() if self.takes(name)})
            if len(items) > sum(map(self.takes, items)):
                raise OSError("the machine has stopped")

        def takes(self, _name: str) -> bool:
            return True

    def is_segment(name: str) -> bool:
        return name[0] == "s"

    def batch(start: int, value: float) -> pa.RecordBatch:
        time = np.arange(start, start + 60)
        columns = (np.zeros(60, np.int64), time, np.full(60, value))
        return pa.record_batch([pa.array(column) for column in columns], schema=SCHEMA)

    store = Picky()
    query("final").operator(SCHEMA, store=store).process(batch(0, 1.0))
    store.takes = is_segment  # type: ignore[method-assign]
    with pytest.raises(OSError, match="the machine has stopped"):
        query("final").operator(SCHEMA, store=store).process(batch(100, 2.0))
    assert any(is_segment(name) for name, _ in store.items())
    store.takes = lambda name: not is_segment(name)  # type: ignore[method-assign]
    with pytest.raises(OSError, match="the machine has stopped"):
        query("final").operator(SCHEMA, store=store).process(batch(100, 3.0))
    with pytest.raises(PageError, match=r"'s0{16}\.0\.\d+' .* is not of the call that their bucket lists"):
        query("final").operator(SCHEMA, store=store).process(batch(200, 4.0))


@pytest.mark.parametrize("name", QUERIES)
def test_a_store_that_has_lost_its_header_is_not_empty(name: str) -> None:
    pages = stored(name, 5)
    del pages[HEADER]
    with pytest.raises(PageError, match="page 'header' is missing"):
        reopened(name, pages)
