"""FlatFAT: elements removed at any position, capacity that follows the window, and released memory."""

import copy
import pickle
import random
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from sash.aggregators import FlatFAT, storage
from sash.aggregators.flat_fat import FLOOR
from sash.aggregators.storage import SIZE, Queue
from sash.monoids import functions
from sash.monoids.collect import Collect
from sash.monoids.sums import Sum
from tests.aggregators.flat_fat_cases import leaves, window_of
from tests.aggregators.probes import held
from tests.conformance.machines import JOIN, SUBJECTS, Machine, small_chunks

# ---- elements that leave from anywhere ----


def test_evict_at_goes_by_window_order() -> None:
    window = window_of("abcdefg")
    window.evict()
    window.evict()
    for letter in "hij":
        window.insert(letter)
    assert (window.inverted(), "".join(window)) == (True, "cdefghij")
    for i, left in ((6, "cdefghj"), (2, "cdfghj"), (2, "cdghj"), (0, "dghj"), (3, "dgh"), (1, "dh")):
        window.evict_at(i)
        window.check_invariants()
        assert "".join(window) == window.query() == left


@pytest.mark.parametrize("order", ["front", "back", "middle", "alternating", "shuffled"])
@pytest.mark.parametrize("start", [0, 5, 13])
def test_emptied_in_any_order(order: str, start: int) -> None:
    window, elements = FlatFAT(Collect()), list(range(start, start + 40))
    for i in range(start + 40):
        window.insert(i)
        if i < start:
            window.evict()
    chance = random.Random(start)
    while elements:
        i = {
            "front": 0,
            "back": len(elements) - 1,
            "middle": len(elements) // 2,
            "alternating": (len(elements) - 1) * (len(elements) % 2),
            "shuffled": chance.randrange(len(elements)),
        }[order]
        window.evict_at(i)
        del elements[i]
        window.check_invariants()
        assert [x for (x,) in window] == (window.query() or []) == elements
        assert leaves(window) <= max(1 << FLOOR, 4 * len(elements))
    assert (window.F, window.gone) == (window.E, 0)


def test_holes_at_either_end_are_skipped() -> None:
    window = window_of("abcdefgh")
    for i in (1, 1, 3, 3):
        window.evict_at(i)
    assert (list(window), window.F, window.E, window.gone) == (["a", "d", "e", "h"], 0, 8, 4)
    window.evict()
    assert (window.F, window.E, window.gone) == (3, 8, 2), "b and c were holes"
    window.evict_at(2)
    assert (window.F, window.E, window.gone) == (3, 5, 0), "f and g were holes"
    window.insert("i")
    assert (window.query(), window.E) == ("dei", 6)
    window.check_invariants()


def test_a_hole_is_no_identity_that_was_inserted() -> None:
    window = window_of([1, None, 2, None, 3], Sum())
    window.evict_at(2)
    assert (len(window), window.query(), list(window)[1:3]) == (4, 4, [Sum().identity] * 2)
    window.evict()
    window.evict()
    window.evict()
    assert (len(window), window.query()) == (1, 3)


def test_the_oldest_and_only_the_oldest_leaves_without_a_mark() -> None:
    window = window_of("abcd")
    window.evict_at(0)
    assert not window.marking
    window.evict_at(1)
    assert window.marking
    assert window.query() == "bd"


def test_marks_last_until_the_next_resize() -> None:
    window = window_of("abcdefgh")
    window.update(3, "D")
    assert window.marking
    assert (window.holes.slots(), window.dirty.slots()) == (SIZE, SIZE)
    window.insert("i")
    assert (window.marking, window.holes.slots(), window.dirty.slots()) == (False, 0, 0)
    assert window.query() == "abcDefghi"


def test_an_update_of_several_inputs() -> None:
    window = FlatFAT(functions.AGGREGATES["arg_max"]())
    for row in ((1, "a"), (9, "b"), (3, "c")):
        window.insert(row)
    assert window.query() == "b"
    window.update(1, 2, "B")
    assert window.query() == "c"
    window.update(2, (0, "C"))
    assert window.query() == "B"
    window.update(1, None, "x")
    assert window.query() == "a"


# ---- capacity ----


def test_full_of_elements_it_doubles() -> None:
    window = FlatFAT(JOIN)
    heights = []
    for letter in "abcdefghi":
        window.insert(letter)
        heights.append(leaves(window))
    assert heights == [1, 2, 4, 4, 8, 8, 8, 8, 16]


@pytest.mark.parametrize(("holes", "after"), [(1, 32), (2, 32), (3, 32), (4, 16), (5, 16), (11, 16)])
def test_full_of_holes_it_is_compacted(holes: int, after: int) -> None:
    """At most three quarters of the leaves hold elements: close the holes, else double."""
    window = window_of(range(16), Collect())
    left = list(range(16))
    for _ in range(holes):
        window.evict_at(1)
        del left[1]
    assert window.E - window.F == leaves(window) == 16
    window.insert("new")
    assert (leaves(window), window.gone, window.E - window.F) == (after, 0, len(left) + 1)
    assert window.query() == [*left, "new"]
    window.check_invariants()


@pytest.mark.parametrize("start", range(17))
def test_compacted_in_window_order_wherever_it_starts(start: int) -> None:
    """Also where the buffer is inverted: to shift leaves to the left of the array would mix the ends up."""
    window = FlatFAT(Collect())
    for i in range(start + 16):
        window.insert(i)
        if i < start:
            window.evict()
    left = list(range(start, start + 16))
    for i in (2, 3, 3, 7, 8):
        window.evict_at(i)
        del left[i]
    assert window.E - window.F == 16
    for new in range(100, 105):
        window.insert(new)
        left.append(new)
        assert (leaves(window), window.query()) == (16, left)
        window.check_invariants()


@pytest.mark.parametrize("start", [0, 1, 7, 15, 16, 31])
def test_resized_wherever_it_starts(start: int) -> None:
    window, oldest = FlatFAT(Collect()), 0
    for i in range(start + 200):
        window.insert(i)
        if i < start:
            window.evict()
            oldest += 1
        assert window.query() == (list(range(oldest, i + 1)) or None)
    for i in range(200):
        assert window.query() == list(range(start + i, start + 200))
        window.evict()
        window.check_invariants()


def test_below_a_quarter_it_halves_down_to_a_floor() -> None:
    window = window_of(range(1024), Sum())
    held_by = {}
    while len(window):
        window.evict()
        held_by.setdefault(leaves(window), len(window))
    assert held_by == {1024: 1023, 512: 255, 256: 127, 128: 63, 64: 31, 32: 15, 16: 7, 8: 3, 4: 1}
    assert 1 << FLOOR == 4


def test_a_window_that_breathes_is_not_resized_at_each_breath(monkeypatch: pytest.MonkeyPatch) -> None:
    window = window_of(range(65), Sum())
    rebuilt = []
    monkeypatch.setattr(FlatFAT, "rebuild", lambda _self, height: rebuilt.append(height))
    for size in (33, 128, 32, 65) * 5:
        while len(window) < size:
            window.insert(1)
        while len(window) > size:
            window.evict()
    assert (leaves(window), rebuilt) == (128, [])


def test_memory_follows_the_window() -> None:
    window = FlatFAT(Sum())
    for size in (1, 10, 3000, 700, 100, 1000, 0, 5000, 3):
        while len(window) < size:
            window.insert(1)
        while len(window) > size:
            window.evict()
        assert window.nodes.slots() == max(SIZE, 2 * leaves(window))
        assert leaves(window) <= max(4, 4 * size)
        assert held(window.nodes) <= 2 * leaves(window) - 1


class Thing:
    """An object that can be watched."""


@pytest.mark.parametrize("queried", [False, True])
@pytest.mark.parametrize("monoid", [Collect(), functions.AGGREGATES["last"]()], ids=["collect", "last"])
def test_what_has_left_is_released(monoid: Any, queried: bool) -> None:
    chance = random.Random(1)
    window, inside = FlatFAT(monoid), list[weakref.ref[Thing]]()
    gone: list[weakref.ref[Thing]] = []
    for step in range(600):
        thing = Thing()
        choice = chance.random()
        i = chance.randrange(len(inside)) if inside else 0
        if choice < (0.7 if step % 200 < 100 else 0.3) or not inside:
            window.insert(thing)
            inside.append(weakref.ref(thing))
        elif choice < 0.8:
            window.evict()
            gone.append(inside.pop(0))
        elif choice < 0.9:
            window.evict_at(i)
            gone.append(inside.pop(i))
        else:
            window.update(i, thing)
            gone.append(inside[i])
            inside[i] = weakref.ref(thing)
        del thing
        assert not any(watched() for watched in gone)
        assert all(watched() for watched in inside)
        if queried:
            window.query()


def test_a_forgotten_slot_stays_in_use() -> None:
    for position in (0, 5, SIZE - 1, SIZE):
        slots = Queue()
        for other in (position, position ^ 1):
            slots[other] = "a"
        slots.forget(position)
        assert (slots[position], slots[position ^ 1], slots.slots()) == (None, "a", SIZE)


# ---- driven at random ----


class FlatFATMachine(Machine):
    """The common operations, and those by number."""

    window: FlatFAT

    @precondition(lambda self: self.inserted)
    @rule(data=st.data())
    def evict_at(self, data: st.DataObject) -> None:
        i = data.draw(st.integers(0, len(self.inserted) - 1))
        self.window.evict_at(i)
        del self.inserted[i]

    @precondition(lambda self: self.inserted)
    @rule(data=st.data())
    def update(self, data: st.DataObject) -> None:
        i, value = data.draw(st.integers(0, len(self.inserted) - 1)), data.draw(self.subject.values)
        self.window.update(i, value)
        self.inserted[i] = value

    @rule(data=st.data())
    def query_range(self, data: st.DataObject) -> None:
        first, last = sorted(data.draw(st.integers(0, len(self.inserted))) for _ in range(2))
        values = [value for value in list(self.inserted)[first:last] if value is not None]
        assert self.window.query_range(first, last) == self.subject.defined(values)

    def memory_follows_the_window(self) -> None:
        """Two numbers for each node, where changes are marked."""
        slots = 2 * leaves(self.window) + 2 * storage.SIZE
        assert self.window.nodes.slots() <= slots
        assert self.window.holes.slots() + self.window.dirty.slots() <= 2 * slots * self.window.marking


@pytest.mark.parametrize("subject", SUBJECTS)
def test_compared_with_a_deque(subject: str) -> None:
    driven = type("Driven", (FlatFATMachine,), {"structure": FlatFAT, "subject": SUBJECTS[subject]})
    with small_chunks():
        run_state_machine_as_test(driven, settings=settings(max_examples=settings.default.max_examples))


@given(st.lists(st.tuples(st.sampled_from(["insert", "evict", "evict_at", "update", "query"]), st.integers(0, 99))))
def test_any_sequence(steps: list[tuple[str, int]]) -> None:
    window, elements = FlatFAT(Collect()), list[int]()
    for step, (operation, number) in enumerate(steps):
        i = number % max(len(elements), 1)
        if operation == "insert" or (not elements and operation != "query"):
            for new in range(1 + number // 10):
                window.insert(100 * step + new)
                elements.append(100 * step + new)
        elif operation == "evict":
            for _ in range(min(1 + number // 10, len(elements))):
                window.evict()
                del elements[0]
        elif operation == "evict_at":
            window.evict_at(i)
            del elements[i]
        elif operation == "update":
            window.update(i, step)
            elements[i] = step
        else:
            assert window.query() == (elements or None)
        window.check_invariants()
    assert window.query() == (elements or None)
    assert [x for (x,) in window] == elements


# ---- copies ----


@pytest.mark.parametrize("twin_of", [FlatFAT.copy, copy.copy, copy.deepcopy, lambda w: pickle.loads(pickle.dumps(w))])
def test_a_twin_has_the_same_holes(twin_of: Callable[[FlatFAT], FlatFAT]) -> None:
    window = window_of(range(20), Collect())
    for i in (3, 7, 7, 12):
        window.evict_at(i)
    twin = twin_of(window)
    for either in (window, twin):
        either.evict_at(5)
        either.check_invariants()
        assert either.query() == [0, 1, 2, 4, 5, 7, 10, 11, 12, 13, 14, 16, 17, 18, 19]
    window.clear()
    assert (len(window), window.query(), window.nodes.slots(), window.holes.slots()) == (0, None, 0, 0)
    window.insert(1)
    assert (window.query(), len(twin)) == ([1], 15)
