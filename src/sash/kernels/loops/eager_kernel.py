"""An eager kernel: the trees of rows of one aggregate, for emit="eager", compiled if possible, else Python objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sash.kernels.jit.compile import machine_code
from sash.kernels.loops.array_types import NO_FLAGS, NO_INTS, Flags, Ints, States, enlarged, longer
from sash.kernels.loops.columnar import AggregateError, Columnar
from sash.kernels.loops.eager_trees import BUILT, LabelTree, turn_trees
from sash.kernels.loops.eager_windows import HEAD, RANGE
from sash.kernels.loops.live_kernel import Structures
from sash.monoids.algebra import Kind, Monoid


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


class TreeFailed(AggregateError):
    """A monoid raised an exception: the phase (see `eager_trees`) and the place."""

    def __init__(self, phase: int, place: int, error: Exception) -> None:
        super().__init__(place, error)
        self.phase = phase


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


class EagerKernel(Columnar):
    """The loops of an aggregate over trees."""

    def __init__(self, monoid: Monoid, kinds: tuple[Kind, ...] | None, warn: bool) -> None:
        self._code: Any = None
        """The loop of `turn`, after its first call."""
        super().__init__(monoid, kinds, (LabelTree,), warn)
        self.spec: Any = self.specs[LabelTree]
        """The tree and its monoid."""

    def compile_loops(self) -> None:
        self.spec = self.specs[LabelTree]
        heads, rows = np.zeros((0, HEAD), np.int64), (NO_INTS, self.nothing(0), NO_FLAGS)
        self.turn(EagerTrees(self), heads, rows, TreeWork(), (NO_RANGES, False, False), RangeResults.allocate(self, 0))

    def no_rows(self) -> LiftedRows:
        """No rows to lift."""
        return self.layouts.inputs.allocate(0) if self.compiled else [], NO_FLAGS, NO_INTS

    def enlarge(self, states: States, non_null: Flags, length: int) -> tuple[States, Flags]:
        """Arrays of this length or longer, with the old values at their start: states, and which are not null."""
        made = tuple(enlarged(new, old) for new, old in zip(self.nothing(length), states, strict=True))
        return made, enlarged(np.zeros(length, np.bool_), non_null)

    def turn(
        self,
        trees: EagerTrees,
        heads: Ints,
        rows: tuple[Ints, States, Flags],
        work: TreeWork,
        asked: tuple[LabelRanges, bool, bool],
        found: RangeResults,
    ) -> None:
        """Run the loop over trees. Raises TreeFailed.

        `rows`: by row number labels, states, and which are not null; `asked`: ranges, whether those before the change
        need results, and whether to find first and last labels.
        """
        progress = np.zeros(2, np.int64)
        labels, states, non_null = rows
        bases = trees.bases
        if not self.compiled:
            states, bases = states[0], bases[0]  # type: ignore[assignment]
        ranges, with_old, by_label = asked
        lifted = self.no_rows() if work.lifted is None else work.lifted
        arguments = (
            self.spec,
            (trees.storage, *trees.fields, heads, bases, trees.base_non_null),
            (labels, states, non_null),
            lifted,
            (work.emptied, work.built, work.removed, work.inserted),
            (ranges.table, ranges.split, len(ranges), with_old, by_label),
            (work.folds, work.cuts),
            (found.out, found.valid, found.presence, found.first, found.last, progress),
        )
        code: Any = self._code
        if code is None:
            code = turn_trees
            if self.compiled:
                code = machine_code(code, self.spec.compiled_as, arguments)
            self._code = code
        try:
            code(*arguments)
        except Exception as error:
            phase, place = progress.tolist()
            raise TreeFailed(phase, place, error) from error


class EagerTrees(Structures):
    """The trees of all slots: their pools, a row of fields for each slot, and their bases."""

    def __init__(self, kernel: EagerKernel) -> None:
        super().__init__(kernel.spec)
        self.fields = np.full((0, self.ints), -1, np.int64), np.zeros((0, self.floats))
        self.bases, self.base_non_null = kernel.nothing(0), NO_FLAGS

    def grow_slots(self, slots: int, arena: int) -> None:
        """Reserve space for slots, and for rows in their blocks."""
        ints, floats = self.fields
        if slots > len(ints):
            self.fields = enlarged(np.full((slots, ints.shape[1]), -1, np.int64), ints), longer(floats, slots)
        self.grow(arena)

    def grow_bases(self, kernel: EagerKernel, bases: int) -> None:
        """Reserve space for bases."""
        if bases > len(self.base_non_null):
            self.bases, self.base_non_null = kernel.enlarge(self.bases, self.base_non_null, bases)

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


@dataclass(slots=True)
class RangeResults:
    """The answers of an aggregate: results, which are valid, and the presence of non-null rows (see `turn_trees`)."""

    out: Any
    valid: Flags
    presence: Ints
    first: Ints
    last: Ints

    def spread(self, kernel: EagerKernel, places: Ints, count: int) -> RangeResults:
        """Spread these answers to their places among more ranges; the others have no result."""
        found, some = RangeResults.allocate(kernel, count), len(places)
        found.valid[:], found.presence[:], found.first[:], found.last[:] = False, 0, 0, 0
        if isinstance(found.out, list):
            for place, value in zip(places.tolist(), self.out, strict=False):
                found.out[place] = value
        else:
            for leaf, values in zip(found.out, self.out, strict=True):
                leaf[places] = values[:some]
        found.valid[places], found.presence[places] = self.valid[:some], self.presence[:some]
        found.first[places], found.last[places] = self.first[:some], self.last[:some]
        return found

    @staticmethod
    def allocate(kernel: EagerKernel, count: int) -> RangeResults:
        """New arrays for results."""
        out: Any = kernel.layouts.result.allocate(count) if kernel.compiled else [None] * count
        presence, first, last = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
        return RangeResults(out, np.empty(count, np.bool_), presence, first, last)
