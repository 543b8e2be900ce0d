"""Costs of a window in a store: calls, pages and memory are counted."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from typing import ClassVar

import pytest

from sash.aggregators.bulk_evict import BulkEvict
from sash.aggregators.stored_levels import SIZE, StoredLevels
from sash.monoids import Sum
from sash.stores import MemoryStore
from sash.stores.page_writer import BACKLOG
from tests.aggregators.bulk_cases import COUNT
from tests.aggregators.stored_cases import STRUCTURES, CountingStore, small_pages

both = pytest.mark.parametrize("structure", STRUCTURES)


def levels_of(window: BulkEvict) -> StoredLevels:
    assert isinstance(window.levels, StoredLevels)
    return window.levels


def log(n: int) -> int:
    return max(n, 1).bit_length()


@both
def test_inserts_read_nothing_and_write_a_page_for_some_hundreds(structure: type[BulkEvict]) -> None:
    store = CountingStore()
    window = structure(COUNT, store=store)
    store.clear_counts()
    n = 40 * SIZE
    for i in range(n):
        window.insert(i)
    window.flush()
    assert store.reads == 0
    assert store.writes <= n / SIZE + 1
    assert store.pages_written <= 2 * n / SIZE + store.writes  # two nodes an element, and the headers
    assert len(store.pages) <= 2 * n / SIZE + 1


@both
def test_rounds_cost_far_less_than_a_call_each(structure: type[BulkEvict]) -> None:
    """A window of constant size: each page is written once, read once, and mostly ahead of its use."""
    store = CountingStore()
    width, rounds = 20 * SIZE, 20 * SIZE
    window = structure(COUNT, store=store)
    window.insert_many(range(width))
    window.flush()
    store.clear_counts()
    for i in range(rounds):
        window.evict()
        window.insert(i)
        assert window.query() == width
    window.flush()
    assert store.reads <= 3 * rounds / SIZE + 2 * log(width)
    assert store.pages_read <= 3 * rounds / SIZE + 4 * log(width)
    assert store.writes <= 2.5 * rounds / SIZE
    assert store.pages_written <= 5 * rounds / SIZE
    window.close()
    assert len(store.pages) <= 2 * width / SIZE + 2 * log(width) + 1


@both
def test_single_evictions_find_their_pages_in_memory(structure: type[BulkEvict]) -> None:
    """A page is read ahead when less than half of the previous one is left, so that no eviction waits."""

    class Readers(MemoryStore):
        threads: ClassVar[list[bool]] = []

        def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
            self.threads.append(threading.current_thread() is threading.main_thread())
            return super().get_many(ids)

    with small_pages(4):
        store = Readers()
        window = structure(COUNT, store=store)
        window.insert_many(range(3000))
        window.query()
        window.flush()
        Readers.threads.clear()
        levels = levels_of(window)
        for _ in range(1000):
            window.evict()
            for _ in range(1000):
                if len(levels._writer.arrived) == len(levels._cache._fetching):
                    break
                time.sleep(0.001)
        assert not any(Readers.threads), "a page was read by the caller"
        assert len(Readers.threads) > 1000 / 16 - 2


@both
@pytest.mark.parametrize("pages", [64, 256])
def test_a_bulk_eviction_reads_some_log_n_pages(structure: type[BulkEvict], pages: int) -> None:
    chance = random.Random(1)
    with small_pages():
        size = 4 * pages
        for n in [1, 5, size // 3, size // 2, size // 2 + 1, size - 9, size - 1, *chance.sample(range(size), 10)]:
            store = CountingStore()
            window = structure(COUNT, store=store)
            window.insert_many(range(size))
            window.query()
            window.flush()
            store.clear_counts()
            window.evict_many(n)
            assert window.query() == size - n
            assert store.reads <= 4, "the heads of all levels come in one call"
            assert store.pages_read <= 2 * log(size)


@both
def test_a_bulk_eviction_by_a_policy_reads_some_log_n_pages(structure: type[BulkEvict]) -> None:
    with small_pages():
        for n in (3, 100, 511, 512, 1000, 1020):
            store = CountingStore()
            window = structure(COUNT, store=store)
            window.insert_many(range(1024))
            window.flush()
            store.clear_counts()
            assert window.enforce(lambda _total, prefix, n=n: prefix <= n) == n
            assert window.query() == 1024 - n
            assert store.pages_read <= 4 * log(1024)


@both
def test_a_bulk_eviction_does_not_wait_for_deletions(structure: type[BulkEvict]) -> None:
    """It passes a range to the background thread, not the names of all pages."""
    with small_pages():
        window = structure(COUNT, store=CountingStore())
        window.insert_many(range(4096))
        window.flush()
        window.evict_many(4000)
        handed_over = [ranges for _, ranges in levels_of(window)._garbage]
        assert len(handed_over) == 1
        assert len(handed_over[0]) <= log(4096)
        window.close()


@both
def test_memory_does_not_follow_the_window(structure: type[BulkEvict]) -> None:
    """Memory holds a few pages per level, whatever the window, and pages that wait to be written."""
    with small_pages(3):
        for size in (100, 1000, 10_000):
            window = structure(COUNT, store=CountingStore())
            window.insert_many(range(size))
            most = 0
            for i in range(500):
                window.evict()
                window.insert(i)
                window.query()
                most = max(most, levels_of(window).slots())
            assert most <= 8 * (5 * log(size) + 2 * BACKLOG)
            window.flush()
            assert levels_of(window).slots() <= 8 * 5 * log(size)
            assert len(levels_of(window)._firsts) <= 8 + log(size)
            assert sum(1 for _ in window) == size
            assert levels_of(window).slots() <= 8 * 5 * log(size)


def test_memory_for_pages_of_their_real_size() -> None:
    slots = []
    for pages in (50, 200):
        window = STRUCTURES[0](Sum(), store=CountingStore())
        window.insert_many(range(pages * SIZE))
        window.flush()
        slots.append(levels_of(window).slots())
    assert slots[1] <= slots[0] + 5 * SIZE * 2


@both
def test_opening_reads_two_pages_a_level(structure: type[BulkEvict]) -> None:
    with small_pages():
        for size in (10, 1000, 5000):
            store = CountingStore()
            with structure(COUNT, store=store) as window:
                window.insert_many(range(size))
                window.evict_many(size // 3)
            store.clear_counts()
            again = structure(COUNT, store=store)
            assert store.pages_read <= 4 * log(size) + 1
            assert again.query() == size - size // 3
            assert store.pages_read <= 6 * log(size) + 1
