"""One aggregate of a query with emit="eager": the states of rows by row number, and a tree of them in each slot.

rows' columns ──▶ lift ──▶ states by row number ──▶ trees by slot ──▶ results of ranges
                                  │                     ▲
                                  └── rebuilt from the rows after a failure, a move or a relabelling
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sash.columns.aggregate_batch import Aggregate, is_exact
from sash.columns.arrow_arrays import all_true, differ
from sash.columns.batch_columns import BatchColumns
from sash.columns.failed_rows import FailedResults
from sash.columns.lowered_results import ResultView
from sash.engine.keyed.chunk_log import CodeMapping
from sash.engine.keyed.value_encoder import ValueEncoder
from sash.kernels.loops import eager_loops as eager_changes
from sash.kernels.loops.array_types import NO_FLAGS, NO_INTS, Flags, Ints, States, enlarged, longer
from sash.kernels.loops.bound_kernel import BoundKernel, Structures, Use
from sash.kernels.loops.eager_loops import CARRIES, FIRST_LEAF, LAST_LEAF
from sash.kernels.loops.eager_trees import BUILT, LabelTree, turn_trees
from sash.kernels.loops.eager_windows import HEAD, ON, RANGE
from sash.kernels.loops.loop_cache import call_loop
from sash.plan.bound_query import AggregateSpec
from sash.plan.derived_columns import lower_may_fail

FEW_ANSWERS = 256
"""Up to this many ranges, the arrays for results are reused: allocating them takes 5 µs."""


# --- Work and answers of trees ---


class Folds(NamedTuple):
    """Ranges of labels to fold into bases; `goes_on`: whether a base already has a state."""

    slots: Ints
    lows: Ints
    highs: Ints
    bases: Ints
    goes_on: Flags


# Plain tuples: a call with one row creates many of them, and creating a NamedTuple takes ten times as long.

SlotRows = tuple[Ints, Ints]
"""Rows by their slots and row numbers."""

LiftedRows = tuple[Any, Flags, Ints]
"""The inputs of rows, which of them are not null, and their row numbers."""

NO_ROWS: SlotRows = (NO_INTS, NO_INTS)
NO_FOLDS = Folds(NO_INTS, NO_INTS, NO_INTS, NO_INTS, NO_FLAGS)


class TreeWork:
    """The changes that one call makes to an aggregate's trees; see `turn_trees`."""

    __slots__ = ("built", "cuts", "emptied", "folds", "inserted", "lifted", "removed")

    def __init__(self, emptied: Ints = NO_INTS, built: SlotRows = NO_ROWS) -> None:
        self.emptied, self.built = emptied, built
        self.lifted: LiftedRows | None = None
        self.removed, self.inserted = NO_ROWS, NO_ROWS
        self.folds = NO_FOLDS
        self.cuts: tuple[Ints, Ints] = (NO_INTS, NO_INTS)
        """Slots, and the labels up to which their rows leave."""

    def change_rows(self, lifted: LiftedRows, inserted: SlotRows, removed: SlotRows) -> None:
        """Lift, insert and remove rows."""
        self.lifted, self.inserted, self.removed = lifted, inserted, removed

    def cut_rows(self, folds: Folds, slots: Ints, upto: Ints) -> None:
        """Fold the oldest rows of slots into their bases, and drop them, up to these labels."""
        self.folds, self.cuts = folds, (slots, upto)


class LabelRanges:
    """Ranges of labels to answer, the first `split` of them before the change; columns as in `eager_windows`.

    `windows`: the window of each range; None if all aggregates answer all ranges.
    """

    __slots__ = ("split", "table", "windows")

    def __init__(self, table: Ints, split: int, windows: Ints | None = None) -> None:
        self.table, self.split, self.windows = table, split, windows

    def __len__(self) -> int:
        return len(self.table)

    def subset(self, places: Ints) -> LabelRanges:
        """Some of the ranges, in order."""
        return LabelRanges(np.ascontiguousarray(self.table[places]), int(np.searchsorted(places, self.split)))


NO_RANGES = LabelRanges(np.zeros((0, RANGE), np.int64), 0)


class EagerTrees(Structures):
    """The trees of all slots: their pools, a row of fields for each slot, and their bases."""

    def __init__(self, kernel: BoundKernel) -> None:
        super().__init__(kernel.specs[LabelTree])
        self.fields = np.full((0, self.ints), -1, np.int64), np.zeros((0, self.floats))
        self.bases, self.base_non_null = kernel.states(0), NO_FLAGS

    def grow_slots(self, slots: int, arena: int) -> None:
        """Reserve space for slots, and for rows in their blocks."""
        ints, floats = self.fields
        if slots > len(ints):
            self.fields = enlarged(np.full((slots, ints.shape[1]), -1, np.int64), ints), longer(floats, slots)
        self.grow(arena)

    def grow_bases(self, kernel: BoundKernel, bases: int) -> None:
        """Reserve space for bases."""
        if bases > len(self.base_non_null):
            self.bases, self.base_non_null = _enlarged(kernel, self.bases, self.base_non_null, bases)

    def set_presence(self, bases: Ints, non_null: Flags | bool) -> None:
        """Set which bases hold a state."""
        self.base_non_null[bases] = non_null

    def restore_bases(self, bases: Ints, states: States, non_null: Flags) -> None:
        """Restore saved bases."""
        for leaf, saved in zip(self.bases, states, strict=True):
            leaf[bases] = saved
        self.base_non_null[bases] = non_null

    def missing(self, slots: Ints) -> Ints:
        """The slots whose trees must be built."""
        ints = self.fields[0]
        if len(slots) == 1:
            return slots if ints.item(slots.item(0), BUILT) < 0 else NO_INTS
        found: Ints = slots[ints[slots, BUILT] < 0]
        return found

    def reset(self, slots: Ints | None) -> None:
        """Mark the trees of these slots (None: all) to be rebuilt from their rows at the next use."""
        self.fields[0][slice(None) if slots is None else slots, BUILT] = -1
        if not self.compiled:
            self.forget(np.fromiter(self.storage, np.int64, len(self.storage)) if slots is None else slots)

    @property
    def nbytes(self) -> int:
        """The memory of the trees and bases; for interpreted ones only the NumPy arrays."""
        bases = sum(leaf.nbytes for leaf in self.bases) + self.base_non_null.nbytes
        return super().nbytes + bases + sum(part.nbytes for part in self.fields)


class RangeResults(NamedTuple):
    """The answers of an aggregate: results, which are valid, and the presence of non-null rows (see `turn_trees`)."""

    out: States
    valid: Flags
    presence: Ints
    first: Ints
    last: Ints

    def spread(self, kernel: BoundKernel, places: Ints, count: int) -> RangeResults:
        """Spread these answers to their places among more ranges; the others have no result."""
        found = RangeResults.allocate(kernel, count)
        for leaf, values in zip((*found.out, *found[1:]), (*self.out, *self[1:]), strict=True):
            leaf[places] = values[: len(places)]
        return found

    @staticmethod
    def allocate(kernel: BoundKernel, count: int) -> RangeResults:
        """New arrays for results."""
        presence, first, last = (np.zeros(count, np.int64) for _ in range(3))
        return RangeResults(kernel.results(count), np.zeros(count, np.bool_), presence, first, last)


class MovedRows(NamedTuple):
    """The rows that a call inserted and those that it removed; and the labels of all rows."""

    entered: SlotRows
    left: SlotRows
    labels: Ints


# --- One aggregate ---


class EagerAggregate:
    """One aggregate over the rows of all slots. `anchors`: the number of windows that have bases.

    `tolerant`: results that fail are null.
    """

    def __init__(self, spec: AggregateSpec, anchors: int, tolerant: bool = False) -> None:
        self.spec, self.anchors, self.exact = spec, anchors, is_exact(spec)
        self._answers: RangeResults | None = None
        """The arrays that small calls share."""
        lowers_apart = tolerant and lower_may_fail(spec.monoid, spec.types)
        aggregate = Aggregate(spec, Use((LabelTree,), self._prepare), lowers_apart)
        self._lowered = ResultView(0, spec, "state", tolerant=True) if lowers_apart else None
        """Lowers the states that the trees return; None if they return results."""
        self._allocate(aggregate.kernel)
        self.values = ValueEncoder(aggregate, self._recode)
        self.dictionaries = self.values.dictionaries
        self.carries = any(aggregate.forms[j] == "place" for j in aggregate.result_of.values())
        """Whether results hold codes: two different codes may encode equal values."""

    def _allocate(self, kernel: BoundKernel) -> None:
        """Allocate for no rows and slots."""
        self.kernel, self.trees, self._answers = kernel, EagerTrees(kernel), None
        self.states, self.non_null = kernel.states(0), NO_FLAGS
        """By row number."""
        inputs, flags, none, _ = kernel.no_rows()
        self._no_rows: LiftedRows = inputs, flags, none

    def _prepare(self, kernel: BoundKernel) -> None:
        self._allocate(kernel)
        self.update_trees(TreeWork(), np.zeros((0, HEAD), np.int64), NO_INTS)

    # ---- capacity ----

    def grow_rows(self, rows: int) -> None:
        """Reserve space for this many row numbers."""
        if rows > len(self.non_null):
            self.states, self.non_null = _enlarged(self.kernel, self.states, self.non_null, rows)

    def grow_slots(self, slots: int, arena: int) -> None:
        """Reserve space for slots and for rows in their blocks."""
        self.trees.grow_slots(slots, arena)
        self.trees.grow_bases(self.kernel, slots * self.anchors)

    # ---- rows in ----

    def inputs(self, rows: BatchColumns, rids: Ints) -> LiftedRows:
        """The inputs of rows that will get these numbers, as the loop lifts them. Codes of values may change."""
        non_null = self.values.non_null(rows, len(rids))
        flags = all_true(len(rids)) if non_null is None else non_null
        return self.values.inputs(rows, len(rids)), flags, rids

    # ---- trees ----

    def update_trees(
        self, work: TreeWork, heads: Ints, labels: Ints, ranges: LabelRanges | None = None
    ) -> RangeResults:
        """Update the trees for a call, and answer ranges. Raises AggregateError with a phase of `eager_trees`."""
        trees, asked = self.trees, NO_RANGES if ranges is None else ranges
        count = len(asked.table)
        found = self._results_array(count)
        self.kernel.call(
            turn_trees,
            trees.spec,
            (trees.storage, *trees.fields, heads, trees.bases, trees.base_non_null),
            (labels, self.states, self.non_null),
            self._no_rows if work.lifted is None else work.lifted,
            (work.emptied, work.built, work.removed, work.inserted),
            (asked.table, asked.split, count, self.exact, not self.exact),
            (work.folds, work.cuts),
            found,
        )
        return found

    def _results_array(self, count: int) -> RangeResults:
        """Arrays for answers, valid until the next call; small calls share them."""
        if count > FEW_ANSWERS or not self.kernel.compiled:
            return RangeResults.allocate(self.kernel, count)
        if self._answers is None:
            self._answers = RangeResults.allocate(self.kernel, FEW_ANSWERS)
        return self._answers

    # ---- results ----

    def column(
        self, found: RangeResults, ranges: LabelRanges, places: Ints, failures: FailedResults | None = None
    ) -> pa.Array:
        """Some results as a column; `failures` counts those that fail."""
        valid = found.valid[places]
        if (
            self._lowered is None and self.values.plain_result is not None and valid.all()
        ):  # no conversion: a third of the time
            return self.values.plain_column(found.out[0][places])
        leaves = tuple(leaf[places] for leaf in found.out)
        empty = valid  # unused where there is a result
        if self.spec.monoid.empty is not None:
            empty = (ranges.table[places, ON] > 0) & (found.presence[places] == 0)
        if self._lowered is not None:
            made = self._lowered.lowered(leaves, valid, empty, self.dictionaries)
            if failures is not None and self._lowered.failed:
                error = self._lowered.failed[-1].error
                text = f"the aggregate {self.spec.name!r} failed with {type(error).__name__}: {error}"
                failures.note(len(self._lowered.failed), text)
            return made
        return self.values.aggregate.column(leaves, valid, empty, self.dictionaries)

    def compare(self, found: RangeResults, ranges: LabelRanges, pairs: Ints, changed: Flags, moved: MovedRows) -> None:
        """Mark results that have changed, by pairs of places: exact ones by value, others by their non-null rows."""
        if not len(pairs):
            return
        table = ranges.table
        if not self.exact:
            entered, left = self._counted(moved.entered), self._counted(moved.left)
            held = (found.presence, found.first, found.last)
            arguments: Any = (pairs, table, held, entered, left, moved.labels, changed)
            call_loop(eager_changes.compare_inputs, "", arguments)
            return
        if not self.kernel.compiled or self._lowered is not None:
            self._compare_columns(found, ranges, pairs, changed)
            return
        alike = np.empty(len(pairs), np.bool_)
        uncertain, last = 0, len(found.out) - 1
        for i, leaf in enumerate(found.out):
            step = FIRST_LEAF * (i == 0) | LAST_LEAF * (i == last) | CARRIES * self.carries
            arguments = (pairs, table, leaf, found.valid, found.presence, step, alike, changed)
            uncertain = call_loop(eager_changes.compare_values, leaf.dtype.str, arguments)
        if uncertain:
            self._compare_columns(found, ranges, pairs[~alike], changed)

    def _counted(self, rows: SlotRows) -> tuple[Ints, Ints, Ints]:
        """Rows, with the number of non-null ones before each."""
        slots, rids = rows
        sums = np.zeros(len(rids) + 1, np.int64)
        if len(rids):
            call_loop(eager_changes.count_non_null, "", (rids, self.non_null, sums))
        return slots, rids, sums

    def _compare_columns(self, found: RangeResults, ranges: LabelRanges, pairs: Ints, changed: Flags) -> None:
        new, old = (self.column(found, ranges, np.ascontiguousarray(pairs[:, side])) for side in range(2))
        changed[pairs[differ(new, old), 2]] = True

    # ---- dictionaries ----

    def _recode(self, j: int, mapped: CodeMapping) -> None:
        """Map the codes of an input in every state to new codes, and rebuild all trees."""
        for i in self.values.leaves_of(j):
            for leaf in (self.states[i], self.trees.bases[i]):
                leaf[:] = mapped(leaf)
        self.trees.reset(None)

    def compact(self, rows: int, live: Callable[[], Ints]) -> None:
        """Drop values from the dictionaries that neither a state of a retained row nor a base holds."""
        trees = self.trees
        used = rows + len(trees.base_non_null)
        self.values.compact(used, lambda i: [self.states[i][live()], trees.bases[i][trees.base_non_null]])

    # ---- stored states ----

    def load_rows(self, rids: Ints, non_null: Flags, columns: Sequence[pa.Array]) -> None:
        """Load stored states of rows by number."""
        self.non_null[rids] = non_null
        self.values.load(self.states, rids, columns)

    def load_bases(self, at: Ints, non_null: Flags, columns: Sequence[pa.Array]) -> None:
        """Load stored bases."""
        self.trees.set_presence(at, non_null)
        self.values.load(self.trees.bases, at, columns)

    @property
    def nbytes(self) -> int:
        """The memory of states, trees and dictionaries."""
        own = sum(leaf.nbytes for leaf in self.states) + self.non_null.nbytes
        return own + self.trees.nbytes + self.values.nbytes


def subset(states: States, places: Ints) -> States:
    """The states at some places."""
    return tuple(leaf[places] for leaf in states)


def _enlarged(kernel: BoundKernel, states: States, non_null: Flags, length: int) -> tuple[States, Flags]:
    """Arrays of this length or longer, with the old values at their start: states, and which are not null."""
    made = tuple(enlarged(new, old) for new, old in zip(kernel.states(length), states, strict=True))
    return made, enlarged(np.zeros(length, np.bool_), non_null)
