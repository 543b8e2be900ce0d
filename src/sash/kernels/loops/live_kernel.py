"""A live kernel: one aggregate on the arrays of an operator, compiled where it can be, else on Python objects.

States are a tuple of arrays, one a scalar of the layout; interpreted, one array of objects. The loops are those of
`live_loops`, the same for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sash.aggregators.in_order import InOrder, require
from sash.aggregators.running import Running
from sash.kernels.jit.code_fingerprint import NotKeyed
from sash.kernels.jit.compile import NotCompiled, machine_code
from sash.kernels.jit.numba_struct import AFTER, StructSpec
from sash.kernels.jit.state_layout import DTYPES, NotColumnar
from sash.kernels.loops import live_loops
from sash.kernels.loops.aggregate_kernel import AggregateError, Columnar, States
from sash.kernels.loops.live_loops import HEAD
from sash.kernels.loops.runner import Interpreted, specify, warn_once
from sash.monoids.algebra import Kind, Monoid

Elements = Literal["rows", "panes", "running"]
"""What the elements of a slot are: rows, panes, or one partial that only grows."""

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class LiftFailed(AggregateError):
    """A monoid raised on a row, while results were computed."""


NONE: Ints = np.zeros(0, np.int64)
NOBODY: Flags = np.zeros(0, np.bool_)
NO_TOTALS: Ints = np.zeros((0, 1), np.int64)
NO_STARTS: Ints = np.zeros((1, 0), np.int64)
NONE_WANTED: Flags = np.zeros((0, 0), np.bool_)


def call_loop(kernel: Any, meaning: Any, arguments: tuple[Any, ...]) -> Any:
    """Run a loop without an aggregate; interpreted where Numba is switched off. `meaning` decides all types."""
    code = _loops.get((kernel, meaning))
    if code is None:
        try:
            code = machine_code(kernel, meaning, arguments)
        except NotCompiled:
            code = kernel
        _loops[kernel, meaning] = code
    return code(*arguments)


_loops: dict[tuple[Any, Any], Any] = {}


class Structures:
    """The structures of one window and aggregate, one a slot: their queues. Their scalars are rows of a slot table.

    Interpreted, `storage` is a dict of them.
    """

    def __init__(self, spec: StructSpec | Interpreted, arena: int = 0) -> None:
        self.spec = spec
        self.code: Any = None
        """The loop that slides them, once it has run."""
        self.sizes = False
        """Whether that is asked for several sizes at once."""
        self.ints, self.floats = spec.widths if isinstance(spec, StructSpec) else (AFTER + 1, 0)
        self.storage: Any = {}
        self.pack(arena)

    def grow(self, arena: int) -> None:
        """Make room for more elements."""
        if isinstance(self.spec, StructSpec):
            self.storage = tuple(
                tuple(enlarged(new, old) for new, old in zip(fresh, queue, strict=True))
                for fresh, queue in zip(self.spec.arena(arena), self.storage, strict=True)
            )

    def pack(self, arena: int) -> None:
        """Start anew in an arena of this length."""
        self.storage = self.spec.arena(arena) if isinstance(self.spec, StructSpec) else {}

    def reset(self, slots: Ints) -> None:
        """Drop interpreted structures of these slots."""
        if isinstance(self.spec, Interpreted):
            for slot in slots.tolist():
                self.storage.pop(slot, None)

    @property
    def nbytes(self) -> int:
        """The memory of the queues."""
        return sum(leaf.nbytes for queue in self.storage for leaf in queue) if isinstance(self.spec, StructSpec) else 0


def enlarged(new: NDArray[Any], old: NDArray[Any]) -> NDArray[Any]:
    """The old values at the start of a longer array; those themselves if there is room already."""
    if len(old) >= len(new):
        return old
    new[: len(old)] = old
    return new


class LiveKernel(Columnar):
    """An aggregate with its loops over live state, for the structures it will run on.

    `kinds` are those of its columns, or None for columns of Python objects; `several` are the structures that are asked
    for several sizes at once. What does not compile runs interpreted; `why_interpreted` says why, and for a user's
    monoid there is a warning.
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
        self.elements = elements
        self.why_interpreted = ""
        self.kinds: tuple[Kind, ...] | None = None
        self.specs: dict[type[InOrder], Any] = {}
        self.no_rows: Any = ([], NOBODY, NONE, NONE)
        """No rows to lift."""
        self._code: dict[Any, Any] = {}
        structures = tuple(structures) if elements != "running" else (Running,)
        try:
            if kinds is None:
                raise NotColumnar(monoid.interpreted_only or "its input is a column of Python objects")
            self._compile(monoid, kinds, structures, several)
        except (NotColumnar, NotKeyed, NotCompiled) as error:
            self.why_interpreted = str(error)
            self.monoid, self.kinds = monoid, None
            for structure in structures:
                require(structure, monoid)
                self.specs[structure] = Interpreted(structure, monoid)
            if warn:
                warn_once(monoid, self.why_interpreted)

    def _compile(
        self, monoid: Monoid, kinds: tuple[Kind, ...], structures: Sequence[type[InOrder]], several: Sequence[Any]
    ) -> None:
        """Compile every loop, so that none fails half-way through the data."""
        self.kinds = kinds
        for structure in structures:
            spec = self.specs[structure] = specify(structure, monoid, kinds)
            self.monoid, self.layouts = spec.monoid, spec.layouts
        self._inputs = tuple(np.dtype(DTYPES[kind]) for kind in kinds)
        self._results = tuple(np.dtype(DTYPES[kind]) for kind in self.layouts.result.leaves)
        columns = tuple(np.zeros(0, dtype) for dtype in self._inputs)
        states, counts = self.layouts.state.allocate(0), (NO_TOTALS, NONE)
        self.no_rows = (columns, NOBODY, NONE, NONE)
        if self.elements == "panes":
            self.fold(columns, NOBODY, (NONE, NONE, NOBODY), counts, states)
        elif self.elements == "running":
            self.run(columns, NOBODY, (NONE, NOBODY), (NO_TOTALS, NO_TOTALS), states, (NONE, NONE))
            return
        heads = np.zeros((0, HEAD), np.int64)
        one, many = (NONE, NONE, NONE, NONE, NOBODY), (NONE, NONE, NO_STARTS, NONE, NONE_WANTED)
        for structure in structures:
            window = Structures(self.specs[structure])
            window.sizes = structure in several
            fields = np.zeros((0, window.ints), np.int64), np.zeros((0, window.floats))
            self.slide(window, fields, heads, states, counts, self.no_rows, many if window.sizes else one)

    # ---- the loops ----

    def lift(self, columns: Any, seen: Flags, place: tuple[Ints, Ints], counts: Any, states: States) -> None:
        """Rows as elements at their places. Raises Failed."""
        progress = np.zeros(2, np.int64)
        self._rows(live_loops.lift_elements, columns, seen, (*place, progress), counts, states, ())

    def fold(self, columns: Any, seen: Flags, place: tuple[Ints, Ints, Flags], counts: Any, states: States) -> None:
        """Rows folded into the panes at their places. Raises Failed."""
        progress = np.zeros(2, np.int64)
        self._rows(live_loops.fold_panes, columns, seen, (*place, progress), counts, states, ())

    def run(
        self,
        columns: Any,
        seen: Flags,
        place: tuple[Ints, Flags],
        counts: Any,
        states: States,
        asked: tuple[Ints, Ints],
    ) -> tuple[Any, Flags, Ints, Ints]:
        """Rows folded into one partial a slot, and results on the way. Raises Failed."""
        progress = np.zeros(2, np.int64)
        results = self._room(len(asked[0]), True)
        self._rows(live_loops.fold_running, columns, seen, (*place, progress), counts, states, (asked, results))
        return results

    def inputs(self, columns: Any, count: int) -> Any:
        """The columns of rows as the loops take them."""
        if self.compiled:
            return tuple(np.ascontiguousarray(c, kind) for c, kind in zip(columns, self._inputs, strict=True))
        return list(zip(*columns, strict=True)) if columns else [()] * count

    def _rows(
        self, kernel: Any, columns: Any, seen: Flags, place: Any, counts: Any, states: States, more: tuple[Any, ...]
    ) -> None:
        progress, inputs = place[-1], self.inputs(columns, len(place[0]))
        if self.compiled:
            layouts: Any = (self.layouts.inputs, self.layouts.state, *((self.layouts.result,) if more else ()))
            arguments = (self.monoid, layouts, inputs, seen, place, counts, states, *more)
            code = self._code.get(kernel)
            if code is None:
                code = self._code[kernel] = machine_code(kernel, (self.monoid_type, self.kinds), arguments)
        else:
            arguments = (self.monoid, (None,) * (3 if more else 2), inputs, seen, place, counts, states[0], *more)
            code = kernel
        try:
            code(*arguments)
        except Exception as error:
            raise AggregateError(int(progress[0]), error) from error

    def slide(
        self,
        window: Structures,
        fields: Any,
        heads: Ints,
        states: States,
        counts: Any,
        rows: Any,
        asked: Any,
    ) -> tuple[Any, Flags, Ints, Ints, int]:
        """Lift rows, then results over ranges of elements: values, which are valid, counts at the range's start and end
        (empty if every row is counted), and how many are null. Raises Failed.
        """
        progress = np.zeros(2, np.int64)
        out, valid, low, high = self._room(asked[2].size, len(counts[1]) > 0)
        kernel = live_loops.slide_sizes if window.sizes else live_loops.slide_slots
        arguments = (
            *(window.spec, window.storage, fields, heads, states if self.compiled else states[0], counts, rows, asked),
            *((out, valid, low, high), progress),
        )
        code: Any = window.code
        if code is None:
            code = kernel
            if self.compiled:
                code = machine_code(kernel, window.spec.compiled_as, arguments)  # type: ignore[arg-type, union-attr]
            window.code = code
        try:
            missing = code(*arguments)
        except Exception as error:
            raise (LiftFailed if progress[1] else AggregateError)(int(progress[0]), error) from error
        return out, valid, low, high, missing

    def _room(self, count: int, counted: bool) -> tuple[Any, Flags, Ints, Ints]:
        found: Any = tuple([np.zeros(count, kind) for kind in self._results]) if self.compiled else [None] * count
        if not counted:
            return found, np.zeros(count, np.bool_), NONE, NONE
        return found, np.zeros(count, np.bool_), np.zeros(count, np.int64), np.zeros(count, np.int64)

    @property
    def monoid_type(self) -> Any:
        """The compiler's type of the typed monoid: a key for its code."""
        return next(iter(self.specs.values())).compiled_as.state.monoid
