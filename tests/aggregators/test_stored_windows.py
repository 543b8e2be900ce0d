"""AMTA and LogMTA in a store, compared with lists: also reopened, and opened after a crash."""

from __future__ import annotations

import gc
import random
import threading

import pytest

import sash
from sash.aggregators import AMTA, LogMTA
from sash.aggregators.bulk_evict import BulkEvict
from sash.aggregators.stored_levels import SIZE
from sash.monoids import ArgMax, Collect, Count, Max, Sum, Var
from sash.stores import MemoryStore
from tests.aggregators.stored_cases import JOIN, STRUCTURES, RememberingStore, contents, small_pages

both = pytest.mark.parametrize("structure", STRUCTURES)
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def letters(n: int, chance: random.Random) -> list[str]:
    return [chance.choice(LETTERS) for _ in range(n)]


class Driven:
    """A window and all elements that were ever inserted; those from F up to E are in it."""

    def __init__(self, window: BulkEvict) -> None:
        self.window = window
        self.inserted: list[str] = []
        self.F = 0
        self.points = {(0, 0)}

    def held(self) -> list[str]:
        return self.inserted[self.F :]

    def step(self, chance: random.Random, largest: int) -> None:
        what, left = chance.random(), len(self.inserted) - self.F
        if what < 0.5:
            new = letters(chance.randrange(1, largest), chance)
            if chance.random() < 0.5:
                self.window.insert_many(new)
                self.points |= {(self.F, len(self.inserted) + i) for i in range(len(new))}
                self.inserted += new
            else:
                for letter in new:
                    self.window.insert(letter)
                    self.inserted.append(letter)
                    self.points.add((self.F, len(self.inserted)))
        elif what < 0.7:
            for _ in range(chance.randrange(min(left, largest) + 1)):
                self.window.evict()
                self.F += 1
                self.points.add((self.F, len(self.inserted)))
        elif what < 0.85:
            n = chance.randrange(left + 1)
            self.window.evict_many(n)
            self.F += n
        elif what < 0.95:
            kept = chance.randrange(left + 1)
            self.F += self.window.enforce(lambda total, prefix: len(total) - len(prefix) >= kept)
        else:
            self.window.clear()
            self.F = len(self.inserted)
        self.points.add((self.F, len(self.inserted)))


# ---- the same as in memory ----


@both
@pytest.mark.parametrize("seed", range(4))
def test_compared_with_a_list(structure: type[BulkEvict], seed: int) -> None:
    chance = random.Random(seed)
    with small_pages(1 + seed % 3):
        driven = Driven(structure(JOIN, store=MemoryStore()))
        for step in range(150):
            driven.step(chance, 40)
            assert len(driven.window) == len(driven.held())
            if chance.random() < 0.5:
                assert driven.window.query() == "".join(driven.held())
            if step % 10 == 0:
                driven.window.check_invariants()
                assert list(driven.window) == driven.held()


@both
def test_pages_of_their_real_size(structure: type[BulkEvict]) -> None:
    store = MemoryStore()
    window = structure(Sum(), store=store)
    window.insert_many(range(5000))
    window.evict_many(1700)
    for i in range(600):
        window.evict()
        window.insert(i)
    window.close()
    again = structure(Sum(), store=store)
    expected = [*range(2300, 5000), *range(600)]
    assert (len(again), again.query()) == (3300, sum(expected))
    again.check_invariants()
    assert [Sum().lower(element) for element in again] == expected


@both
def test_aggregates_of_every_kind_of_state(structure: type[BulkEvict]) -> None:
    own = sash.monoid(
        identity=frozenset(),
        lift=lambda x: frozenset([x]),
        combine=lambda a, b: a | b,
        dump=lambda a: ",".join(sorted(a)).encode(),
        load=lambda data: frozenset(data.decode().split(",")) - {""},
        name="letters",
    )
    rows = [(i, LETTERS[i % 26]) for i in range(50)]
    for monoid, inputs in [(Var(), range(50)), (ArgMax(), rows), (Collect(), LETTERS * 2), (own, LETTERS * 2)]:
        store = MemoryStore()
        with small_pages():
            plain, window = structure(monoid), structure(monoid, store=store)
            for each in (plain, window):
                each.insert_many(inputs)
                each.evict_many(7)
            window.close()
            assert contents(structure(monoid, store=store)) == contents(plain)


@both
def test_sketches_come_back_by_their_own_dump(structure: type[BulkEvict]) -> None:
    monoid = sash.approx_distinct("x").monoid
    store = MemoryStore()
    with small_pages(), structure(monoid, store=store) as window:
        window.insert_many(range(40))
        found = window.query()
    with small_pages():
        assert structure(monoid, store=store).query() == found


@both
def test_a_count_of_rows(structure: type[BulkEvict]) -> None:
    window = structure(Count(), store=MemoryStore())
    window.insert()
    window.insert(None)
    window.insert_many([1, 2])
    assert (len(window), window.query()) == (4, 3)


@both
def test_a_window_in_memory_has_nothing_to_flush(structure: type[BulkEvict]) -> None:
    with structure(Sum()) as window:
        window.insert_many([1, 2])
        window.flush()
    assert window.query() == 3


# ---- opened again ----


@both
def test_a_window_continues_where_it_was_closed(structure: type[BulkEvict]) -> None:
    chance = random.Random(5)
    store = MemoryStore()
    with small_pages():
        driven = Driven(structure(JOIN, store=store, name="letters"))
        for _ in range(60):
            for _ in range(chance.randrange(4)):
                driven.step(chance, 40)
            driven.window.close()
            driven.window = structure(JOIN, store=store, name="letters")
            driven.window.check_invariants()
            assert contents(driven.window) == (len(driven.held()), driven.held(), "".join(driven.held()))


@both
@pytest.mark.parametrize("seed", range(6))
def test_a_crash_at_any_write_leaves_a_consistent_point(structure: type[BulkEvict], seed: int) -> None:
    """After each change of the store a crash is tried: what is opened is the window at some moment, all of it."""
    chance = random.Random(seed)
    with small_pages(1 + seed % 3):
        store = RememberingStore()
        driven = Driven(structure(JOIN, store=store))
        acknowledged = []
        for step in range(60):
            driven.step(chance, 30)
            if step % 7 == 0:
                driven.window.flush()
                acknowledged.append((len(store.versions), driven.F, len(driven.inserted)))
        driven.window.close()
        latest = 0, 0
        for number, version in enumerate(store.versions):
            crashed = structure(JOIN, store=MemoryStore(dict(version)))
            point = crashed.F, crashed.E
            assert point in driven.points
            assert point >= latest, "a later write went back"
            latest = point
            for versions, F, E in acknowledged:
                assert versions > number or point >= (F, E), "what was flushed is lost"
            assert list(crashed) == driven.inserted[crashed.F : crashed.E]
            assert crashed.query() == "".join(driven.inserted[crashed.F : crashed.E])
            if number % 10 == 0:
                crashed.check_invariants()
                crashed.insert_many(LETTERS)
                crashed.evict_many(len(crashed) // 2)
                crashed.check_invariants()


@both
def test_pages_that_a_crash_left_behind_are_deleted(structure: type[BulkEvict]) -> None:
    """A crash between the header that gives pages up and their deletion."""
    with small_pages():
        store = RememberingStore()
        window = structure(JOIN, store=store)
        window.insert_many(LETTERS * 20)
        window.flush()
        window.evict_many(500)
        window.close()
        crashed = next(version for version in store.versions if points(structure, version) == (500, 520))
        assert {f"window/0/{page}" for page in range(125)} <= set(crashed)
        again = MemoryStore(crashed)
        structure(JOIN, store=again).close()
        assert set(again.pages) == set(store.pages)


def points(structure: type[BulkEvict], version: dict[str, bytes]) -> tuple[int, int]:
    window = structure(JOIN, store=MemoryStore(dict(version)))
    return window.F, window.E


@both
def test_an_emptied_window_leaves_only_its_header(structure: type[BulkEvict]) -> None:
    store = MemoryStore()
    with small_pages():
        window = structure(JOIN, store=store)
        window.insert_many(LETTERS * 10)
        window.clear()
        assert contents(window) == (0, [], "")
        window.close()
        assert set(store.pages) == {"window/header"}
        assert contents(structure(JOIN, store=store)) == (0, [], "")


def test_several_windows_in_one_store() -> None:
    store = MemoryStore()
    with small_pages(), AMTA(JOIN, store=store, name="a") as a, LogMTA(Max(), store=store, name="a/b") as b:
        a.insert_many(LETTERS)
        b.insert_many(range(30))
    with small_pages():
        assert AMTA(JOIN, store=store, name="a").query() == LETTERS
        assert LogMTA(Max(), store=store, name="a/b").query() == 29
        assert AMTA(Max(), store=store, name="c").query() is None


def test_a_window_that_was_forgotten_is_released() -> None:
    gc.collect()  # the windows of other tests
    store = MemoryStore()
    window = AMTA(Sum(), store=store)
    window.insert_many(range(3 * SIZE))
    before = threading.active_count()
    del window
    gc.collect()
    assert threading.active_count() == before - 1
    again = AMTA(Sum(), store=store)  # what was handed to the background is there
    assert len(again) == 2 * SIZE + 1
