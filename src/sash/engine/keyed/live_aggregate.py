"""A live aggregate: one aggregate of a query over the elements of one assigner, with state between calls.

rows' columns ──▶ inputs ──▶ states of elements, in the arena ──▶ structures in their slots ──▶ results

`live_aggregate.py` converts results to columns.

The number of values of each slot, and the number before each of its elements: some rows have none.

Windows that differ only in size: the starts of all of them, for each end of the longest.

Convert the results of loops over live state to columns: one for each aggregate that shares the state.

results, in the order of the table or by size ──▶ in the order of windows ──▶ a column for each view, with counts
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.aggregators.catalogue import catalogue_name, sequential
from sash.aggregators.in_order import InOrder
from sash.columns.aggregate_batch import Aggregate
from sash.columns.arrow_arrays import all_true, stacked
from sash.columns.failed_rows import FailedResults
from sash.columns.lowered_results import (
    NOT_ASKED,
    CountedColumn,
    ResultView,
    Values,
    gives_states,
    loop_monoid,
    views_of,
)
from sash.engine.atomic import all_at_once, attributes, items
from sash.engine.keyed.arena import Arena, RingRanges, SlotStructures
from sash.engine.keyed.chunk_log import CodeMapping
from sash.engine.keyed.rank_labels import RankLabels
from sash.engine.keyed.slot_table import SlotTable
from sash.engine.keyed.step_data import StepRows, WindowRanges
from sash.engine.keyed.value_encoder import LARGE, ValueEncoder
from sash.engine.keyed.window_assigner import ArenaAssigner, AssignedRows, WindowAssigner
from sash.kernels.loops.array_types import NO_FLAGS, NO_INTS, Flags, Ints, States
from sash.kernels.loops.bound_kernel import (
    LIFTING,
    NO_COUNTS,
    NONE_WANTED,
    AggregateError,
    AskedRanges,
    LoopResults,
    SlotFields,
    ValueCounts,
    live_use,
)
from sash.kernels.loops.ring_loops import BACK, CAPACITY, FRONT
from sash.plan.common_results import Member
from sash.plan.derived_columns import lower_may_fail
from sash.plan.planner import FOLD, SEVERAL_SIZES, but_size

# --- Element counts ---


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


# --- Result columns ---


class ResultFailed(AggregateError):
    """An aggregate raised an exception on a result: its number in the query, and the window of the result."""

    def __init__(self, place: int, error: Exception, number: int, window: WindowRanges) -> None:
        super().__init__(place, error)
        self.number, self.window = number, window


class ResultColumns:
    """Converts results of a group of aggregates that share a state.

    `values` decodes results; `states`: results are states, which views lower. All methods raise ResultFailed if an
    aggregate cannot be lowered; if its view sets such results aside, `failed` has them.
    """

    def __init__(self, views: Sequence[ResultView], values: ValueEncoder, is_final: bool, states: bool) -> None:
        self._views, self._dictionaries, self._plain_column = views, values.dictionaries, values.plain_column
        self.is_plain = values.plain_result is not None and len(views) == 1 and not states
        """Whether results are a column of 64-bit numbers."""
        self.counted = not (self.is_plain and is_final and values.aggregate.spec.monoid.empty is None)
        """Whether the numbers of values in windows are needed beside the results."""
        self.failed: list[ResultFailed] = []
        """The results that have failed and are null, until `take_failed`."""

    def take_failed(self) -> list[ResultFailed]:
        """The results that have failed since the last call."""
        found, self.failed = self.failed, []
        return found

    def running(self, results: LoopResults, found: WindowRanges) -> list[CountedColumn]:
        """The results of a running window, for each view."""
        out, valid, low, high = results
        made = self._columns(Values(out, valid, all_true(len(valid)), low, high), NO_INTS, found)
        if found.rows is None:
            return [CountedColumn(column, low, high) for column in made]
        places = pa.array(found.rows)
        return [CountedColumn(column.take(places), low[found.rows], high[found.rows]) for column in made]

    def slid(self, results: LoopResults, missing: int, found: WindowRanges, order: Ints) -> list[CountedColumn]:
        """The results of one window, for each view; `missing` of them are null, `order` is that of the results."""
        out, valid, low, high = results
        assert found.los is not None
        assert found.his is not None
        if not missing and self.is_plain:
            column = self._plain_column(out[0])
            return [CountedColumn(column, low, high) if len(low) else CountedColumn(column, found.los, found.his)]
        on, back = found.on, _inverse(order)
        if len(order):  # results are in the order of the table
            on = on[back]
        if not len(low):
            low, high = found.los, found.his
            if len(order):
                low, high = low[back], high[back]
        columns = self._columns(Values(out, valid, on, low, high), back, found)
        return [CountedColumn(column, low, high) for column in columns]

    def by_size(
        self,
        results: tuple[LoopResults, int],
        found: Sequence[WindowRanges],
        starts: tuple[Ints, Flags, list[Ints]],
        order: Ints,
    ) -> list[list[CountedColumn]]:
        """The results of windows that differ only in size, the longest first, for each of them and each view.

        `results`: those of `found[0]` for every size, and how many are null; `starts`: see `starts_by_size`.
        """
        ((out, valid, low, high), missing), (los, on, places) = results, starts
        longest, count, sizes = found[0], len(found[0]), len(found)
        assert longest.his is not None
        alike, back = not places, _inverse(order)
        lows: Any = low.reshape(sizes, count) if len(low) else los
        highs: Any = high.reshape(sizes, count) if len(low) else np.broadcast_to(longest.his, los.shape)
        if self.is_plain and missing == sizes * count - sum(map(len, found)):
            parts: Any = out[0].reshape(sizes, count)
            if not alike:
                parts = [part.take(at) for part, at in zip(parts, places, strict=True)]
                if self.counted:
                    lows, highs = ([of[k][at] for k, at in enumerate(places)] for of in (lows, highs))
            elif len(order):
                parts = parts.take(back, axis=1)
            plain = self._plain_column
            return [[CountedColumn(plain(parts[k]), lows[k], highs[k])] for k in range(sizes)]
        made = []
        for k, window in enumerate(found):
            here = slice(k * count, (k + 1) * count)
            values = Values(tuple(leaf[here] for leaf in out), valid[here], on[k], lows[k], highs[k])
            if not alike or len(order):
                values = values.take(back if alike else places[k])
            columns = self._columns(values, back, window)
            made.append([CountedColumn(column, values.low, values.high) for column in columns])
        return made

    def _columns(self, values: Values, back: Ints, window: WindowRanges) -> list[pa.Array]:
        """The results of each view as a column; `back`: the place that an error names for each, if it differs."""
        made = []
        for view in self._views:
            try:
                made.append(view.column(values, self._dictionaries))
            except AggregateError as failed:
                place = int(back[failed.place]) if len(back) else failed.place
                raise ResultFailed(place, failed.error, view.number, window) from failed.error
            for one in view.failed:
                place = int(back[one.place]) if len(back) else one.place
                self.failed.append(ResultFailed(place, one.error, view.number, window))
        return made


def _inverse(order: Ints) -> Ints:
    """The inverse of a permutation."""
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return back


# --- Size groups ---


def starts_by_size(longest: WindowRanges, found: Sequence[WindowRanges], alike: bool) -> tuple[Ints, Flags, list[Ints]]:
    """For each window and each end of the longest: the first element, whether a result is wanted, and the places of the
    window's results among those of the longest. `alike`: all windows have the ends of the longest; then no places.
    """
    if alike:
        los = stacked([one.los for one in found])
        if all(one.all_on for one in found):
            return los, np.broadcast_to(all_true(los.shape[1]), los.shape), []
        return los, np.stack([one.on for one in found]), []
    if longest.among is None and all(one.every_lo is not None for one in found):
        los = stacked([one.every_lo for one in found])
        return los, np.broadcast_to(all_true(los.shape[1]), los.shape), places_among(longest, found)
    los = np.tile(longest.his, (len(found), 1))  # type: ignore[arg-type]
    on = np.zeros(los.shape, np.bool_)
    places = places_among(longest, found)
    for k, one in enumerate(found):
        los[k, places[k]], on[k, places[k]] = one.los, one.on
    return los, on, places


def places_among(longest: WindowRanges, found: Sequence[WindowRanges]) -> list[Ints]:
    """The places of windows' results among those of a longer one, which has a result at each of their ends."""
    everywhere = np.arange(len(longest))
    if (
        longest.among is None
        and longest.by_slide
        and all(one.among is not None or one.common is longest.common for one in found)
    ):
        return [everywhere if one.among is None else one.among for one in found]
    ident, slots = longest.ident, longest.slots
    least = int(ident.min(initial=0))
    width = int(ident.max(initial=0)) - least + 1
    theirs = slots * width + (ident - least)
    order = np.argsort(theirs, kind="stable")
    theirs = theirs[order]
    return [
        everywhere
        if len(one) == len(longest)
        else order[np.searchsorted(theirs, one.slots * width + (one.ident - least))]
        for one in found
    ]


# --- Live aggregate ---

SEVERAL = tuple(map(sequential, SEVERAL_SIZES))
"""The structures that answer several sizes at once."""


class RowsToLift(NamedTuple):
    """Rows that are not lifted yet."""

    inputs: Any
    """The columns of the aggregate, as its kernel takes them."""
    non_null: Flags
    """Which rows have a value; empty: all."""
    slots: Ints
    places: Ints
    """The places of their elements in the arena; empty for windows that only grow."""
    fresh: Flags
    """For windows that only grow: which rows begin a window."""


class _LoopArrays(NamedTuple):
    """The arrays that loops take: valid until the slot table or the arena replaces theirs, or counting starts."""

    versions: tuple[int, int, int, bool]
    fields: list[SlotFields]
    """By set of structures: their scalars and queues."""
    states: States
    counts: ValueCounts


_ONLY = [[0]]
"""The groups of a window that only grows."""


class LiveAggregate(ElementCounts):
    """One aggregate over the elements of an assigner, and the aggregates that share its state.

    `group` are these aggregates, the owner of the state first; `structures` are those of the assigner's windows, in
    order, None for windows over which the query does not ask for the aggregate.
    """

    def __init__(
        self,
        group: Sequence[Member],
        assigner: WindowAssigner,
        structures: Sequence[type[InOrder] | None],
        table: SlotTable,
        name: str,
        failures: FailedResults,
    ) -> None:
        arena = assigner.arena if isinstance(assigner, ArenaAssigner) else None
        super().__init__(table, arena, name, assigner.elements == "rows")
        self.assigner, self.failures = assigner, failures
        kinds = tuple(dict.fromkeys(structure for structure in structures if structure is not None))
        spec = replace(group[0].aggregate, monoid=kinds[0].form(loop_monoid(group)))
        states, tolerant = gives_states(group), assigner.bound_query.query.options.failed == "side"
        lowers_apart = tolerant and not states and lower_may_fail(spec.monoid, spec.types)
        aggregate = Aggregate(spec, live_use(assigner.elements, kinds, SEVERAL), lowers_apart)
        self.kernel = aggregate.kernel
        self.values = ValueEncoder(aggregate, self._recode)
        self.dictionaries = self.values.dictionaries
        self.views = views_of(group, aggregate, states or lowers_apart, tolerant)
        """The results of each aggregate of the group."""
        self._compact_above = dict.fromkeys(self.dictionaries, LARGE)
        """By dictionary: the number of values above which it is due for compaction."""
        is_final = assigner.bound_query.query.emit == "final"
        self._columns = ResultColumns(self.views, self.values, is_final, states or lowers_apart)
        self.take_failed = self._columns.take_failed
        inputs, none, slots, places = self.kernel.no_rows()
        self.no_rows = RowsToLift(inputs, none, slots, places, NO_FLAGS)
        """No rows to lift."""
        self.recoded: list[tuple[int, CodeMapping]] = []
        """By input: the mappings of codes since the step began."""
        self._reads = self.values.plain_inputs
        """What other aggregates over the same columns read as well; None if its inputs are its own."""
        self._arrays: _LoopArrays | None = None
        leaves = self.kernel.state_types
        self.leaves = range(len(leaves))
        self.windows: list[SlotStructures] = []
        self.groups: list[list[int]] = []
        if isinstance(assigner, ArenaAssigner):
            for i, kind in enumerate(leaves):
                assigner.arena.add((name, i), kind)
            self._add_structures(assigner, structures)
        else:
            for i, kind in enumerate(leaves):
                table.add((name, i), kind, None if kind.kind == "O" else 0, apart=True)

    def _add_structures(self, assigner: ArenaAssigner, structures: Sequence[type[InOrder] | None]) -> None:
        """One set of structures for each window, or for several windows that differ only in size."""
        alike: dict[Any, list[int]] = {}
        for w, structure in enumerate(structures):
            if structure is None:
                continue
            window = assigner.windows[w]
            alike.setdefault((structure, but_size(window) if structure in SEVERAL else w), []).append(w)
        for (structure, _), members in alike.items():
            name = f"{self.name}.{len(self.windows)}"
            sizes = structure in SEVERAL
            made = SlotStructures(self.kernel.specs[structure], assigner.arena, self.table, name, sizes)
            self.groups.append(sorted(members, key=lambda w: -(assigner.windows[w].size or 0)))
            self.windows.append(made)

    def structures(self) -> dict[int, str]:
        """The name of the structure that computes each window of the assigner, by its place there."""
        if not self.windows:
            return {0: FOLD}
        return {
            w: catalogue_name(self.windows[number].spec.structure) for number, of in enumerate(self.groups) for w in of
        }

    # ---- rows in ----

    def take(self, rows: StepRows, assigned: AssignedRows) -> RowsToLift:
        """Read the inputs of rows, and fold them into panes; returns the rows that `results` must lift.

        Raises AggregateError.
        """
        read = None if self._reads is None else rows.inputs.get(self._reads)
        if read is None:
            count = len(rows.slots)
            found = self.values.non_null(rows, count)
            read = self.values.inputs(rows, count), NO_FLAGS if found is None else found
            if self._reads is not None:
                rows.keep_inputs(self._reads, read)
        inputs, non_null = read
        if self.dense and len(non_null):
            self.count_values(rows.slots)
        if self.assigner.elements == "panes":
            place = assigned.slots, assigned.places, assigned.fresh
            self.kernel.fold(inputs, non_null, place, self.counts, self.states)
            return self.no_rows
        return RowsToLift(inputs, non_null, assigned.slots, assigned.places, assigned.fresh)

    def begin_step(self) -> None:
        """Begin a step: clear the mappings of codes of the last one."""
        self.recoded = []

    def rollback(self, dense: bool) -> None:
        """Undo a step; `dense`: every row had a value before it."""
        self.dense = self.dense or dense

    # ---- arrays ----

    @property
    def states(self) -> States:
        """The states of elements, or of slots."""
        columns: Any = self.table if self.arena is None else self.arena.columns
        return tuple([columns[self.name, i] for i in self.leaves])

    def partial(self, slot: int) -> Any:
        """The partial of a slot, as the monoid takes it."""
        return self.kernel.layouts.state.value(self.states, slot) if self.kernel.compiled else self.states[0][slot]

    def set_partial(self, slot: int, state: Any) -> None:
        """Replace the partial of a slot."""
        if self.kernel.compiled:
            self.kernel.layouts.state.store(self.states, slot, state)
        else:
            self.states[0][slot] = state

    def restore_states(self, places: Ints, saved: Sequence[NDArray[Any]]) -> None:
        """Restore saved states."""
        for leaf, values in zip(self.states, saved, strict=True):
            leaf[places] = values

    # ---- results out ----

    def results(self, found: Sequence[WindowRanges], rows: StepRows, to_lift: RowsToLift) -> list[list[CountedColumn]]:
        """Lift rows, if any are left to lift, and return the results as a column, for each view and each window.

        Raises ResultFailed for a result, else AggregateError for a row.
        """
        made: dict[int, list[CountedColumn]] = {}
        groups = self.groups or _ONLY
        for number, members in enumerate(groups):
            window = found[members[0]]
            try:
                if self.assigner.elements == "running":
                    columns = [self._running(window, to_lift)]
                elif self.windows[number].sizes:
                    columns = self._sizes(number, [found[w] for w in members], rows, to_lift)
                else:
                    columns = [self._slid(number, window, rows, to_lift)]
            except AggregateError as failed:
                if isinstance(failed, ResultFailed) or failed.phase == LIFTING:
                    raise
                # of the state, which its owner lowers
                raise ResultFailed(failed.place, failed.error, self.views[0].number, window) from failed.error
            if len(found) == 1:
                return [[one] for one in columns[0]]
            made |= zip(members, columns, strict=True)
            to_lift = self.no_rows  # the first structures have lifted them
        return [[made[w][v] if w in made else NOT_ASKED for w in range(len(found))] for v in range(len(self.views))]

    def _running(self, found: WindowRanges, to_lift: RowsToLift) -> list[CountedColumn]:
        assert found.after is not None
        assert found.his is not None
        inputs, non_null, slots, _, fresh = to_lift
        asked = found.after, found.his
        results = self.kernel.run(inputs, non_null, (slots, fresh), self.counts, self.states, asked)
        return self._columns.running(results, found)

    def _slid(self, number: int, found: WindowRanges, rows: StepRows, to_lift: RowsToLift) -> list[CountedColumn]:
        order = NO_INTS if rows.order is None or found.slots is not rows.slots else rows.order
        assert found.los is not None
        assert found.his is not None
        wanted = NO_FLAGS if found.all_on else found.on
        results, missing = self._slide(number, (order, found.slots, found.los, found.his, wanted), to_lift)
        return self._columns.slid(results, missing, found, order)

    def _slide(self, number: int, asked: AskedRanges, to_lift: RowsToLift) -> tuple[LoopResults, int]:
        assert self.arena is not None
        arena = self.arena
        versions, arrays = (self.table.version, arena.version, arena.directory.version, self.dense), self._arrays
        if arrays is None or arrays.versions != versions:
            by_window = [window.fields for window in self.windows]
            arrays = self._arrays = _LoopArrays(versions, by_window, self.states, self.current_counts)
        window, fields = self.windows[number], arrays.fields[number]
        rows = to_lift[:4]
        counted = self._columns.counted
        return self.kernel.slide_slots(window, fields, arrays.states, arrays.counts, rows, asked, counted)

    def _sizes(
        self, number: int, windows: list[WindowRanges], rows: StepRows, to_lift: RowsToLift
    ) -> list[list[CountedColumn]]:
        """The results of windows that differ only in size, the longest first, from one structure over it."""
        longest = windows[0]
        assert longest.his is not None
        alike = all(len(window) == len(longest) for window in windows)
        at_rows = alike and rows.order is not None and all(window.slots is rows.slots for window in windows)
        order = rows.order if at_rows and rows.order is not None else NO_INTS
        starts = los, on, _ = starts_by_size(longest, windows, alike)
        wanted = NONE_WANTED if on.strides[0] == 0 else on
        results = self._slide(number, (order, longest.slots, los, longest.his, wanted), to_lift)
        return self._columns.by_size(results, windows, starts, order)

    # ---- dictionaries ----

    def _recode(self, j: int, mapped: CodeMapping) -> None:
        """Map the codes of an input in every state to new codes, and rebuild all structures."""
        for window in self.windows:
            window.reset(np.arange(self.table.capacity))
        leaves = [self.states[i] for i in self.values.leaves_of(j)]
        changes = [items(leaf, slice(None), mapped(leaf)) for leaf in leaves]
        dictionary = self.dictionaries[j]
        if isinstance(dictionary, RankLabels):
            changes.append(dictionary.applied())
        all_at_once(*changes, attributes(self, recoded=[*self.recoded, (j, mapped)]))

    def recode_saved(self, saved: dict[Any, Any], panes: list[list[Any]]) -> None:
        """Map codes in states that were saved before a change of codes. May be interrupted, and called again."""
        for j, dictionary in self.dictionaries.items():
            if isinstance(dictionary, RankLabels) and dictionary.relabelled is not None:
                self._recode(j, dictionary.relabelled)  # interrupted before the states were changed
        changes = []
        for i, of in self.values.aggregate.state_of.items():
            places: list[tuple[Any, Any]] = [(states, i) for states in panes]
            if (self.name, i) in saved:
                places.append((saved, (self.name, i)))
            for place, key in places:
                codes = place[key]
                for j, mapped in self.recoded:
                    codes = mapped(codes) if j == of else codes
                changes.append(items(place, key, codes))
        all_at_once(*changes, attributes(self, recoded=[]))

    def due_for_compaction(self, shrunk: bool) -> bool:
        """Has a dictionary doubled since the last compaction, or is one large after the state has shrunk?"""
        limits = dict.fromkeys(self.dictionaries, LARGE) if shrunk else self._compact_above
        return any(len(dictionary) > limits[j] for j, dictionary in self.dictionaries.items())

    def compact(self, live: Ints) -> None:
        """Drop values from the dictionaries that no state of these slots holds, if most are unused."""
        places = live
        if self.arena is not None:
            heads = self.arena.heads
            places = RingRanges(self.arena, live, heads[live, FRONT], heads[live, BACK]).places
        self.values.compact(len(places), lambda i: [self.states[i][places]])
        for j, dictionary in self.dictionaries.items():
            self._compact_above[j] = max(2 * len(dictionary), LARGE)

    # ---- states at rest ----

    def store(self, take: Callable[[NDArray[Any]], NDArray[Any]]) -> list[pa.Array]:
        """The states that `take` selects, as columns to store, with values in place of codes."""
        return self.values.store(tuple(map(take, self.states)))

    def load(self, places: Ints, columns: Sequence[pa.Array]) -> None:
        """Load stored states into these places."""
        self.values.load(self.states, places, columns)

    @property
    def fields(self) -> Mapping[str, pa.DataType]:
        """The columns in which a state is stored."""
        return self.values.fields
