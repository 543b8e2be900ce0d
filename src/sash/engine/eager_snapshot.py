"""The whole state of an eager engine as Arrow batches, and back: for snapshots.

    keys     the by columns, rows passed, last time; of each window with a base: whether, since when, and its states
    rows     in order, by key: time, arrival, revision, logged columns, Delta values; of each aggregate: seen, state
    slides   a batch for each window that slides: key, name, number and revision of what was emitted

States are stored as values, not as codes; those of interpreted aggregates by their monoid's `dump`, or our codec.
Labels and trees are not stored: they are made again from the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.engine.arrow_arrays import array
from sash.engine.eager import EagerEngine
from sash.engine.eager_aggregate import EagerAggregate, States, stored, subset
from sash.engine.eager_records import TimeRecords
from sash.engine.eager_rows import NewRows
from sash.engine.eager_slides import SlideResults
from sash.engine.input_encoding import numbers
from sash.kernels.eager_windows import COUNT, PASSED, STRIDE
from sash.stores import codec

Ints = NDArray[np.int64]

META = pa.schema([("arrived", pa.int64())])


# ---- out ----


def dump(engine: EagerEngine) -> list[pa.RecordBatch]:
    """All that an engine knows between two calls."""
    state = engine.state
    slots = np.flatnonzero(state.alive)
    place = np.zeros(len(state.alive), np.int64)
    place[slots] = np.arange(len(slots))
    meta = pa.RecordBatch.from_arrays([pa.array([engine.arrived], pa.int64())], schema=META)
    return [meta, _keys(engine, slots), _rows(engine, slots), *_slides(engine, place)]


def _keys(engine: EagerEngine, slots: Ints) -> pa.RecordBatch:
    state = engine.state
    columns: dict[str, pa.Array] = {
        f"key:{name}": column for name, column in zip(state.resolved.by, state.keys.keys(slots), strict=True)
    }
    columns["passed"] = array(state.rows.heads[slots, PASSED])
    columns["last"] = array(state.last[slots])
    for a in range(state.rules.anchors):
        columns[f"anchored{a}"] = array(state.anchored[slots, a])
        columns[f"begin{a}"] = array(state.begins[slots, a])
        at = slots * state.rules.anchors + a
        for p, aggregate in enumerate(state.aggregates):
            _put(columns, f"base{a}:{p}", aggregate, aggregate.base_seen[at], subset(aggregate.bases, at))
    return pa.RecordBatch.from_pydict(columns)


def _rows(engine: EagerEngine, slots: Ints) -> pa.RecordBatch:
    state, rows = engine.state, engine.state.rows
    counts = rows.heads[slots, COUNT]
    rids = rows.first_rids(slots, counts)
    key = np.repeat(np.arange(len(slots)), counts)
    index = np.arange(len(rids)) - np.repeat(np.cumsum(counts) - counts, counts)
    columns: dict[str, pa.Array] = {"key": array(key), "time": array(rows.time_at(slots[key], index))}
    columns["arrival"], columns["revision"] = array(rows.arrival[rids]), array(rows.revision[rids])
    columns |= {f"row:{n}": c for n, c in zip(rows.columns.schema.names, rows.columns.take(rids), strict=True)}
    columns |= {f"delta:{name}": array(values[rids]) for name, values in rows.deltas.items()}
    for p, aggregate in enumerate(state.aggregates):
        _put(columns, f"state:{p}", aggregate, aggregate.seen[rids], subset(aggregate.states, rids))
    return pa.RecordBatch.from_pydict(columns)


def _put(columns: dict[str, pa.Array], name: str, aggregate: EagerAggregate, seen: Any, states: States) -> None:
    """A state for each place that is seen; null, or anything, elsewhere."""
    columns[name] = array(seen)
    if not aggregate.lane.compiled:
        blank = np.empty(len(seen), object)
        blank[seen] = states[0][seen]
        states = (blank,)
    for i, column in enumerate(stored(aggregate, states)):
        columns[f"{name}:{i}"] = column


def _slides(engine: EagerEngine, place: Ints) -> list[pa.RecordBatch]:
    if not isinstance(engine.results, SlideResults):
        return []
    found = []
    for records in engine.results.records:
        slots, *others = records.dump()
        names = ("name", "revision") if isinstance(records, TimeRecords) else ("name", "number", "revision")
        columns = {"key": array(place[slots]), **{n: array(part) for n, part in zip(names, others, strict=True)}}
        found.append(pa.RecordBatch.from_pydict(columns))
    return found


# ---- in ----


def load(engine: EagerEngine, batches: Sequence[pa.RecordBatch]) -> None:
    """Put what `dump` gave into a new engine of the same query."""
    meta, keys, rows, *slides = batches
    engine.arrived = meta.column("arrived")[0].as_py()
    state = engine.state
    of = [keys.column(f"key:{name}") for name in state.resolved.by]
    count = keys.num_rows
    slots = state.keys.find(of, count).slots if count else np.zeros(0, np.int64)
    key = numbers(rows.column("key"))
    state.reserve(np.sort(slots), np.bincount(slots[key], minlength=int(slots.max(initial=-1)) + 1)[np.sort(slots)])
    _load_rows(engine, slots[key], rows)
    state.rows.heads[slots, PASSED] = numbers(keys.column("passed"))
    state.last[slots], state.alive[slots] = numbers(keys.column("last")), True
    for a in range(state.rules.anchors):
        state.anchored[slots, a] = numbers(keys.column(f"anchored{a}"))
        state.begins[slots, a] = numbers(keys.column(f"begin{a}"))
        at = slots * state.rules.anchors + a
        for p, aggregate in enumerate(state.aggregates):
            aggregate.base_seen[at] = numbers(keys.column(f"base{a}:{p}"))
            _take(aggregate, aggregate.bases, at, keys, f"base{a}:{p}")
    state.watch(slots)
    _load_slides(engine, slots, slides)


def _load_rows(engine: EagerEngine, slots: Ints, batch: pa.RecordBatch) -> None:
    state, rows = engine.state, engine.state.rows
    rids = rows.fresh_numbers(len(slots))
    time = np.ascontiguousarray(numbers(batch.column("time")), rows.numbers)
    rows.arrival[rids], rows.revision[rids] = numbers(batch.column("arrival")), numbers(batch.column("revision"))
    if len(rows.columns.schema):
        columns = [batch.column(f"row:{name}") for name in rows.columns.schema.names]
        logged = pa.RecordBatch.from_arrays(columns, schema=rows.columns.schema)
        rows.columns.set(rids, logged)
        if state.resolved.ties:
            rows.tie_codes[rids] = rows.ties.encode([logged.column(name) for name in state.resolved.ties])
    for name, values in rows.deltas.items():
        values[rids] = numbers(batch.column(f"delta:{name}"))
    for p, aggregate in enumerate(state.aggregates):
        aggregate.seen[rids] = numbers(batch.column(f"state:{p}"))
        _take(aggregate, aggregate.states, rids, batch, f"state:{p}")
    order = np.argsort(slots, kind="stable")
    at = np.zeros(len(slots), np.int64)  # blocks are empty: all rows come in their order
    rows.labels[rids[order]] = STRIDE // 2**16 * (np.arange(len(slots)) + 1)
    rows.insert(NewRows(slots[order], time[order], rids[order], order), at)


def _take(aggregate: EagerAggregate, states: States, at: Ints, batch: pa.RecordBatch, name: str) -> None:
    """Put stored states at places."""
    if not aggregate.lane.compiled:
        read = aggregate.part.monoid.load or codec.loads
        for place, data in zip(at.tolist(), batch.column(f"{name}:0").to_pylist(), strict=True):
            states[0][place] = None if data is None else read(data)
        return
    for i in range(len(states)):
        column, j = batch.column(f"{name}:{i}"), aggregate.measure.state_of.get(i)
        if j is None:
            states[i][at] = numbers(column)
        else:
            codes = aggregate.encoded(j, column)
            states[i][at] = codes
            if aggregate.measure.forms[j] == "rank":
                identity = _flat(aggregate.lane.monoid.identity)[i]
                states[i][at] = np.where(codes < 0, identity, codes)


def _load_slides(engine: EagerEngine, slots: Ints, batches: Sequence[pa.RecordBatch]) -> None:
    if not isinstance(engine.results, SlideResults):
        return
    for records, batch in zip(engine.results.records, batches, strict=True):
        of, name, revision = (numbers(batch.column(part)) for part in ("key", "name", "revision"))
        if isinstance(records, TimeRecords):
            records.set(slots[of], name, revision)
        else:
            number = numbers(batch.column("number"))
            edges = [*np.flatnonzero(number == -1).tolist(), len(of)]
            for start, stop in pairwise(edges):
                mine = slice(start + 1, stop)
                records.set(int(slots[of[start]]), int(name[start]), number[mine].copy(), revision[mine].copy())
        records.commit()


def _flat(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in _flat(part)] if isinstance(value, tuple) else [value]
