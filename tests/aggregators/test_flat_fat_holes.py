"""FlatFAT: elements removed at any position, capacity that follows the window, and released memory."""

import random
import weakref
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from sash.aggregators import FlatFAT, storage
from sash.aggregators.flat_fat import FLOOR
from sash.aggregators.storage import SIZE, Queue
from sash.monoids import functions
from sash.monoids.collect import Collect
from sash.monoids.sums import Sum
from tests.aggregators.flat_fat_cases import leaves, window_of
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
