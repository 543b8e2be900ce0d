"""The number of values of each slot, and the number before each of its elements: some rows have none."""

from __future__ import annotations

import numpy as np

from sash.engine.arena import Arena, RingRanges
from sash.engine.slot_table import SlotTable
from sash.kernels.loops.array_types import NO_INTS, Ints
from sash.kernels.loops.live_kernel import NO_COUNTS, ValueCounts
from sash.kernels.loops.live_loops import BACK, CAPACITY, FRONT


class ElementCounts:
    """The counts of an aggregate's values: columns of the slot table, and of the arena if it has one.

    `dense`: whether every row so far has had a value; then positions are the counts of values.
    """

    def __init__(self, table: SlotTable, arena: Arena | None, name: str, dense: bool) -> None:
        self.table, self.arena, self.name, self.dense = table, arena, name, dense
        table.add((name, "totals"), np.int64, 0)
        if arena is None:
            table.add((name, "base"), np.int64, 0)
        else:
            arena.add((name, "before"), np.int64)

    @property
    def counts(self) -> ValueCounts:
        """The number of values of each slot, and the number before each element (or before the window).

        Values are counted from the first use of the counts or the first null on: until then the number of values is the
        number of rows, which is the position.
        """
        self.count_values()
        return self.current_counts

    @property
    def current_counts(self) -> ValueCounts:
        """The counts, without starting to count."""
        if self.dense:
            return NO_COUNTS
        totals = self.table.wide[self.name, "totals"]
        if self.arena is not None:
            return ValueCounts(totals, self.arena.columns[self.name, "before"])
        return ValueCounts(totals, self.table.wide[self.name, "base"])

    def count_values(self, pending: Ints = NO_INTS) -> None:
        """Start counting values, because a row has none or because the counts are needed.

        `pending`: the slots of rows that have positions but are not lifted yet.
        """
        if not self.dense:
            return
        assert self.arena is not None
        self.write_counts(np.flatnonzero(self.arena.heads[:, BACK]))
        self.dense = False
        np.subtract.at(self.table[self.name, "totals"], pending, 1)

    def write_counts(self, slots: Ints) -> None:
        """Write the counts of slots in which every row had a value: a position is the number of rows before it."""
        assert self.arena is not None
        heads = self.arena.heads
        backs = heads[slots, BACK]
        starts = np.maximum(heads[slots, FRONT], backs - heads[slots, CAPACITY])
        ranges = RingRanges(self.arena, slots, starts, backs)
        self.arena.columns[self.name, "before"][ranges.places] = ranges.positions
        self.table[self.name, "totals"][slots] = backs

    def value_counts(self, ranges: RingRanges) -> Ints:
        """How many values each element has: how many more there are before the next one."""
        if self.dense:
            return np.ones(ranges.total, np.int64)
        assert self.arena is not None
        column = self.arena.columns[self.name, "before"]
        before = ranges.take(column)
        some = np.flatnonzero(ranges.counts)
        slots, stops = ranges.slots[some], ranges.stops[some]
        after_range = self.table[self.name, "totals"][slots]
        inner = np.flatnonzero(stops < self.arena.heads[slots, BACK])
        after_range[inner] = RingRanges(self.arena, slots[inner], stops[inner], stops[inner] + 1).take(column)
        following = np.append(before[1:], 0)
        following[np.cumsum(ranges.counts)[some] - 1] = after_range
        return following - before

    def restore_counts(self, slots: Ints) -> None:
        """Turn the counts of all elements of these slots into the numbers of values before them."""
        assert self.arena is not None
        heads = self.arena.heads
        ranges = RingRanges(self.arena, slots, heads[slots, FRONT], heads[slots, BACK])
        if not ranges.total:
            return
        column, totals = self.arena.columns[self.name, "before"], self.table[self.name, "totals"][slots]
        counts = column[ranges.places]
        so_far = np.cumsum(counts)
        ends = np.cumsum(ranges.counts)
        all_of_slot = np.append(0, so_far)[ends]
        column[ranges.places] = totals[ranges.entry] - all_of_slot[ranges.entry] + so_far - counts

    def refresh_totals(self, slots: Ints) -> None:
        """Write the numbers of values of slots, if they are not counted: those of rows."""
        if self.dense and self.arena is not None:
            self.set_totals(slots, self.arena.heads[slots, BACK])

    def set_totals(self, slots: Ints, totals: Ints | int) -> None:
        """Set the numbers of values of slots."""
        self.table[self.name, "totals"][slots] = totals

    def set_before(self, places: Ints, before: Ints) -> None:
        """Set the numbers of values before elements; or their own, which `restore_counts` then adds up."""
        assert self.arena is not None
        self.arena.columns[self.name, "before"][places] = before

    def set_bases(self, slots: Ints, bases: Ints | int) -> None:
        """Set the numbers of values before the windows of slots."""
        self.table[self.name, "base"][slots] = bases

    def empty_partials(self, slots: Ints) -> None:
        """Empty the windows of slots: all values are before them."""
        self.set_bases(slots, self.table[self.name, "totals"][slots])
