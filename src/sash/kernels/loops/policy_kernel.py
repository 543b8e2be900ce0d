"""A policy kernel: one Policy window on the arrays of an operator, compiled where it can be, else on Python objects.

    columns of each aggregate ──lift──▶ states of elements, in the arena ──enforce──▶ starts of windows

States of all aggregates that the policy looks at lie side by side in one tuple of arrays, over which the structure in
each slot runs; interpreted, in one array of objects.
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
from sash.kernels.jit.policy_monoid import OrNone, compilable, joined, shown_alike, watched
from sash.kernels.jit.state_layout import DTYPES, Layout, Layouts, NotColumnar, Shape
from sash.kernels.loops import live_loops
from sash.kernels.loops.aggregate_kernel import AggregateError, States
from sash.kernels.loops.live_kernel import NO_TOTALS, NOBODY, NONE, Flags, Ints, Structures
from sash.kernels.loops.live_loops import HEAD
from sash.kernels.loops.policy_loops import enforce_slots
from sash.kernels.loops.runner import Interpreted, specify, warn_once
from sash.monoids.algebra import Kind, Monoid
from sash.monoids.custom import Custom


@dataclass(frozen=True)
class Lifted:
    """One aggregate of `over` compiled: how its rows become states, and which arrays these are."""

    typed: StructSpec
    kinds: tuple[Kind, ...]
    flagged: bool
    """Whether its first array says if there is a value."""
    first: int
    stop: int
    code: Any

    @property
    def shape(self) -> Shape:
        """The shape of its states."""
        shape = self.typed.layouts.state.shape
        return ("bool", shape) if self.flagged else shape


class PolicyKernel:
    """A policy `evict` over some aggregates, with the loops that lift them and slide the window.

    `kinds` has those of each aggregate's columns, or None where these are Python objects. What does not compile runs
    interpreted; `why_interpreted` says why, and where that lies in the user's code a warning names `what`.
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
        self.parts: list[Lifted] = []
        self.code: Any = enforce_slots
        in_users_code = False
        try:
            parts: list[Monoid] = []
            for monoid, of in zip(monoids, kinds, strict=True):
                in_users_code = isinstance(monoid, Custom)
                parts.append(self._add(monoid, of))
            in_users_code = True
            self.spec: StructSpec | Interpreted = self._compile(parts, evict)
        except (NotColumnar, NotKeyed, NotCompiled) as error:
            self.why_interpreted = str(error)
            self.spec = Interpreted(AMTA, watched(self.monoids, evict, alone))
            self.code = enforce_slots
            if in_users_code:
                warn_once(what, self.why_interpreted)

    def _add(self, monoid: Monoid, kinds: tuple[Kind, ...] | None) -> Monoid:
        """Compile how rows become states of an aggregate; returns it as the policy sees it."""
        if kinds is None:
            raise NotColumnar(monoid.interpreted_only or "its input is a column of Python objects")
        spec = specify(AMTA, monoid, kinds)
        seen = shown_alike(monoid, spec.monoid, kinds)
        layouts, flagged = (spec.layouts.inputs, spec.layouts.state), isinstance(seen, OrNone)
        columns = tuple(np.zeros(0, DTYPES[kind]) for kind in kinds)
        place = NONE, NONE, np.zeros(2, np.int64)
        arguments = (spec.monoid, layouts, columns, NOBODY, place, (NO_TOTALS, NONE), layouts[1].allocate(0))
        kernel: Any = live_loops.lift_elements
        code = machine_code(kernel, (spec.compiled_as.state.monoid, kinds), arguments)
        first = self.parts[-1].stop if self.parts else 0
        stop = first + flagged + len(layouts[1].leaves)
        self.parts.append(Lifted(spec, kinds, flagged, first, stop, code))
        return seen

    def _compile(self, parts: Sequence[Monoid], evict: Any) -> StructSpec:
        monoid = watched(parts, compilable(evict), self.alone)
        state = Layout(joined([part.shape for part in self.parts], self.alone))
        found = Layouts(Layout(()), state, Layout("bool"))
        spec = StructSpec(AMTA, monoid, found, struct_spec_type(structure_key(AMTA), monoid_type(monoid), found, "int"))
        window = Structures(spec)
        fields = np.zeros((0, window.ints), np.int64), np.zeros((0, window.floats))
        heads, asked = np.zeros((0, HEAD), np.int64), (NONE, NONE, NONE)
        arguments = (spec, window.storage, fields, heads, state.allocate(0), asked, HEAD, NONE, NONE)
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
        value (empty: all). Raises Failed.
        """
        if self.compiled:
            for part, (columns, seen) in zip(self.parts, inputs, strict=True):
                self._lift_compiled(part, columns, seen, (slots, places), states[part.first : part.stop])
            return
        made = [self._lift_objects(j, columns, seen, slots) for j, (columns, seen) in enumerate(inputs)]
        for place, *of_row in zip(places.tolist(), *made, strict=True):
            states[0][place] = joined(of_row, self.alone)

    def _lift_compiled(self, part: Lifted, columns: Any, seen: Flags, place: Any, states: States) -> None:
        progress = np.zeros(2, np.int64)
        if part.flagged:
            states[0][place[1]] = seen if len(seen) else True
            states = states[1:]
        given = tuple([np.ascontiguousarray(c, DTYPES[kind]) for c, kind in zip(columns, part.kinds, strict=True)])
        layouts, counts = part.typed.layouts, (NO_TOTALS, NONE)
        try:
            part.code(
                part.typed.monoid, (layouts.inputs, layouts.state), given, seen, (*place, progress), counts, states
            )
        except Exception as error:
            raise AggregateError(int(progress[0]), error) from error

    def _lift_objects(self, j: int, columns: Any, seen: Flags, slots: Ints) -> list[Any]:
        count, progress = len(slots), np.zeros(2, np.int64)
        rows = list(zip(*columns, strict=True)) if columns else [()] * count
        found: list[Any] = [None] * count
        place = slots, np.arange(count), progress
        try:
            live_loops.lift_elements(self.monoids[j], (None, None), rows, seen, place, (NO_TOTALS, NONE), found)
        except Exception as error:
            raise AggregateError(int(progress[0]), error) from error
        return found

    def enforce(
        self, window: Structures, fields: Any, heads: Ints, states: States, asked: tuple[Ints, Ints, Ints], start: int
    ) -> Ints:
        """By row: the first element of the window that ends at it. Raises Failed."""
        out, progress = np.empty(len(asked[0]), np.int64), np.zeros(1, np.int64)
        given: Any = states if self.compiled else states[0]
        try:
            self.code(self.spec, window.storage, fields, heads, given, asked, start, out, progress)
        except Exception as error:
            raise AggregateError(int(progress[0]), error) from error
        return out
