"""Move live state from the engine of one query to that of another, as `migration_rules` has matched them.

    old engine    slots ── rings of elements ── states of aggregates
                    │             │                    │ copied, counted, or lifted again
    new engine    slots ── rings of elements ── states of aggregates

Row counts and times of keys, and positions of elements, stay the same. Structures are rebuilt from the elements, as
after a restart. Starts of windows only rise, so the search for a start begins at that of the covering window. Panes
that only a removed window needed stay separate, with the edges of the remaining windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array
from sash.columns.time_numbers import Watermark
from sash.engine.emit.emitter import ChangeEmitter
from sash.engine.keyed.arena import RingRanges
from sash.engine.keyed.live_aggregate import LiveAggregate
from sash.engine.keyed.live_engine import LiveEngine
from sash.engine.keyed.pane_assigner import CountedPanes, PaneAssigner
from sash.engine.keyed.row_assigner import RowAssigner
from sash.engine.keyed.running_assigner import RunningAssigner
from sash.engine.keyed.slot_table import ColumnName
from sash.engine.keyed.window_assigner import ArenaAssigner, StepScope
from sash.kernels.loops.array_types import NO_FLAGS, Ints, Numbers
from sash.kernels.loops.live_loops import BACK, BEGIN, FRONT
from sash.state.migration_rules import AssignerMatch, CopiedState, CountedValues, LiftedValues, Source
from sash.state.state_codec import SlotRows
from sash.windows.rules import cuts


def transfer(old: LiveEngine, new: LiveEngine, matches: Sequence[AssignerMatch]) -> tuple[Ints, Ints]:
    """Load the keys of one engine into another, which is empty; `settle` follows. Returns their slots in both."""
    old.count_values()
    new.count_values()
    theirs = old.live
    if not len(theirs):
        return theirs, theirs
    mine = new.keys.find(old.keys.keys(theirs), len(theirs)).slots
    new.grow()
    new.copy_keys(mine, old, theirs)
    for match in matches:
        if isinstance(match.new, ArenaAssigner):
            _move_elements(match, theirs, mine)
        else:
            _move_partials(match, theirs, mine)
    return theirs, mine


def settle(engine: LiveEngine, now: Watermark) -> None:
    """Set timers, and evict elements and keys that no window needs."""
    engine.settle(StepScope(engine.live, []), now)
    engine.release()
    engine.timers.rebuild()


def _move_partials(match: AssignerMatch, theirs: Ints, mine: Ints) -> None:
    assert isinstance(match.old, RunningAssigner)
    assert isinstance(match.new, RunningAssigner)
    match.new.copy_partials(mine, match.old, theirs)
    for aggregate, source in match.aggregates:
        assert not isinstance(source, LiftedValues)
        totals, base = (source.source.table[source.source.name, part][theirs] for part in ("totals", "base"))
        aggregate.set_totals(mine, totals)
        aggregate.set_bases(mine, base)
        aggregate.load(mine, _stored(source, SlotRows(theirs), totals - base))


def _move_elements(match: AssignerMatch, theirs: Ints, mine: Ints) -> None:
    old, new = match.old, match.new
    assert isinstance(old, ArenaAssigner)
    assert isinstance(new, ArenaAssigner)
    heads = old.arena.heads[theirs]
    new.arena.set_heads(mine, slice(FRONT, BEGIN + 1), heads[:, FRONT : BEGIN + 1])
    for w, of in match.windows.items():
        pairs = zip(_columns(new, w), _columns(old, of), strict=True)
        for column, source in pairs:
            new.arena.set_heads(mine, column, heads[:, source])
    new.arena.reserve(mine)
    front, back = (np.ascontiguousarray(heads[:, column]) for column in (FRONT, BACK))
    elements, places = RingRanges(old.arena, theirs, front, back), RingRanges(new.arena, mine, front, back)
    _move_coordinates(match, elements, places)
    for aggregate, kept in match.aggregates:
        _move_states(aggregate, kept, elements, places)
    if isinstance(new, RowAssigner):
        new.raise_starts(mine)


def _columns(assigner: ArenaAssigner, w: int) -> list[int]:
    """The columns of a head that belong to a window."""
    if isinstance(assigner, PaneAssigner):
        return list(assigner.columns(w))
    assert isinstance(assigner, RowAssigner)
    found = [assigner.start_column(w)]
    if w in assigner.pending:
        found += [assigner.pending[w], assigner.pending[w] + 1]
    if w in assigner.shifted:
        found.append(assigner.shifted[w])
    return found


def _move_coordinates(match: AssignerMatch, elements: RingRanges, places: RingRanges) -> None:
    old, new = match.old, match.new
    theirs = elements.arena.columns
    if isinstance(new, RowAssigner):
        assert isinstance(old, RowAssigner)
        names: list[ColumnName] = ["time", *(("delta", column) for column in new.deltas)]
        for name in names:
            new.arena.put(name, places.places, elements.take(theirs[name]))
        for w, policy in new.policies.items():
            policy.load(places.places, old.policies[match.windows[w]].store(elements.take))
        return
    assert isinstance(new, PaneAssigner)
    firsts = elements.take(theirs["first row"]) if isinstance(new, CountedPanes) else np.zeros(0, new.numbers)
    new.describe(places.places, _edges(new, elements.take(theirs["low"])), firsts)
    last = match.old.table[f"{old.name}.low"][elements.slots]
    new.load_newest(places.slots, _edges(new, last))


def _edges(assigner: PaneAssigner, low: Numbers) -> Numbers:
    """The last edge of an assigner's windows at each edge of a pane, or before it."""
    windows = [replace(window.rule, closed_end=False) for window in assigner.windows]
    return np.ascontiguousarray(cuts(windows, low), assigner.cut_type)


# ---- states ----


def _move_states(aggregate: LiveAggregate, source: Source, elements: RingRanges, places: RingRanges) -> None:
    assert aggregate.arena is not None
    if isinstance(source, LiftedValues):
        _lift(aggregate, source, elements, places)
        return
    other = source.source
    before = elements.take(elements.arena.columns[other.name, "before"])
    totals = other.table[other.name, "totals"][elements.slots]
    aggregate.set_before(places.places, before)
    aggregate.set_totals(places.slots, totals)
    aggregate.load(places.places, _stored(source, elements, other.value_counts(elements)))


def _stored(source: CopiedState | CountedValues, some: Any, counts: Ints) -> list[pa.Array]:
    """The columns of a state as they are stored; `counts`: how many values there are in each."""
    if isinstance(source, CountedValues):
        return [array(np.ascontiguousarray(counts, np.int64))]
    found = source.source.store(some.take)
    if source.leaves is not None:
        found = [found[i] for i in source.leaves]
    return [array(np.ascontiguousarray(counts, np.int64)), *found] if source.counted else found


def _lift(aggregate: LiveAggregate, source: LiftedValues, elements: RingRanges, places: RingRanges) -> None:
    """Lift the values of rows again. Raises AggregateError."""
    if not elements.total:
        return
    rows, count = source.kept.rows(source.spec, elements), elements.total
    flags = aggregate.values.non_null(rows, count)
    inputs, place = aggregate.values.inputs(rows, count), (places.slots[places.entry], places.places)
    non_null = NO_FLAGS if flags is None else flags
    aggregate.kernel.lift_elements(inputs, non_null, place, aggregate.states, aggregate.counts)


# ---- last results ----


def move_emitted(
    old: ChangeEmitter, new: ChangeEmitter, cells: Sequence[tuple[int, Sequence[int]]], slots: tuple[Ints, Ints]
) -> None:
    """Load the last results of keys: by group of results, the old group and the cell of it for each cell."""
    theirs, mine = slots
    for g, (source, of) in enumerate(cells):
        rows, width = old.engine.table["emitted", source][theirs], len(old.cells[source])
        some = np.flatnonzero(rows[:, 0] >= 0)
        codes = rows[some, 0]
        columns = [old.logs[source][cell].decode(codes) for cell in of]
        counts = [rows[some, 1 + side + cell] for side in (0, width) for cell in of]
        new.load_results(g, mine[some], counts, columns)
