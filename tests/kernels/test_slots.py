"""Structures that live in slots: loaded by `resume`, moved, stored by `park`, many of them side by side in one arena.

    slot 0   ▢▢▢▢           rings grow and move, and their structures are built again
    slot 1   ▢▢▢▢▢▢▢▢       a slot that is freed leaves its block to another
    slot 2   ▢▢▢▢           the arena grows, and structures stay alive where they are

Every in-order structure is driven at random through the loop of the engine, and compared with one list per slot.
"""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np
import pytest

from sash import monoids
from sash.aggregators.catalogue import IN_ORDER, in_order
from sash.engine.keyed.arena import Arena, SlotStructures
from sash.engine.keyed.slot_table import SlotTable
from sash.kernels.loops.array_types import NO_FLAGS, NO_INTS
from sash.kernels.loops.bound_kernel import NO_COUNTS, BoundKernel, live_use
from sash.kernels.loops.live_loops import BACK, CAPACITY, FRONT, OFFSET
from sash.monoids.algebra import Monoid
from sash.monoids.custom import monoid
from tests.shared.effort import share

pytestmark = pytest.mark.compiled

SLOTS = 24


def lift(x: Any) -> Any:
    return (x % 7 + 1, float(x % 11))


def compose(a: Any, b: Any) -> Any:
    return (a[0] * b[0] % 1009, (a[1] * b[0] + b[1]) % 1009.0)


def lower(a: Any) -> Any:
    return a[1] * 1024.0 + a[0]


AFFINE = monoid(identity=(1, 0.0), lift=lift, combine=compose, lower=lower, exact=True, name="affine")
"""Maps one after the other: their order tells, and a state has an integer and a float."""


def asked_of(needs: tuple[str, ...]) -> list[Monoid]:
    """Exact aggregates that a structure with these needs takes."""
    if "order_statistic" in needs:
        return [monoids.Rank("dense"), monoids.Quantile(0.7, "lower")]
    if "most_frequent" in needs:
        return [monoids.Mode()]
    if "inverse" in needs:
        return [monoids.Sum()]
    return [monoids.ArgMax(), monoids.Max()] if "selective" in needs else [AFFINE, monoids.Max()]


CASES = [
    pytest.param(
        name,
        one,
        compiled,
        id=f"{name}-{one.name}-{'compiled' if compiled else 'interpreted'}",
        # each time every third structure, with the monoid that tells most
        marks=pytest.mark.all_compiled if compiled and (number or place % 3) else (),
    )
    for place, (name, record) in enumerate(IN_ORDER.items())
    for number, one in enumerate(asked_of(record.needs))
    for compiled in (True, False)
]


class CountedStructures(SlotStructures):
    """Structures that count how often one is to be built again."""

    rebuilt = 0

    def reset(self, slots: Any) -> None:
        super().reset(slots)
        self.rebuilt += len(slots)


class Slots:
    """A structure in each of some slots, and for each slot the list of its inputs."""

    def __init__(self, structure: type[Any], given: Monoid, compiled: bool, sizes: bool = False) -> None:
        self.width = 2 if isinstance(given, monoids.ArgMax) else 1
        kinds: Any = ("int",) * self.width if compiled else None
        self.sizes, self.wanted = sizes, np.zeros((0, 0), np.bool_) if sizes else NO_FLAGS
        several = (structure,) if sizes else ()
        self.kernel = BoundKernel(structure.form(given), kinds, live_use("rows", (structure,), several), warn=False)
        assert self.kernel.compiled is compiled, self.kernel.why_interpreted
        combines = structure.form(given) is given
        self.monoid = self.kernel.monoid if combines else given
        self.table = SlotTable()
        self.arena = Arena(self.table, "heads", [])
        for i, leaf in enumerate(self.kernel.state_types):
            self.arena.add(i, leaf)
        self.window = CountedStructures(self.kernel.specs[structure], self.arena, self.table, "structures")
        self.window.sizes = sizes
        self.table.grow(SLOTS)
        self.inputs: list[list[Any]] = [[] for _ in range(SLOTS)]
        self.ends = [0] * SLOTS
        """Up to where each slot was asked: an end never goes back."""

    def push(self, pushed: list[tuple[int, Any]]) -> Any:
        """Make room for inputs of slots: what the loop takes as rows."""
        heads = self.arena.heads
        positions = []
        for slot, value in pushed:
            positions.append(heads[slot, BACK])
            heads[slot, BACK] += 1
            self.inputs[slot].append(value)
        slots = np.array([slot for slot, _ in pushed], np.int64)
        self.arena.reserve(np.unique(slots))
        heads = self.arena.heads
        places = heads[slots, OFFSET] + (np.array(positions, np.int64) & (heads[slots, CAPACITY] - 1))
        columns = [np.array([value[i] for _, value in pushed], np.int64) for i in range(self.width)]
        return self.kernel.inputs(columns), places

    def slide(self, pushed: list[tuple[int, Any]], ranges: list[tuple[int, list[int], int]]) -> list[list[Any]]:
        """Push, then ask for the ranges [lo, hi) of slots, several starts to each end where the kernel takes them."""
        rows = self.kernel.no_rows()
        if pushed:
            inputs, places = self.push(pushed)
            rows = inputs, NO_FLAGS, np.array([slot for slot, _ in pushed], np.int64), places
        states = tuple(self.arena.columns[i] for i in range(len(self.kernel.state_types)))
        los = np.array([starts for _, starts, _ in ranges], np.int64).T if ranges else np.zeros((1, 0), np.int64)
        los = np.ascontiguousarray(los) if self.sizes else los.reshape(-1)
        ends = np.array([hi for _, _, hi in ranges], np.int64)
        asked = NO_INTS, np.array([slot for slot, _, _ in ranges], np.int64), los, ends, self.wanted
        arguments: Any = self.window.fields, states, NO_COUNTS, rows, asked
        (out, valid, _, _), missing = self.kernel.slide_slots(self.window, *arguments)
        flat = out[0].tolist()
        assert missing == int((~valid).sum())
        found = [value if ok else None for value, ok in zip(flat, valid.tolist(), strict=True)]
        for slot, starts, hi in ranges:
            self.arena.heads[slot, FRONT], self.ends[slot] = starts[0], hi
        return [found[i :: len(ranges)] for i in range(len(ranges))]

    def expected(self, slot: int, lo: int, hi: int) -> Any:
        """A range's aggregate, folded from its inputs."""
        if lo >= hi:
            return None
        lifted = [self.monoid.lift(*value) for value in self.inputs[slot][lo:hi]]
        return self.monoid.lower(functools.reduce(self.monoid.combine, lifted))

    def free(self, slot: int) -> None:
        """Release a slot, so that others may use its block."""
        self.arena.release(np.array([slot]))
        self.table.clear(np.array([slot]))
        self.inputs[slot], self.ends[slot] = [], 0


def drawn_ranges(
    slots: Slots, pushed: list[tuple[int, Any]], rng: random.Random, sizes: int
) -> list[tuple[int, list[int], int]]:
    """Ranges of many slots, interleaved, whose bounds never go back within a slot."""
    low, high = slots.arena.heads[:SLOTS, FRONT].tolist(), list(slots.ends)
    length = [len(inputs) + sum(of == slot for of, _ in pushed) for slot, inputs in enumerate(slots.inputs)]
    found = []
    for _ in range(rng.choice([0, 5, 40])):
        slot = rng.randrange(SLOTS)
        high[slot] = rng.randint(high[slot], length[slot])
        width = high[slot] - low[slot]
        low[slot] += rng.choice([0, min(1, width), min(1, width), rng.randint(0, width)])
        starts = sorted(rng.randint(low[slot], high[slot]) for _ in range(sizes - 1))
        found.append((slot, [low[slot], *starts], high[slot]))
    return found


def drawn_inputs(slots: Slots, rng: random.Random) -> list[tuple[int, Any]]:
    """Inputs of many slots, a few of one and then a few of another."""
    pushed: list[tuple[int, Any]] = []
    for _ in range(rng.choice([0, 1, 10, 60])):
        slot = rng.randrange(SLOTS)
        pushed += [(slot, tuple(rng.randint(0, 50) for _ in range(slots.width))) for _ in range(rng.randint(1, 4))]
    return pushed


def play(slots: Slots, rng: random.Random, steps: int, sizes: int = 1) -> None:
    """Random inputs, queries and releases, compared with lists."""
    longest = [rng.choice([3, 6, 200]) for _ in range(SLOTS)]
    for _ in range(steps):
        pushed = drawn_inputs(slots, rng)
        ranges = drawn_ranges(slots, pushed, rng, sizes)
        got = slots.slide(pushed, ranges)
        assert got == [[slots.expected(slot, lo, hi) for lo in starts] for slot, starts, hi in ranges]
        for slot in range(SLOTS):
            if len(slots.inputs[slot]) - slots.arena.heads[slot, FRONT] > longest[slot] or rng.random() < 0.01:
                slots.free(slot)
                longest[slot] = rng.choice([3, 6, 200])


@pytest.mark.parametrize(("name", "given", "compiled"), CASES)
def test_every_structure_lives_in_slots(name: str, given: Monoid, compiled: bool) -> None:
    for seed in range(share(3) if compiled else 1):
        slots = Slots(in_order(name), given, compiled)
        play(slots, random.Random(seed), 120 if compiled else 60)
        assert slots.window.rebuilt, "rings have moved"
        if seed == 0:  # the queues follow an arena that is packed, and blocks are laid out again
            slots.arena.pack(np.arange(SLOTS))
            play(slots, random.Random(100), 30)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("given", [monoids.ArgMax(), monoids.Max()], ids=lambda one: one.name)
def test_several_sizes_from_one_structure(given: Monoid, compiled: bool) -> None:
    for seed in range(2):
        play(Slots(in_order("SlickDequeNonInv"), given, compiled, sizes=True), random.Random(seed), 60, sizes=3)


@pytest.mark.parametrize("name", IN_ORDER)
def test_a_structure_stays_alive_from_call_to_call(name: str) -> None:
    """Only its new elements are combined: a slot that was parked is not built again from its elements."""
    (given, *_) = asked_of(IN_ORDER[name].needs)
    slots = Slots(in_order(name), given, compiled=False)
    values = [(i % 13,) * slots.width for i in range(400)]
    slots.slide([(0, value) for value in values], [(0, [0], 400)])
    object_before = slots.window.storage[0]
    slots.window.rebuilt = 0
    for i in range(5):
        assert slots.slide([(0, values[i])], [(0, [i + 1], 401 + i)]) == [[slots.expected(0, i + 1, 401 + i)]]
    assert slots.window.storage[0] is object_before
    assert slots.window.rebuilt == 0
