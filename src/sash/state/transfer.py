"""Which state of one query another can continue from: the covering windows, and a source for each aggregate.

    old    Time(1h)   high=max(x)  total=sum(x)        elements: rows of 1h, with the states x and (x, 0)
    new    Time(30m)  high=max(x)  low=min(x)          covered by Time(1h); high: copied; low: lifted from the x of high

A window is covered by one that holds all its elements. The state of an aggregate is copied, taken from one that
contains it, or lifted from values that the states of single rows still contain. An aggregate without a source is
refused, with the reason: nothing is approximated.

Find the window of a state that holds all elements that another window needs.

Recover the values of single rows from live state: keys, times, and inputs that a state still contains.

    max(x)   x                    the state of one row is its value
    sum(x)   (x, 0.0)             so is its first scalar
    var(x)   (1, x, 0.0, 0.0)     its mean

Only values that are exactly those of the row, to the last bit, are used.

Move live state from the engine of one query to that of another, as `migration` has matched them.

    old engine    slots ── rings of elements ── states of aggregates
                    │             │                    │ copied, counted, or lifted again
    new engine    slots ── rings of elements ── states of aggregates

Row counts and times of keys, and positions of elements, stay the same. Structures are rebuilt from the elements, as
after a restart. Starts of windows only rise, so the search for a start begins at that of the covering window. Panes
that only a removed window needed stay separate, with the edges of the remaining windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash import monoids as m
from sash.columns.arrow_arrays import array
from sash.columns.batch_columns import BatchColumns
from sash.columns.input_encoding import numbers
from sash.columns.projected_results import ComparedCell
from sash.columns.time_numbers import Watermark
from sash.engine.emit.emitter import ChangeEmitter
from sash.engine.keyed.arena import RingRanges
from sash.engine.keyed.live_aggregate import LiveAggregate
from sash.engine.keyed.live_engine import LiveEngine
from sash.engine.keyed.pane_assigner import CountedPanes, PaneAssigner
from sash.engine.keyed.row_assigner import RowAssigner
from sash.engine.keyed.running_assigner import RunningAssigner
from sash.engine.keyed.slot_table import ColumnName
from sash.engine.keyed.window_assigner import ArenaAssigner, StepScope, WindowAssigner
from sash.expressions.tree import ColumnNode
from sash.kernels.loops.array_types import NO_FLAGS, Ints, Numbers
from sash.kernels.loops.ring_loops import BACK, BEGIN, FRONT
from sash.monoids.algebra import Monoid
from sash.plan.bound_query import AggregateSpec, BoundQuery, WindowSpec
from sash.plan.common_results import FAMILIES, SUM_IN_MEAN, same_rows
from sash.plan.fingerprint import aggregate_meaning, described, described_state, difference, window_meaning
from sash.plan.planner import asked_windows
from sash.plan.slicing import EdgeGrid
from sash.plan.time_axis import Number
from sash.state.slot_codec import SlotRows, count_columns
from sash.windows.rules import cuts

# --- Migration rules ---

# --- Kept values ---

Stored = list[pa.Array]
"""The stored columns of states of single rows."""


def _scalar(i: int) -> Callable[[Stored], pa.Array]:
    return lambda columns: columns[i]


def _words(i: int) -> Callable[[Stored], pa.Array]:
    """An integer in two words, from scalar i on."""
    return lambda columns: array((numbers(columns[i]) << 32) + numbers(columns[i + 1]))


VALUES: Mapping[type[Monoid], tuple[Callable[[Stored], pa.Array], Callable[[Stored], pa.Array] | None]] = {
    m.Max: (_scalar(0), _scalar(0)),
    m.Min: (_scalar(0), _scalar(0)),
    m.First: (_scalar(1), _scalar(1)),
    m.Last: (_scalar(1), _scalar(1)),
    m.Sum: (_scalar(0), _words(0)),
    m.Mean: (_scalar(1), _words(1)),
    m.Var: (_scalar(1), None),
    m.Std: (_scalar(1), None),
}
"""By aggregate: the value of a row from its state, of a column of floats, and of any other; None: it is rounded."""


@dataclass(frozen=True)
class KeptColumns:
    """The columns whose values can be recovered from the elements of one assigner, by name."""

    types: Mapping[str, pa.DataType]
    sources: Mapping[str, LiveAggregate]
    """By column: an aggregate whose states contain its values."""
    readers: Mapping[str, Callable[[Stored], pa.Array]]
    assigner: WindowAssigner
    engine: LiveEngine

    @staticmethod
    def of(
        engine: LiveEngine, assigner: WindowAssigner, aggregates: Sequence[tuple[LiveAggregate, AggregateSpec]]
    ) -> KeptColumns:
        """The columns that can be recovered from an assigner's elements; none if these are not single rows."""
        sources: dict[str, LiveAggregate] = {}
        readers: dict[str, Callable[[Stored], pa.Array]] = {}
        types: dict[str, pa.DataType] = {}
        if isinstance(assigner, RowAssigner):
            schema, time = engine.bound_query.schema, engine.bound_query.time
            keys = zip(engine.bound_query.by, engine.keys.types, strict=True)
            types |= {name: kind for name, kind in keys if not pa.types.is_floating(kind)}  # -0.0 is 0.0 there
            if time is not None and _is_word(schema.field(time.column).type):
                types[time.column] = schema.field(time.column).type
            for aggregate, spec in aggregates:
                reader = _reader(aggregate, spec)
                if reader is not None and spec.columns[0] not in types:
                    name = spec.columns[0]
                    types[name], sources[name], readers[name] = spec.types[0], aggregate, reader
        return KeptColumns(types, sources, readers, assigner, engine)

    @property
    def names(self) -> list[str]:
        """The columns whose values are kept."""
        return list(self.types)

    def has(self, spec: AggregateSpec) -> bool:
        """Can all inputs of an aggregate be recovered?"""
        return isinstance(self.assigner, RowAssigner) and not self.missing(spec)

    def missing(self, spec: AggregateSpec) -> list[str]:
        """The columns that an aggregate reads and that are not kept."""
        derived = dict(spec.derived)
        lost = []
        for name in spec.columns:
            if name not in self.types:
                read = derived[name].columns() if name in derived else [name]
                lost += [column for column in read if column not in self.types]
        return list(dict.fromkeys(lost))

    def rows(self, spec: AggregateSpec, ranges: RingRanges) -> BatchColumns:
        """The columns that an aggregate reads, of the rows of some elements."""
        derived = dict(spec.derived)
        wanted: list[str] = []
        for name in spec.columns:
            tree = derived.get(name)
            is_read = tree is not None and name not in self.types and not isinstance(tree, ColumnNode)
            wanted += tree.columns() if is_read and tree is not None else [name]
        columns = {name: self._column(name, ranges) for name in dict.fromkeys(wanted)}
        columns["_row"] = array(np.zeros(ranges.total, np.bool_))  # determines the number of rows
        found = BatchColumns(pa.RecordBatch.from_pydict(columns))
        for name in columns:
            found.column(name)  # a derived column that is kept is not computed again
        return found

    def _column(self, name: str, ranges: RingRanges) -> pa.Array:
        bound_query = self.engine.bound_query
        if name in bound_query.by and name not in self.sources:
            keys = self.engine.keys.keys(ranges.slots)[bound_query.by.index(name)]
            return keys.take(array(ranges.entry))
        source, kind = self.sources.get(name), self.types[name]
        if source is None:
            return typed_words(array(ranges.take(ranges.arena.columns["time"])), kind)
        values = self.readers[name](source.store(ranges.take))
        (counts,) = count_columns(source).store(ranges)
        if counts.true_count < len(counts):  # before the cast: the state of a null row has no value of the column
            values = pc.if_else(counts, values, pa.scalar(None, values.type))
        return typed_words(values, kind)


def _reader(aggregate: LiveAggregate, spec: AggregateSpec) -> Callable[[Stored], pa.Array] | None:
    """A function that recovers the only input from the state of a single row; None if the state does not contain it."""
    known = VALUES.get(type(spec.monoid))
    if known is None or len(spec.columns) != 1 or spec.monoid.nullable or not aggregate.kernel.compiled:
        return None
    kind = spec.types[0]
    if pa.types.is_floating(kind):
        return known[0] if kind.bit_width > 16 else None
    is_number = (pa.types.is_integer(kind) and kind != pa.uint64()) or pa.types.is_boolean(kind)
    is_value = aggregate.values.aggregate.state_of and type(spec.monoid) not in (m.Sum, m.Mean)
    if is_number or is_value or (_is_word(kind) and type(spec.monoid) not in (m.Sum, m.Mean)):
        return known[1]
    return None


def _is_word(kind: pa.DataType) -> bool:
    """Is a value of this type one number of 64 bits?"""
    return bool(
        pa.types.is_int64(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_duration(kind)
    )


def typed_words(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values as a column of this type: unchanged, or numbers of 64 bits that stand for them."""
    if values.type == kind:
        return values
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return values.cast(pa.int64()).view(kind)
    return values.cast(kind)


# --- Window cover ---

_SIZED = ("rows", "values")
_FINEST = 2**20
"""Floats that are multiples of 1 / this, and below it, are added without rounding."""


def covering(held: Sequence[WindowSpec], window: WindowSpec) -> int | None:
    """The place of the smallest held window that covers another: equal but for its size, which is at least as large.

    None if there is none.
    """
    places = [place for place, one in enumerate(held) if _covers(one, window)]
    return min(places, key=lambda place: held[place].size or 0, default=None)


def _covers(held: WindowSpec, window: WindowSpec) -> bool:
    if _meaning(held) == _meaning(window):
        return True
    if window.rule.measure not in _SIZED or held.calendar_size or window.calendar_size or held.grid or window.grid:
        return False
    sizes = held.size, window.size
    if None in sizes or sizes[1] > sizes[0]:  # type: ignore[operator]
        return False
    return _meaning(replace(held, size=window.size)) == _meaning(window)


def _meaning(window: WindowSpec) -> list[Any]:
    """The meaning of a window without its name and `full`, on which state does not depend."""
    return window_meaning(replace(window, name="", full=False))


# ---- panes ----


def is_cut_there(held: Sequence[WindowSpec], window: WindowSpec) -> bool:
    """Are there edges of panes wherever a window starts or ends?"""
    if any(_meaning(one) == _meaning(window) for one in held):
        return True
    cuts = [cut for one in held for cut in _cuts(one)]
    return all(any(cut.lies_on(other) for other in cuts) for cut in _cuts(window))


def _cuts(window: WindowSpec) -> Iterator[EdgeGrid]:
    """The edges of a window's panes, if they are computed without rounding; empty for calendars."""
    numbers = [window.every or 0, window.offset, window.size or 0]
    if window.grid is None and all(map(_is_plain, numbers)) and window.every:
        every, offset, size = map(Fraction, numbers)
        yield EdgeGrid.through(offset, every)
        yield EdgeGrid.through(offset - size, every)


def _is_plain(x: Number) -> bool:
    return isinstance(x, int) or (abs(x) < _FINEST and (x * _FINEST).is_integer())


# --- Migration rules ---


@dataclass(frozen=True)
class CopiedState:
    """The state of an aggregate, or some of its scalars; `counted`: with the number of its values before them."""

    source: LiveAggregate
    leaves: tuple[int, ...] | None = None
    counted: bool = False


@dataclass(frozen=True)
class CountedValues:
    """The number of values that an aggregate has seen."""

    source: LiveAggregate


@dataclass(frozen=True)
class LiftedValues:
    """Values of single rows, which are lifted again."""

    spec: AggregateSpec
    kept: KeptColumns


Source = CopiedState | CountedValues | LiftedValues


@dataclass(frozen=True)
class AssignerMatch:
    """The assigner that elements come from, by window the one that covers it, and by aggregate the source."""

    old: WindowAssigner
    new: WindowAssigner
    windows: dict[int, int]
    aggregates: list[tuple[LiveAggregate, Source]]


def matched(old: LiveEngine, new: LiveEngine) -> list[AssignerMatch]:
    """Match the state of one engine to that of another, assigner by assigner.

    Raises ValueError with everything that cannot be migrated, and what to do instead.
    """
    refused = list(_refused_arguments(old.bound_query, new.bound_query))
    found = []
    specs, kept = _owners(new), _owners(old)
    for (assigner, aggregates), mine in zip(new.groups, specs, strict=True):
        cover = _covering_assigner(old, assigner, refused)
        if cover is None:
            continue
        i, windows = cover
        sources = list(zip(old.groups[i].aggregates, kept[i], strict=True))
        columns = KeptColumns.of(old, old.assigners[i], sources)
        pairs = []
        for aggregate, spec in zip(aggregates, mine, strict=True):
            source = _source(aggregate, spec, sources, columns)
            if source is None:
                refused.append(_no_source(spec, assigner, columns))
            else:
                pairs.append((aggregate, source))
        found.append(AssignerMatch(old.assigners[i], assigner, windows, pairs))
    if refused:
        raise refusal(old.bound_query, new.bound_query, refused)
    return found


def refusal(old: BoundQuery, new: BoundQuery, reasons: Sequence[str]) -> ValueError:
    """The error for queries between which state cannot be migrated: what has changed, and the reasons."""
    changes = difference(described_state(old), described_state(new)) or difference(
        described(old.query), described(new.query)
    )
    return ValueError(
        f"the state cannot be migrated ({'; '.join(changes) or 'the queries are equal'}): "
        f"{'; '.join(dict.fromkeys(reasons))}. Run the new query over the history, from empty state, or leave out "
        "what cannot be migrated"
    )


def _refused_arguments(old: BoundQuery, new: BoundQuery) -> Iterator[str]:
    """The arguments of a query that may not change."""
    for name, before, after in (("by", old.by, new.by), ("on", old.query.on, new.query.on)):
        if before != after:
            yield f"{name}= determines the keys and the order of elements, and cannot change"
    if old.forget != new.forget:
        yield "forget= has determined which keys still have state, and cannot change"
    if "eager" in (old.query.emit, new.query.emit):
        yield "state of emit='eager' contains results that later rows may revise, and cannot be used by another query"
    if old.looks_ahead or new.looks_ahead:
        yield "rows that wait for windows with a positive shift= already hold results of the old query"
    types = {field.name: field.type for field in old.schema}
    for field in new.schema:
        if field.name not in types:
            yield f"column {field.name!r} is not among those of the state"
        elif types[field.name] != field.type:
            yield f"column {field.name!r} is of type {types[field.name]} in the state, not {field.type}"


def _owners(engine: LiveEngine) -> list[list[AggregateSpec]]:
    """By assigner: the aggregates that own the states of its live aggregates."""
    plan, bound_query = engine.plan, engine.bound_query
    return [
        [group[0].aggregate for group in plan.states if asked_windows(bound_query, group, series)]
        for series in plan.groups
    ]


# ---- windows ----


def _covering_assigner(old: LiveEngine, new: WindowAssigner, refused: list[str]) -> tuple[int, dict[int, int]] | None:
    """The assigner that holds the elements of all windows of another, and by window the one that covers it."""
    missing: list[str] = []
    for i, assigner in enumerate(old.assigners):
        if type(assigner) is not type(new):
            continue
        found = [covering(assigner.windows, window) for window in new.windows]
        if isinstance(new, RunningAssigner) and None in found:
            continue
        lost = [w for w, place in enumerate(found) if place is None]
        if not lost:
            if isinstance(new, PaneAssigner):
                lost = [w for w, window in enumerate(new.windows) if not is_cut_there(assigner.windows, window)]
            if not lost:
                return i, {w: place for w, place in enumerate(found) if place is not None}
            missing = [_not_cut(new.windows[w]) for w in lost]
        else:
            missing = [_not_held(assigner.windows, new.windows[w]) for w in lost]
        if not isinstance(new, PaneAssigner):
            break
    held = [window for assigner in old.assigners for window in assigner.windows]
    refused += missing or [_not_held(held, window) for window in new.windows]
    return None


def _named(window: WindowSpec) -> str:
    return f"window {window.name!r}, {window.window!r}," if window.name else f"window {window.window!r}"


def _not_held(held: Sequence[WindowSpec], window: WindowSpec) -> str:
    kept = ", ".join(dict.fromkeys(repr(one.window) for one in held))
    return f"{_named(window)} needs elements that the state does not hold: it has those of {kept}"


def _not_cut(window: WindowSpec) -> str:
    return f"{_named(window)} starts within panes of the state, which are partial aggregates and cannot be cut"


# ---- aggregates ----


def _source(
    aggregate: LiveAggregate,
    spec: AggregateSpec,
    sources: Sequence[tuple[LiveAggregate, AggregateSpec]],
    columns: KeptColumns,
) -> Source | None:
    for other, theirs in sources:
        if aggregate_meaning(theirs)[1:] == aggregate_meaning(spec)[1:] and _fit(aggregate, other, None, False):
            return CopiedState(other)
    for other, theirs in sources:
        shared = _shared(spec, theirs)
        if shared is not None and _fit(aggregate, other, *shared):
            return CopiedState(other, *shared)
    if type(spec.monoid) is m.Count:
        for other, theirs in sources:
            if same_rows(theirs, spec) and spec.columns:
                return CountedValues(other)
    return LiftedValues(spec, columns) if columns.has(spec) else None


def _shared(new: AggregateSpec, old: AggregateSpec) -> tuple[tuple[int, ...] | None, bool] | None:
    """The scalars of the old state that are the new one, and whether a count goes before them; None: none are."""
    mine, theirs = type(new.monoid), type(old.monoid)
    alike = (new.columns, new.types, new.categories) == (old.columns, old.types, old.categories)
    if not alike or not any(mine in family and theirs in family for family in FAMILIES):
        return None
    if mine is m.Sum and theirs is m.Mean:
        return SUM_IN_MEAN, False
    return None, mine is m.Mean and theirs is m.Sum


def _fit(new: LiveAggregate, old: LiveAggregate, leaves: tuple[int, ...] | None, counted: bool) -> bool:
    """Are the stored columns of one state those of the other?"""
    kinds = list(old.fields.values())
    if leaves is not None:
        kinds = [kinds[i] for i in leaves if i < len(kinds)]
    found = list(new.fields.values())
    if new.kernel.compiled != old.kernel.compiled:
        return False
    if not new.kernel.compiled and (leaves is not None or counted):
        return False  # the state is one object
    return found[1:] == kinds if counted else found == kinds


def _no_source(spec: AggregateSpec, assigner: WindowAssigner, columns: KeptColumns) -> str:
    name = spec.name.partition(": ")[0]
    if not isinstance(assigner, RowAssigner):
        return (
            f"aggregate {name} is new, and it cannot be computed from the state, which has partial aggregates of many "
            "rows each"
        )
    lost = ", ".join(repr(column) for column in columns.missing(spec))
    kept = ", ".join(map(repr, columns.names)) or "none"
    return f"aggregate {name} reads {lost}, whose values the state has not kept (it has kept those of {kept})"


# ---- last results ----


def matched_cells(
    old: BoundQuery, theirs: Sequence[Sequence[ComparedCell]], new: BoundQuery, mine: Sequence[Sequence[ComparedCell]]
) -> list[tuple[int, list[int]]]:
    """Match the last emitted results, for emit="changes": by group, the old group and the place of each cell in it.

    Raises ValueError if the last value of a compared result is unknown.
    """
    known = [{_cell_key(old, cell): place for place, cell in enumerate(cells)} for cells in theirs]
    found = []
    for cells in mine:
        wanted = [_cell_key(new, cell) for cell in cells]
        group = next((g for g, places in enumerate(known) if all(key in places for key in wanted)), None)
        if group is None:
            raise refusal(old, new, [_NOT_COMPARED])
        found.append((group, [known[group][key] for key in wanted]))
    return found


_NOT_COMPARED = (
    "with emit='changes' a result is emitted if it differs from the last one of its key, which is unknown for new "
    "aggregates and for new or shorter windows: migrate to emit='final'"
)


def _cell_key(bound_query: BoundQuery, compared: ComparedCell) -> str:
    """The identity of a compared result."""
    output = compared.output
    cells = [compared.cell] if output is None else list(output.cells)
    meaning = [
        [
            window_meaning(bound_query.windows[cell.window])[1:],
            aggregate_meaning(bound_query.aggregates[cell.aggregate])[1:],
        ]
        for cell in cells
    ]
    tree = None if output is None else str(output.tree)
    return repr([tree, bound_query.projection.min_periods, meaning])


# --- State transfer ---


def transfer(old: LiveEngine, new: LiveEngine, matches: Sequence[AssignerMatch]) -> tuple[Ints, Ints]:
    """Load the keys of one engine into another, which is empty; `settle` follows. Returns their slots in both."""
    old.count_values()
    new.count_values()
    theirs = old.live
    if not len(theirs):
        return theirs, theirs
    mine = new.keys.find(old.keys.keys(theirs), len(theirs)).slots
    new.grow()
    new.copy_keys(mine, old, theirs)
    for match in matches:
        if isinstance(match.new, ArenaAssigner):
            _move_elements(match, theirs, mine)
        else:
            _move_partials(match, theirs, mine)
    return theirs, mine


def settle(engine: LiveEngine, now: Watermark) -> None:
    """Set timers, and evict elements and keys that no window needs."""
    engine.settle(StepScope(engine.live, []), now)
    engine.release()
    engine.timers.rebuild()


def _move_partials(match: AssignerMatch, theirs: Ints, mine: Ints) -> None:
    assert isinstance(match.old, RunningAssigner)
    assert isinstance(match.new, RunningAssigner)
    match.new.copy_partials(mine, match.old, theirs)
    for aggregate, source in match.aggregates:
        assert not isinstance(source, LiftedValues)
        totals, base = (source.source.table[source.source.name, part][theirs] for part in ("totals", "base"))
        aggregate.set_totals(mine, totals)
        aggregate.set_bases(mine, base)
        aggregate.load(mine, _stored(source, SlotRows(theirs), totals - base))


def _move_elements(match: AssignerMatch, theirs: Ints, mine: Ints) -> None:
    old, new = match.old, match.new
    assert isinstance(old, ArenaAssigner)
    assert isinstance(new, ArenaAssigner)
    heads = old.arena.heads[theirs]
    new.arena.set_heads(mine, slice(FRONT, BEGIN + 1), heads[:, FRONT : BEGIN + 1])
    for w, of in match.windows.items():
        pairs = zip(_columns(new, w), _columns(old, of), strict=True)
        for column, source in pairs:
            new.arena.set_heads(mine, column, heads[:, source])
    new.arena.reserve(mine)
    front, back = (np.ascontiguousarray(heads[:, column]) for column in (FRONT, BACK))
    elements, places = RingRanges(old.arena, theirs, front, back), RingRanges(new.arena, mine, front, back)
    _move_coordinates(match, elements, places)
    for aggregate, kept in match.aggregates:
        _move_states(aggregate, kept, elements, places)
    if isinstance(new, RowAssigner):
        new.raise_starts(mine)


def _columns(assigner: ArenaAssigner, w: int) -> list[int]:
    """The columns of a head that belong to a window."""
    if isinstance(assigner, PaneAssigner):
        return list(assigner.columns(w))
    assert isinstance(assigner, RowAssigner)
    found = [assigner.start_column(w)]
    if w in assigner.pending:
        found += [assigner.pending[w], assigner.pending[w] + 1]
    if w in assigner.shifted:
        found.append(assigner.shifted[w])
    return found


def _move_coordinates(match: AssignerMatch, elements: RingRanges, places: RingRanges) -> None:
    old, new = match.old, match.new
    theirs = elements.arena.columns
    if isinstance(new, RowAssigner):
        assert isinstance(old, RowAssigner)
        names: list[ColumnName] = ["time", *(("delta", column) for column in new.deltas)]
        for name in names:
            new.arena.put(name, places.places, elements.take(theirs[name]))
        for w, policy in new.policies.items():
            policy.load(places.places, old.policies[match.windows[w]].store(elements.take))
        return
    assert isinstance(new, PaneAssigner)
    firsts = elements.take(theirs["first row"]) if isinstance(new, CountedPanes) else np.zeros(0, new.numbers)
    new.describe(places.places, _edges(new, elements.take(theirs["low"])), firsts)
    last = match.old.table[f"{old.name}.low"][elements.slots]
    new.load_newest(places.slots, _edges(new, last))


def _edges(assigner: PaneAssigner, low: Numbers) -> Numbers:
    """The last edge of an assigner's windows at each edge of a pane, or before it."""
    windows = [replace(window.rule, closed_end=False) for window in assigner.windows]
    return np.ascontiguousarray(cuts(windows, low), assigner.cut_type)


# ---- states ----


def _move_states(aggregate: LiveAggregate, source: Source, elements: RingRanges, places: RingRanges) -> None:
    assert aggregate.arena is not None
    if isinstance(source, LiftedValues):
        _lift(aggregate, source, elements, places)
        return
    other = source.source
    before = elements.take(elements.arena.columns[other.name, "before"])
    totals = other.table[other.name, "totals"][elements.slots]
    aggregate.set_before(places.places, before)
    aggregate.set_totals(places.slots, totals)
    aggregate.load(places.places, _stored(source, elements, other.value_counts(elements)))


def _stored(source: CopiedState | CountedValues, some: Any, counts: Ints) -> list[pa.Array]:
    """The columns of a state as they are stored; `counts`: how many values there are in each."""
    if isinstance(source, CountedValues):
        return [array(np.ascontiguousarray(counts, np.int64))]
    found = source.source.store(some.take)
    if source.leaves is not None:
        found = [found[i] for i in source.leaves]
    return [array(np.ascontiguousarray(counts, np.int64)), *found] if source.counted else found


def _lift(aggregate: LiveAggregate, source: LiftedValues, elements: RingRanges, places: RingRanges) -> None:
    """Lift the values of rows again. Raises AggregateError."""
    if not elements.total:
        return
    rows, count = source.kept.rows(source.spec, elements), elements.total
    flags = aggregate.values.non_null(rows, count)
    inputs, place = aggregate.values.inputs(rows, count), (places.slots[places.entry], places.places)
    non_null = NO_FLAGS if flags is None else flags
    aggregate.kernel.lift_elements(inputs, non_null, place, aggregate.states, aggregate.counts)


# ---- last results ----


def move_emitted(
    old: ChangeEmitter, new: ChangeEmitter, cells: Sequence[tuple[int, Sequence[int]]], slots: tuple[Ints, Ints]
) -> None:
    """Load the last results of keys: by group of results, the old group and the cell of it for each cell."""
    theirs, mine = slots
    for g, (source, of) in enumerate(cells):
        rows, width = old.engine.table["emitted", source][theirs], len(old.cells[source])
        some = np.flatnonzero(rows[:, 0] >= 0)
        codes = rows[some, 0]
        columns = [old.logs[source][cell].decode(codes) for cell in of]
        counts = [rows[some, 1 + side + cell] for side in (0, width) for cell in of]
        new.load_results(g, mine[some], counts, columns)
