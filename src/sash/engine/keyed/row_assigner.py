"""RowAssigner: any number of windows over single rows, with one ring of rows for each slot.

    rows     · · · · · · · · · · ·
             └──────────────┘               Time(1h), at its last row
                   └────────┘               Count(3)
                      └─────────────┘       Delta(odometer, 5)

A threshold on time, on a Delta's column or on the row number determines the start of a window; it never decreases. A
Policy determines the start of its own window.

Starts and ends of shifted windows over the rows of slots.

    rows               · · · · · · · ▼ · · · ·
    Count(4, shift=-2)     └─────┘                    ends before its row
    Count(5, shift=2)            └─────────┘          ends after it

Both ends never decrease from one row of a key to the next, so a search continues from where the last one stopped.

Policy windows: windows from which a user-defined function evicts the oldest rows.

Each slot has an AMTA over the policy's aggregate; it finds the start of the window at each row in O(log n) ⊕, however
many rows are evicted. The aggregates of the query then run on these starts, as for every other window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.aggregators.amta import AMTA
from sash.columns.aggregate_batch import InputReader
from sash.columns.arrow_arrays import all_true, array
from sash.columns.input_encoding import CODED, encodings_of, kinds_of, numbers
from sash.columns.keys import decode
from sash.columns.row_errors import decreasing
from sash.columns.time_numbers import beyond
from sash.engine.keyed.arena import Arena, SlotStructures
from sash.engine.keyed.slot_table import SlotTable
from sash.engine.keyed.step_data import StepRows, WindowRanges
from sash.engine.keyed.window_assigner import (
    ArenaAssigner,
    AssignedRows,
    Ending,
    emitting,
    limit,
    lower_due,
)
from sash.kernels.jit.numba_struct import StructSpec
from sash.kernels.jit.policy_monoid import OrNone, joined, policy_monoid, split, watched
from sash.kernels.jit.state_layout import NotColumnar
from sash.kernels.loops import window_loops
from sash.kernels.loops.array_types import NO_FLAGS, Flags, Ints, Numbers, States
from sash.kernels.loops.bound_kernel import LIFT, POLICY, BoundKernel, Elements, policy_spec, warn_once
from sash.kernels.loops.loop_cache import call_loop
from sash.kernels.loops.ring_loops import BACK, BEGIN
from sash.kernels.loops.slot_loops import assign_rows, place_rows
from sash.kernels.loops.window_loops import (
    NEVER,
    bound_places,
    count_starts,
    pending_slides,
    shifted_rows,
)
from sash.monoids.algebra import Kind, Monoid
from sash.monoids.custom import Custom
from sash.plan.bound_query import AggregateSpec, BoundQuery, WindowSpec
from sash.plan.time_axis import Number
from sash.plan.types import value_type
from sash.stores import codec
from sash.stores.codec import state_codec
from sash.windows import Policy
from sash.windows.rules import WindowRule, later

# --- Policy windows ---


class PolicyWindow:
    """One Policy window of an assigner; its start is in `column` of the heads.

    The states of all aggregates of the policy are one tuple of arrays, over which the structure in each slot runs. A
    policy that does not compile runs interpreted, with a warning if that is because of the user's code.
    """

    def __init__(self, window: WindowSpec, arena: Arena, column: int, name: str, table: SlotTable) -> None:
        self.aggregates, self.arena, self.column, self.name = window.over, arena, column, name
        policy = window.window
        assert isinstance(policy, Policy)
        self.alone, monoids = policy.alone, [spec.monoid for spec in self.aggregates]
        self.lifts = [BoundKernel(spec.monoid, _kinds(spec), LIFT, warn=False) for spec in self.aggregates]
        self.flagged: list[bool] = []
        """By aggregate: whether the first array of its states records if there is a value."""
        in_users_code = False

        def bind(*_: Any) -> StructSpec:
            nonlocal in_users_code
            typed: list[Monoid] = []
            for monoid, lift in zip(monoids, self.lifts, strict=True):
                in_users_code = isinstance(monoid, Custom)
                if not lift.compiled:
                    raise NotColumnar(lift.why_interpreted)
                typed.append(policy_monoid(monoid, lift.monoid, lift.layouts.inputs.leaves))
            in_users_code, self.flagged = True, [isinstance(one, OrNone) for one in typed]
            shapes = [lift.layouts.state.shape for lift in self.lifts]
            flagged = [("bool", shape) if flag else shape for flag, shape in zip(self.flagged, shapes, strict=True)]
            return policy_spec(typed, flagged, policy.evict, self.alone)

        self.kernel = BoundKernel(watched(monoids, policy.evict, self.alone), None, POLICY, warn=False, bind=bind)
        compiled = self.kernel.compiled
        if not compiled:
            self.lifts = [BoundKernel(monoid, None, LIFT, warn=False) for monoid in monoids]
            self.flagged = [False] * len(monoids)
            if in_users_code:
                warn_once(policy, self.kernel.why_interpreted)
        self.readers = [InputReader(spec, encodings_of(spec), compiled) for spec in self.aggregates]
        self.columns = [(name, i) for i in range(len(self.kernel.state_types))]
        """The names of the arena's columns that hold states."""
        for key, kind in zip(self.columns, self.kernel.state_types, strict=True):
            arena.add(key, kind)
        self.structures = SlotStructures(self.kernel.specs[AMTA], arena, table, name)

    @property
    def states(self) -> States:
        """The states of elements."""
        return tuple([self.arena.columns[key] for key in self.columns])

    def lift(self, rows: StepRows, places: Ints) -> None:
        """Write the states of rows at their places. Raises AggregateError."""
        states, count, first = self.states, len(rows), 0
        lifted: list[NDArray[Any]] = []
        for reader, lift, flagged in zip(self.readers, self.lifts, self.flagged, strict=True):
            non_null = reader.non_null(rows, count)
            inputs, flags = lift.inputs(reader.columns(rows, count)), NO_FLAGS if non_null is None else non_null
            if self.kernel.compiled:
                if flagged:
                    states[first][places] = True if non_null is None else non_null
                stop = first + flagged + len(lift.leaves)
                lift.lift_elements(inputs, flags, (rows.slots, places), states[first + flagged : stop])
                first = stop
            else:
                lifted += lift.states(count)
                lift.lift_elements(inputs, flags, (rows.slots, np.arange(count)), (lifted[-1],))
        if not self.kernel.compiled:
            for place, *of_row in zip(places.tolist(), *lifted, strict=True):
                states[0][place] = joined(of_row, self.alone)

    def enforce(self, rows: StepRows, pos: Ints, begin: Ints) -> Ints:
        """The first element of the window that ends at each row. Raises AggregateError."""
        return self.kernel.enforce(
            self.structures, self.structures.fields, self.states, (rows.slots, pos, begin), self.column
        )

    # ---- states at rest ----

    @property
    def fields(self) -> Mapping[str, pa.DataType]:
        """The columns in which a state is stored."""
        if not self.kernel.compiled:
            return {f"{self.name}.state": pa.binary()}
        return {f"{self.name}.s{i}": pa.from_numpy_dtype(kind) for i, kind in enumerate(self.kernel.state_types)}

    def store(self, take: Callable[[NDArray[Any]], NDArray[Any]]) -> list[pa.Array]:
        """The states that `take` selects, as columns to store."""
        if self.kernel.compiled:
            return [array(take(leaf)) for leaf in self.states]
        dumps = [state_codec(spec.monoid)[0] for spec in self.aggregates]
        states = [split(state, self.alone) for state in take(self.states[0]).tolist()]
        found = [codec.dumps(tuple(dump(x) for dump, x in zip(dumps, state, strict=True))) for state in states]
        return [pa.array(found, pa.binary())]

    def load(self, places: Ints, columns: Sequence[pa.Array]) -> None:
        """Load stored states into these places."""
        if self.kernel.compiled:
            for leaf, column in zip(self.states, columns, strict=True):
                leaf[places] = numbers(column)
            return
        loads = [state_codec(spec.monoid)[1] for spec in self.aggregates]
        for place, data in zip(places.tolist(), columns[0].to_pylist(), strict=True):
            state = [load(x) for load, x in zip(loads, codec.loads(data), strict=True)]
            self.states[0][place] = joined(state, self.alone)


def _kinds(spec: AggregateSpec) -> tuple[Kind, ...] | None:
    """The kinds of an aggregate's columns; None if the policy needs their values as Python objects."""
    forms = encodings_of(spec)
    if forms is None or any(form in (*CODED, "wide") for form in forms):
        return None
    return kinds_of(forms, tuple(map(value_type, spec.types)) or (pa.bool_(),))


# --- Shifted windows ---


class PlacedAt(NamedTuple):
    """Rows with results: their slots, positions and times, and the elements of their keys that windows may hold."""

    slots: Ints
    pos: Ints
    time: Numbers
    begin: Ints
    stops: Ints


# --- Row assigner ---

_WORD = np.dtype(np.int64)

WindowEnds = tuple[Ints, Ints, Ints]
"""Windows: their slots, the first elements of their keys, and the positions after their last elements."""


@dataclass(slots=True)
class RowPositions(AssignedRows):
    """Rows that are elements."""

    assigner: RowAssigner
    pos: Ints
    """The position of each row in its slot."""
    stop: Ints
    """The position after it."""
    begin: Ints
    """The position of the first row since the key last restarted."""
    delta_values: dict[str, Numbers]
    """The values of the rows by the column of a Delta window."""

    def results(self, rows: StepRows, endings: Sequence[Ending]) -> list[WindowRanges]:
        return self.assigner.results(rows, self, endings)


class RowAssigner(ArenaAssigner):
    """Windows over single rows."""

    elements: ClassVar[Elements] = "rows"

    cursors: ClassVar[int] = 0
    """The number of further columns of a head after the starts of windows."""

    def __init__(self, bound_query: BoundQuery, places: Sequence[int], table: SlotTable, name: str) -> None:
        windows = [bound_query.windows[place] for place in places]
        slides = sum(window.slide == "time" for window in windows)
        shifted = [w for w, window in enumerate(windows) if self.is_shifted(window)]
        super().__init__(
            bound_query, places, table, name, [0] * self.cursors + [NEVER, 0] * slides + [0] * len(shifted)
        )
        self.arena.add("time", self.numbers)
        self.pending: dict[int, int] = {}
        """By window that slides in time: the column with the slide of the last row; the next one has the first row."""
        for w, window in enumerate(self.windows):
            if window.slide == "time":
                self.pending[w] = self.first + len(places) + self.cursors + 2 * len(self.pending)
        self.deltas = {str(s.rule.measured): s.axis for s in self.windows if s.rule.measured and s.axis is not None}
        for column, axis in self.deltas.items():
            self.arena.add(("delta", column), np.int64 if axis.kind == "int" else np.float64)
        of_time = all(window.rule.in_time for window in self.windows)
        self.reach = max(window.behind for window in self.windows) if of_time else None
        """How long a row is needed; None if there is no fixed time."""
        end = self.first + len(places) + self.cursors + 2 * slides
        self.shifted = {w: end + i for i, w in enumerate(shifted)}
        """By shifted window: the column with its last end, which one that is measured in rows does not use."""
        by_size = sorted(range(len(places)), key=lambda w: -(self.windows[w].size or 0))
        self._ranks = {w: rank for rank, w in enumerate(by_size)}
        self.closed_start = any(window.rule.closed_start for window in self.windows if window.rule.in_time)
        self.policies = {
            w: PolicyWindow(window, self.arena, self.start_column(w), f"{name}.policy{w}", table)
            for w, window in enumerate(self.windows)
            if window.rule.measure == "policy"
        }

    @staticmethod
    def is_shifted(window: WindowSpec) -> bool:
        """Does a window not end at its row?"""
        return window.rule.is_moved

    def assign(self, rows: StepRows) -> RowPositions:
        arena, slots, time, empty, count = self.arena, rows.slots, rows.time, np.empty, len(rows.slots)
        # one by one: to unpack an array of five rows takes twice as long
        pos, stop, begin = empty(count, _WORD), empty(count, _WORD), empty(count, _WORD)
        at, growing = empty(count, _WORD), empty(count, _WORD)
        arguments = (slots, time, rows.restarts, arena.ring, arena.columns["time"], pos, stop, begin, at, growing)
        grown = call_loop(assign_rows, self.kind, arguments)
        if grown:
            arena.enlarge(growing[:grown])
            call_loop(place_rows, self.kind, (slots, time, arena.ring, arena.columns["time"], pos, at))
        deltas: dict[str, Numbers] = {}
        assigned = RowPositions(slots, at, NO_FLAGS, self, pos, stop, begin, deltas)
        for name, axis in self.deltas.items():
            values, _ = axis.numbers(decode(rows.column(name)))
            deltas[name] = np.ascontiguousarray(values)
            self.arena.columns["delta", name][at] = values
            self._require_rising(name, values, rows, assigned)
        for policy in self.policies.values():
            policy.lift(rows, at)
        return assigned

    def _require_rising(self, name: str, values: Numbers, rows: StepRows, assigned: RowPositions) -> None:
        column, pos = self.arena.columns["delta", name], assigned.pos
        arguments = (rows.slots, pos, assigned.begin, self.arena.ring, column)
        bad = call_loop(window_loops.decreasing, column.dtype.str, arguments)
        if bad >= 0:
            before = column[self.located(rows.slots[bad : bad + 1], pos[bad : bad + 1] - 1)][0]
            raise decreasing(name, before, values[bad], rows.format_row(int(bad)))

    # ---- results ----

    def results(self, rows: StepRows, assigned: RowPositions, endings: Sequence[Ending]) -> list[WindowRanges]:
        """The results that are due, window by window."""
        windows, count = self.windows, len(rows.slots)
        blocks = np.empty((len(windows), count), np.int64) if len(windows) > 1 else (np.empty(count, np.int64),)
        found = []
        for w, window in enumerate(windows):
            if window.slide == "time":
                found.append(self._count_at_slides(w, rows, assigned, endings))
            else:
                found.append(self._at_rows(w, rows, assigned, blocks[self._ranks[w]]))
        return found

    def _at_rows(self, w: int, rows: StepRows, assigned: RowPositions, block: Ints) -> WindowRanges:
        """The results of a window at rows.

        `block`: room for the starts at all rows. Those of all windows lie in one array by size, as loops over sizes
        read them.
        """
        window, rule = self.windows[w], self.windows[w].rule
        ends = None if window.slide == "row" else emitting(window, rows)
        slots, pos, begin, time, stop = rows.slots, assigned.pos, assigned.begin, rows.time, assigned.stop
        if ends is not None:
            slots, pos, begin, time, stop = slots[ends], pos[ends], begin[ends], time[ends], stop[ends]
        los = block if len(slots) == len(block) else np.empty(len(slots), np.int64)
        if w in self.shifted:
            los, his = self.shifted_ranges(w, PlacedAt(slots, pos, time, begin, self.backs(slots)))
        elif rule.measure == "values":
            values = time
            if rule.column is not None:
                values = assigned.delta_values[rule.column]
                values = values if ends is None else values[ends]
            his = stop
            if rule.peers and not (rows.distinct and rule.closed_end):
                his = self._up_to_peers(rule, rows, assigned, ends)
            self._bound(w, (slots, begin, his), values, los)
        elif rule.measure == "rows":
            his = stop
            call_loop(count_starts, "", (slots, begin, his, rule.rows[0], self.arena.heads, self.start_column(w), los))
        else:
            his, los = stop, self.policies[w].enforce(rows, assigned.pos, assigned.begin)
            los = los if ends is None else los[ends]
        on = his - los >= rule.full if rule.full else all_true(len(slots))
        starts, stops, ident = time, time, pos
        error_rows, restarted = ends, rows.restarted
        if restarted is not None and ends is not None:
            restarted = restarted[ends]
        if window.slide != "row":
            starts = rule.starts_before(time) if rule.in_time else self._times(slots, np.minimum(los, pos))
            ident = (pos - begin + 1) // int(rule.every)
            some = los < his  # an empty slide has no result
            if not some.all():
                slots, ident, los, his = (part[some] for part in (slots, ident, los, his))
                on, starts, stops = on[some], starts[some], stops[some]
                error_rows, restarted = (None if part is None else part[some] for part in (error_rows, restarted))
        return WindowRanges(
            self.places[w], slots, on, starts, stops, ident, None, los, his, restarted=restarted, error_rows=error_rows,
            all_on=not window.full,
        )  # fmt: skip

    def shifted_ranges(self, w: int, rows: PlacedAt) -> tuple[Ints, Ints]:
        """The elements [lo, hi) of a shifted window at rows that are in order within each slot."""
        rule, count = self.windows[w].rule, len(rows.slots)
        los, his = np.empty(count, np.int64), np.empty(count, np.int64)
        if rule.measure == "rows":
            given = (rows.slots, rows.pos, rows.begin, rows.stops, *rule.rows)
            call_loop(shifted_rows, "", (*given, self.arena.heads, self.start_column(w), los, his))
            return los, his
        values = self.arena.columns["time"]
        highs = rule.origins(rows.time)[1]
        arguments = (
            rows.slots,
            highs,
            rows.begin,
            rows.stops,
            rule.end,
            self.arena.ring,
            self.shifted[w],
            values,
            his,
        )
        call_loop(bound_places, values.dtype.str, arguments)
        self._bound(w, (rows.slots, rows.begin, his), rows.time, los)
        return los, his

    def _up_to_peers(self, rule: WindowRule, rows: StepRows, assigned: RowPositions, ends: Ints | None) -> Ints:
        """The position after each window's last row: peers are included, or excluded with an open end."""
        peer = rows.last_peer if rule.closed_end else rows.first_peer
        if peer is None:
            found = assigned.stop if rule.closed_end else assigned.pos
            return found if ends is None else found[ends]
        return assigned.pos[peer if ends is None else peer[ends]] + rule.closed_end

    def _bound(self, w: int, ends: WindowEnds, at: Numbers, los: Ints) -> None:
        """Write the starts of windows measured on a column of the arena to `los`; `at`: its value at their ends."""
        rule, (slots, begin, his) = self.windows[w].rule, ends
        values = self.arena.columns["time" if rule.column is None else ("delta", rule.column)]
        lows, _ = rule.origins(at)
        arguments = (slots, lows, begin, his, rule.start, self.arena.ring, self.start_column(w), values, los)
        call_loop(bound_places, values.dtype.str, arguments)

    def _times(self, slots: Ints, pos: Ints) -> Numbers:
        return self.arena.columns["time"][self.located(slots, pos)]

    def _count_at_slides(
        self, w: int, rows: StepRows, assigned: RowPositions, endings: Sequence[Ending]
    ) -> WindowRanges:
        """The slides of a Count window with slides in time: those that a later row ends, then those that W ends."""
        rule, heads, column = self.windows[w].rule, self.arena.heads, self.pending[w]
        number = rule.open_slide(rows.time)
        out = tuple(np.empty(len(rows), np.int64) for _ in range(5))
        arguments = (rows.slots, number, assigned.pos, assigned.begin, heads, column, out)
        count = call_loop(pending_slides, "", arguments)
        *first, by = (part[:count] for part in out)
        parts = [tuple(first)]
        counted = [] if rows.restarted is None else [rows.restarted[by] - rows.restarts[by]]
        for ending in endings:
            k = heads[ending.slots, column]
            of = ending.slots[k <= limit(rule, ending.now, self.numbers)]
            parts.append((of, heads[of, column], heads[of, BACK], heads[of, column + 1]))
            heads[of, column] = NEVER
            if counted:
                counted.append(rows.restarted_of(of))  # type: ignore[arg-type]
        slots, k, his, begin = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
        los = np.maximum(his - rule.rows[0], begin)
        heads[slots, self.start_column(w)] = los  # those of a slot ascend
        on = his - begin >= rule.full if rule.full else np.ones(len(slots), np.bool_)
        ended = rule.ends(k)
        restarted = np.concatenate(counted) if counted else None
        return WindowRanges(
            self.places[w], slots, on, self._times(slots, los), ended, k, None, los, his, restarted=restarted
        )

    # ---- retention ----

    def timers(self, slots: Ints, due: Numbers, is_due: Flags) -> None:
        for w, column in self.pending.items():
            k = self.arena.heads[slots, column]
            waits = k < NEVER
            end = self.windows[w].rule.ends(np.where(waits, k, 0)).astype(self.numbers)
            lower_due(due, is_due, waits, end)

    def retain(self, slots: Ints) -> None:
        heads = self.arena.heads
        for w in self.pending:  # the structures hold the rows of the last slide: they stay if they are not many
            start = np.maximum(heads[slots, BACK] - 2 * self.windows[w].rule.rows[0], heads[slots, BEGIN])
            heads[slots, self.start_column(w)] = np.maximum(heads[slots, self.start_column(w)], start)
        super().retain(slots)

    def raise_starts(self, slots: Ints) -> None:
        """Move the starts of windows that have become shorter to those of the last rows."""
        heads, begin, back = self.arena.heads, self.arena.heads[slots, BEGIN], self.backs(slots)
        for w, window in enumerate(self.windows):
            if w in self.shifted or w in self.pending:
                continue
            if window.rule.measure == "rows":
                start = np.maximum(back - window.rule.rows[0], begin)
                heads[slots, self.start_column(w)] = np.maximum(heads[slots, self.start_column(w)], start)
            elif window.rule.in_time:
                self._bound(w, (slots, begin, back), self.last(slots), np.empty(len(slots), np.int64))

    @property
    def key_lifetime(self) -> Number | None:
        """How long a key is needed after its last row, if that is a fixed time; else None."""
        return None if self.closed_start or self.pending else self.reach

    def expiry(self, slots: Ints, expiry: Numbers, expires: Flags) -> None:
        if self.reach is None:
            expires[:] = False
        elif self.closed_start:
            np.maximum(expiry, beyond(later(self.last(slots), self.reach)), out=expiry)
        else:
            self.needed(slots, self.reach, expiry)
