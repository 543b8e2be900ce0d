"""A bound kernel: a monoid made ready for the kinds of its columns. Its loops run compiled if possible.

    monoid, kinds ──▶ typed monoid ──▶ layouts ──▶ machine code of a loop (memory, disk, or compiled now)
                           │              │              │
                           └──────────────┴── any of these refuses ──▶ interpreted, one warning with the reason

Inputs are a tuple of columns; states and results are a tuple of arrays, one per scalar of the layout. Interpreted,
inputs are a list of rows, and states and results are one array of objects. A loop takes a spec as its first argument:
a structure with the monoid and its layouts; that of `Running` if it drives no structure.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sash.aggregators.amta import AMTA
from sash.aggregators.base import Aggregator, require
from sash.aggregators.in_order import InOrder, Running
from sash.kernels.jit.code_fingerprint import NotKeyed, fingerprint_and_origin
from sash.kernels.jit.compile import NotCompiled, is_switched_off, machine_code
from sash.kernels.jit.numba_monoid import MonoidType, monoid_type
from sash.kernels.jit.numba_struct import AFTER, StructSpec, struct_spec_type, structure_key
from sash.kernels.jit.policy_monoid import compilable, joined, watched
from sash.kernels.jit.state_layout import DTYPES, Layout, Layouts, NotColumnar, Shape, layouts, scalars
from sash.kernels.loops.array_types import NO_FLAGS, NO_INTS, Flags, Ints, Numbers, States, enlarged
from sash.kernels.loops.live_loops import (
    enforce_slots,
    fold_panes,
    fold_running,
    lift_elements,
    lower_states,
    slide_sizes,
    slide_slots,
)
from sash.kernels.loops.ring_loops import HEAD
from sash.kernels.loops.structure_loops import (
    combine_each,
    inverse_each,
    lift_each,
    lift_rows,
    lower_each,
    picks_right_each,
    slide_ranges,
)
from sash.monoids.algebra import Kind, Monoid

Columns = Sequence[Sequence[Any] | NDArray[Any]]

# --- What is bound ---


def kind_of(column: Sequence[Any] | NDArray[Any]) -> Kind:
    """The kind of a column. Raises NotColumnar if it holds anything but numbers of at most 64 bits."""
    if not isinstance(column, np.ndarray):
        raise NotColumnar(f"the input is a {type(column).__name__} of Python objects, not an array of numbers")
    kind, masked = _KINDS.get(column.dtype.str[1:]), isinstance(column, np.ma.MaskedArray)
    if kind is None or masked:
        array = "a masked array" if masked else "an array"
        raise NotColumnar(f"the input is {array} of {column.dtype}, which does not fit a 64-bit column")
    return kind


_KINDS: dict[str, Kind] = {
    "b1": "bool",
    **dict.fromkeys(("i1", "i2", "i4", "i8", "u1", "u2", "u4"), "int"),
    **dict.fromkeys(("f2", "f4", "f8"), "float"),
}


def specify(
    structure: type[Aggregator], monoid: Monoid, kinds: tuple[Kind, ...] | None, time: Kind = "int"
) -> StructSpec:
    """The specification to compile for; `time` is the kind of times, if the structure has any.

    Raises TypeError if the typed monoid lacks a property, NotColumnar if it has no layout or its inputs are columns of
    Python objects (`kinds` is None), NotKeyed if it depends on something without a key.
    """
    require(structure, monoid)
    monoid = structure.form(monoid)
    if monoid.interpreted_only or kinds is None:
        raise NotColumnar(monoid.interpreted_only or "its input is a column of Python objects")
    key, ours = fingerprint_and_origin(monoid)
    if ours and (structure, key, kinds, time) in _specs:
        return _specs[structure, key, kinds, time]
    monoid(*(f"column {i}" for i in range(len(kinds))))  # raises TypeError, if it takes more columns or fewer
    typed = monoid.typed(*kinds)
    require(structure, typed)
    typed_as = monoid_type(typed, key if typed is monoid else "")
    if (typed_as, kinds) not in _layouts:
        _layouts[typed_as, kinds] = layouts(typed, kinds)
    spec = spec_of(structure, typed, typed_as, _layouts[typed_as, kinds], time)
    if ours:
        _specs[structure, key, kinds, time] = spec
    return spec


_specs: dict[tuple[type[Aggregator], str, tuple[Kind, ...], Kind], StructSpec] = {}
"""Specs of our own monoids only: a user's may behave differently at the next call."""

_layouts: dict[tuple[MonoidType, tuple[Kind, ...]], Layouts] = {}


def spec_of(
    structure: type[Aggregator], typed: Monoid, typed_as: MonoidType, found: Layouts, time: Kind = "int"
) -> StructSpec:
    """The specification of a structure over a typed monoid."""
    return StructSpec(structure, typed, found, struct_spec_type(structure_key(structure), typed_as, found, time))


def policy_spec(parts: Sequence[Monoid], shapes: Sequence[Shape], evict: Any, alone: bool) -> StructSpec:
    """The specification of a policy: `parts` are its typed aggregates, `shapes` those of their states."""
    monoid = watched(parts, compilable(evict), alone)
    found = Layouts(Layout(()), Layout(joined(shapes, alone)), Layout("bool"))
    return spec_of(AMTA, monoid, monoid_type(monoid), found)


@dataclass(frozen=True)
class Interpreted:
    """The specification of an interpreted run: without layouts; structures of slots are in a dict."""

    structure: type[Aggregator]
    monoid: Monoid
    inputs: ClassVar[None] = None
    state: ClassVar[None] = None
    result: ClassVar[None] = None
    widths: ClassVar[tuple[int, int]] = (AFTER + 1, 0)

    def allocate(self, _largest: int) -> None:
        """No memory: structures have their own."""

    def arena(self, _elements: int) -> dict[int, Any]:
        """The structures by slot."""
        return {}


class InterpretedWarning(UserWarning):
    """An aggregate runs interpreted, a thousand times slower than compiled; the message has the reason."""


_warned: set[str] = set()


def warn_once(what: Any, why: str) -> None:
    """Warn once per process and reason that an aggregate or a policy runs interpreted, unless Numba is disabled."""
    message = f"{what!r} runs interpreted: {why}"
    if message not in _warned and not is_switched_off():
        _warned.add(message)
        warnings.warn(message, InterpretedWarning, stacklevel=4)


# --- Arguments of loops ---

NO_TOTALS: Ints = np.zeros((0, 1), np.int64)
NONE_WANTED: Flags = np.zeros((0, 0), np.bool_)

LIFTING = 1
"""The phase of a loop over live state that lifts a row; the place in an error is then that of the row."""

# Plain tuples: a call with one row creates a dozen of them, and creating a NamedTuple takes ten times as long.

PlacedRows = tuple[Any, Flags, Ints, Ints]
"""Rows to lift: their inputs, which have a value (empty: all), their slots and places among the elements."""

AskedRanges = tuple[Ints, Ints, Ints, Ints, Flags]
"""Ranges to answer: the order of their results (empty: unchanged), slots, starts, ends, which are wanted."""

LoopResults = tuple[States, Flags, Ints, Ints]
"""Results of a loop: values, which are valid, and the counts of values at each range's start and end."""

Elements = Literal["rows", "panes", "running"]
"""The kind of a slot's elements: rows, panes, or one partial that only grows."""

Share = Callable[[Callable[[int, int], None], int], Any]
"""Runs a task for ranges of rows: `RowThreads.run`, or `all_rows`."""


def all_rows(task: Callable[[int, int], None], rows: int) -> None:
    """Run a task for all rows at once."""
    task(0, rows)


class ValueCounts(NamedTuple):
    """The number of values of each slot, and the number before each element (of a running window: before it)."""

    totals: Ints
    before: Ints


NO_COUNTS = ValueCounts(NO_TOTALS, NO_INTS)


Ring = tuple[Ints, Ints, Ints]
"""Where the elements of slots lie: their heads, their chunks, and the directory (`ring_loops.py`)."""

NO_RING: Ring = (np.zeros((0, HEAD), np.int64), np.zeros((0, 2), np.int64), NO_INTS)
NO_BLOCKS: Ints = np.zeros((0, 2), np.int64)


class SlotFields(NamedTuple):
    """The scalars of structures, integers and floats, a row for each slot; their blocks; and the ring of the slots."""

    scalars: tuple[Ints, Numbers]
    blocks: Ints
    ring: Ring


class Structures:
    """The queues of the structures of one window and aggregate, one for each slot. Scalars are in a slot table.

    `sizes`: whether they answer several sizes at once. Interpreted, `storage` is a dict of structures.
    """

    def __init__(self, spec: StructSpec | Interpreted, sizes: bool = False) -> None:
        self.spec, self.sizes, self.compiled = spec, sizes, isinstance(spec, StructSpec)
        self.ints, self.floats = spec.widths
        self.storage: Any = spec.arena(0)

    def no_fields(self) -> SlotFields:
        """The fields of no slots."""
        return SlotFields((np.zeros((0, self.ints), np.int64), np.zeros((0, self.floats))), NO_BLOCKS, NO_RING)

    def grow(self, arena: int) -> None:
        """Reserve space for more elements."""
        if self.compiled:
            pairs = zip(self.spec.arena(arena), self.storage, strict=True)
            self.storage = tuple(tuple(map(enlarged, fresh, queue)) for fresh, queue in pairs)

    def forget(self, slots: Ints) -> None:
        """Drop interpreted structures of these slots."""
        if not self.compiled:
            for slot in slots.tolist():
                self.storage.pop(slot, None)

    @property
    def nbytes(self) -> int:
        """The memory of the queues."""
        return sum(leaf.nbytes for queue in self.storage for leaf in queue) if self.compiled else 0


# --- The kernel ---


class AggregateError(Exception):
    """A monoid raised an exception: the place of the row or result, the exception, and the phase of the loop."""

    def __init__(self, place: int, error: Exception, phase: int = 0) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.place, self.error, self.phase = place, error, phase


class Use(NamedTuple):
    """What a kernel is for: the structures of its loops, and a function that calls each of the loops on no rows.

    Then none of them fails to compile in the middle of the data.
    """

    structures: tuple[type[Aggregator], ...] = ()
    prepare: Callable[[BoundKernel], object] = lambda _: None


NOTHING = Use()


class BoundKernel:
    """A monoid bound to the kinds of its columns; `kinds` is None for columns of Python objects.

    Loops that do not compile run interpreted: `why_interpreted` has the reason, and `warn` issues a warning. `bind`
    makes the specification of a structure. If the monoid raises an exception, a method raises AggregateError.

    >>> import numpy as np
    >>> from sash.aggregators import TwoStacksLite
    >>> from sash.monoids import Max
    >>> kernel = BoundKernel(Max(), ("float",), columns_use(TwoStacksLite))
    >>> states = kernel.lift((np.array([3.0, 1.0, 2.0]),), np.array([True, True, True]))
    >>> kernel.slide(TwoStacksLite, states, (np.array([0, 0, 1]), np.array([1, 2, 3])), np.array([True] * 3))[0]
    (array([3., 3., 2.]),)
    """

    layouts: Layouts
    """The layouts of inputs, states and results; only if it is compiled."""

    def __init__(
        self,
        monoid: Monoid,
        kinds: tuple[Kind, ...] | None,
        use: Use = NOTHING,
        warn: bool = True,
        bind: Callable[[type[Aggregator], Monoid, tuple[Kind, ...] | None], StructSpec] = specify,
    ) -> None:
        structures = use.structures or (Running,)
        self.why_interpreted, self.compiled = "", True
        self._code: dict[Any, Any] = {}
        try:
            self.specs: dict[type[Aggregator], Any] = {one: bind(one, monoid, kinds) for one in structures}
            self.monoid, self.layouts = self.specs[structures[-1]].monoid, self.specs[structures[-1]].layouts
            parts = self.layouts.inputs, self.layouts.state, self.layouts.result
            types = [tuple([np.dtype(DTYPES[kind]) for kind in part.leaves]) for part in parts]
            self.input_types, self.state_types, self.result_types = types
            """The types of the arrays."""
            self._new: Any = np.zeros
            use.prepare(self)
        except (NotColumnar, NotKeyed, NotCompiled) as error:
            self.why_interpreted, self.compiled = str(error), False
            for one in structures:
                require(one, monoid)
            self.specs = {one: Interpreted(one, monoid) for one in structures}
            self.monoid, self.spec = monoid, Interpreted(Running, monoid)
            self.input_types = self.state_types = self.result_types = (np.dtype(object),)
            self._new = np.empty  # of objects: None
            if warn:
                warn_once(monoid, self.why_interpreted)

    @functools.cached_property
    def spec(self) -> Any:
        """The specification for loops without a structure."""
        typed_as = next(iter(self.specs.values())).compiled_as.state.monoid
        return spec_of(Running, self.monoid, typed_as, self.layouts)

    # ---- arrays ----

    @property
    def leaves(self) -> tuple[Kind, ...]:
        """The kinds of a state's arrays; empty if interpreted: then states are one array of objects."""
        return self.layouts.state.leaves if self.compiled else ()

    def states(self, length: int) -> States:
        """New arrays for states."""
        return tuple(map(self._new, repeat(length), self.state_types))

    def results(self, length: int) -> States:
        """New arrays for results."""
        return tuple(map(self._new, repeat(length), self.result_types))

    def inputs(self, columns: Columns) -> Any:
        """Columns as the loops take them: contiguous and of the types of the inputs; or a list of rows."""
        if not self.compiled:
            # NumPy's numbers would wrap around, and warn of infinity minus infinity
            lists = (column.tolist() if isinstance(column, np.ndarray) else column for column in columns)
            return list(zip(*lists, strict=True))
        return tuple(
            [
                column
                if column.dtype == kind and column.flags.c_contiguous  # type: ignore[union-attr]
                else np.ascontiguousarray(column, kind)
                for column, kind in zip(columns, self.input_types, strict=True)
            ]
        )

    def no_rows(self) -> PlacedRows:
        """No rows to lift."""
        inputs = self.layouts.inputs.allocate(0) if self.compiled else []
        return inputs, NO_FLAGS, NO_INTS, NO_INTS

    # ---- loops ----

    def code(self, loop: Any, arguments: tuple[Any, ...]) -> Any:
        """The machine code of a loop for arguments of these types, or the loop itself if interpreted."""
        if not self.compiled:
            return loop
        key = loop, arguments[0].structure
        if key not in self._code:
            self._code[key] = machine_code(loop, arguments[0].compiled_as, arguments)
        return self._code[key]

    def call(self, loop: Any, *arguments: Any, progress: Ints | None = None) -> Any:
        """Run a loop, whose last argument keeps its place and phase. Raises AggregateError."""
        if progress is None:
            progress = np.zeros(2, np.int64)
        code = self._code.get((loop, arguments[0].structure)) or self.code(loop, (*arguments, progress))
        try:
            return code(*arguments, progress)
        except Exception as error:
            place, phase = progress.tolist()
            raise AggregateError(place, error, phase) from error

    def _failures(self, tolerant: bool, loop: Any, *arguments: Any) -> list[AggregateError]:
        """Run a loop that begins at the place in its last argument. If `tolerant`, errors are returned: after each, the
        loop continues behind it, so that the cost does not depend on how many fail.
        """
        found: list[AggregateError] = []
        progress = np.zeros(2, np.int64)
        while True:
            try:
                self.call(loop, *arguments, progress=progress)
                return found
            except AggregateError as failed:
                if not tolerant:
                    raise
                found.append(failed)
                progress[0] += 1

    # ---- whole columns ----

    def lift(self, columns: Columns, non_null: Flags, share: Share = all_rows) -> States:
        """The states of rows; null rows become the identity."""
        out, given = self.states(len(non_null)), self.inputs(columns)

        def task(first: int, stop: int) -> None:
            rows = slice(first, stop)
            self.call(lift_rows, self.spec, _sliced(given, rows), non_null[rows], _sliced(out, rows))

        (share if self.compiled else all_rows)(task, len(non_null))
        return out

    def slide(
        self,
        structure: type[Aggregator],
        states: States,
        bounds: tuple[Any, Any],
        wanted: Flags,
        share: Share = all_rows,
    ) -> tuple[States, Flags]:
        """The results over the states [lo, hi) of wanted ranges, and which are valid.

        Interpreted loops run in one thread, because of the GIL.
        """
        spec, out, valid = self.specs[structure], self.results(len(wanted)), np.zeros(len(wanted), np.bool_)

        def task(first: int, stop: int) -> None:
            rows = slice(first, stop)
            los, his = (bound[rows].astype(np.int64, copy=False) for bound in bounds)
            storage = spec.allocate(max(int((his - los).max(initial=0)), 1))
            given: Any = states, (los, his, wanted[rows])
            if not self.compiled:  # lists are read faster
                given = [tuple(part.tolist() for part in parts) for parts in given]
            self.call(slide_ranges, spec, storage, *given, _sliced(out, rows), valid[rows])

        (share if self.compiled else all_rows)(task, len(wanted))
        return out, valid

    # ---- live state ----

    def slide_slots(
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

        The counts of results are empty if every row has a value, or if they are not to be `counted`.
        """
        count, low, high = asked[2].size, NO_INTS, NO_INTS
        if counted and len(counts.before):
            low, high = np.zeros((2, count), np.int64)
        out = tuple(map(self._new, repeat(count), self.result_types))
        results = out, np.zeros(count, np.bool_), low, high
        loop = slide_sizes if window.sizes else slide_slots
        return results, self.call(loop, window.spec, window.storage, *fields, states, counts, rows, asked, results)

    def fold(
        self, inputs: Any, non_null: Flags, place: tuple[Ints, Ints, Flags], counts: ValueCounts, out: States
    ) -> None:
        """Fold rows into the panes at their places."""
        self.call(fold_panes, self.spec, inputs, non_null, place, counts, out)

    def run(
        self,
        inputs: Any,
        non_null: Flags,
        place: tuple[Ints, Flags],
        counts: ValueCounts,
        states: States,
        asked: tuple[Ints, Ints],
    ) -> LoopResults:
        """Fold rows into one partial for each slot, with results in between."""
        count = len(asked[0])
        low, high = np.zeros((2, count), np.int64)
        results = self.results(count), np.zeros(count, np.bool_), low, high
        self.call(fold_running, self.spec, inputs, non_null, place, counts, states, asked, results)
        return results

    def enforce(
        self, window: Structures, fields: SlotFields, states: States, asked: tuple[Ints, Ints, Ints], start: int
    ) -> Ints:
        """The first element of the window of a policy that ends at each row."""
        out = np.empty(len(asked[0]), np.int64)
        self.call(enforce_slots, window.spec, window.storage, *fields, states, asked, start, out)
        return out

    # ---- lift and lower alone ----

    def lift_elements(
        self,
        inputs: Any,
        non_null: Flags,
        place: tuple[Ints, Ints],
        out: States,
        counts: ValueCounts = NO_COUNTS,
        tolerant: bool = False,
    ) -> list[AggregateError]:
        """Write the states of rows at their places; if `tolerant`, returns the rows that fail."""
        return self._failures(tolerant, lift_elements, self.spec, inputs, non_null, place, counts, out)

    def lower(
        self, states: States, exists: Flags, tolerant: bool = False
    ) -> tuple[States, Flags, list[AggregateError]]:
        """The results of the existing states, which are valid, and if `tolerant` those that fail, which are not."""
        results = self.results(len(exists)), np.zeros(len(exists), np.bool_)
        return *results, self._failures(tolerant, lower_states, self.spec, states, exists, results)

    def each(self, function: str, *operands: Sequence[Any]) -> list[Any]:
        """A compiled function of the monoid on lists of values; the exception's type where it raises one.

        >>> from sash.monoids import Max
        >>> BoundKernel(Max(), ("int",)).each("combine", [1, 5], [3, 2])
        [3, 5]

        Raises NotCompiled.
        """
        if not self.compiled:
            raise NotCompiled(self.why_interpreted)
        loop, count = _EACH[function], len(operands[0])
        given = self.layouts.inputs if function == "lift" else self.layouts.state
        result = {"lower": self.layouts.result, "picks_right": Layout("bool")}.get(function, self.layouts.state)
        try:
            columns = [_leaves(given, values) for values in operands]
            out, valid = result.allocate(count), np.zeros(count, np.bool_)
            arguments = (self.spec, *columns, out, valid)
            self.code(loop, arguments)(*arguments)
            return [result.value(out, i) if valid[i] else None for i in range(count)]
        except NotCompiled:
            raise
        except Exception as error:  # raised by the monoid on one of the elements: run them one by one
            if count == 1:
                return [type(error)]
            return [self.each(function, *row)[0] for row in zip(*([[x] for x in one] for one in operands), strict=True)]


_EACH = {
    "lift": lift_each,
    "combine": combine_each,
    "inverse": inverse_each,
    "picks_right": picks_right_each,
    "lower": lower_each,
}


def _leaves(layout: Layout, values: Sequence[Any]) -> States:
    flat = [scalars(value) for value in values]
    return tuple(np.array([row[i] for row in flat], DTYPES[kind]) for i, kind in enumerate(layout.leaves))


def _sliced(values: Any, rows: slice) -> Any:
    return tuple(part[rows] for part in values) if isinstance(values, tuple) else values[rows]


# --- Uses ---


def columns_use(structure: type[Aggregator]) -> Use:
    """Whole columns: lift rows, and slide a structure over ranges of their states."""

    def prepare(kernel: BoundKernel) -> None:
        states = kernel.lift(kernel.no_rows()[0], NO_FLAGS)
        kernel.slide(structure, states, (NO_INTS, NO_INTS), NO_FLAGS)

    return Use((structure,), prepare)


def live_use(elements: Elements, structures: Sequence[type[InOrder]], several: Sequence[type[InOrder]] = ()) -> Use:
    """Live state, with structures in slots; `several` are those that answer several sizes at once."""

    def prepare(kernel: BoundKernel) -> None:
        rows, states = kernel.no_rows(), kernel.states(0)
        inputs = rows[0]
        if elements == "running":
            counts = ValueCounts(NO_TOTALS, NO_TOTALS)
            kernel.run(inputs, NO_FLAGS, (NO_INTS, NO_FLAGS), counts, states, (NO_INTS, NO_INTS))
            return
        if elements == "panes":
            kernel.fold(inputs, NO_FLAGS, (NO_INTS, NO_INTS, NO_FLAGS), NO_COUNTS, states)
        for structure, spec in kernel.specs.items():
            window = Structures(spec, sizes=structure in several)
            asked = (NO_INTS, NO_INTS, NO_INTS, NO_INTS, NO_FLAGS)
            if window.sizes:
                asked = (NO_INTS, NO_INTS, np.zeros((1, 0), np.int64), NO_INTS, NONE_WANTED)
            kernel.slide_slots(window, window.no_fields(), states, NO_COUNTS, rows, asked)

    return Use((Running,) if elements == "running" else tuple(structures), prepare)


def _prepare_policy(kernel: BoundKernel) -> None:
    window = Structures(kernel.specs[AMTA])
    kernel.enforce(window, window.no_fields(), kernel.states(0), (NO_INTS, NO_INTS, NO_INTS), HEAD)


POLICY = Use((AMTA,), _prepare_policy)
"""The windows of a policy."""

LIFT = Use((), lambda kernel: kernel.lift_elements(*kernel.no_rows()[:2], (NO_INTS, NO_INTS), kernel.states(0)))
"""`lift` alone."""

LOWER = Use((), lambda kernel: kernel.lower(kernel.states(0), NO_FLAGS))
"""`lower` alone: results from states that another aggregate has computed."""
