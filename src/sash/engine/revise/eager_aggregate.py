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
from sash.columns.lowered_results import LoweredResults, unlowered
from sash.engine.keyed.chunk_log import CodeMapping
from sash.engine.keyed.value_encoder import ValueEncoder
from sash.kernels.loops import eager_order as eager_changes
from sash.kernels.loops.array_types import NO_FLAGS, Flags, Ints, States
from sash.kernels.loops.eager_kernel import (
    NO_RANGES,
    EagerKernel,
    EagerTrees,
    LabelRanges,
    LiftedRows,
    RangeResults,
    SlotRows,
    TreeWork,
)
from sash.kernels.loops.eager_order import CARRIES, FIRST_LEAF, LAST_LEAF
from sash.kernels.loops.eager_windows import ON
from sash.kernels.loops.loop_cache import call_loop
from sash.plan.bound_query import AggregateSpec
from sash.plan.derived_columns import lower_may_fail

FEW_ANSWERS = 256
"""Up to this many ranges, the arrays for results are reused: allocating them takes 5 µs."""


class MovedRows(NamedTuple):
    """The rows that a call inserted and those that it removed; and the labels of all rows."""

    entered: SlotRows
    left: SlotRows
    labels: Ints


class EagerAggregate:
    """One aggregate over the rows of all slots. `anchors`: the number of windows that have bases.

    `tolerant`: results that fail are null.
    """

    def __init__(self, spec: AggregateSpec, anchors: int, tolerant: bool = False) -> None:
        self.spec, self.anchors = spec, anchors
        lowers_apart = tolerant and lower_may_fail(spec.monoid, spec.types)
        aggregate = Aggregate(spec, unlowered(EagerKernel) if lowers_apart else EagerKernel)
        self._lowered = LoweredResults(0, spec, None, tolerant=True) if lowers_apart else None
        """Lowers the states that the trees return; None if they return results."""
        self.kernel: EagerKernel = aggregate.kernel
        self.values = ValueEncoder(aggregate, self._recode)
        self.dictionaries = self.values.dictionaries
        self.exact = is_exact(spec)
        self.carries = any(aggregate.forms[j] == "place" for j in aggregate.result_of.values())
        """Whether results hold codes: two different codes may encode equal values."""
        self.trees = EagerTrees(self.kernel)
        self.states, self.non_null = self.kernel.nothing(0), NO_FLAGS
        """By row number."""
        self._answers: RangeResults | None = None
        """The arrays that small calls share."""

    # ---- capacity ----

    def grow_rows(self, rows: int) -> None:
        """Reserve space for this many row numbers."""
        if rows > len(self.non_null):
            self.states, self.non_null = self.kernel.enlarge(self.states, self.non_null, rows)

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
        """Update the trees for a call, and answer ranges. Raises TreeFailed."""
        asked = NO_RANGES if ranges is None else ranges
        found, rows = self._results_array(len(asked)), (labels, self.states, self.non_null)
        self.kernel.turn(self.trees, heads, rows, work, (asked, self.exact, not self.exact), found)
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
        if isinstance(found.out, list):
            leaves: Any = [found.out[i] for i in places.tolist()]
        else:
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
