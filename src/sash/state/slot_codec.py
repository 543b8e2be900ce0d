"""Encode the slots of some keys as Arrow batches, and load them.

    batch 0        a row for each key: its values, and the scalars of its slot
    batch 1, …     for each assigner with an arena: a row for each element, key by key, with its coordinates, and the
                   states of the aggregates, with values in place of codes
    last batch     with emit="changes": the last emitted result of each key

Structures are not stored: they are rebuilt from the elements. Columns that repeat are left out (`repeated_columns.py`).
Elements below a position that the caller passes are not in these batches but in segments (`bucket_log.py`), in batches
like batch 1. All batches are checked (`page_checks.py`) before any is loaded.

The columns in which elements and states of slots are stored, with functions that store and load them.

    coordinates    "time", "low", "first", …          as they are in the arena
    states         "a0.1.s0", …                       with values in place of codes
    counts         "a0.1.n"                           how many values an element has; of a row: whether it has one

In memory, elements have the number of values before them. It follows from the counts and the total of the slot, once
all elements of a slot are loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.columns.arrow_arrays import array
from sash.columns.input_encoding import numbers
from sash.columns.keys import key_column
from sash.engine.emit.emitter import ChangeEmitter
from sash.engine.keyed.ahead_assigner import AheadAssigner, WaitingRows
from sash.engine.keyed.arena import Arena, RingRanges
from sash.engine.keyed.live_aggregate import LiveAggregate
from sash.engine.keyed.live_engine import LiveEngine
from sash.engine.keyed.row_assigner import PolicyWindow, RowAssigner
from sash.engine.keyed.slot_table import ColumnName, NamedArrays
from sash.engine.keyed.window_assigner import ArenaAssigner
from sash.kernels.loops.array_types import Ints
from sash.kernels.loops.ring_loops import BACK, CAPACITY, FRONT
from sash.state.page_checks import StateChecks, require, require_entries, required_numbers
from sash.state.repeated_columns import STORED, Layout, layout_of, restored, stored_fields

# --- Element columns ---


class Selection(Protocol):
    """Selects elements or slots from a column."""

    def take(self, values: NDArray[Any]) -> NDArray[Any]:
        """Their values."""
        ...


class StoredColumns(NamedTuple):
    """Columns of a batch, by name, and the functions that store and load them."""

    fields: Mapping[str, pa.DataType]
    store: Callable[[Any], list[pa.Array]]
    load: Callable[[Ints, Sequence[pa.Array]], None]


def arena_columns(arena: Arena, names: Sequence[ColumnName]) -> StoredColumns:
    """Columns of an arena, stored unchanged."""

    def store(some: Selection) -> list[pa.Array]:
        return [array(some.take(arena.columns[name])) for name in names]

    def load(places: Ints, columns: Sequence[pa.Array]) -> None:
        for name, column in zip(names, columns, strict=True):
            arena.put(name, places, numbers(column))

    kinds = {column_text(name): pa.from_numpy_dtype(arena.columns[name].dtype) for name in names}
    return StoredColumns(kinds, store, load)


def state_columns(aggregate: LiveAggregate) -> StoredColumns:
    """The states of an aggregate."""
    fields = {f"{aggregate.name}.{name}": kind for name, kind in aggregate.fields.items()}
    return StoredColumns(fields, lambda some: aggregate.store(some.take), aggregate.load)


def owned_columns(owner: PolicyWindow | WaitingRows) -> StoredColumns:
    """The columns that a Policy window, or waiting rows, store with each element.

    A row that has left since its element was written is loaded again, but not used: the slot has the position of the
    first row that waits.
    """
    return StoredColumns(owner.fields, lambda some: owner.store(some.take), owner.load)


def count_columns(aggregate: LiveAggregate) -> StoredColumns:
    """The number of values of each element; after `load`, call `restore_counts`."""

    def store(ranges: RingRanges) -> list[pa.Array]:
        found = aggregate.value_counts(ranges)
        return [array(found.astype(np.bool_) if is_row else found)]

    def load(places: Ints, columns: Sequence[pa.Array]) -> None:
        aggregate.set_before(places, numbers(columns[0]))

    is_row = aggregate.assigner.elements == "rows"
    return StoredColumns({count_name(aggregate): pa.bool_() if is_row else pa.int64()}, store, load)


def count_name(aggregate: LiveAggregate) -> str:
    """The name of the column with an aggregate's counts."""
    return f"{aggregate.name}.n"


def column_text(name: ColumnName) -> str:
    """The name of an array in a batch."""
    return ".".join(map(str, name)) if isinstance(name, tuple) else str(name)


# --- State codec ---

SEGMENT = "segment"
"""The column of an arena with the number of the segment that stores the element; valid below the tail."""

RANGES = pa.schema([pa.field(name, pa.int64()) for name in ("key", "start", "stop")])
"""The schema of a segment's index: number of the key, positions [start, stop) of its elements."""


def tail_name(a: int) -> str:
    """The column of the slot table with the position of an arena's first element that is in no segment."""
    return f"tail{a}"


@dataclass
class Stored:
    """The decoded slots of a bucket: keys, scalars, and the slot of each emitted result."""

    keys: list[pa.Array]
    keys_batch: pa.RecordBatch
    scalars: NamedArrays
    emitted: list[Ints]
    batches: list[pa.RecordBatch]
    """The other batches: elements, and last emitted results."""
    heads: list[str]
    """By arena: the name of its heads among the scalars."""
    counted: set[str] = field(default_factory=set)
    """The aggregates with elements that do not hold exactly one value."""

    def note_counted(self, aggregate: str) -> None:
        """Record an aggregate with elements that do not hold exactly one value."""
        self.counted.add(aggregate)

    @property
    def count(self) -> int:
        """How many slots there are."""
        return int(self.keys_batch.num_rows)

    def ring(self, a: int) -> tuple[Ints, Ints]:
        """The bounds [front, back) of each slot's elements in an arena."""
        heads = self.scalars[self.heads[a]]
        return heads[:, FRONT], heads[:, BACK]

    def tail(self, a: int) -> Ints:
        """By slot: the position of the first element in an arena that is in the bucket page, not in a segment."""
        return np.maximum(self.ring(a)[0], self.scalars[tail_name(a)])


class EncodedBatch(NamedTuple):
    """A batch of several slots without the columns that repeat, its layout, and the rows of each slot."""

    batch: pa.RecordBatch
    layout: Layout
    counts: Ints

    def parts(self, edges: Ints) -> list[pa.RecordBatch]:
        """The rows of the slots between each edge and the next."""
        at = np.append(0, np.cumsum(self.counts))[edges]
        return [self.batch.slice(start, stop - start) for start, stop in pairwise(at.tolist())]


def encoded_batch(arrays: Sequence[pa.Array], schema: pa.Schema, counts: Ints) -> EncodedBatch:
    """Columns as a batch without those that repeat."""
    layout = layout_of(arrays)
    own = [column for column, how in zip(arrays, layout, strict=True) if how == STORED]
    return EncodedBatch(pa.RecordBatch.from_arrays(own, schema=stored_fields(schema, layout)), layout, counts)


class SlotRows(NamedTuple):
    """Selects the rows of some slots from an array with a row for each slot."""

    slots: Ints

    def take(self, values: NDArray[Any]) -> NDArray[Any]:
        """The values of the slots."""
        return values[self.slots]


class StateCodec:
    """The layout of an engine's state in batches."""

    def __init__(self, engine: LiveEngine, emitter: ChangeEmitter | None) -> None:
        self.engine, self.emitter = engine, emitter
        self.checks = StateChecks(engine)
        self.arenas = engine.arena_assigners
        running = [aggregate for aggregate in engine.all_aggregates if aggregate.arena is None]
        self.running = [state_columns(aggregate) for aggregate in running]
        """The states in the slot table."""
        states = {(aggregate.name, i) for aggregate in running for i in aggregate.leaves}
        skipped = {*engine.table.derived, *states} | {name for name in engine.table.arrays if name[0] == "emitted"}
        self.scalars = [name for name in engine.table.arrays if name not in skipped]
        self.coordinates = [self._coordinates(assigner) for assigner in self.arenas]
        """By arena: the columns of elements other than states and counts of values."""
        self.columns = [self._element_columns(assigner) for assigner in self.arenas]
        """By arena: the stored columns of its elements."""
        stored = [pa.field(*item) for part in self.running for item in part.fields.items()]
        self.keys = pa.schema([*self._key_fields(), *self._scalar_fields(), *stored])
        self.elements = [
            pa.schema([pa.field(*item) for part in columns for item in part.fields.items()]) for columns in self.columns
        ]
        self.emitted = [] if emitter is None else [self._emitted_schema(g) for g in range(emitter.groups)]

    @property
    def schemas(self) -> list[pa.Schema]:
        """The schemas of the batches, with all columns."""
        return [self.keys, *self.elements, *self.emitted]

    def stored_schemas(self, meta: Mapping[str, Any]) -> list[pa.Schema]:
        """The schemas of the batches of a bucket page. Raises ValueError for layouts of another query."""
        return [stored_fields(*pair) for pair in zip(self.schemas, meta["columns"], strict=True)]

    def segment_schemas(self, a: int) -> Callable[[Mapping[str, Any]], list[pa.Schema]]:
        """The schemas of the batches of a segment page. Raises ValueError for a layout of another query."""
        return lambda meta: [RANGES, stored_fields(self.elements[a], meta["columns"])]

    # ---- schemas ----

    def _key_fields(self) -> list[pa.Field]:
        return [pa.field(f"k{i}", kind) for i, kind in enumerate(self.engine.keys.types)]

    def _scalar_fields(self) -> list[pa.Field]:
        found = []
        for name in self.scalars:
            blank = self.engine.table.blanks[name]
            kind = pa.from_numpy_dtype(blank.dtype)
            found += [pa.field(f"{column_text(name)}.{j}", kind) for j in range(blank.size)]
        return found

    def _coordinates(self, assigner: ArenaAssigner) -> list[ColumnName]:
        """The columns of an arena other than states and counts of values."""
        own = {key for aggregate in self.engine.aggregates_of(assigner) for key in self._columns_of(aggregate)}
        own |= {key for owner in self._owners(assigner) for key in owner.columns}
        own |= {key for follower in assigner.arena.followers for key in follower.columns}
        return [name for name in assigner.arena.columns if name not in own and name != SEGMENT]

    def _columns_of(self, aggregate: LiveAggregate) -> list[ColumnName]:
        return [(aggregate.name, "before"), *((aggregate.name, i) for i in aggregate.leaves)]

    def _owners(self, assigner: ArenaAssigner) -> list[PolicyWindow | WaitingRows]:
        """The owners of further columns of an arena, which store these themselves."""
        if isinstance(assigner, AheadAssigner):
            return [assigner.waiting]
        return list(assigner.policies.values()) if isinstance(assigner, RowAssigner) else []

    def _element_columns(self, assigner: ArenaAssigner) -> list[StoredColumns]:
        found = [arena_columns(assigner.arena, self._coordinates(assigner))]
        found += [owned_columns(owner) for owner in self._owners(assigner)]
        for aggregate in self.engine.aggregates_of(assigner):
            found += [count_columns(aggregate), state_columns(aggregate)]
        return found

    def _emitted_schema(self, group: int) -> pa.Schema:
        assert self.emitter is not None
        width = self.engine.table.blanks["emitted", group].size
        fields = [pa.field("key", pa.int32()), *(pa.field(f"n{j}", pa.int64()) for j in range(width))]
        return pa.schema([*fields, *(pa.field(f"r{i}", log.type) for i, log in enumerate(self.emitter.logs[group]))])

    # ---- to batches ----

    def encode(
        self, slots: Ints, tails: Sequence[Ints], counts: Ints
    ) -> tuple[list[Layout], list[list[pa.RecordBatch]]]:
        """Encode slots in parts, of `counts` slots each: the layouts of the batches, and the batches of each part.

        Elements of each arena below the positions `tails` are left out. One call for all parts takes half the time of
        a call for each.
        """
        table, edges = self.engine.table, np.append(0, np.cumsum(counts))
        self.engine.write_totals(slots)
        arrays = self.engine.keys.keys(slots)
        heads = {assigner.arena.name for assigner in self.arenas}
        for name in self.scalars:
            rows = table[name][slots]
            if name in heads:
                rows[:, : CAPACITY + 1] = 0  # the memory address of a ring is not part of the state
            columns = np.ascontiguousarray(rows.reshape(len(slots), table.blanks[name].size).T)
            arrays += [array(column) for column in columns]
        for part in self.running:
            arrays += part.store(SlotRows(slots))
        batches = [encoded_batch(arrays, self.keys, np.ones(len(slots), np.int64))]
        for a, assigner in enumerate(self.arenas):
            fronts, backs = assigner.arena.heads[slots, FRONT], assigner.arena.heads[slots, BACK]
            batches.append(self.encode_elements(a, slots, np.maximum(fronts, tails[a]), backs))
        layouts = [batch.layout for batch in batches]
        parts = [list(some) for some in zip(*(batch.parts(edges) for batch in batches), strict=True)]
        for group in range(len(self.emitted)):
            batch = self._encode_emitted(group, slots)
            layouts.append([STORED] * batch.num_columns)
            entry = numbers(batch.column(0))
            cuts = np.searchsorted(entry, edges).tolist()
            for own_part, first, (start, stop) in zip(parts, edges.tolist(), pairwise(cuts), strict=False):
                own = array(entry[start:stop] - np.int32(first))
                rest = [column.slice(start, stop - start) for column in batch.columns[1:]]
                own_part.append(pa.RecordBatch.from_arrays([own, *rest], schema=batch.schema))
        return layouts, parts

    def encode_elements(self, a: int, slots: Ints, starts: Ints, stops: Ints) -> EncodedBatch:
        """Encode the elements [start, stop) of each slot, in an arena."""
        ranges = RingRanges(self.arenas[a].arena, slots, starts, stops)
        arrays: list[pa.Array] = []
        for part in self.columns[a]:
            arrays += part.store(ranges)
        return encoded_batch(arrays, self.elements[a], ranges.counts)

    def _encode_emitted(self, group: int, slots: Ints) -> pa.RecordBatch:
        assert self.emitter is not None
        rows = self.engine.table["emitted", group][slots]
        some = np.flatnonzero(rows[:, 0] >= 0)
        arrays = [array(some.astype(np.int32)), *(array(np.ascontiguousarray(c)) for c in rows[some].T)]
        arrays += [log.decode(rows[some, 0]) for log in self.emitter.logs[group]]
        return pa.RecordBatch.from_arrays(arrays, schema=self.emitted[group])

    # ---- from batches ----

    def read(self, meta: Mapping[str, Any], batches: Sequence[pa.RecordBatch]) -> Stored:
        """Decode slots into arrays, without a change of the engine. Raises ValueError for a missing number."""
        batches = [restored(*parts) for parts in zip(batches, self.schemas, meta["columns"], strict=True)]
        given = batches[0]
        scalars: NamedArrays = {}
        place = len(self.engine.keys.types)
        for name in self.scalars:
            blank = self.engine.table.blanks[name]
            columns = [required_numbers(given, i) for i in range(place, place + blank.size)]
            scalars[name] = np.array(columns).T if blank.ndim else columns[0]
            place += blank.size
        keys = [key_column(given.column(i)) for i in range(len(self.engine.keys.types))]
        heads = [assigner.arena.name for assigner in self.arenas]
        emitted = [required_numbers(batch, 0).astype(np.int64) for batch in batches[1 + len(heads) :]]
        return Stored(keys, given, scalars, emitted, list(batches[1:]), heads)

    def check(self, stored: Stored) -> None:
        """Raises ValueError for invalid slots (`page_checks.py`)."""
        self.checks.slots(stored.scalars)
        for entry in stored.emitted:
            self.check_emitted(entry, stored.count)

    def check_emitted(self, entry: Ints, count: int) -> None:
        """Raises ValueError for last emitted results that are not of different slots."""
        require_entries(entry, count)
        require(entry[1:] > entry[:-1], "it has the last result of a key twice")

    def check_elements(self, a: int, batch: pa.RecordBatch, entry: Ints, stored: Stored) -> NamedArrays:
        """The coordinates and counts of elements of these entries. Raises ValueError for invalid ones."""
        assigner = self.arenas[a]
        columns = {name: required_numbers(batch, column_text(name)) for name in self.coordinates[a]}
        for aggregate in self.engine.aggregates_of(assigner):
            columns[aggregate.name, "n"] = self.counts(aggregate, batch)
        self.checks.elements(assigner, stored.scalars, entry, columns)
        return columns

    def counts(self, aggregate: LiveAggregate, batch: pa.RecordBatch) -> Ints:
        """How many values of an aggregate each element has."""
        return required_numbers(batch, count_name(aggregate)).astype(np.int64)

    def put(self, stored: Stored, emitted: bool) -> Ints:
        """Load decoded slots, whose keys must be new. `emitted`: also the last emitted results.

        Reserves space for all elements, and loads none. Raises the exception of a monoid.
        """
        engine, given = self.engine, stored.keys_batch
        for aggregate in engine.all_aggregates:
            if aggregate.name in stored.counted:
                aggregate.count_values()
        slots = engine.keys.find(stored.keys, stored.count).slots
        engine.grow()
        engine.table.restore(slots, stored.scalars)
        for part in self.running:
            part.load(slots, [given.column(name) for name in part.fields])
        for assigner in self.arenas:
            assigner.arena.drop_blocks(slots)
            assigner.arena.reserve(slots)
        if emitted:
            for group in range(len(self.emitted)):
                self._put_emitted(group, slots, stored.batches[len(self.arenas) + group])
        engine.timers.lowered(slots, engine.table["stamps"][slots, 1])
        return slots

    def forget(self, stored: Stored) -> None:
        """Remove the keys and emitted results of slots after a failed `put`."""
        slots = self.engine.keys.find(stored.keys, stored.count, insert=False).slots
        self.engine.free(slots[slots >= 0])
        if self.emitter is not None:
            self.emitter.truncate_logs()

    def load_elements(self, a: int, slots: Ints, starts: Ints, stops: Ints, batch: pa.RecordBatch) -> None:
        """Load the elements [start, stop) of each slot. `restore_counts` follows when all are loaded."""
        places = RingRanges(self.arenas[a].arena, slots, starts, stops).places
        at = 0
        for part in self.columns[a]:
            part.load(places, batch.columns[at : at + len(part.fields)])
            at += len(part.fields)

    def restore_counts(self, slots: Ints) -> None:
        """Count the values before the elements of slots that have been loaded."""
        for assigner in self.arenas:
            for aggregate in self.engine.aggregates_of(assigner):
                if not aggregate.dense:
                    aggregate.restore_counts(slots)

    def _put_emitted(self, group: int, slots: Ints, batch: pa.RecordBatch) -> None:
        assert self.emitter is not None
        width = self.engine.table.blanks["emitted", group].size
        counts = [required_numbers(batch, 1 + j) for j in range(width)][1:]  # the first was a place in the logs
        self.emitter.load_results(group, slots[numbers(batch.column(0))], counts, batch.columns[1 + width :])
