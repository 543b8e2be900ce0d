"""The engine: one step. Rows whose order is settled come in, results go out, the shelf is brought up to date.

    rows ──▶ keys ──▶ buckets ──▶ segments ──┬─▶ series ──▶ items ──▶ answers: over which items
                                             │                │
                                             │   measures ────┴──▶ states ──▶ results, one kernel per aggregate
                                             └─▶ what is kept ──▶ pages

Everything happens on whole columns over all keys of the step. A step that fails has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.aggregators import SlickDequeNonInv
from sash.aggregators.catalogue import in_order
from sash.aggregators.in_order import InOrder
from sash.aggregators.running import Running
from sash.kernels.lane import Failed, States
from sash.operator import grid, keeping
from sash.operator.blocks import Blocks
from sash.operator.frame import Answer, Flags, Ints, Items, Rows, Segments
from sash.operator.keys import key_column, keys_of, plain, told, value_told
from sash.operator.layout import CellLayout
from sash.operator.loaded import Kept, Loaded, Stored
from sash.operator.measure import Measure, Met
from sash.operator.pages import Pages
from sash.operator.row_series import RowSeries
from sash.operator.run_series import RunSeries
from sash.operator.segments import Cutter, ranks
from sash.operator.series import Series
from sash.operator.shelf import Shelf
from sash.operator.slice_series import CountedSeries, SliceSeries
from sash.query.planner import FOLD, Plan
from sash.query.resolved import Resolved
from sash.query.types import plain as value_type

SEVERAL = (SlickDequeNonInv,)
"""The structures that answer several sizes at once."""

SERIES: dict[str, Callable[[Resolved, Sequence[int]], Series]] = {
    "rows": RowSeries,
    "slices": SliceSeries,
    "counted": CountedSeries,
    "running": RunSeries,
}


@dataclass
class Found:
    """The results of one window: whose they are, and a column for each aggregate."""

    answer: Answer
    columns: list[pa.Array]
    counts: list[tuple[Ints, Ints]]
    """By aggregate: how many values it has seen since each window's start, and since its end, up to now."""
    fresh: list[Ints]
    """By aggregate: how many of the values in each window came with the call."""


@dataclass
class Step:
    """What a step gives: its rows in order, its segments, the keys, and the results of each window of the query."""

    rows: Rows
    segments: Segments
    loaded: Loaded
    found: list[Found]
    seen: list[Ints]
    """By aggregate and segment: how many values of the new rows it has seen."""
    kept: list[Kept]
    stored: list[Stored]
    alive: Flags


class Engine:
    """The plan of a query at work, over the pages of a store."""

    def __init__(self, plan: Plan, pages: Pages) -> None:
        self.plan, self.resolved = plan, plan.resolved
        resolved = self.resolved
        self.series: list[Series] = []
        self.structures: list[dict[tuple[int, int], type[InOrder]]] = []
        self.layouts: list[CellLayout] = []
        for one in plan.series:
            series = SERIES[one.kind](resolved, one.spans)
            chosen = {
                (place, p): _structure(plan.choices[place, p].structure)
                for place in one.spans
                for p in range(len(resolved.parts))
            }
            measures = [
                Measure(part, tuple(dict.fromkeys(cls for (_, q), cls in chosen.items() if q == p)), SEVERAL)
                for p, part in enumerate(resolved.parts)
            ]
            self.series.append(series)
            self.structures.append(chosen)
            self.layouts.append(CellLayout(series, measures, resolved.schema))
        number = pa.int64() if resolved.time is None or resolved.time.kind == "int" else pa.float64()
        keys = pa.schema([pa.field(name, value_type(resolved.schema.field(name).type)) for name in resolved.by])
        policies = [place for s in self.series if isinstance(s, RowSeries) for place in s.policies.spans]
        self.shelf = Shelf(pages, keys, self.layouts, policies, number)
        self.numbers: Any = np.dtype(np.int64) if number == pa.int64() else np.dtype(np.float64)
        self.cutter = Cutter(resolved, self.numbers)
        parts = [*resolved.parts, *(part for span in resolved.spans for part in span.over)]
        read = {name for part in parts for name in part.columns} | {s.column for s in resolved.spans if s.column}
        self.columns = sorted(read)
        self.counting = resolved.query.emit != "final"
        self.sliding = [s for s in resolved.spans if s.slide == "time"]
        self.forgets = resolved.forget is not None and resolved.query.emit == "changes"
        """Whether what was last shown of a key goes with it, when it has been silent for long enough."""
        numbered = resolved.time is None and not resolved.per_row
        self.counts_rows = self.forgets or numbered or any(s.slide == "rows" for s in resolved.spans)
        self._require_comparable()

    def _require_comparable(self) -> None:
        """Raises TypeError, naming the column, if keys or tie-breakers are of a type that cannot be compared."""
        for what, names in (("by=", self.resolved.by), ("on=", self.resolved.ties)):
            for name in names:
                column = pa.array([None], value_type(self.resolved.schema.field(name).type))
                try:
                    if what == "by=":
                        keys_of([key_column(column)], 1).hashes()
                    else:
                        ranks(column)
                except (pa.ArrowException, TypeError, KeyError) as error:
                    kind = self.resolved.schema.field(name).type
                    raise TypeError(
                        f"{what} names the column {name!r} of type {kind}, which cannot be compared: cast it"
                    ) from error

    def require_room(self, batch: pa.RecordBatch, time: NDArray[Any], taken: Flags) -> None:
        """What can be told of rows as they come, before they wait: where their windows would have no place.

        Raises OverflowError for times at which slides cannot be told apart, ValueError for a Delta window's column
        that is null, NaN or infinite; both name the value or the row.
        """
        grid.require_room(self.sliding, time[taken], self.resolved.time.column if self.resolved.time else "")
        for span in self.resolved.spans:
            if span.kind == "delta" and span.axis is not None:
                _, valid = span.axis.numbers(plain(batch.column(span.axis.column)))
                bad = np.flatnonzero(taken & ~valid)
                if len(bad):
                    raise ValueError(
                        f"the column {span.column!r} of a Delta window is null, NaN or infinite at "
                        f"{told(batch, int(bad[0]))}"
                    )

    # ---- one step ----

    def step(
        self,
        table: pa.RecordBatch,
        time: NDArray[Any],
        arrival: Ints,
        *,
        before: Any = None,
        now: Any = None,
        closing: bool = False,
        last_key_open: bool = False,
        hold: int = 0,
        commit: bool = True,
        called: int = 0,
    ) -> Step:
        """Take rows whose order is settled. Results up to the watermark `now` leave; those up to `before` have left.

        `now` None: all rows are settled as they come, or, when `closing`, time has ended. `last_key_open`: the rows
        are sorted by key, and all keys but the last are complete. The last `hold` rows only name their keys. Without
        `commit` nothing is to be kept, and all results are given, due or not; rows from the `called`-th on are new.

        Raises what a monoid raised, naming row and key.
        """
        keys = keys_of([key_column(table.column(name)) for name in self.resolved.by], len(time))
        loaded = self.shelf.load(keys, now, everything=commit and (closing or last_key_open), asleep=not commit)
        key = loaded.codes[keys.codes]
        open_key = int(key[-1]) if len(key) else 0
        if hold:
            rest = len(time) - hold
            table, time, arrival, key = table.slice(0, rest), time[:rest], arrival[:rest], key[:rest]
        order, leaving = self.cutter.order(table, time, arrival, key, len(loaded), last_key_open)
        given, table = (table, order, leaving), table.select(self.columns)
        if order is not None:
            table, time, arrival, key = table.take(pa.array(order)), time[order], arrival[order], key[order]
        over = not commit or closing
        rows, segments = self.cutter.cut(
            table, given, time, arrival, key, loaded, before, now, over, open_key if last_key_open else None
        )
        found: list[Found] = []
        kept, stored = [], []
        alive = np.zeros(len(loaded), np.bool_)
        for s, series in enumerate(self.series):
            part, left, what, seen = self._series(s, series, rows, segments, loaded, alive, commit, called)
            found += part
            kept.append(left)
            stored.append(what)
        found.sort(key=lambda one: one.answer.span)
        if commit:
            keeping.count(self.resolved, self.counts_rows, rows, segments, loaded, alive)
        return Step(rows, segments, loaded, found, seen, kept, stored, alive)

    def keep(self, step: Step) -> None:
        """Write what a step leaves."""
        loaded, segments = step.loaded, step.segments
        chosen = np.zeros(len(loaded), np.bool_)
        chosen[segments.key] = True
        over = np.zeros(len(loaded), np.bool_)
        over[segments.key] = segments.done & ~segments.over
        remembered = np.zeros(len(loaded), np.bool_)
        remembered[loaded.shown_key] = not self.forgets
        alive = step.alive | ~chosen | (remembered & ~over)
        alive[loaded.known :] &= chosen[loaded.known :] | remembered[loaded.known :]
        self.shelf.keep(loaded, chosen, alive, step.kept, step.stored)

    # ---- one series ----

    def _series(
        self,
        s: int,
        series: Series,
        rows: Rows,
        segments: Segments,
        loaded: Loaded,
        alive: Flags,
        commit: bool,
        called: int,
    ) -> tuple[list[Found], Kept, Stored, list[Ints]]:
        layout = self.layouts[s]
        chosen = np.zeros(len(loaded), np.bool_)
        chosen[segments.key] = True
        segment_of = np.full(len(loaded), -1)
        mine = np.flatnonzero(segments.stored)
        segment_of[segments.key[mine]] = mine

        def straddled(runs: Items, key: Ints, beyond: Ints) -> Flags:
            runs.segment = segment_of[key]
            return series.straddled(rows, segments, runs, beyond[segments.key])

        stored = self.shelf.stored(loaded, s, chosen, straddled)
        if isinstance(series, RowSeries):
            series.policies.held = loaded.held
        blocks = Blocks(layout, stored, segment_of, rows, series.items(rows))
        items, places = blocks.items, blocks.places
        step = rows, segments, loaded
        met = [self._met(layout, blocks, step, p) for p in range(len(layout.measures))]
        states, counts = self._states(met, blocks, step)
        if isinstance(series, RowSeries) and series.policies.spans:
            series.policies.given = [blocks.column(rows, name) for name in series.policies.columns]
        answers = self._answers(series, step, items, places)
        seen: list[Any] = []
        came: list[Ints] = []
        if self.counting:
            new = len(stored.cell_key) if layout.raw else 0
            seen = [one.seen[new : new + len(rows)] for one in met]
            came = [np.bincount(places, (own & (rows.arrival >= called)), len(items)).astype(np.int64) for own in seen]
        found = self._results(s, answers, met, states, counts, came, step, items)
        kept = series.kept(segments, items)
        kept &= ~segments.over[items.segment] if len(items) else True
        left = keeping.left(layout, series, blocks, met, states, counts, kept, segments) if commit else None
        keeping.due(self.resolved, s == 0, series, segments, items, kept, loaded, alive)
        if commit and isinstance(series, RowSeries):
            for place in series.policies.spans:
                loaded.held[place] = series.policies.after(place, segments, loaded.held[place])
        by_segment = [np.bincount(rows.segment, own, len(segments)).astype(np.int64) for own in seen]
        return found, left, stored, by_segment  # type: ignore[return-value]

    def _met(self, layout: CellLayout, blocks: Blocks, step: Any, p: int) -> Met:
        try:
            return layout.measures[p].meet(*blocks.given(layout, step[0], p))
        except Failed as failed:
            at = failed.place - (len(blocks.stored.cell_key) if layout.raw else 0)
            raise self.named(self._part(p), failed, step, max(at, 0)) from failed.error

    def _part(self, p: int) -> str:
        return f"the aggregate {self.resolved.parts[p].name!r}"

    def _states(self, met: list[Met], blocks: Blocks, step: Any) -> tuple[list[States], list[Ints]]:
        states, counts = [], []
        for p, one in enumerate(met):
            state, count = one.join(blocks.order)
            if blocks.groups is not None:
                starts, stops = blocks.groups
                try:
                    state = one.measure.lane.fold(state, starts, stops)
                except Failed as failed:
                    at = np.flatnonzero(blocks.places == failed.place)
                    raise self.named(self._part(p), failed, step, at[-1] if len(at) else 0) from failed.error
                count = np.add.reduceat(count, starts) if len(starts) else count
            states.append(state)
            counts.append(count)
        return states, counts

    def _answers(self, series: Series, step: Any, items: Items, places: Ints) -> list[Answer]:
        try:
            return series.answers(step[0], step[1], items, places)
        except Failed as failed:
            raise self.named("the policy", failed, step, failed.place) from failed.error

    def _results(
        self,
        s: int,
        answers: list[Answer],
        met: list[Met],
        states: list[States],
        counts: list[Ints],
        came: list[Ints],
        step: Any,
        items: Items,
    ) -> list[Found]:
        columns: list[list[Any]] = [[None] * len(met) for _ in answers]
        for p, one in enumerate(met):
            for group in self._together(s, p, answers):
                asked = [answers[i] for i in group]
                try:
                    results = self._asked(s, p, one, states[p], counts[p], asked)
                except Failed as failed:
                    at = asked[0].rows[failed.place] if asked[0].rows is not None else None
                    raise self.named(self._part(p), failed, step, at, asked[0]) from failed.error
                for i, column in zip(group, results, strict=True):
                    columns[i][p] = column
        if not self.counting:
            return [Found(answer, made, [], []) for answer, made in zip(answers, columns, strict=True)]
        ends = np.searchsorted(items.segment, np.arange(len(step[1])), "right")
        sums = [np.concatenate([[0], np.cumsum(count)]) for count in counts]
        new = [np.concatenate([[0], np.cumsum(count)]) for count in came]
        found = []
        for answer, made in zip(answers, columns, strict=True):
            end = ends[answer.segment]
            seen = [(total[end] - total[answer.los], total[end] - total[answer.his]) for total in sums]
            fresh = [total[answer.his] - total[answer.los] for total in new]
            found.append(Found(answer, made, seen, fresh))
        return found

    def _together(self, s: int, p: int, answers: list[Answer]) -> list[list[int]]:
        """Which answers one structure gives at once: those at the same rows, where the plan has a deque for them."""
        groups: list[list[int]] = []
        for i, answer in enumerate(answers):
            if self.structures[s][answer.span, p] in SEVERAL and answer.rows is not None:
                for group in groups:
                    other = answers[group[0]]
                    same = self.structures[s][other.span, p] is self.structures[s][answer.span, p]
                    if same and other.rows is not None and np.array_equal(other.his, answer.his):
                        group.append(i)
                        break
                else:
                    groups.append([i])
            else:
                groups.append([i])
        return groups

    def _asked(self, s: int, p: int, one: Met, states: States, counts: Ints, asked: list[Answer]) -> list[pa.Array]:
        structure: Any = self.structures[s][asked[0].span, p]
        his = asked[0].his
        if structure in SEVERAL:
            los, on = [answer.los for answer in asked], [answer.on for answer in asked]
            return one.results_of_sizes(structure, states, counts, los, his, on)
        return [one.results(structure, states, counts, asked[0].los, his, asked[0].on)]

    def named(
        self, what: str, failed: Failed, step: tuple[Rows, Segments, Loaded], at: Any, answer: Answer | None = None
    ) -> Exception:
        """What a monoid or a policy raised, with the row, or the slide and its key."""
        rows, segments, loaded = step
        if at is not None:
            place = rows.told(int(at))
        else:
            assert answer is not None
            key = int(segments.key[answer.segment[failed.place]])
            names = zip(self.resolved.by, loaded.columns, strict=True)
            whose = ", ".join(f"{name}={value_told(column[key])}" for name, column in names)
            end = answer.ends[failed.place]
            if self.resolved.time is not None:
                end = self.resolved.time.array(np.array([end]))[0]
            place = f"the slide that ends at {end}" + (f" of key {whose}" if whose else "")
        kind = type(failed.error)
        message = f"{what} failed with {kind.__name__}: {failed.error}; at {place}"
        try:
            return kind(message)
        except Exception:  # an exception of the user's that takes other arguments
            return RuntimeError(message)


def _structure(name: str) -> type[InOrder]:
    return Running if name == FOLD else in_order(name)
