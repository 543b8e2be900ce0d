"""Encode the slots of some keys as Arrow batches, and load them.

    batch 0        a row for each key: its values, and the scalars of its slot
    batch 1, …     for each assigner with an arena: a row for each element, with the number of its key, its coordinates,
                   and the states of the aggregates, with values in place of codes
    last batch     with emit="changes": the last emitted result of each key

Structures are not stored: they are rebuilt from the elements. Long rings are cut: elements below a position that the
caller passes are left out, and loaded by `load_elements`. All batches are checked (`state_checks.py`) before any is
loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.engine.arena import Arena, places_of
from sash.engine.arrow_arrays import array
from sash.engine.emitter import ChangeEmitter
from sash.engine.input_encoding import numbers
from sash.engine.key_values import key_column
from sash.engine.live_aggregate import LiveAggregate
from sash.engine.live_engine import LiveEngine
from sash.engine.policy_windows import PolicyWindow
from sash.engine.row_assigner import RowAssigner
from sash.engine.state_checks import Scalars, StateChecks, require, require_entries, whole_column
from sash.engine.window_assigner import ArenaAssigner
from sash.kernels.loops.array_types import Ints
from sash.kernels.loops.live_loops import BACK, CAPACITY, FRONT


@dataclass
class Stored:
    """The slots of a bucket: keys, scalars, and for each other batch the slot of each entry."""

    keys: list[pa.Array]
    keys_batch: pa.RecordBatch
    scalars: dict[Any, NDArray[Any]]
    entries: list[Ints]
    batches: list[pa.RecordBatch]
    """The other batches: elements, and last emitted results."""
    heads: list[str]
    """By arena: the name of its heads among the scalars."""

    @property
    def count(self) -> int:
        """How many slots there are."""
        return int(self.keys_batch.num_rows)

    def ring(self, a: int) -> tuple[Ints, Ints]:
        """The bounds [front, back) of each slot's elements in an arena."""
        heads = self.scalars[self.heads[a]]
        return heads[:, FRONT], heads[:, BACK]

    def one(self, entry: int) -> Scalars:
        """The scalars of one slot."""
        return {name: values[entry : entry + 1] for name, values in self.scalars.items()}


class StoredColumns(NamedTuple):
    """Columns of a batch, by name, and the functions that store and load them at places of live state."""

    fields: Mapping[str, pa.DataType]
    store: Callable[[Ints], list[pa.Array]]
    load: Callable[[Ints, Sequence[pa.Array]], None]


def arena_columns(arena: Arena, names: Sequence[Any]) -> StoredColumns:
    """Columns of an arena, stored unchanged."""

    def store(places: Ints) -> list[pa.Array]:
        return [array(arena.columns[name][places]) for name in names]

    def load(places: Ints, columns: Sequence[pa.Array]) -> None:
        for name, column in zip(names, columns, strict=True):
            arena.columns[name][places] = numbers(column)

    kinds = {_text(name): pa.from_numpy_dtype(arena.columns[name].dtype) for name in names}
    return StoredColumns(kinds, store, load)


def state_columns(aggregate: LiveAggregate) -> StoredColumns:
    """The states of an aggregate."""
    fields = {f"{aggregate.name}.{name}": kind for name, kind in aggregate.fields.items()}
    return StoredColumns(fields, aggregate.store, aggregate.load)


class StateCodec:
    """The layout of an engine's state in batches."""

    def __init__(self, engine: LiveEngine, emitter: ChangeEmitter | None) -> None:
        self.engine, self.emitter = engine, emitter
        self.checks = StateChecks(engine)
        engine.count_values()  # the counts are part of the state
        self.arenas = [a for a in engine.assigners if isinstance(a, ArenaAssigner)]
        self.owners = {id(a): group for a, group in zip(engine.assigners, engine.aggregates, strict=True)}
        running = [aggregate for group in engine.aggregates for aggregate in group if aggregate.arena is None]
        self.running = [state_columns(aggregate) for aggregate in running]
        """The states in the slot table."""
        states = {(aggregate.name, i) for aggregate in running for i in aggregate.leaves}
        skipped = {*engine.table.derived, *states} | {name for name in engine.table.arrays if name[0] == "emitted"}
        self.scalars = [name for name in engine.table.arrays if name not in skipped]
        self.columns = [self._element_columns(assigner) for assigner in self.arenas]
        """By arena: the stored columns of its elements."""
        stored = [pa.field(*item) for part in self.running for item in part.fields.items()]
        self.keys = pa.schema([*self._key_fields(), *self._scalar_fields(), *stored])
        of_key = pa.field("key", pa.int32())
        self.elements = [
            pa.schema([of_key, *(pa.field(*item) for part in columns for item in part.fields.items())])
            for columns in self.columns
        ]
        self.emitted = [] if emitter is None else [self._emitted_schema(g) for g in range(emitter.groups)]

    @property
    def schemas(self) -> list[pa.Schema]:
        """The schemas of the batches."""
        return [self.keys, *self.elements, *self.emitted]

    # ---- schemas ----

    def _key_fields(self) -> list[pa.Field]:
        return [pa.field(f"k{i}", kind) for i, kind in enumerate(self.engine.keys.types)]

    def _scalar_fields(self) -> list[pa.Field]:
        found = []
        for name in self.scalars:
            blank = self.engine.table.blanks[name]
            kind = pa.from_numpy_dtype(blank.dtype)
            found += [pa.field(f"{_text(name)}.{j}", kind) for j in range(blank.size)]
        return found

    def _coordinates(self, assigner: ArenaAssigner) -> list[Any]:
        """The columns of an arena other than states and counts of values."""
        own = {key for aggregate in self.owners[id(assigner)] for key in self._columns_of(aggregate)}
        own |= {key for policy in self._policies(assigner) for key in policy.columns}
        return [name for name in assigner.arena.columns if name not in own]

    def _columns_of(self, aggregate: LiveAggregate) -> list[Any]:
        return [(aggregate.name, "before"), *((aggregate.name, i) for i in aggregate.leaves)]

    def _policies(self, assigner: ArenaAssigner) -> list[PolicyWindow]:
        return list(assigner.policies.values()) if isinstance(assigner, RowAssigner) else []

    def _element_columns(self, assigner: ArenaAssigner) -> list[StoredColumns]:
        found = [arena_columns(assigner.arena, self._coordinates(assigner))]
        found += [StoredColumns(policy.fields, policy.store, policy.load) for policy in self._policies(assigner)]
        for aggregate in self.owners[id(assigner)]:
            found += [arena_columns(assigner.arena, [(aggregate.name, "before")]), state_columns(aggregate)]
        return found

    def _emitted_schema(self, group: int) -> pa.Schema:
        assert self.emitter is not None
        width = self.engine.table.blanks["emitted", group].size
        fields = [pa.field("key", pa.int32()), *(pa.field(f"n{j}", pa.int64()) for j in range(width))]
        return pa.schema([*fields, *(pa.field(f"r{i}", log.type) for i, log in enumerate(self.emitter.logs[group]))])

    # ---- to batches ----

    def encode(self, slots: Ints, cuts: Sequence[Ints]) -> list[pa.RecordBatch]:
        """Encode slots, without the elements of each arena below the positions `cuts`."""
        table = self.engine.table
        self.engine.write_counts(slots)
        arrays = self.engine.keys.keys(slots)
        heads = {assigner.arena.name for assigner in self.arenas}
        for name in self.scalars:
            rows = table[name][slots]
            if name in heads:
                rows[:, : CAPACITY + 1] = 0  # the memory address of a ring is not part of the state
            arrays += [
                array(np.ascontiguousarray(column)) for column in rows.reshape(len(slots), table.blanks[name].size).T
            ]
        for part in self.running:
            arrays += part.store(slots)
        found = [pa.RecordBatch.from_arrays(arrays, schema=self.keys)]
        for a, assigner in enumerate(self.arenas):
            fronts, backs = assigner.arena.heads[slots, FRONT], assigner.arena.heads[slots, BACK]
            found.append(self.encode_elements(a, slots, np.maximum(fronts, cuts[a]), backs))
        return found + [self._encode_emitted(group, slots) for group in range(len(self.emitted))]

    def encode_parts(self, slots: Ints, cuts: Sequence[Ints], counts: Ints) -> list[list[pa.RecordBatch]]:
        """Encode slots in parts, of `counts` slots each: it takes half the time of one `encode` for each part."""
        batches = self.encode(slots, cuts)
        ends = np.cumsum(counts)
        firsts = ends - counts
        parts = [[batches[0].slice(*bounds)] for bounds in zip(firsts.tolist(), counts.tolist(), strict=True)]
        for batch in batches[1:]:
            entry, columns = numbers(batch.column(0)), batch.columns[1:]
            edges = np.searchsorted(entry, np.append(firsts, len(slots)))
            for part, first, start, stop in zip(parts, firsts, edges[:-1].tolist(), edges[1:].tolist(), strict=True):
                own = array(entry[start:stop] - np.int32(first))
                rest = [column.slice(start, stop - start) for column in columns]
                part.append(pa.RecordBatch.from_arrays([own, *rest], schema=batch.schema))
        return parts

    def encode_elements(self, a: int, slots: Ints, starts: Ints, stops: Ints) -> pa.RecordBatch:
        """Encode the elements [start, stop) of each slot, in an arena."""
        assigner = self.arenas[a]
        self.engine.write_counts(slots)
        places, entry = places_of(assigner.arena.heads, slots, starts, stops)
        arrays: list[pa.Array] = [array(entry.astype(np.int32))]
        for part in self.columns[a]:
            arrays += part.store(places)
        return pa.RecordBatch.from_arrays(arrays, schema=self.elements[a])

    def _encode_emitted(self, group: int, slots: Ints) -> pa.RecordBatch:
        assert self.emitter is not None
        rows = self.engine.table["emitted", group][slots]
        some = np.flatnonzero(rows[:, 0] >= 0)
        arrays = [array(some.astype(np.int32)), *(array(np.ascontiguousarray(c)) for c in rows[some].T)]
        arrays += [log.decode(rows[some, 0]) for log in self.emitter.logs[group]]
        return pa.RecordBatch.from_arrays(arrays, schema=self.emitted[group])

    # ---- from batches ----

    def read(self, batches: Sequence[pa.RecordBatch]) -> Stored:
        """Decode slots into arrays, without a change of the engine. Raises ValueError for a missing number."""
        given = batches[0]
        scalars: dict[Any, NDArray[Any]] = {}
        for name in self.scalars:
            blank = self.engine.table.blanks[name]
            columns = [whole_column(given, f"{_text(name)}.{j}") for j in range(blank.size)]
            scalars[name] = np.stack(columns, 1) if blank.ndim else columns[0]
        keys = [key_column(given.column(i)) for i in range(len(self.engine.keys.types))]
        entries = [whole_column(batch, 0).astype(np.int64) for batch in batches[1:]]
        heads = [assigner.arena.name for assigner in self.arenas]
        return Stored(keys, given, scalars, entries, list(batches[1:]), heads)

    def check(self, stored: Stored) -> None:
        """Raises ValueError for invalid slots: see `state_checks`."""
        self.checks.slots(stored.scalars)
        for a, assigner in enumerate(self.arenas):
            columns = self.check_elements(a, stored.batches[a], stored.scalars)
            self.checks.last_panes(assigner, stored.scalars, stored.entries[a], columns)
        for entry in stored.entries[len(self.arenas) :]:
            _require_in_order(entry, stored.count)
            require(entry[1:] > entry[:-1], "the last result of a key is there twice")

    def check_elements(self, a: int, batch: pa.RecordBatch, scalars: Scalars) -> dict[Any, NDArray[Any]]:
        """The coordinates of elements of slots with these scalars. Raises ValueError for invalid ones."""
        assigner = self.arenas[a]
        entry = whole_column(batch, 0).astype(np.int64)
        _require_in_order(entry, len(scalars["keys"]))
        counts = [(aggregate.name, "before") for aggregate in self.owners[id(assigner)]]
        columns = {name: whole_column(batch, _text(name)) for name in [*self._coordinates(assigner), *counts]}
        self.checks.elements(assigner, scalars, entry, columns)
        return columns

    def put(self, stored: Stored, emitted: bool) -> Ints:
        """Load decoded slots, whose keys must be new. `emitted`: also the last emitted results.

        Reserves space for the elements that are not in the bucket. Raises the exception of a monoid.
        """
        engine, given = self.engine, stored.keys_batch
        engine.count_values()
        slots = engine.keys.find(stored.keys, stored.count).slots
        engine.grow()
        for name, values in stored.scalars.items():
            engine.table[name][slots] = values
        for part in self.running:  # by name: a lookup's engine has no columns for a store
            part.load(slots, [given.column(name) for name in part.fields])
        for a, assigner in enumerate(self.arenas):
            assigner.arena.heads[slots, : CAPACITY + 1] = 0
            assigner.arena.reserve(slots)
            held = np.bincount(stored.entries[a], minlength=len(slots))
            backs = assigner.arena.heads[slots, BACK]
            self.load_elements(a, slots, backs - held, backs, stored.batches[a])
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
            self.emitter.even_out()

    def load_elements(self, a: int, slots: Ints, starts: Ints, stops: Ints, batch: pa.RecordBatch) -> None:
        """Load the elements [start, stop) of each slot."""
        assigner = self.arenas[a]
        places, _ = places_of(assigner.arena.heads, slots, starts, stops)
        at = 1
        for part in self.columns[a]:
            part.load(places, batch.columns[at : at + len(part.fields)])
            at += len(part.fields)

    def _put_emitted(self, group: int, slots: Ints, batch: pa.RecordBatch) -> None:
        assert self.emitter is not None
        table = self.engine.table["emitted", group]
        of = slots[numbers(batch.column(0))]
        width = table.shape[1]
        for j in range(width):
            table[of, j] = whole_column(batch, 1 + j)
        for i, log in enumerate(self.emitter.logs[group]):
            table[of, 0] = log.encode(batch.column(1 + width + i))


def _require_in_order(entry: Ints, count: int) -> None:
    require_entries(entry, count)
    require(entry[1:] >= entry[:-1], "its elements are not in the order of their keys")


def _text(name: Any) -> str:
    return ".".join(map(str, name)) if isinstance(name, tuple) else str(name)
