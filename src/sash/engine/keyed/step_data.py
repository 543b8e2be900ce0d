"""The data of one step: its rows in the order of release, and the results of each window."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sash.columns.batch_columns import BatchColumns
from sash.columns.lowered_results import CountedColumn
from sash.engine.intake.reorder_buffer import TimedRows
from sash.engine.keyed.slot_table import SlotTable
from sash.kernels.loops.array_types import NO_FLAGS, NO_INTS, Flags, Ints, Numbers
from sash.kernels.loops.loop_cache import call_loop
from sash.kernels.loops.slot_loops import find_peers, radix_pass
from sash.plan.time_axis import Number

ORDERED = 4096
"""From this many rows on, rows are sorted by slot if results do not depend on it: each slot is then loaded once."""

DIGIT = 11


def slot_order(slots: Ints, capacity: int) -> Ints:
    """The stable order of rows by slot, by radix sort: 2 ns a row and digit."""
    order: Ints = np.zeros(0, np.int64)
    counts = np.empty((1 << DIGIT) + 1, np.int64)
    for shift in range(0, max(capacity - 1, 1).bit_length(), DIGIT):
        found = np.empty(len(slots), np.int64)
        call_loop(radix_pass, "", (slots, order, shift, counts, found))
        order = found
    return order


@dataclass
class StepRows(BatchColumns):
    """Ordered rows: by time over all keys."""

    table: pa.RecordBatch
    """All columns of the rows."""
    slots: Ints
    time: Numbers
    arrival: Ints
    touched: Ints
    """The distinct slots of the rows."""
    ordinal: Ints
    """The number of each row in its key, since the key last restarted."""
    restarts: Flags
    """By row: whether it restarts a key that `forget` has expired."""
    has_restarts: bool
    previous: Numbers
    """The time of the previous row of the same key; undefined for a first row."""
    keys: SlotTable
    distinct: bool = True
    """Whether no row has a peer, that is a row of the same key and time."""
    order: Ints | None = None
    """By row: its place in the table, if the rows are sorted by slot."""

    @staticmethod
    def without_rows(nothing: TimedRows, keys: SlotTable) -> StepRows:
        """A step without rows, with the columns and the time type of these rows."""
        return StepRows(
            table=nothing.table, slots=NO_INTS, time=nothing.time, arrival=NO_INTS, touched=NO_INTS, ordinal=NO_INTS,
            restarts=NO_FLAGS, has_restarts=False, previous=nothing.time, keys=keys,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.slots)

    def __post_init__(self) -> None:
        self._columns, self._words = {}, {}
        self.inputs: dict[Hashable, tuple[Any, Flags]] = {}
        """The inputs of aggregates over the same columns, and which rows have a value (empty: all)."""
        self._found_peers: dict[int, Ints] = {}

    def keep_inputs(self, of: Hashable, read: tuple[Any, Flags]) -> None:
        """Keep the inputs of an aggregate for others over the same columns."""
        self.inputs[of] = read

    @property
    def first_peer(self) -> Ints | None:
        """The first row of each row's key and time; None if no row has peers."""
        return None if self.distinct else self._peers(1)

    @property
    def last_peer(self) -> Ints | None:
        """The last row of each row's key and time; None if no row has peers."""
        return None if self.distinct else self._peers(-1)

    @property
    def restarted(self) -> Ints | None:
        """How often each row's key has restarted in this step, up to the row; None if none has."""
        return self._restarted if self.has_restarts else None

    @cached_property
    def _restarted(self) -> Ints:
        order = np.argsort(self.slots, kind="stable")
        of, total = self.slots[order], np.cumsum(self.restarts[order])
        first = np.flatnonzero(np.append(True, of[1:] != of[:-1]))
        before: Ints = np.repeat(total[first] - self.restarts[order][first], np.diff(np.append(first, len(of))))
        found = np.empty(len(self), np.int64)
        found[order] = total - before
        return found

    def restarted_of(self, slots: Ints) -> Ints | None:
        """How often each slot's key has restarted in this step; None if none has."""
        if not self.has_restarts:
            return None
        return np.bincount(self.slots[self.restarts], minlength=int(slots.max(initial=0)) + 1)[slots]

    def _peers(self, step: int) -> Ints:
        found = self._found_peers.get(step)
        if found is None:
            found = self._found_peers[step] = np.empty(len(self), np.int64)
            arguments = (self.slots, self.time, self.keys.wide["latest"], step, found)
            call_loop(find_peers, self.time.dtype.str, arguments)
        return found


class OrderedSlides(NamedTuple):
    """Slides in the order of the output (None: that in which they were found): keys, ends, and the column of ends."""

    order: Ints | None
    keys: list[pa.Array]
    ends: Numbers
    column: pa.Array


class SharedSlides(dict[str, OrderedSlides]):
    """The ordered slides of windows that have the same ones, by order.

    A dict, because one is created for each window and step.
    """

    __slots__ = ()

    def ordered(self, order: str, compute: Callable[[], OrderedSlides]) -> OrderedSlides:
        """The slides in an order, computed once."""
        found = self.get(order)
        if found is None:
            found = self[order] = compute()
        return found


@dataclass(slots=True)
class WindowRanges:
    """The results to compute for one window: their slots, ranges of elements, and rows or slides."""

    window: int
    slots: Ints
    on: Flags
    """Whether there is a result: false for a count window that is not full yet."""
    starts: Numbers | None
    """None for windows of a fixed `length`."""
    ends: Numbers
    ident: Ints
    """For slides: a stable number that identifies the slide in later revisions."""
    rows: Ints | None = None
    """Per row: the result of each row; None if there is one for each row, in order."""
    los: Ints | None = None
    his: Ints | None = None
    """The elements [lo, hi); None for windows that only grow."""
    after: Ints | None = None
    """For windows that only grow: the number of rows after which the result is read."""
    restarted: Ints | None = None
    """How often the key has restarted since the step began; None: never."""
    error_rows: Ints | None = None
    """The row that an error names if a result fails; None if there is none."""
    by_slide: bool = False
    """Whether `ident` is the number of a slide in time, which increases with its end."""
    all_on: bool = False
    """Whether there is a result everywhere."""
    among: Ints | None = None
    """For slides: their places among those of the longest window with the same `every`; None: all of them."""
    length: Number | None = None
    """For slides without `starts`: the distance from a start to its end."""
    every_lo: Ints | None = None
    """For slides: the first element at each slide of that longest window; its last position + 1 if there is none."""
    common: SharedSlides = field(default_factory=SharedSlides)
    """What the output computes once for all windows with the same slides."""

    def __len__(self) -> int:
        return len(self.slots)

    def starts_at(self, order: Ints | None, ends: Numbers) -> Numbers:
        """The starts of results in an order (None: unchanged); `ends`: their ends in this order."""
        if self.starts is None:
            return ends - self.length
        return self.starts if order is None else self.starts[order]


@dataclass(slots=True)
class WindowResults:
    """The results of one window, with a column for each aggregate."""

    results: WindowRanges
    cells: list[CountedColumn]

    @property
    def columns(self) -> list[pa.Array]:
        """The results of each aggregate."""
        return [cell.column for cell in self.cells]


@dataclass(slots=True)
class StepResult:
    """The output of a step: its rows, and the results of each window of the query."""

    rows: StepRows
    found: list[WindowResults]
    left: pa.RecordBatch | None = None
    """The rows that results belong to, if they are not those of the step."""

    @property
    def table(self) -> pa.RecordBatch:
        """Per row: the rows that results belong to."""
        return self.rows.table if self.left is None else self.left
