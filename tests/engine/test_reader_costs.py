"""What a lookup of a reader reads after a commit: the header, and of its keys only what the commit has changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.state import buffer_pages
from sash.stores import PageError
from sash.testing import assert_same
from tests.engine.counting import CountingStore
from tests.shared.small_state import small_buckets

pytestmark = pytest.mark.usefixtures("interpreted_kernels")

KEYS = 60


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Many pages of every kind."""
    monkeypatch.setattr(buffer_pages, "ROWS", 8)
    with small_buckets(3000, 4):
        yield


class Written:
    """An operator over many keys with its store, and a reader of it."""

    def __init__(self, window: Any = None, lateness: int = 0, **more: Any) -> None:
        window = sash.Count(30) if window is None else window
        self.query = sash.Query(
            window, by="k", on="t", lateness=lateness, high=sash.max("x"), total=sash.sum("x"), **more
        )
        self.store, self.time, self.chance = CountingStore(), 0, np.random.default_rng(3)
        self.op = self.query.operator(store=self.store)
        for _ in range(12):
            self.write(range(KEYS))
        self.reader = self.query.reader(self.store)

    def write(self, keys: Any, times: int = 1) -> None:
        """Commit one row of each of these keys."""
        given = [*keys] * times
        at = np.arange(self.time, self.time + len(given))
        self.time += len(given)
        self.op.process(pa.record_batch({"k": given, "t": at, "x": self.chance.integers(0, 99, len(given))}))

    def asked(self, keys: list[int]) -> list[str]:
        """The pages that a lookup reads; its results are those of the operator."""
        expected = self.op.lookup({"k": keys})
        self.store.forget()
        assert_same(self.reader.lookup({"k": keys}), expected)
        return sorted(self.store.read)


def bucket_of(written: Written, key: int) -> str:
    """The page of a key: the only bucket that a fresh reader reads for it."""
    fresh = written.query.reader(written.store)
    written.store.forget()
    fresh.lookup({"k": [key]})
    (found,) = {name for name in written.store.read if name[0] == "b"}
    return found


def test_a_commit_that_has_not_changed_the_bucket_costs_the_header() -> None:
    written = Written()
    mine = bucket_of(written, 0)
    others = [key for key in range(KEYS) if bucket_of(written, key) != mine]
    written.asked([0])
    for changed in (others[:1], others[:5], others):
        written.write(changed)
        assert [name for name in written.asked([0]) if name[0] != "q"] == ["header"]


@pytest.mark.parametrize("changed", [1, 10, KEYS])
def test_a_lookup_reads_one_changed_bucket_of_however_many(changed: int) -> None:
    written, read = Written(), list[str]()
    written.asked([0])
    for _ in range(20):
        before = dict(written.store.pages)
        written.write(range(changed))
        fresh = {name for name, page in written.store.pages.items() if before.get(name) != page}
        read = written.asked([0])
        assert {*read} <= fresh, "a page was read that the commit has not written"
        assert len(read) == len({*read})
        assert len([name for name in read if name[0] == "b"]) <= 1
    assert [name for name in read if name[0] == "b"] == [bucket_of(written, 0)]


def test_keys_of_one_bucket_read_its_page_once() -> None:
    written = Written()
    read = [name for key in range(KEYS) for name in written.asked([key]) if name != "header"]
    assert 4 < len([name for name in read if name[0] == "b"]) < KEYS / 2
    assert sorted(read) == sorted({*read}), "a page was read again for another key"


def test_only_the_asked_keys_are_in_memory() -> None:
    written = Written()
    written.asked([3, 7, 99])
    backend: Any = written.reader.backend
    engine = backend.engine
    assert engine.keys.count == 2
    assert engine.elements == 2 * 12
    sizes = written.reader.metrics
    assert (sizes.keys, sizes.elements) == (KEYS, written.op.metrics.elements)
    written.write([3])
    written.asked([7])
    assert engine.keys.count <= 2, "a key of a changed bucket has stayed"


def test_waiting_rows_are_read_once() -> None:
    written = Written(sash.Time(300), lateness=200)
    written.asked([0])
    for call in range(30):
        before = {*written.store.pages}
        written.write([call % KEYS, 0])
        read = [name for name in written.asked([0]) if name[0] == "q"]
        assert {*read} <= {*written.store.pages} - before, "waiting rows were read again"


def test_pages_are_kept_within_the_bound_of_memory() -> None:
    options = sash.Options(memory="16 KiB")
    written = Written(lateness=40)
    reader = sash.Query(
        sash.Count(30), by="k", on="t", lateness=40, high=sash.max("x"), total=sash.sum("x"), options=options
    ).reader(written.store)
    backend: Any = reader.backend
    kept = backend.durable.kept
    for key in [*range(KEYS)] * 2:
        assert_same(reader.lookup({"k": [key]}), written.op.lookup({"k": [key]}))
        assert 0 < kept.nbytes <= 8 << 10
        written.write([key])
    assert len(kept) < len(written.store.pages)


def test_a_segment_of_another_call_is_refused_also_if_others_are_in_memory() -> None:
    written = Written(sash.Count(100))
    written.asked([0])
    name = bucket_of(written, 0)
    before = dict(written.store.pages)
    for _ in range(40):
        written.write(range(KEYS))
        fresh = [page for page in written.store.pages if page.startswith("s" + name[1:]) and page not in before]
        if fresh:
            break
    older = next(page for page in before if page.startswith("s" + name[1:]))
    written.store.pages[fresh[0]] = before[older]
    with pytest.raises(PageError, match="mixed up"):
        written.reader.lookup({"k": [0]})


def test_kept_segments_are_not_used_for_new_ones_with_their_numbers() -> None:
    """A store that was restored from a backup has segments of the same names, from other calls."""
    written = Written(sash.Count(100))
    backup = dict(written.store.pages)
    for _ in range(20):
        written.write(range(KEYS))
    written.asked([0, 1])
    written.store.pages.clear()
    written.store.pages.update(backup)
    written.op = written.query.operator(store=written.store)
    for _ in range(20):
        written.write(range(KEYS))
        written.asked([0, 1])
