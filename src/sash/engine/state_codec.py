"""State at rest: the slots of some keys as Arrow batches, and back.

    batch 0        a row a key: its values, and the scalars of its slot
    batch 1, …     for each assigner with an arena: a row an element, with the number of its key, its coordinates, and
                   the states of the aggregates, values in place of codes
    last batch     with emit="changes": what was last emitted of each key

Structures are not part of it: they are built again from the elements. Long rings are cut: elements below a position
that the caller names are left out, and put back by `load_elements`. What is read is checked as a whole before any of it
goes into the engine (`state_checks.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.engine.arena import places_of
from sash.engine.arrow_arrays import array
from sash.engine.emitter import ChangeEmitter
from sash.engine.input_encoding import numbers
from sash.engine.key_values import key_column
from sash.engine.live_aggregate import LiveAggregate
from sash.engine.live_engine import LiveEngine
from sash.engine.policy_windows import PolicyWindow
from sash.engine.row_assigner import RowAssigner
from sash.engine.state_checks import Scalars, StateChecks, require
from sash.engine.step_data import Ints
from sash.engine.window_assigner import ArenaAssigner
from sash.kernels.loops.live_loops import BACK, CAPACITY, FRONT


@dataclass
class Stored:
    """Slots as a bucket has them: keys, scalars, and for each other batch which slot an entry belongs to."""

    keys: list[pa.Array]
    keys_batch: pa.RecordBatch
    scalars: dict[Any, NDArray[Any]]
    entries: list[Ints]
    batches: list[pa.RecordBatch]
    """The other batches: elements, and what was last emitted."""
    heads: list[str]
    """By arena: the name of its heads among the scalars."""

    @property
    def count(self) -> int:
        """How many slots there are."""
        return int(self.keys_batch.num_rows)

    def ring(self, a: int) -> tuple[Ints, Ints]:
        """Of each slot the elements [front, back) in an arena."""
        heads = self.scalars[self.heads[a]]
        return heads[:, FRONT], heads[:, BACK]

    def one(self, entry: int) -> Scalars:
        """The scalars of one slot."""
        return {name: values[entry : entry + 1] for name, values in self.scalars.items()}


class StateCodec:
    """The layout of an engine's state in batches."""

    def __init__(self, engine: LiveEngine, emitter: ChangeEmitter | None) -> None:
        self.engine, self.emitter = engine, emitter
        self.checks = StateChecks(engine)
        for group in engine.aggregates:
            for aggregate in group:
                aggregate.count_values()  # the counts are part of the state
        self.arenas = [a for a in engine.assigners if isinstance(a, ArenaAssigner)]
        self.owners = {id(a): group for a, group in zip(engine.assigners, engine.aggregates, strict=True)}
        self.running: list[LiveAggregate] = [
            aggregate
            for assigner, group in zip(engine.assigners, engine.aggregates, strict=True)
            if not isinstance(assigner, ArenaAssigner)
            for aggregate in group
        ]
        states = {(aggregate.name, i) for aggregate in self.running for i in aggregate.leaves}
        skipped = {*engine.table.derived, *states} | {name for name in engine.table.arrays if name[0] == "emitted"}
        self.scalars = [name for name in engine.table.arrays if name not in skipped]
        self.keys = pa.schema([*self._key_fields(), *self._scalar_fields(), *self._running_fields()])
        self.elements = [self._element_schema(assigner) for assigner in self.arenas]
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

    def _running_fields(self) -> list[pa.Field]:
        return [
            pa.field(f"{aggregate.name}.{name}", kind)
            for aggregate in self.running
            for name, kind in aggregate.fields.items()
        ]

    def _coordinates(self, assigner: ArenaAssigner) -> list[Any]:
        own = {key for aggregate in self.owners[id(assigner)] for key in self._columns_of(aggregate)}
        own |= {key for policy in self._policies(assigner) for key in policy.columns}
        return [name for name in assigner.arena.columns if name not in own]

    def _columns_of(self, aggregate: LiveAggregate) -> list[Any]:
        return [(aggregate.name, "before"), *((aggregate.name, i) for i in aggregate.leaves)]

    def _policies(self, assigner: ArenaAssigner) -> list[PolicyWindow]:
        return list(assigner.policies.values()) if isinstance(assigner, RowAssigner) else []

    def _element_schema(self, assigner: ArenaAssigner) -> pa.Schema:
        fields = [pa.field("key", pa.int32())]
        columns = assigner.arena.columns
        fields += [
            pa.field(_text(name), pa.from_numpy_dtype(columns[name].dtype)) for name in self._coordinates(assigner)
        ]
        for policy in self._policies(assigner):
            fields += [pa.field(name, kind) for name, kind in policy.fields.items()]
        for aggregate in self.owners[id(assigner)]:
            fields.append(pa.field(f"{aggregate.name}.before", pa.int64()))
            fields += [pa.field(f"{aggregate.name}.{name}", kind) for name, kind in aggregate.fields.items()]
        return pa.schema(fields)

    def _emitted_schema(self, group: int) -> pa.Schema:
        assert self.emitter is not None
        width = self.engine.table.blanks["emitted", group].size
        fields = [pa.field("key", pa.int32()), *(pa.field(f"n{j}", pa.int64()) for j in range(width))]
        return pa.schema([*fields, *(pa.field(f"r{i}", log.type) for i, log in enumerate(self.emitter.logs[group]))])

    # ---- to batches ----

    def encode(self, slots: Ints, cuts: Sequence[Ints]) -> list[pa.RecordBatch]:
        """These slots, without the elements of each arena below the positions `cuts`."""
        table = self.engine.table
        self.engine.write_counts(slots)
        arrays = self.engine.keys.keys(slots)
        heads = {assigner.arena.name for assigner in self.arenas}
        for name in self.scalars:
            rows = table[name][slots]
            if name in heads:
                rows[:, : CAPACITY + 1] = 0  # where a ring lies in memory is no part of the state
            arrays += [
                array(np.ascontiguousarray(column)) for column in rows.reshape(len(slots), table.blanks[name].size).T
            ]
        for aggregate in self.running:
            arrays += aggregate.store(slots)
        found = [pa.RecordBatch.from_arrays(arrays, schema=self.keys)]
        for a, assigner in enumerate(self.arenas):
            fronts, backs = assigner.arena.heads[slots, FRONT], assigner.arena.heads[slots, BACK]
            found.append(self.encode_elements(a, slots, np.maximum(fronts, cuts[a]), backs))
        return found + [self._encode_emitted(group, slots) for group in range(len(self.emitted))]

    def encode_parts(self, slots: Ints, cuts: Sequence[Ints], counts: Ints) -> list[list[pa.RecordBatch]]:
        """The same in parts, each of the next so many slots: it takes half of the time that each alone would."""
        whole = self.encode(slots, cuts)
        ends = np.cumsum(counts)
        firsts = ends - counts
        parts = [[whole[0].slice(*bounds)] for bounds in zip(firsts.tolist(), counts.tolist(), strict=True)]
        for batch in whole[1:]:
            entry, columns = numbers(batch.column(0)), batch.columns[1:]
            edges = np.searchsorted(entry, np.append(firsts, len(slots)))
            for part, first, start, stop in zip(parts, firsts, edges[:-1].tolist(), edges[1:].tolist(), strict=True):
                own = array(entry[start:stop] - np.int32(first))
                rest = [column.slice(start, stop - start) for column in columns]
                part.append(pa.RecordBatch.from_arrays([own, *rest], schema=batch.schema))
        return parts

    def encode_elements(self, a: int, slots: Ints, starts: Ints, stops: Ints) -> pa.RecordBatch:
        """The elements [start, stop) of each slot, in an arena."""
        assigner = self.arenas[a]
        self.engine.write_counts(slots)
        places, entry = places_of(assigner.arena.heads, slots, starts, stops)
        arrays: list[pa.Array] = [array(entry.astype(np.int32))]
        arrays += [array(assigner.arena.columns[name][places]) for name in self._coordinates(assigner)]
        for policy in self._policies(assigner):
            arrays += policy.store(places)
        for aggregate in self.owners[id(assigner)]:
            arrays.append(array(assigner.arena.columns[aggregate.name, "before"][places]))
            arrays += aggregate.store(places)
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
        """Slots that were encoded, in arrays; nothing has changed yet. Raises ValueError if a number is missing."""
        given = batches[0]
        scalars: dict[Any, NDArray[Any]] = {}
        for name in self.scalars:
            blank = self.engine.table.blanks[name]
            columns = [_whole_numbers(given.column(f"{_text(name)}.{j}")) for j in range(blank.size)]
            scalars[name] = np.stack(columns, 1) if blank.ndim else columns[0]
        keys = [key_column(given.column(i)) for i in range(len(self.engine.keys.types))]
        entries = [_whole_numbers(batch.column(0)).astype(np.int64) for batch in batches[1:]]
        heads = [assigner.arena.name for assigner in self.arenas]
        return Stored(keys, given, scalars, entries, list(batches[1:]), heads)

    def check(self, stored: Stored) -> None:
        """Raises ValueError for slots that cannot be: see `state_checks`."""
        self.checks.slots(stored.scalars)
        for a, assigner in enumerate(self.arenas):
            columns = self.check_elements(a, stored.batches[a], stored.scalars)
            self.checks.last_panes(assigner, stored.scalars, stored.entries[a], columns)
        for entry in stored.entries[len(self.arenas) :]:
            _require_entries(entry, stored.count)
            require(entry[1:] > entry[:-1], "the last result of a key is there twice")

    def check_elements(self, a: int, batch: pa.RecordBatch, scalars: Scalars) -> dict[Any, NDArray[Any]]:
        """The coordinates of elements, of slots with these scalars. Raises ValueError for what cannot be."""
        assigner = self.arenas[a]
        entry = _whole_numbers(batch.column(0)).astype(np.int64)
        _require_entries(entry, len(scalars["keys"]))
        columns = {}
        for at, name in enumerate(self._coordinates(assigner)):
            columns[name] = _whole_numbers(batch.column(1 + at))
        for aggregate in self.owners[id(assigner)]:
            columns[aggregate.name, "before"] = _whole_numbers(batch.column(f"{aggregate.name}.before"))
        self.checks.elements(assigner, scalars, entry, columns)
        return columns

    def put(self, stored: Stored, emitted: bool) -> Ints:
        """Take slots that were read, whose keys are new here. `emitted`: also what was last emitted.

        Room for the elements that are not in the bucket is left. Raises what a monoid raises.
        """
        engine, given = self.engine, stored.keys_batch
        engine.count_values()
        slots = engine.keys.find(stored.keys, stored.count).slots
        if engine.keys.capacity > engine.table.capacity:
            engine.table.grow(engine.keys.capacity)
        for name, values in stored.scalars.items():
            engine.table[name][slots] = values
        for aggregate in self.running:  # by name: a lookup's engine has no columns for a store
            aggregate.load(slots, [given.column(f"{aggregate.name}.{name}") for name in aggregate.fields])
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
        """Drop the keys of slots that could not be put, as far as they are here, and what was emitted of them."""
        slots = self.engine.keys.find(stored.keys, stored.count, insert=False).slots
        self.engine.free(slots[slots >= 0])
        if self.emitter is not None:
            self.emitter.even_out()

    def load_elements(self, a: int, slots: Ints, starts: Ints, stops: Ints, batch: pa.RecordBatch) -> None:
        """Put the elements [start, stop) of each slot in their places."""
        assigner = self.arenas[a]
        places, _ = places_of(assigner.arena.heads, slots, starts, stops)
        at = 1
        for name in self._coordinates(assigner):
            assigner.arena.columns[name][places] = numbers(batch.column(at))
            at += 1
        for policy in self._policies(assigner):
            width = len(policy.fields)
            policy.load(places, batch.columns[at : at + width])
            at += width
        for aggregate in self.owners[id(assigner)]:
            assigner.arena.columns[aggregate.name, "before"][places] = numbers(batch.column(at))
            width = len(aggregate.fields)
            aggregate.load(places, batch.columns[at + 1 : at + 1 + width])
            at += 1 + width

    def _put_emitted(self, group: int, slots: Ints, batch: pa.RecordBatch) -> None:
        assert self.emitter is not None
        table = self.engine.table["emitted", group]
        of = slots[numbers(batch.column(0))]
        width = table.shape[1]
        for j in range(width):
            table[of, j] = _whole_numbers(batch.column(1 + j))
        for i, log in enumerate(self.emitter.logs[group]):
            table[of, 0] = log.encode(batch.column(1 + width + i))


def _whole_numbers(column: pa.Array) -> NDArray[Any]:
    """A column of numbers, none of which is missing."""
    require(not column.null_count, "a number is missing")
    return numbers(column)


def _require_entries(entry: Ints, count: int) -> None:
    require((entry >= 0) & (entry < count), "it has elements of a key that is not in it")
    require(entry[1:] >= entry[:-1], "its elements are not in the order of their keys")


def _text(name: Any) -> str:
    return ".".join(map(str, name)) if isinstance(name, tuple) else str(name)
