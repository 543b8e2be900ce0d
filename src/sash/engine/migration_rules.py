"""Which state of one query another can continue from: the covering windows, and a source for each aggregate.

    old    Time(1h)   high=max(x)  total=sum(x)        elements: rows of 1h, with the states x and (x, 0)
    new    Time(30m)  high=max(x)  low=min(x)          covered by Time(1h); high: copied; low: lifted from the x of high

A window is covered by one that holds all its elements. The state of an aggregate is copied, taken from one that
contains it, or lifted from values that the states of single rows still contain. An aggregate without a source is
refused, with the reason: nothing is approximated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sash import monoids as m
from sash.engine.compared_cells import ComparedCell
from sash.engine.kept_values import KeptColumns
from sash.engine.live_aggregate import LiveAggregate
from sash.engine.live_engine import LiveEngine
from sash.engine.pane_assigner import PaneAssigner
from sash.engine.row_assigner import RowAssigner
from sash.engine.running_assigner import RunningAssigner
from sash.engine.window_assigner import WindowAssigner
from sash.engine.window_cover import covering, is_cut_there
from sash.plan.bound_query import AggregateSpec, BoundQuery, WindowSpec
from sash.plan.fingerprint import aggregate_meaning, window_meaning
from sash.plan.planner import asked_windows
from sash.plan.query_difference import described, described_state, difference
from sash.plan.state_sharing import FAMILIES, SUM_IN_MEAN, same_rows


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
    alike = (new.columns, new.types, new.orders) == (old.columns, old.types, old.orders)
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
