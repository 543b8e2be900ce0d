"""What one step works on: the rows it was given, in the order of their release, and the results of each window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from sash.engine.arrow_arrays import array, words_of
from sash.engine.key_values import format_row
from sash.engine.slot_table import SlotTable
from sash.kernels.loops.array_types import Flags, Ints, Numbers
from sash.kernels.loops.live_kernel import call_loop
from sash.kernels.loops.slot_loops import find_peers, radix_pass

ORDERED = 4096
"""So many rows are taken slot by slot, where no one can tell: what a slot holds is then loaded once."""

DIGIT = 11


def slot_order(slots: Ints, capacity: int) -> Ints:
    """The order of rows slot by slot, each slot's as they come, by radix: 2 ns a row and digit."""
    order: Ints = np.zeros(0, np.int64)
    counts = np.empty((1 << DIGIT) + 1, np.int64)
    for shift in range(0, max(capacity - 1, 1).bit_length(), DIGIT):
        found = np.empty(len(slots), np.int64)
        call_loop(radix_pass, "", (slots, order, shift, counts, found))
        order = found
    return order


class BatchColumns:
    """The columns of a batch by name, each fetched once, for that takes 1.5 µs; in another order if one is given."""

    def __init__(self, table: pa.RecordBatch, order: Ints | None = None) -> None:
        self.table, self.order = table, order
        self._columns: dict[str, pa.Array] = {}
        self._words: dict[str, Numbers] = {}

    def column(self, name: str) -> pa.Array:
        """A column of the rows, in their order."""
        found = self._columns.get(name)
        if found is None:
            found = self.table.column(name)
            if self.order is not None:
                found = found.take(array(self.order))
            self._columns[name] = found
        return found

    def words(self, name: str, kind: np.dtype[Any]) -> Numbers:
        """A column of 64-bit numbers as an array of this type, in the same memory; nulls are any value."""
        found = self._words.get(name)
        if found is None:
            found = self._words[name] = words_of(self.column(name), kind)
        return found

    def format_row(self, at: int) -> str:
        """A row, for a message."""
        return format_row(self.table, at if self.order is None else int(self.order[at]))


@dataclass
class StepRows(BatchColumns):
    """Rows whose order is settled, by time over all keys."""

    table: pa.RecordBatch
    """All columns of the rows."""
    slots: Ints
    time: Numbers
    arrival: Ints
    touched: Ints
    """The slots of the rows, each once."""
    ordinal: Ints
    """The number of each row among those of its key, since that last began anew."""
    anew: Flags
    """Rows that begin their key anew, which `forget` has expired."""
    has_anew: bool
    previous: Numbers
    """The time of the row before, of the same key; anything for a first row."""
    keys: SlotTable
    distinct: bool = True
    """Are all times different, so that no row has a peer?"""
    order: Ints | None = None
    """Where each row stands in the table, if the rows are not in its order but slot by slot."""

    def __len__(self) -> int:
        return len(self.slots)

    def __post_init__(self) -> None:
        self._columns, self._words = {}, {}
        self._found_peers: dict[int, Ints] = {}

    @property
    def first_peer(self) -> Ints | None:
        """For each row the first one of its key and time; None if that is itself."""
        return None if self.distinct else self._peers(1)

    @property
    def last_peer(self) -> Ints | None:
        """For each row the last one of its key and time; None if that is itself."""
        return None if self.distinct else self._peers(-1)

    @property
    def lives(self) -> Ints | None:
        """For each row how many rows of its key, itself included, have begun the key anew; None if none has."""
        return self._counted_lives if self.has_anew else None

    @cached_property
    def _counted_lives(self) -> Ints:
        order = np.argsort(self.slots, kind="stable")
        of, total = self.slots[order], np.cumsum(self.anew[order])
        first = np.flatnonzero(np.append(True, of[1:] != of[:-1]))
        before: Ints = np.repeat(total[first] - self.anew[order][first], np.diff(np.append(first, len(of))))
        found = np.empty(len(self), np.int64)
        found[order] = total - before
        return found

    def lives_of(self, slots: Ints) -> Ints | None:
        """For each slot how often its key has begun anew; None if none has."""
        if not self.has_anew:
            return None
        return np.bincount(self.slots[self.anew], minlength=int(slots.max(initial=0)) + 1)[slots]

    def _peers(self, step: int) -> Ints:
        found = self._found_peers.get(step)
        if found is None:
            found = self._found_peers[step] = np.empty(len(self), np.int64)
            arguments = (self.slots, self.time, self.keys.wide["latest"], step, found)
            call_loop(find_peers, self.time.dtype.str, arguments)
        return found


@dataclass
class WindowRanges:
    """The results of one window of the query: of which slots, over which elements, for which row or slide."""

    window: int
    slots: Ints
    on: Flags
    """Whether there is a result: false for a count window that is not full yet."""
    starts: Numbers
    ends: Numbers
    ident: Ints
    """For slides: a number that is stable, by which an early result is found again."""
    rows: Ints | None = None
    """Per row: which of the results belongs to each row; None if they are the rows'."""
    los: Ints | None = None
    his: Ints | None = None
    """Over which elements [lo, hi); None for windows that only grow."""
    after: Ints | None = None
    """For windows that only grow: after how many rows the result is read."""
    life: Ints | None = None
    """How often the key has begun anew since the step began; None: never."""
    blame: Ints | None = None
    """The row to name if a result fails; None if there is none."""
    by_slide: bool = False
    """Whether `ident` is the number of a slide in time, which rises with its end."""
    all_on: bool = False
    """Whether there is a result everywhere."""

    def __len__(self) -> int:
        return len(self.slots)


@dataclass
class WindowResults:
    """Results with their aggregates, one column for each."""

    results: WindowRanges
    columns: list[pa.Array]
    low: list[Ints]
    high: list[Ints]
    """How many values each aggregate has seen of the key before each window's start, and before its end."""


@dataclass
class StepResult:
    """What a step gives: its rows, and the results of each window of the query."""

    rows: StepRows
    found: list[WindowResults]
