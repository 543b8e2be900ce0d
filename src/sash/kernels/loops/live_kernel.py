"""A live kernel: one aggregate on the arrays of an operator, compiled if possible, else on Python objects.

States are a tuple of arrays, one per scalar of the layout; interpreted, one array of objects. Both run the loops of
`live_loops`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from sash.aggregators.in_order import InOrder
from sash.aggregators.running import Running
from sash.kernels.jit.compile import machine_code
from sash.kernels.jit.numba_struct import AFTER, StructSpec
from sash.kernels.jit.state_layout import DTYPES
from sash.kernels.loops import live_loops
from sash.kernels.loops.array_types import NO_FLAGS, NO_INTS, Flags, Ints, Numbers, States, enlarged
from sash.kernels.loops.columnar import AggregateError, Columnar
from sash.kernels.loops.live_loops import HEAD
from sash.kernels.loops.runner import Interpreted
from sash.monoids.algebra import Kind, Monoid

Elements = Literal["rows", "panes", "running"]
"""The kind of a slot's elements: rows, panes, or one partial that only grows."""

NO_TOTALS: Ints = np.zeros((0, 1), np.int64)
NO_STARTS: Ints = np.zeros((1, 0), np.int64)
NONE_WANTED: Flags = np.zeros((0, 0), np.bool_)


class LiftFailed(AggregateError):
    """A monoid raised an exception on a row, in a loop that also computes results."""


class ValueCounts(NamedTuple):
    """The number of values of each slot, and the number before each element (of a running window: before it)."""

    totals: Ints
    before: Ints


class SlotFields(NamedTuple):
    """The scalars of structures, integers and floats, a row for each slot; and the heads of the slots."""

    scalars: tuple[Ints, Numbers]
    heads: Ints


# Plain tuples: a call with one row creates a dozen of them, and creating a NamedTuple takes ten times as long.

PlacedRows = tuple[Any, Flags, Ints, Ints]
"""Rows to lift: their inputs, which have a value (empty: all), their slots and places among the elements."""

AskedRanges = tuple[Ints, Ints, Ints, Ints, Flags]
"""Ranges to answer: the order of their results (empty: unchanged), slots, starts, ends, which are wanted."""

LoopResults = tuple[Any, Flags, Ints, Ints]
"""Results of a loop: values, which are valid, and the counts of values at each range's start and end."""

NO_COUNTS = ValueCounts(NO_TOTALS, NO_INTS)


class Structures:
    """The queues of the structures of one window and aggregate, one for each slot. Scalars are in a slot table.

    `sizes`: whether they answer several sizes at once. Interpreted, `storage` is a dict of structures.
    """

    def __init__(self, spec: StructSpec | Interpreted, arena: int = 0, sizes: bool = False) -> None:
        self.spec, self.sizes = spec, sizes
        self.code: Any = None
        """The loop that slides them, after `slide_loop`."""
        self.ints, self.floats = spec.widths if isinstance(spec, StructSpec) else (AFTER + 1, 0)
        self.storage: Any = {}
        self.allocate(arena)

    @property
    def compiled(self) -> bool:
        """Are they rows of arrays, rather than Python objects?"""
        return isinstance(self.spec, StructSpec)

    def slide_loop(self, arguments: tuple[Any, ...]) -> Any:
        """The loop that slides them, compiled for these arguments if they are rows of arrays."""
        code: Any = live_loops.slide_sizes if self.sizes else live_loops.slide_slots
        if isinstance(self.spec, StructSpec):
            code = machine_code(code, self.spec.compiled_as, arguments)
        self.code = code
        return code

    def grow(self, arena: int) -> None:
        """Reserve space for more elements."""
        if isinstance(self.spec, StructSpec):
            self.storage = tuple(
                tuple(enlarged(new, old) for new, old in zip(fresh, queue, strict=True))
                for fresh, queue in zip(self.spec.arena(arena), self.storage, strict=True)
            )

    def allocate(self, arena: int) -> None:
        """Allocate empty queues for an arena of this length."""
        self.storage = self.spec.arena(arena) if isinstance(self.spec, StructSpec) else {}

    def forget(self, slots: Ints) -> None:
        """Drop interpreted structures of these slots."""
        if isinstance(self.spec, Interpreted):
            for slot in slots.tolist():
                self.storage.pop(slot, None)

    @property
    def nbytes(self) -> int:
        """The memory of the queues."""
        return sum(leaf.nbytes for queue in self.storage for leaf in queue) if isinstance(self.spec, StructSpec) else 0


class LiveKernel(Columnar):
    """The loops of an aggregate over live state, for the structures it will run on.

    `several` are the structures that answer several sizes at once.
    """

    def __init__(
        self,
        monoid: Monoid,
        kinds: tuple[Kind, ...] | None,
        elements: Elements,
        structures: Sequence[type[InOrder]],
        several: Sequence[type[InOrder]] = (),
        warn: bool = True,
    ) -> None:
        self.elements, self._several = elements, several
        self._code: dict[Any, Any] = {}
        self._results: tuple[np.dtype[Any], ...] = ()
        """The types of the columns of results; none if the kernel is not compiled."""
        super().__init__(monoid, kinds, tuple(structures) if elements != "running" else (Running,), warn)

    def no_rows(self) -> PlacedRows:
        """No rows to lift."""
        return self.layouts.inputs.allocate(0) if self.compiled else [], NO_FLAGS, NO_INTS, NO_INTS

    def compile_loops(self) -> None:
        self._results = tuple(np.dtype(DTYPES[kind]) for kind in self.layouts.result.leaves)
        inputs, states = self.layouts.inputs.allocate(0), self.layouts.state.allocate(0)
        if self.elements == "panes":
            self.fold(inputs, NO_FLAGS, (NO_INTS, NO_INTS, NO_FLAGS), NO_COUNTS, states)
        elif self.elements == "running":
            counts = ValueCounts(NO_TOTALS, NO_TOTALS)
            self.run(inputs, NO_FLAGS, (NO_INTS, NO_FLAGS), counts, states, (NO_INTS, NO_INTS))
            return
        heads = np.zeros((0, HEAD), np.int64)
        one = (NO_INTS, NO_INTS, NO_INTS, NO_INTS, NO_FLAGS)
        many = (NO_INTS, NO_INTS, NO_STARTS, NO_INTS, NONE_WANTED)
        for structure, spec in self.specs.items():
            window = Structures(spec, sizes=structure in self._several)
            fields = SlotFields((np.zeros((0, window.ints), np.int64), np.zeros((0, window.floats))), heads)
            self.slide(window, fields, states, NO_COUNTS, self.no_rows(), many if window.sizes else one)

    # ---- the loops ----

    def lift(self, inputs: Any, non_null: Flags, place: tuple[Ints, Ints], counts: ValueCounts, out: States) -> None:
        """Lift rows to elements at their places. Raises AggregateError."""
        self._rows(live_loops.lift_elements, (inputs, non_null), place, counts, out)

    def fold(
        self, inputs: Any, non_null: Flags, place: tuple[Ints, Ints, Flags], counts: ValueCounts, out: States
    ) -> None:
        """Fold rows into the panes at their places. Raises AggregateError."""
        self._rows(live_loops.fold_panes, (inputs, non_null), place, counts, out)

    def run(
        self,
        inputs: Any,
        non_null: Flags,
        place: tuple[Ints, Flags],
        counts: ValueCounts,
        states: States,
        asked: tuple[Ints, Ints],
    ) -> LoopResults:
        """Fold rows into one partial for each slot, with results in between.

        Raises LiftFailed for a row, AggregateError for a result.
        """
        results = self._allocate_results(len(asked[0]), True)
        self._rows(live_loops.fold_running, (inputs, non_null), place, counts, states, (asked, results))
        return results

    def _rows(
        self, kernel: Any, rows: tuple[Any, Flags], place: Any, counts: ValueCounts, states: States, more: Any = ()
    ) -> None:
        (inputs, non_null), progress = rows, np.zeros(2, np.int64)
        rest = (non_null, (*place, progress), counts)
        if self.compiled:
            layouts: Any = (self.layouts.inputs, self.layouts.state, *((self.layouts.result,) if more else ()))
            arguments = (self.monoid, layouts, inputs, *rest, states, *more)
            code = self._code.get(kernel)
            if code is None:
                code = self._code[kernel] = machine_code(kernel, (self.monoid_type, self.kinds), arguments)
        else:
            arguments = (self.monoid, (None,) * (3 if more else 2), inputs, *rest, states[0], *more)
            code = kernel
        try:
            code(*arguments)
        except Exception as error:
            raise (LiftFailed if progress[1] else AggregateError)(int(progress[0]), error) from error

    def slide(
        self,
        window: Structures,
        fields: SlotFields,
        states: States,
        counts: ValueCounts,
        rows: PlacedRows,
        asked: AskedRanges,
        counted: bool = True,
    ) -> tuple[LoopResults, int]:
        """Lift rows, then compute results over ranges of elements; also returns how many are null.

        The counts of results are empty if every row has a value, or if they are not to be `counted`. Raises
        AggregateError.
        """
        progress = np.zeros(2, np.int64)
        results = self._allocate_results(asked[2].size, counted and len(counts.before) > 0)
        given = states if self.compiled else states[0]
        arguments = (window.spec, window.storage, *fields, given, counts, rows, asked, results, progress)
        code = window.code
        if code is None:
            code = window.slide_loop(arguments)
        try:
            missing = code(*arguments)
        except Exception as error:
            raise (LiftFailed if progress[1] else AggregateError)(int(progress[0]), error) from error
        return results, missing

    def _allocate_results(self, count: int, counted: bool) -> LoopResults:
        out: Any = tuple([np.zeros(count, kind) for kind in self._results]) if self.compiled else [None] * count
        if not counted:
            return out, np.zeros(count, np.bool_), NO_INTS, NO_INTS
        return out, np.zeros(count, np.bool_), np.zeros(count, np.int64), np.zeros(count, np.int64)
