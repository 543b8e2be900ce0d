"""State at rest: the slots of some keys as Arrow batches, and back.

    batch 0        a row a key: its values, and the scalars of its slot
    batch 1, …     for each assigner with an arena: a row an element, with the number of its key, its coordinates, and
                   the states of the aggregates, values in place of codes
    last batch     with emit="changes": what was last emitted of each key

Structures are not part of it: they are built again from the elements. Long rings are cut: elements below a position
that the caller names are left out, and put back by `load_run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sash.engine.arena import places_of
from sash.engine.arrow_arrays import array
from sash.engine.emitter import ChangeEmitter
from sash.engine.input_encoding import numbers
from sash.engine.keys import key_column
from sash.engine.live_aggregate import LiveAggregate
from sash.engine.live_engine import LiveEngine
from sash.engine.policy_windows import PolicyWindow
from sash.engine.row_assigner import RowAssigner
from sash.engine.step_data import Ints
from sash.engine.window_assigner import ArenaAssigner
from sash.kernels.live_loops import BACK, CAPACITY, FRONT


class StateCodec:
    """The layout of an engine's state in batches."""

    def __init__(self, engine: LiveEngine, emitter: ChangeEmitter | None) -> None:
        self.engine, self.emitter = engine, emitter
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

    def decode(self, batches: Sequence[pa.RecordBatch], emitted: bool) -> Ints:
        """Take slots that were encoded, whose keys are new here. `emitted`: also what was last emitted."""
        engine, given = self.engine, batches[0]
        engine.count_values()
        count = given.num_rows
        by = len(engine.keys.types)
        columns = [key_column(given.column(i)) for i in range(by)]
        slots = engine.keys.find(columns, count).slots if count else np.zeros(0, np.int64)
        if engine.keys.capacity > engine.table.capacity:
            engine.table.grow(engine.keys.capacity)
        at = by
        for name in self.scalars:
            blank = engine.table.blanks[name]
            for j in range(blank.size):
                values = numbers(given.column(at))
                if blank.ndim:
                    engine.table[name][slots, j] = values
                else:
                    engine.table[name][slots] = values
                at += 1
        for aggregate in self.running:
            width = len(aggregate.fields)
            aggregate.load(slots, given.columns[at : at + width])
            at += width
        for a, assigner in enumerate(self.arenas):
            assigner.arena.heads[slots, : CAPACITY + 1] = 0
            assigner.arena.reserve(slots)
            self._decode_elements(a, slots, batches[1 + a])
        if emitted:
            for group in range(len(self.emitted)):
                self._decode_emitted(group, slots, batches[1 + len(self.arenas) + group])
        engine.timers.lowered(slots, engine.table["stamps"][slots, 1])
        return slots

    def forget(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Drop the keys of slots that were encoded, as far as they are here."""
        columns = [key_column(batches[0].column(i)) for i in range(len(self.engine.keys.types))]
        slots = self.engine.keys.find(columns, batches[0].num_rows, insert=False).slots
        self.engine.free(slots[slots >= 0])

    def _decode_elements(self, a: int, slots: Ints, batch: pa.RecordBatch) -> None:
        """The youngest elements of each slot, as many as the batch has."""
        entry = numbers(batch.column(0)).astype(np.int64)
        held = np.bincount(entry, minlength=len(slots))
        backs = self.arenas[a].arena.heads[slots, BACK]
        self.load_elements(a, slots, backs - held, backs, batch)

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

    def _decode_emitted(self, group: int, slots: Ints, batch: pa.RecordBatch) -> None:
        assert self.emitter is not None
        table = self.engine.table["emitted", group]
        of = slots[numbers(batch.column(0))]
        width = table.shape[1]
        for j in range(width):
            table[of, j] = numbers(batch.column(1 + j))
        for i, log in enumerate(self.emitter.logs[group]):
            table[of, 0] = log.encode(batch.column(1 + width + i))


def _text(name: Any) -> str:
    return ".".join(map(str, name)) if isinstance(name, tuple) else str(name)
