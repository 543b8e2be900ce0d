"""Windows in a store when something fails: every operation is all or nothing, and no error is lost."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import sash
from sash.aggregators import stored_levels
from sash.aggregators import stored_levels as page_cache
from sash.aggregators.bulk_evict import BulkEvict
from sash.stores import FlushError, MemoryStore
from tests.aggregators.stored_cases import JOIN, STRUCTURES, FailingStore, contents, small_pages
from tests.engine.interrupts import interrupted

both = pytest.mark.parametrize("structure", STRUCTURES)


class FailingJoin:
    """Concatenates strings by a ⊕ that raises in the call that `left` counts down to."""

    def __init__(self) -> None:
        self.left = -1
        self.monoid = sash.monoid(identity="", combine=self.combine, exact=True, name="striking join")

    def combine(self, a: str, b: str) -> str:
        self.left -= 1
        if self.left == 0:
            raise ArithmeticError("struck")
        return a + b


OPERATIONS: dict[str, Callable[[BulkEvict], Any]] = {
    "insert": lambda window: window.insert("x"),
    "evict": lambda window: window.evict(),
    "evict_few": lambda window: window.evict_many(min(len(window), 9)),
    "evict_many": lambda window: window.evict_many(len(window) // 3 + 1),
    "enforce": lambda window: window.enforce(lambda total, prefix: len(total) - len(prefix) >= 9),
    "query": lambda window: window.query(),
    "clear": lambda window: window.clear(),
}


def some_window(structure: type[BulkEvict], monoid: Any, seed: int, store: Any) -> BulkEvict:
    """A window of a size, place and history of its own, durable, with little of its middle in memory."""
    chance = random.Random(seed)
    window = structure(monoid, store=store)
    for _ in range(chance.randrange(1, 4)):
        window.insert_many(chance.choices("abcdefgh", k=chance.randrange(1, 120)))
        window.evict_many(chance.randrange(len(window)))
    window.insert_many("ijklmnop")
    if chance.random() < 0.7:
        window.query()
    window.flush()
    return window


@both
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_combine_that_raises_changes_nothing(structure: type[BulkEvict], operation: str) -> None:
    raised = 0
    with small_pages():
        for seed in range(24):
            join = FailingJoin()
            window = some_window(structure, join.monoid, seed, MemoryStore())
            before = len(window), list(window)
            join.left = 1 + seed % 3
            try:
                OPERATIONS[operation](window)
            except ArithmeticError:
                raised += 1
                join.left = -1
                window.check_invariants()
                assert contents(window) == (*before, "".join(before[1]))
                OPERATIONS[operation](window)
            join.left = -1
            window.check_invariants()
            assert window.query() == "".join(window)
            window.close()
    assert (raised > 0) == (operation != "clear")


@both
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_read_that_fails_changes_nothing(structure: type[BulkEvict], operation: str) -> None:
    failed = 0
    with small_pages(1):
        for seed in range(24):
            store = FailingStore()
            some_window(structure, JOIN, seed, store).close()
            before = list(structure(JOIN, store=MemoryStore(store.pages.copy())))
            window = structure(JOIN, store=store)  # with nothing in memory that it does not need
            if seed % 2:
                window.query()
            store.failing = {"get"}
            try:
                OPERATIONS[operation](window)
            except OSError as error:
                assert "no get today" in str(error)  # noqa: PT017 - it need not raise
                failed += 1
                store.failing = set()
                window.check_invariants()
                assert contents(window) == (len(before), before, "".join(before))
                OPERATIONS[operation](window)
            store.failing = set()
            window.check_invariants()
            assert window.query() == "".join(window)
            window.close()
    assert failed > 0 or operation not in ("evict_few", "evict_many", "enforce")


@both
def test_an_insert_that_fails_where_a_page_begins(structure: type[BulkEvict]) -> None:
    """A new page completes the previous one; if the insert is undone, that is incomplete again."""
    raised = 0
    with small_pages():
        for n in range(4, 60):
            join, store = FailingJoin(), MemoryStore()
            window = structure(join.monoid, store=store)
            window.insert_many("ab" * (n // 2) + "c" * (n % 2))
            join.left = 1
            try:
                window.insert("x")
            except ArithmeticError:
                raised += 1
                window.flush()
                assert len(structure(join.monoid, store=store.copy())) == n
                window.insert("x")
            join.left = -1
            window.insert_many("defgh")
            held = contents(window)
            assert held[0] == n + 6
            window.close()
            assert contents(structure(join.monoid, store=store)) == held
    assert raised > 25


@both
def test_an_interrupt_changes_nothing(structure: type[BulkEvict]) -> None:
    def interrupt(a: str, b: str) -> str:
        if "!" in a + b:
            raise KeyboardInterrupt
        return a + b

    window = structure(sash.monoid(identity="", combine=interrupt, name="j"), store=MemoryStore())
    with small_pages():
        window.insert_many("abc")
        assert window.query() == "abc"
        with pytest.raises(KeyboardInterrupt):
            window.insert("!")
        window.check_invariants()
        assert contents(window) == (3, ["a", "b", "c"], "abc")


@both
@pytest.mark.parametrize("module", [page_cache, stored_levels])
def test_an_interrupt_at_any_line_changes_nothing(structure: type[BulkEvict], module: ModuleType) -> None:
    """With pages of two nodes, every other insert begins a page, and some begin a level."""
    texts = "abcdefghijklmnopq"
    with small_pages(bits=1):
        for lines in itertools.count():
            window, stopped = structure(JOIN, store=MemoryStore()), False
            for i, text in enumerate(texts):
                stopped |= interrupted(lambda: window.insert(text), module, lines)  # noqa: B023
                if len(window) == i:
                    window.insert(text)
            window.check_invariants()
            assert contents(window) == (len(texts), list(texts), texts)
            window.close()  # here: its finalizer is in the module, too
            if not stopped:
                return


@both
def test_insert_many_that_fails_half_way_keeps_what_came_before(structure: type[BulkEvict]) -> None:
    join = FailingJoin()
    with small_pages():
        window = structure(join.monoid, store=MemoryStore())
        window.insert_many("abcdefgh")
        join.left = 9
        with pytest.raises(ArithmeticError, match="struck") as caught:
            window.insert_many("ijklmnopqrstuvwxyz")
        done = len(window) - 8
        assert 0 < done < 18
        assert caught.value.__notes__ == [f"insert_many: {done} of 18 elements were inserted before"]
        window.check_invariants()
        assert window.query() == "abcdefghijklmnopqrstuvwxyz"[: len(window)]


# ---- the background ----


@both
def test_a_failed_write_is_reported_at_the_next_call_and_retried(structure: type[BulkEvict]) -> None:
    with small_pages():
        store = FailingStore()
        window = structure(JOIN, store=store, name="letters")
        store.failing = {"put"}
        window.insert_many("abcde")
        with pytest.raises(FlushError, match=r"'letters': writing to the store failed .* OSError: no put") as caught:
            window.flush()
        assert isinstance(caught.value.__cause__, OSError)
        while True:
            try:
                window.insert("m")
            except FlushError:
                break
        assert list(window) == [*"abcde", *"m" * (len(window) - 5)]
        store.failing = set()
        while True:
            try:
                window.flush()
                break
            except FlushError:  # an attempt that failed before the store was well again
                continue
        expected = contents(window)
        window.close()
        assert contents(structure(JOIN, store=store, name="letters")) == expected


@both
def test_a_store_that_never_writes_does_not_fill_the_memory(structure: type[BulkEvict]) -> None:
    with small_pages():
        store = FailingStore()
        window = structure(JOIN, store=store)
        store.failing = {"put"}
        refused = 0
        for _ in range(2000):
            try:
                window.insert("a")
            except FlushError:
                refused += 1
        assert len(window) < 300
        assert refused > 1000
        store.failing = set()


@both
def test_a_failed_deletion_is_reported_and_retried(structure: type[BulkEvict]) -> None:
    with small_pages():
        store = FailingStore()
        window = structure(JOIN, store=store)
        window.insert_many("abcdefgh" * 10)
        store.failing = {"delete"}
        window.evict_many(70)
        with pytest.raises(FlushError, match="no delete today"):
            window.close()
        store.failing = set()
        while True:
            try:
                window.close()
                break
            except FlushError:
                continue
        assert "window/0/0" not in store.pages
        assert contents(structure(JOIN, store=store))[0] == 10


def test_closing_ends_the_thread() -> None:
    before = threading.active_count()
    with small_pages(), STRUCTURES[0](JOIN, store=MemoryStore()) as window:
        window.insert_many("abcdefgh")
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_a_window_that_is_only_opened_starts_no_thread() -> None:
    before = threading.active_count()
    window = STRUCTURES[0](JOIN, store=MemoryStore())
    window.insert("a")
    assert window.query() == "a"
    assert threading.active_count() == before
