"""A policy kernel: one Policy window on the arrays of an operator, compiled if possible, else on Python objects.

    columns of each aggregate ──lift──▶ states of elements, in the arena ──enforce──▶ starts of windows

The states of all aggregates of the policy are one tuple of arrays, over which the structure in each slot runs;
interpreted, one array of objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sash.aggregators import AMTA
from sash.kernels.jit.code_fingerprint import NotKeyed
from sash.kernels.jit.compile import NotCompiled, machine_code
from sash.kernels.jit.numba_monoid import monoid_type
from sash.kernels.jit.numba_struct import StructSpec, struct_spec_type, structure_key
from sash.kernels.jit.policy_monoid import OrNone, compilable, joined, policy_monoid, watched
from sash.kernels.jit.state_layout import DTYPES, Layout, Layouts, NotColumnar, Shape
from sash.kernels.loops import live_loops
from sash.kernels.loops.array_types import NO_FLAGS, NO_INTS, Flags, Ints, States
from sash.kernels.loops.columnar import AggregateError, require_columns
from sash.kernels.loops.live_kernel import NO_COUNTS, SlotFields, Structures
from sash.kernels.loops.live_loops import HEAD
from sash.kernels.loops.policy_loops import enforce_slots
from sash.kernels.loops.runner import Interpreted, specify, warn_once
from sash.monoids.algebra import Kind, Monoid
from sash.monoids.custom import Custom


@dataclass(frozen=True)
class Lifted:
    """One compiled aggregate of `over`: how its rows are lifted, and which arrays hold its states."""

    typed: StructSpec
    kinds: tuple[Kind, ...]
    flagged: bool
    """Whether its first array records if there is a value."""
    first: int
    stop: int
    code: Any

    @property
    def shape(self) -> Shape:
        """The shape of its states."""
        shape = self.typed.layouts.state.shape
        return ("bool", shape) if self.flagged else shape


class PolicyKernel:
    """The loops of a policy `evict` over some aggregates: they lift rows and slide the window.

    `kinds`: the kinds of each aggregate's columns, or None for columns of Python objects. A policy that does not
    compile runs interpreted; `why_interpreted` has the reason, and if that is in the user's code a warning names
    `what`.
    """

    def __init__(
        self,
        what: Any,
        evict: Callable[[Any, Any], Any],
        alone: bool,
        monoids: Sequence[Monoid],
        kinds: Sequence[tuple[Kind, ...] | None],
    ) -> None:
        self.monoids, self.alone = tuple(monoids), alone
        self.why_interpreted = ""
        self.lifted: list[Lifted] = []
        self.code: Any = enforce_slots
        in_users_code = False
        try:
            for_policy: list[Monoid] = []
            for monoid, of in zip(monoids, kinds, strict=True):
                in_users_code = isinstance(monoid, Custom)
                for_policy.append(self._add(monoid, of))
            in_users_code = True
            self.spec: StructSpec | Interpreted = self._compile(for_policy, evict)
        except (NotColumnar, NotKeyed, NotCompiled) as error:
            self.why_interpreted = str(error)
            self.spec = Interpreted(AMTA, watched(self.monoids, evict, alone))
            self.code = enforce_slots
            if in_users_code:
                warn_once(what, self.why_interpreted)

    def _add(self, monoid: Monoid, kinds: tuple[Kind, ...] | None) -> Monoid:
        """Compile the lift of an aggregate; returns its monoid as the policy reads it."""
        require_columns(monoid, kinds)
        assert kinds is not None
        spec = specify(AMTA, monoid, kinds)
        for_policy = policy_monoid(monoid, spec.monoid, kinds)
        layouts, flagged = (spec.layouts.inputs, spec.layouts.state), isinstance(for_policy, OrNone)
        columns = tuple(np.zeros(0, DTYPES[kind]) for kind in kinds)
        place = NO_INTS, NO_INTS, np.zeros(2, np.int64)
        arguments = (spec.monoid, layouts, columns, NO_FLAGS, place, NO_COUNTS, layouts[1].allocate(0))
        kernel: Any = live_loops.lift_elements
        code = machine_code(kernel, (spec.compiled_as.state.monoid, kinds), arguments)
        first = self.lifted[-1].stop if self.lifted else 0
        stop = first + flagged + len(layouts[1].leaves)
        self.lifted.append(Lifted(spec, kinds, flagged, first, stop, code))
        return for_policy

    def _compile(self, monoids: Sequence[Monoid], evict: Any) -> StructSpec:
        monoid = watched(monoids, compilable(evict), self.alone)
        state = Layout(joined([one.shape for one in self.lifted], self.alone))
        found = Layouts(Layout(()), state, Layout("bool"))
        spec = StructSpec(AMTA, monoid, found, struct_spec_type(structure_key(AMTA), monoid_type(monoid), found, "int"))
        window = Structures(spec)
        fields = np.zeros((0, window.ints), np.int64), np.zeros((0, window.floats))
        heads, asked = np.zeros((0, HEAD), np.int64), (NO_INTS, NO_INTS, NO_INTS)
        arguments = (spec, window.storage, fields, heads, state.allocate(0), asked, HEAD, NO_INTS, NO_INTS)
        kernel: Any = enforce_slots
        self.code = machine_code(kernel, spec.compiled_as, arguments)
        return spec

    @property
    def compiled(self) -> bool:
        """Does it run compiled?"""
        return not self.why_interpreted

    @property
    def leaves(self) -> tuple[Any, ...]:
        """The types of the arrays of states."""
        if isinstance(self.spec, StructSpec):
            return tuple(DTYPES[kind] for kind in self.spec.layouts.state.leaves)
        return (object,)

    def lift(self, inputs: Sequence[tuple[Any, Flags]], slots: Ints, places: Ints, states: States) -> None:
        """Write the states of rows at their places. `inputs` has for each aggregate its columns, and which rows have a
        value (empty: all). Raises AggregateError.
        """
        if self.compiled:
            for one, (columns, non_null) in zip(self.lifted, inputs, strict=True):
                into = states[one.first : one.stop]
                if one.flagged:
                    into[0][places] = non_null if len(non_null) else True
                    into = into[1:]
                kinds = zip(columns, one.kinds, strict=True)
                given: Any = tuple([np.ascontiguousarray(column, DTYPES[kind]) for column, kind in kinds])
                layouts = one.typed.layouts.inputs, one.typed.layouts.state
                _lift(one.code, one.typed.monoid, layouts, (given, non_null), (slots, places), into)
            return
        made: list[list[Any]] = []
        for monoid, (columns, non_null) in zip(self.monoids, inputs, strict=True):
            given = list(zip(*columns, strict=True)) if columns else [()] * len(slots)
            made.append([None] * len(slots))
            place = slots, np.arange(len(slots))
            _lift(live_loops.lift_elements, monoid, (None, None), (given, non_null), place, made[-1])
        for at, *of_row in zip(places.tolist(), *made, strict=True):
            states[0][at] = joined(of_row, self.alone)

    def enforce(
        self, window: Structures, fields: SlotFields, states: States, asked: tuple[Ints, Ints, Ints], start: int
    ) -> Ints:
        """The first element of the window that ends at each row. Raises AggregateError."""
        out, progress = np.empty(len(asked[0]), np.int64), np.zeros(1, np.int64)
        given: Any = states if self.compiled else states[0]
        try:
            self.code(self.spec, window.storage, *fields, given, asked, start, out, progress)
        except Exception as error:
            raise AggregateError(int(progress[0]), error) from error
        return out


def _lift(
    code: Any, monoid: Monoid, layouts: Any, rows: tuple[Any, Flags], place: tuple[Ints, Ints], states: Any
) -> None:
    """Write the states of rows at their places. Raises AggregateError."""
    progress = np.zeros(2, np.int64)
    try:
        code(monoid, layouts, *rows, (*place, progress), NO_COUNTS, states)
    except Exception as error:
        raise AggregateError(int(progress[0]), error) from error
