"""A live aggregate: one aggregate of a query over the elements of one assigner, its states alive between calls.

    rows' columns ──▶ inputs ──▶ states of elements, in the arena ──▶ structures in their slots ──▶ results

Values that are no numbers (text, payloads) go in as codes of a dictionary that lives as long as the aggregate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sash.aggregators.by_position import catalogue_name, sequential
from sash.aggregators.in_order import InOrder
from sash.engine.aggregate_batch import Aggregate
from sash.engine.arena import Arena, places_of
from sash.engine.atomic import all_at_once, attributes, items
from sash.engine.input_encoding import CODED, non_null, numbers, objects
from sash.engine.key_values import decode
from sash.engine.lowered_results import Values, gives_states, loop_monoid, views_of
from sash.engine.plain_arrays import word_type
from sash.engine.slot_table import SlotTable
from sash.engine.step_data import Flags, Ints, StepRows, WindowRanges
from sash.engine.value_dictionary import PlaceLog, RankLabels
from sash.engine.window_assigner import ArenaAssigner, WindowAssigner
from sash.kernels.jit.numba_struct import AFTER
from sash.kernels.loops.aggregate_kernel import AggregateError, States
from sash.kernels.loops.live_kernel import NO_TOTALS, NOBODY, NONE, NONE_WANTED, LiveKernel, Structures
from sash.kernels.loops.live_loops import BACK, CAPACITY, FRONT
from sash.plan.planner import FOLD, SEVERAL_SIZES, but_size
from sash.plan.state_sharing import Member
from sash.stores import codec

SEVERAL = tuple(map(sequential, SEVERAL_SIZES))
"""The structures that answer several sizes at once."""

Result = tuple[pa.Array, Ints, Ints]
"""A column of results, and how many values the aggregate had seen at each window's start and end."""


LARGE = 4096
"""A dictionary of fewer values is left as it is."""


class LiveAggregate:
    """One aggregate over the elements of an assigner, and those that are lowered from its state.

    `group` are these aggregates, the one that keeps the state first; `structures` are those of the assigner's windows,
    in order.
    """

    def __init__(
        self,
        group: Sequence[Member],
        assigner: WindowAssigner,
        structures: Sequence[type[InOrder]],
        table: SlotTable,
        name: str,
    ) -> None:
        self.assigner, self.table, self.name = assigner, table, name
        self.part = replace(group[0].aggregate, monoid=loop_monoid(group))
        part = self.part
        kinds = tuple(dict.fromkeys(structures))
        self.aggregate = Aggregate(
            part, lambda m, kinds_, warn: LiveKernel(m, kinds_, assigner.elements, kinds, SEVERAL, warn=warn)
        )
        self.kernel: LiveKernel = self.aggregate.kernel
        self.views = views_of(group, self.aggregate, gives_states(group))
        """The aggregates of the query whose results come from here."""
        self.failed_part = group[0].number
        """The aggregate at work, by its place in the query: if a result fails, it is to blame."""
        self.dictionaries: dict[int, Any] = {
            j: (PlaceLog if form == "place" else RankLabels)(kind)
            for j, (form, kind) in enumerate(zip(self.aggregate.forms, self.aggregate.types, strict=False))
            if form in CODED
        }
        self._looked_at = dict.fromkeys(self.dictionaries, LARGE)
        """By dictionary: it is looked at again when it has so many values."""
        table.add((name, "totals"), np.int64, 0)
        self.dense = assigner.elements == "rows"
        """Whether every row has had a value, so that none are counted."""
        self.words = self._word_types()
        """The types of the inputs, if all are columns of 64-bit numbers that go in as they are."""
        self.direct = self._direct_type()
        """The type of results, if they come out as a column of 64-bit numbers."""
        self._given: Any = self.kernel.no_rows
        self.recoded: list[tuple[int, Any]] = []
        """By input: how codes have changed since the step began."""
        self.arena: Arena | None = None
        self._versions: Any = None
        leaves = [leaf.dtype for leaf in self.kernel.nothing(0)]
        self.leaves = range(len(leaves))
        self.windows: list[Structures] = []
        self.groups: list[list[int]] = []
        if isinstance(assigner, ArenaAssigner):
            for i, kind in enumerate(leaves):
                assigner.arena.add((name, i), kind)
            assigner.arena.add((name, "before"), np.int64)
            self._add_structures(assigner, structures)
            self.arena = assigner.arena
            assigner.arena.followers.append(self)
        else:
            table.add((name, "base"), np.int64, 0)
            for i, kind in enumerate(leaves):
                table.add((name, i), kind, None if kind.kind == "O" else 0, apart=True)

    def _word_types(self) -> tuple[np.dtype[Any], ...] | None:
        if not self.kernel.compiled or any(form not in ("number", "temporal") for form in self.aggregate.forms):
            return None
        kinds = [word_type(kind) for kind in self.aggregate.types]
        return None if any(kind is None for kind in kinds) else tuple(kinds)  # type: ignore[arg-type]

    def _direct_type(self) -> pa.DataType | None:
        if not self.kernel.compiled or self.aggregate.result_of or len(self.views) > 1:
            return None
        shape = self.kernel.layouts.result.shape
        return self.part.result if {"int": pa.int64(), "float": pa.float64()}.get(shape) == self.part.result else None

    def _add_structures(self, assigner: ArenaAssigner, structures: Sequence[type[InOrder]]) -> None:
        """One set of structures for each window, or for several windows that differ only in size."""
        alike: dict[Any, list[int]] = {}
        for w, structure in enumerate(structures):
            span = assigner.windows[w]
            alike.setdefault((structure, but_size(span) if structure in SEVERAL else w), []).append(w)
        for (structure, _), members in alike.items():
            window = Structures(self.kernel.specs[structure], assigner.arena.length)
            window.sizes = structure in SEVERAL
            self.groups.append(sorted(members, key=lambda w: -(assigner.windows[w].size or 0)))
            number = len(self.windows)
            self.windows.append(window)
            self.table.add((self.name, "ints", number), np.int64, [-1] * window.ints, derived=True)
            self.table.add((self.name, "floats", number), np.float64, [0.0] * window.floats, derived=True)

    def structures(self) -> list[str]:
        """For each window of the assigner the name of the structure that computes it."""
        if not self.windows:
            return [FOLD]
        found = {
            w: catalogue_name(self.windows[number].spec.structure) for number, of in enumerate(self.groups) for w in of
        }
        return [found[w] for w in range(len(found))]

    # ---- as one of the arena's followers ----

    def grow(self, arena: int) -> None:
        """Make room for more elements in the structures' queues."""
        for window in self.windows:
            window.grow(arena)

    def pack(self, arena: int, renumbered: bool) -> None:
        """Build structures anew in an arena of this length; Python objects only if slots have new numbers."""
        if self.kernel.compiled or renumbered:
            for window in self.windows:
                window.pack(arena)
            self.reset(np.arange(self.table.capacity))

    def move(self, slots: Ints) -> None:
        """The rings of these slots have moved: queues in the arena are lost, those of Python objects are not."""
        if self.kernel.compiled:
            self.reset(slots)

    def reset(self, slots: Ints) -> None:
        """Let the structures of these slots be built again from their elements when they are next asked."""
        for number, window in enumerate(self.windows):
            self.table[self.name, "ints", number][slots, : AFTER + 1] = -1
            window.reset(slots)

    # ---- rows in ----

    def take(self, rows: StepRows) -> None:
        """Take the inputs of rows, and fold them into panes; rows that are elements are lifted with the results.

        Raises Failed.
        """
        columns, own = self._inputs(rows)
        if self.dense and len(own):
            self.count_values(rows.slots)
        if self.kernel.elements == "panes":
            self.kernel.fold(columns, own, self.assigner.place(rows), self.counts, self.states)
        elif self.kernel.elements == "rows":
            inputs = columns if self.words is not None else self.kernel.inputs(columns, len(rows))
            self._given = (inputs, own, *self.assigner.place(rows))
        else:
            self._given = columns, own

    def forget_rows(self) -> None:
        """Drop the rows that were taken and are not lifted."""
        self._given = self.kernel.no_rows

    def _inputs(self, rows: StepRows) -> tuple[Any, Flags]:
        """The inputs of rows, and which rows are seen; empty if all are."""
        if self.words is not None:
            names = self.part.columns
            own = self._seen(rows, [rows.column(name) for name in names])
            return tuple([rows.words(name, kind) for name, kind in zip(names, self.words, strict=True)]), own
        aggregate, count = self.aggregate, len(rows)
        columns = [decode(rows.column(name)) for name in self.part.columns]
        own = self._seen(rows, columns)
        if not self.kernel.compiled:
            return [objects(column, aggregate.ours) for column in columns] or [[None] * count], own
        if aggregate.forms == ("presence",):
            return [np.zeros(count, np.bool_)], own
        return [self._encoded(j, column) for j, column in enumerate(columns)], own

    def _seen(self, rows: StepRows, columns: Sequence[pa.Array]) -> Flags:
        if not any(column.null_count for column in columns):
            return NOBODY
        found = non_null(columns, self.part.monoid.nullable, len(rows))
        return NOBODY if found.all() else found

    def count_values(self, pending: Ints = NONE) -> None:
        """From now on count the values that are seen: not every row has one, or the counts are asked for.

        `pending` are the slots of rows that have their places, and are not lifted yet.
        """
        if not self.dense:
            return
        assert isinstance(self.assigner, ArenaAssigner)
        self.write_counts(np.flatnonzero(self.assigner.arena.heads[:, BACK]))
        self.dense = False
        np.subtract.at(self.table[self.name, "totals"], pending, 1)

    def write_counts(self, slots: Ints) -> None:
        """Write down the counts of slots in which every row had a value: a position counts the rows before it."""
        assert isinstance(self.assigner, ArenaAssigner)
        arena = self.assigner.arena
        backs = arena.heads[slots, BACK]
        starts = np.maximum(arena.heads[slots, FRONT], backs - arena.heads[slots, CAPACITY])
        places, entry = places_of(arena.heads, slots, starts, backs)
        numbers = np.arange(len(entry)) - np.searchsorted(entry, entry) + starts[entry]
        arena.columns[self.name, "before"][places] = numbers
        self.table[self.name, "totals"][slots] = backs

    def _encoded(self, j: int, column: pa.Array) -> Any:
        if j not in self.dictionaries:
            return numbers(column)
        dictionary = self.dictionaries[j]
        codes = dictionary.encode(column)
        if isinstance(dictionary, RankLabels) and dictionary.relabelled is not None:
            self._recode(j, dictionary.relabelled)
        return codes

    # ---- arrays ----

    @property
    def counts(self) -> tuple[Ints, Ints]:
        """How many values each slot has seen, and for each element how many before it (or before the window).

        They are kept from when they are first asked for, or the first row is not seen: until then the number of values
        is that of rows, which a position is.
        """
        self.count_values()
        return self._counts

    @property
    def _counts(self) -> tuple[Ints, Ints]:
        if self.dense:
            return NO_TOTALS, NONE
        totals = self.table.wide[self.name, "totals"]
        if isinstance(self.assigner, ArenaAssigner):
            return totals, self.assigner.arena.columns[self.name, "before"]
        return totals, self.table.wide[self.name, "base"]

    @property
    def states(self) -> States:
        """The states of elements, or of slots."""
        if isinstance(self.assigner, ArenaAssigner):
            columns = self.assigner.arena.columns
            return tuple(columns[self.name, i] for i in self.leaves)
        return tuple(self.table[self.name, i] for i in self.leaves)

    # ---- results out ----

    def results(self, found: Sequence[WindowRanges], rows: StepRows) -> list[list[Result]]:
        """For each of its views, and each window, the results as a column.

        Raises Failed, with the place in `failed_in`, of the aggregate `failed_part`.
        """
        self.failed_part = self.views[0].number
        made: dict[int, list[Result]] = {}
        if self.kernel.elements == "running":
            made[0] = self._running(found[0], rows)
        else:
            for number, members in enumerate(self.groups):
                if self.windows[number].sizes and len(members) > 1:
                    made |= self._sizes(number, members, found, rows)
                else:
                    for w in members:
                        made[w] = self._slid(number, found[w], rows)
        if len(found) == 1:
            return [[one] for one in made[0]]
        return [[made[w][v] for w in range(len(found))] for v in range(len(self.views))]

    def _running(self, found: WindowRanges, rows: StepRows) -> list[Result]:
        self.failed_in = found
        columns, own = self._given
        assert found.after is not None
        asked = found.after, found.his
        given = self.kernel.run(columns, own, self.assigner.place(rows), self.counts, self.states, asked)  # type: ignore[arg-type]
        out, valid, low, high = given
        made = self._columns(Values(out, valid, np.ones(len(valid), np.bool_), low, high), found.after - 1)
        if found.rows is None:
            return [(column, low, high) for column in made]
        places = pa.array(found.rows)
        return [(column.take(places), low[found.rows], high[found.rows]) for column in made]

    def _slid(self, number: int, found: WindowRanges, rows: StepRows) -> list[Result]:
        self.failed_in = found
        order = NONE if rows.order is None or found.slots is not rows.slots else rows.order
        assert found.los is not None
        assert found.his is not None
        los, wanted = found.los, NOBODY if found.all_on else found.on
        if self.windows[number].sizes:
            los, wanted = found.los[None, :], NONE_WANTED if found.all_on else found.on[None, :]
        out, valid, low, high, missing = self._slide(number, (order, found.slots, los, found.his, wanted))
        if not missing and self.direct is not None:
            column = self._as_column(out[0])
            return [(column, low, high) if len(low) else (column, found.los, found.his)]
        on, back = found.on, _inverse(order)
        if len(order):  # the results are in the order of the table
            on = on[back]
        if not len(low):
            low, high = found.los, found.his
            if len(order):
                low, high = low[back], high[back]
        return [(column, low, high) for column in self._columns(Values(out, valid, on, low, high), back)]

    def _slide(self, number: int, asked: Any) -> Any:
        assert self.arena is not None
        versions = self.table.version, self.arena.version, self.dense
        if versions != self._versions:
            wide = self.table.wide
            self._fields = [
                (wide[self.name, "ints", n], wide[self.name, "floats", n]) for n in range(len(self.windows))
            ]
            self._live = self.arena.heads, self.states, self._counts
            self._versions = versions
        window, (given, self._given) = self.windows[number], (self._given, self.kernel.no_rows)
        return self.kernel.slide(window, self._fields[number], *self._live, given, asked)

    def _sizes(
        self, number: int, members: list[int], found: Sequence[WindowRanges], rows: StepRows
    ) -> dict[int, list[Result]]:
        """Windows that differ only in size, from one structure over the longest of them."""
        longest = self.failed_in = found[members[0]]
        count, sizes = len(longest), len(members)
        alike = all(len(found[w]) == count for w in members)
        at_rows = alike and rows.order is not None and all(found[w].slots is rows.slots for w in members)
        order = rows.order if at_rows and rows.order is not None else NONE
        los, on, places = _starts(longest, [found[w] for w in members], alike)
        wanted = NONE_WANTED if alike and all(found[w].all_on for w in members) else on
        out, valid, low, high, missing = self._slide(number, (order, longest.slots, los, longest.his, wanted))
        counted, back = len(low) > 0, _inverse(order)
        lows = low.reshape(sizes, count) if counted else los
        highs = high.reshape(sizes, count) if counted else np.broadcast_to(longest.his, los.shape)  # type: ignore[arg-type]
        if not missing and alike and self.direct is not None:
            parts = out[0].reshape(sizes, count)
            cut = [part[back] for part in parts] if len(order) else parts
            return {w: [(self._as_column(cut[k]), lows[k], highs[k])] for k, w in enumerate(members)}
        made = {}
        for k, w in enumerate(members):
            self.failed_in = found[w]
            here = slice(k * count, (k + 1) * count)
            leaves = out[here] if isinstance(out, list) else tuple(leaf[here] for leaf in out)
            values = Values(leaves, valid[here], on[k], lows[k], highs[k])
            if not alike or len(order):
                values = values.take(back if alike else places[k])
            made[w] = [(column, values.low, values.high) for column in self._columns(values, back)]
        return made

    def _as_column(self, numbers: Any) -> pa.Array:
        """Results of which none is null, in the same memory."""
        return pa.Array.from_buffers(self.direct, len(numbers), [None, pa.py_buffer(numbers)])

    def _columns(self, values: Values, back: Ints) -> list[pa.Array]:
        """The results of each view as a column; `back`: the place to blame for each, if that is another."""
        made = []
        for view in self.views:
            self.failed_part = view.number
            try:
                made.append(view.column(values, self.dictionaries))
            except AggregateError as failed:
                place = max(int(back[failed.place]), 0) if len(back) else failed.place
                raise AggregateError(place, failed.error) from failed.error
        return made

    # ---- dictionaries ----

    def _recode(self, j: int, mapped: Any) -> None:
        """Codes of an input have changed: change those of every state, and build all structures again."""
        self.reset(np.arange(self.table.capacity))
        leaves = [self.states[i] for i, of in self.aggregate.state_of.items() if of == j]
        changes = [items(leaf, slice(None), mapped(leaf)) for leaf in leaves]
        recoded = [*self.recoded, (j, mapped)]
        all_at_once(*changes, attributes(self, recoded=recoded), attributes(self.dictionaries[j], relabelled=None))

    def recode_saved(self, saved: dict[Any, Any], panes: list[list[Any]]) -> None:
        """Change codes in states that were saved before they changed. May be interrupted, and called again."""
        for j, dictionary in self.dictionaries.items():
            if getattr(dictionary, "relabelled", None) is not None:  # interrupted before the states were changed
                self._recode(j, dictionary.relabelled)
        changes = []
        for i, of in self.aggregate.state_of.items():
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
        """Has a dictionary doubled since it was last looked at, or has the state shrunk that a large one is for?"""
        return any(
            len(dictionary) > (LARGE if shrunk else self._looked_at[j]) for j, dictionary in self.dictionaries.items()
        )

    def compact(self, live: Ints) -> None:
        """Drop values from the dictionaries that no state of these slots holds, where most are unused."""
        for j, dictionary in self.dictionaries.items():
            if len(dictionary) > LARGE and len(dictionary) > 4 * self._held(live):
                used = [self.states[i][self._live_places(live)] for i, of in self.aggregate.state_of.items() if of == j]
                self._recode(j, dictionary.compact(np.concatenate(used)))
            self._looked_at[j] = max(2 * len(dictionary), LARGE)

    def _held(self, live: Ints) -> int:
        if isinstance(self.assigner, ArenaAssigner):
            heads = self.assigner.arena.heads
            return int((heads[live, BACK] - heads[live, FRONT]).sum())
        return len(live)

    def _live_places(self, live: Ints) -> Ints:
        if isinstance(self.assigner, ArenaAssigner):
            heads = self.assigner.arena.heads
            return places_of(heads, live, heads[live, FRONT], heads[live, BACK])[0]
        return live

    # ---- states at rest ----

    def store(self, places: Ints) -> list[pa.Array]:
        """The states at these places as columns to keep, values in place of codes."""
        states = tuple(leaf[places] for leaf in self.states)
        if not self.kernel.compiled:
            dump = self.part.monoid.dump or codec.dumps
            return [pa.array([None if s is None else dump(s) for s in states[0].tolist()], pa.binary())]
        found = []
        for i, leaf in enumerate(states):
            j = self.aggregate.state_of.get(i)
            found.append(pa.array(leaf) if j is None else self.dictionaries[j].decode(leaf))
        return found

    def load(self, places: Ints, columns: Sequence[pa.Array]) -> None:
        """Put stored states at these places."""
        if not self.kernel.compiled:
            load = self.part.monoid.load or codec.loads
            for place, data in zip(places.tolist(), columns[0].to_pylist(), strict=True):
                self.states[0][place] = self.kernel.monoid.identity if data is None else load(data)
            return
        for i in self.leaves:
            self.states[i][places] = self._coded(i, columns[i])

    def _coded(self, i: int, column: pa.Array) -> Any:
        j = self.aggregate.state_of.get(i)
        if j is None:
            return numbers(column)
        codes = self._encoded(j, column)
        if self.aggregate.forms[j] == "rank":
            identity = _flat(self.kernel.monoid.identity)[i]
            codes = np.where(codes < 0, identity, codes)
        return codes

    @property
    def fields(self) -> Mapping[str, pa.DataType]:
        """The columns in which a state is stored."""
        return {field.name: field.type for field in self.aggregate.fields if field.name != "n"}

    @property
    def nbytes(self) -> int:
        """The memory of the structures' queues and of the dictionaries."""
        queues = sum(window.nbytes for window in self.windows)
        return queues + sum(dictionary.nbytes for dictionary in self.dictionaries.values())


def _starts(longest: WindowRanges, found: Sequence[WindowRanges], alike: bool) -> tuple[Ints, Flags, list[Ints]]:
    """For each window and result of the longest the first element, and whether a result is asked for; and where the
    results of each window stand. `alike`: all have a result wherever the longest has one.
    """
    if alike:
        return np.stack([one.los for one in found]), np.stack([one.on for one in found]), []  # type: ignore[misc]
    los = np.tile(longest.his, (len(found), 1))  # type: ignore[arg-type]
    on = np.zeros(los.shape, np.bool_)
    places = [among(longest, one) for one in found]
    for k, one in enumerate(found):
        los[k, places[k]], on[k, places[k]] = one.los, one.on  # type: ignore[assignment]
    return los, on, places


def _inverse(order: Ints) -> Ints:
    """The place of each number in an order."""
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return back


def among(longest: WindowRanges, found: WindowRanges) -> Ints:
    """Where the results of a window stand among those of a longer one, which has a result wherever this has one."""
    if len(found) == len(longest):
        return np.arange(len(found))
    ident, slots = longest.ident, longest.slots
    least = int(ident.min())
    width = int(ident.max()) - least + 1
    theirs, mine = slots * width + (ident - least), found.slots * width + (found.ident - least)
    order = np.argsort(theirs, kind="stable")
    return order[np.searchsorted(theirs[order], mine)]


def _flat(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in _flat(part)] if isinstance(value, tuple) else [value]
