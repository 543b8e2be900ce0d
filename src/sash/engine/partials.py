"""Export and import the partials of one key, so that another operator can continue its windows.

    operator 0   · · · · │             ──▶ export ──┐
    operator 1           │ · · · · │   ──▶ export ──┤
    operator 2                     │ · · ·          └──▶ import, then its own rows

A Lifetime window has one partial, Time windows with slides have one for each pane of the lookback. Panes that were cut
between two operators are combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from sash.engine import slide_grid
from sash.engine.arrow_arrays import array
from sash.engine.input_encoding import numbers
from sash.engine.key_values import key_column
from sash.engine.live_aggregate import LiveAggregate
from sash.engine.live_engine import LiveEngine
from sash.engine.pane_assigner import PaneAssigner
from sash.engine.window_assigner import ArenaAssigner, WindowAssigner
from sash.kernels.loops.array_types import Ints
from sash.kernels.loops.live_loops import BACK, FRONT
from sash.kernels.loops.slot_loops import LAST, ROWS
from sash.kernels.loops.window_loops import OPEN, ROW, SLIDE

NUMBERS = ("rows", "last", "start")


def export_partials(engine: LiveEngine) -> list[pa.RecordBatch]:
    """The partials of the engine's only key, for each assigner: its values, then coordinates and states."""
    live = engine.live
    assert len(live) <= 1
    engine.write_counts(live)
    engine.count_values()
    found = []
    for assigner, aggregates in engine.groups:
        places, counts = _held(engine, assigner, aggregates, live)
        columns: dict[str, pa.Array] = {
            f"key{i}": column.take(array(np.zeros(len(places), np.int64))) if len(live) else column
            for i, column in enumerate(engine.keys.keys(live))
        }
        for name, values in zip(NUMBERS, _numbers(engine, assigner, live), strict=True):
            columns[name] = array(np.repeat(values, len(places)) if len(live) else values)
        if isinstance(assigner, ArenaAssigner):
            columns["low"] = array(assigner.arena.columns["low"][places])
        for p, aggregate in enumerate(aggregates):
            columns[f"{p}.n"] = array(counts[p])
            stored = aggregate.store(itemgetter(places))
            columns |= {f"{p}.{name}": part for name, part in zip(aggregate.fields, stored, strict=True)}
        found.append(pa.RecordBatch.from_pydict(columns))
    return found


def _numbers(engine: LiveEngine, assigner: WindowAssigner, live: Ints) -> list[Any]:
    start = engine.table[f"{assigner.name}.start"][live] if not isinstance(assigner, ArenaAssigner) else None
    last = engine.table["stamps"][live, LAST]
    return [engine.table["keys"][live, ROWS], last, last if start is None else start]


def _held(
    engine: LiveEngine, assigner: WindowAssigner, aggregates: Sequence[LiveAggregate], live: Ints
) -> tuple[Ints, list[Ints]]:
    """The places of the partials, and the number of values of each aggregate in them."""
    if not isinstance(assigner, ArenaAssigner):
        totals = [engine.table[a.name, "totals"][live] - engine.table[a.name, "base"][live] for a in aggregates]
        return live, totals
    if not len(live):
        return live, [live for _ in aggregates]
    front, back = (int(assigner.arena.heads[live[0], column]) for column in (FRONT, BACK))
    places = assigner.located(np.full(back - front, live[0]), np.arange(front, back))
    counts = []
    for aggregate in aggregates:
        before = assigner.arena.columns[aggregate.name, "before"][places]
        counts.append(np.diff(np.append(before, engine.table[aggregate.name, "totals"][live])))
    return places, counts


def import_partials(engine: LiveEngine, keys: Sequence[pa.Array], given: Sequence[list[pa.RecordBatch]]) -> Any:
    """Initialise a new engine with partials: for each assigner those of all earlier time ranges, in order.

    Returns the time of the last row in them.
    """
    engine.count_values()
    slots = engine.keys.find([key_column(column) for column in keys], 1).slots
    engine.grow()
    slot = int(slots[0])
    parts = [batch for batches in given for batch in batches if batch.num_rows]
    last = max(batch.column("last")[-1].as_py() for batch in parts)
    first = next(batches for batches in given if batches)
    engine.table["keys"][slot, ROWS] = sum(b.column("rows")[-1].as_py() for b in first if b.num_rows)
    engine.table["stamps"][slot, LAST] = last
    for (assigner, aggregates), every in zip(engine.groups, given, strict=True):
        batches = [batch for batch in every if batch.num_rows]
        if not batches:
            continue
        if isinstance(assigner, PaneAssigner):
            _import_panes(engine, assigner, aggregates, slot, batches, last)
        else:
            _import_running(engine, assigner, aggregates, slot, batches)
    return last


def _import_panes(
    engine: LiveEngine,
    assigner: PaneAssigner,
    aggregates: Sequence[LiveAggregate],
    slot: int,
    batches: list[pa.RecordBatch],
    last: Any,
) -> None:
    lows = np.concatenate([numbers(batch.column("low")) for batch in batches])
    is_first = np.append(True, lows[1:] != lows[:-1]) | (assigner.elements == "rows")
    number = np.cumsum(is_first) - 1
    count, heads, of = int(number[-1]) + 1, assigner.arena.heads, np.array([slot])
    heads[slot, BACK] = len(lows)  # space for all of them, because they are combined in place
    assigner.arena.reserve(of)
    heads = assigner.arena.heads
    every = assigner.located(np.full(len(lows), slot), np.arange(len(lows)))
    for p, aggregate in enumerate(aggregates):
        held = _load(aggregate, every, batches, p)
        _combined(aggregate, every, number, held)
        counts = np.bincount(number, held, count).astype(np.int64)
        assigner.arena.columns[aggregate.name, "before"][every[:count]] = np.cumsum(counts) - counts
        engine.table[aggregate.name, "totals"][slot] = counts.sum()
    heads[slot, BACK] = count
    cuts = lows[is_first]
    assigner.arena.columns["low"][every[:count]] = cuts
    engine.table[f"{assigner.name}.low"][slot] = cuts[-1]
    for w, window in enumerate(assigner.windows):
        assigner.arena.columns["first", w][every[:count]] = slide_grid.last_end(window, cuts, strict=False) + 1
        left = slide_grid.last_end(window, np.array([last], engine.numbers), window.closed == "right")[0]
        heads[slot, assigner.columns(w)[2]] = left + 1  # earlier operators emit the slides up to there


def _import_running(
    engine: LiveEngine,
    assigner: WindowAssigner,
    aggregates: Sequence[LiveAggregate],
    slot: int,
    batches: list[pa.RecordBatch],
) -> None:
    heads = engine.table[f"{assigner.name}.heads"]
    heads[slot, OPEN], heads[slot, ROW] = 1, 0
    window = assigner.windows[0]
    if window.slide == "time":
        last = np.array([batches[-1].column("last")[-1].as_py()], engine.numbers)
        heads[slot, SLIDE] = slide_grid.last_end(window, last, window.closed == "right")[0] + 1
    engine.table[f"{assigner.name}.start"][slot] = batches[0].column("start")[0].as_py()
    for p, aggregate in enumerate(aggregates):
        total: Any = None
        held = 0
        for batch in batches:
            n = int(_load(aggregate, np.array([slot]), [batch], p)[0])
            if n:
                state = _state(aggregate, slot)
                total = state if total is None else aggregate.kernel.monoid.combine(total, state)
            held += n
        if total is not None:
            _put(aggregate, slot, total)
        engine.table[aggregate.name, "totals"][slot], engine.table[aggregate.name, "base"][slot] = held, 0


def _load(aggregate: LiveAggregate, places: Ints, batches: list[pa.RecordBatch], p: int) -> Ints:
    """Load stored states into their places; returns the number of values of each."""
    names = [f"{p}.{name}" for name in aggregate.fields]
    aggregate.load(places, [pa.concat_arrays([batch.column(name) for batch in batches]) for name in names])
    return np.concatenate([numbers(batch.column(f"{p}.n")) for batch in batches])


def _combined(aggregate: LiveAggregate, places: Ints, number: Ints, counts: Ints) -> None:
    """Combine the states of each pane, and move the panes to consecutive places."""
    monoid = aggregate.kernel.monoid
    held = 0
    for i, (place, pane) in enumerate(zip(places.tolist(), number.tolist(), strict=True)):
        target = int(places[pane])
        if i and number[i - 1] == pane:
            if counts[i]:
                state = _state(aggregate, place)
                _put(aggregate, target, monoid.combine(_state(aggregate, target), state) if held else state)
                held += int(counts[i])
        else:
            if target != place:
                _put(aggregate, target, _state(aggregate, place))
            held = int(counts[i])


def _state(aggregate: LiveAggregate, place: int) -> Any:
    if not aggregate.kernel.compiled:
        return aggregate.states[0][place]
    return aggregate.kernel.layouts.state.value(aggregate.states, place)


def _put(aggregate: LiveAggregate, place: int, state: Any) -> None:
    if not aggregate.kernel.compiled:
        aggregate.states[0][place] = state
    else:
        aggregate.kernel.layouts.state.store(aggregate.states, place, state)
