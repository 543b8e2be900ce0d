"""Results of windows with `every` for emit="eager": which slides a call may change, and which it has changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.engine import eager_loops, slide_grid
from sash.engine.arrow_arrays import array
from sash.engine.eager_aggregate import Answers, Asked
from sash.engine.eager_loops import COUNT, PASSED, TIME
from sash.engine.eager_records import VANISHED, RowRecords, TimeRecords
from sash.engine.eager_results import differing, united
from sash.engine.eager_state import EagerState, Touched, Windows
from sash.engine.keys import Keys

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass
class Slides:
    """Slides of one window: by slot, with their names, bounds and answers. `asked` is that of `windows`."""

    slots: Ints
    names: Ints
    """Numbers in the grid, or ordinals."""
    starts: NDArray[Any]
    ends: NDArray[Any]
    windows: Windows
    answers: list[Answers]
    revisions: Ints
    """Of what was emitted: -1 for none."""

    @property
    def asked(self) -> Asked:
        """The ranges of labels."""
        return self.windows.asked


class SlideResults:
    """The results of a query with one for each slide. `takes_back`: a slide that a row empties is emitted once more."""

    def __init__(self, state: EagerState, takes_back: bool) -> None:
        self.state, self.takes_back = state, takes_back
        self.spans = state.resolved.spans
        self.records: list[TimeRecords | RowRecords] = [
            TimeRecords() if span.slide == "time" else RowRecords() for span in self.spans
        ]
        self.named = any(span.name for span in self.spans)

    def before(self, touched: Touched) -> list[Any]:
        """What the aggregates say now of slides that the touched rows may change."""
        return [
            self._time_before(place, touched) if span.slide == "time" else self._rows_before(place, touched)
            for place, span in enumerate(self.spans)
        ]

    def after(self, touched: Touched, known: list[Any]) -> list[pa.Array]:
        """The columns of results that are new or have changed."""
        parts = []
        for place, (span, before) in enumerate(zip(self.spans, known, strict=True)):
            found = self._time_after if span.slide == "time" else self._rows_after
            parts.append(found(place, touched, before))
        return [pa.concat_arrays(pieces) for pieces in zip(*parts, strict=True)] if len(parts) > 1 else parts[0]

    # ---- slides in time ----

    def _time_before(self, place: int, touched: Touched) -> Slides:
        state, span, rule = self.state, self.spans[place], self.state.rules.rules[place]
        slots, _, time, _ = given = touched.all()
        if rule.kind == TIME:
            right = span.closed == "right"
            begin = slide_grid.last_end(span, time, right) + 1
            of, names = united(state, slots, begin, slide_grid.last_start(span, time, right) + 1)
        else:
            of, names = self._later(place, given)
        ends = slide_grid.ends(span, names)
        found = self._slides(place, of, names, ends, valued=False)
        records = self.records[place]
        assert isinstance(records, TimeRecords)
        found.revisions = records.revisions(of, names)
        return found

    def _later(self, place: int, given: Any) -> tuple[Ints, Ints]:
        state, rows, rule = self.state, self.state.rows, self.state.rules.rules[place]
        out = np.zeros(0, np.int64), np.zeros(0, np.int64)
        while True:
            arguments = (given, rows.heads, rows.lists, rows.rule(place), state.rules.gap(rule), rule.grid, out)
            count = rows.run(eager_loops.later_slides, *arguments, meaning=rows.meaning(place))
            if count == len(out[0]):
                return out
            out = np.empty(count, np.int64), np.empty(count, np.int64)

    def _slides(self, place: int, of: Ints, names: Ints, ends: NDArray[Any], valued: bool) -> Slides:
        state, span = self.state, self.spans[place]
        is_time = self.state.rules.rules[place].kind == TIME
        starts = ends - span.size if is_time else ends
        windows = state.slide_windows(place, of, starts, ends)
        if not is_time:
            starts = state.starts(place, of, windows)
            newest = state.rows.time_at(of, np.maximum(windows.hi - 1, 0))
            windows.asked.some &= (
                slide_grid.last_end(span, newest, span.closed == "right") + 1 == names
            )  # it has new rows
        answers = state.ask(windows.asked, valued)
        return Slides(of, names, starts, ends, windows, answers, np.full(len(of), -1))

    def _time_after(self, place: int, touched: Touched, old: Slides) -> list[pa.Array]:
        new = self._slides(place, old.slots, old.names, old.ends, valued=True)
        new.revisions = old.revisions
        there, was = new.windows.some, old.windows.some & (old.revisions >= 0)
        changed = there & ~was
        both = np.flatnonzero(there & was)
        changed[both] = self._differ(touched, old, new, both, both)
        emptied = was & ~there & self.takes_back
        at = np.flatnonzero(changed | emptied)
        revisions = old.revisions[at] + 1
        records = self.records[place]
        assert isinstance(records, TimeRecords)
        records.set(new.slots[at], new.names[at], revisions)
        new.starts = np.where(emptied, old.starts, new.starts)
        return self._columns(place, new, at, revisions, emptied[at])

    def _differ(self, touched: Touched, old: Slides, new: Slides, at: Ints, was: Ints) -> Flags:
        found = differing(self.state, touched, (old, new.answers, new.asked), (at, was), (len(new.slots), 1))
        return found | (old.starts[was] != new.starts[at]) | (old.ends[was] != new.ends[at])

    # ---- slides by rows ----

    def _rows_before(self, place: int, touched: Touched) -> tuple[Slides, Ints, Ints]:
        """The slides from the first that the touched rows may change; by slot that slide's number, and its ordinal."""
        state, rows, rule = self.state, self.state.rows, self.state.rules.rules[place]
        given = touched.all()
        first = np.append(True, given[0][1:] != given[0][:-1]) if len(given[0]) else np.zeros(0, np.bool_)
        given = tuple(part[first] for part in given)
        begin, end = given[1].copy(), given[1].copy()
        if rule.kind != eager_loops.COUNTED:
            arguments = (given, rows.heads, rows.lists, rows.rule(place), state.rules.gap(rule), (begin, end))
            rows.run(eager_loops.widen_ranges, *arguments, meaning=rows.meaning(place))
        from_number = (rows.heads[given[0], PASSED] + begin) // rule.every + 1
        records = self.records[place]
        assert isinstance(records, RowRecords)
        slots, names, numbers, revisions, ordinals = [], [], [], [], []
        for slot, least in zip(given[0].tolist(), from_number.tolist(), strict=True):
            start, known, last = records.of(slot)
            at = int(np.searchsorted(known, least))
            stop = int(np.searchsorted(known, VANISHED))
            ordinals.append(start + at)
            slots.append(np.full(stop - at, slot))
            names.append(np.arange(start + at, start + stop))
            numbers.append(known[at:stop])
            revisions.append(last[at:stop])
        found = self._at_rows(place, _joined(slots), _joined(names), _joined(numbers), valued=False)
        found.revisions = _joined(revisions)
        return found, np.stack([given[0], from_number], 1), np.array(ordinals, np.int64)

    def _at_rows(self, place: int, slots: Ints, names: Ints, numbers: Ints, valued: bool) -> Slides:
        state, rows, span = self.state, self.state.rows, self.spans[place]
        rule = state.rules.rules[place]
        index = numbers * rule.every - 1 - rows.heads[slots, PASSED]
        windows = state.row_windows(place, slots, index)
        ends = rows.time_at(slots, index)
        starts = (
            slide_grid.below(ends, span.size, open_start=False)
            if rule.kind == TIME
            else state.starts(place, slots, windows)
        )
        if state.resolved.time is None:
            passed = rows.heads[slots, PASSED]
            ends = passed + index + 1
            starts = np.where(windows.asked.base >= 0, 0, passed + windows.lo)
        answers = state.ask(windows.asked, valued)
        return Slides(slots, names, starts, ends, windows, answers, np.full(len(slots), -1))

    def _rows_after(self, place: int, touched: Touched, known: tuple[Slides, Ints, Ints]) -> list[pa.Array]:
        old, firsts, ordinals = known
        rows, every = self.state.rows, self.state.rules.rules[place].every
        slots, numbers = self._numbers(
            firsts, (rows.heads[firsts[:, 0], PASSED] + rows.heads[firsts[:, 0], COUNT]) // every
        )
        new = self._at_rows(place, slots, numbers.copy(), numbers, valued=True)
        some = np.flatnonzero(new.windows.some)  # an empty slide is none
        order = np.searchsorted(firsts[:, 0], slots[some])
        counts = np.bincount(order, minlength=len(firsts))
        rank = np.arange(len(some)) - np.repeat(np.cumsum(counts) - counts, counts)
        new.names[some] = ordinals[order] + rank
        before = np.bincount(np.searchsorted(firsts[:, 0], old.slots), minlength=len(firsts))
        offset = np.cumsum(before) - before
        paired = rank < before[order]
        was = offset[order] + rank
        changed = ~paired
        pairs = np.flatnonzero(paired)
        changed[pairs] = self._differ(touched, old, new, some[pairs], was[pairs])
        new.revisions = self._revise(place, (firsts, ordinals), (numbers[some], changed, counts))[0]
        at = some[changed]
        return self._with_vanished(place, old, new, at, (before, counts, offset, changed, firsts, ordinals))

    def _numbers(self, firsts: Ints, stops: Ints) -> tuple[Ints, Ints]:
        """The slides by rows of slots, from a number on, up to the last row."""
        counts = np.maximum(stops - firsts[:, 1] + 1, 0)
        slots = np.repeat(firsts[:, 0], counts)
        return slots, np.arange(len(slots)) + np.repeat(firsts[:, 1] - (np.cumsum(counts) - counts), counts)

    def _revise(self, place: int, named: Any, found: Any) -> list[Ints]:
        """Remember the slides by rows of each slot from an ordinal on. Returns the revisions of what is there."""
        firsts, ordinals = named
        numbers, changed, counts = found
        records = self.records[place]
        assert isinstance(records, RowRecords)
        made, at = [], 0
        for slot, ordinal, count in zip(firsts[:, 0].tolist(), ordinals.tolist(), counts.tolist(), strict=True):
            start, known, last = records.of(slot)
            kept = ordinal - start
            length = max(len(known), kept + count)
            more, revisions = np.full(length, VANISHED), np.full(length, -1)
            more[:kept], revisions[: len(last)] = known[:kept], last
            more[kept : kept + count] = numbers[at : at + count]
            revisions[kept : kept + count] += changed[at : at + count]
            if self.takes_back:
                there = int(np.searchsorted(known, VANISHED))
                revisions[kept + count : there] += 1
            made.append(revisions[kept : kept + count])
            records.set(slot, start, more, revisions)
            at += count
        return [_joined(made)]

    def _with_vanished(self, place: int, old: Slides, new: Slides, at: Ints, found: Any) -> list[pa.Array]:
        before, counts, offset, changed, _, _ = found
        columns = self._columns(place, new, at, new.revisions[changed], np.zeros(len(at), np.bool_))
        fewer = np.flatnonzero(before > counts)
        if not self.takes_back or not len(fewer):
            return columns
        lost = np.concatenate([np.arange(offset[i] + counts[i], offset[i] + before[i]) for i in fewer.tolist()])
        more = self._columns(place, old, lost, old.revisions[lost] + 1, np.ones(len(lost), np.bool_))
        return [pa.concat_arrays(pair) for pair in zip(columns, more, strict=True)]

    # ---- the output ----

    def _columns(self, place: int, found: Slides, at: Ints, revisions: Ints, emptied: Flags) -> list[pa.Array]:
        """The columns of some slides; without results where a slide has been emptied."""
        state = self.state
        slots, names = found.slots[at], found.names[at]
        keys = state.keys.keys(slots)
        columns = list(keys)
        if self.named:
            columns.append(pa.repeat(pa.scalar(self.spans[place].name, pa.string()), len(at)))
        columns += [self._bound(found.starts[at]), self._bound(found.ends[at])]
        blank = pa.array(emptied, pa.bool_()) if emptied.any() else None
        for aggregate, answers in zip(state.aggregates, found.answers, strict=True):
            column = aggregate.column(answers, at)
            if blank is not None:
                there = np.where(emptied, -1, np.arange(len(at)))
                column = column.take(array(there, ~emptied))
            columns.append(column)
        return [*columns, array(slide_ids(keys, place, names)), array(revisions)]

    def _bound(self, numbers: NDArray[Any]) -> pa.Array:
        axis = self.state.resolved.time
        return array(numbers.astype(np.int64)) if axis is None else axis.array(numbers)

    # ---- all or nothing ----

    def settle(self, slots: Ints, now: Any, settled: Ints) -> None:
        """Forget what was emitted of slides that are final."""
        for place, (span, records) in enumerate(zip(self.spans, self.records, strict=True)):
            if isinstance(records, TimeRecords):
                at = np.array([now], self.state.numbers)
                records.settle(slots, int(slide_grid.last_end(span, at, span.closed == "right")[0]))
            else:
                passed = self.state.rows.heads[slots, PASSED] + settled
                records.settle(slots, passed // self.state.rules.rules[place].every)


def slide_ids(keys: Sequence[pa.Array], place: int, names: Ints) -> Ints:
    """Stable numbers of slides: mixed from the key, the window and the slide's name."""
    hashes = Keys(names, tuple(keys), len(names)).hashes()
    mixed = (hashes * np.uint64(31) + np.uint64(place)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) + names.astype(np.int64).view(np.uint64) * np.uint64(0xBF58476D1CE4E5B9)
    found: Ints = (mixed >> np.uint64(1)).astype(np.int64)
    return found


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
