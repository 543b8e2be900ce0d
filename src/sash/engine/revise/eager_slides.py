"""Results of windows with `every` for emit="eager": finds the slides that a call may change, and those that changed.

Records of emitted slides, for emit="eager": the last revision of each slide that may still change.

A slide in time is identified by its number k in the grid of ends. A slide by rows is identified by its ordinal, the
number of slides of the key before it; its record has the row after which it ends, as a multiple of `every`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array, consecutive
from sash.columns.keys import Keys
from sash.columns.projected_results import compared_cells
from sash.columns.time_numbers import Watermark
from sash.engine.emit.output import Output
from sash.engine.revise.eager_aggregate import LabelRanges, MovedRows, RangeResults
from sash.engine.revise.eager_change import RowChanges, RowPlaces
from sash.engine.revise.eager_results import Answered, mark_changed, united
from sash.engine.revise.eager_state import EagerState
from sash.kernels.loops import eager_loops as eager_order
from sash.kernels.loops import eager_windows
from sash.kernels.loops.array_types import NO_INTS, Flags, Ints, Numbers
from sash.kernels.loops.eager_windows import BASE, COUNT, PASSED, SOME, START_AT
from sash.plan.time_axis import Number

# --- Eager records ---

VANISHED = np.iinfo(np.int64).max
"""The number of a slide by rows that was emitted and no longer exists."""


Held = TypeVar("Held")
"""The records of a slot."""

Change = TypeVar("Change")
"""An entry of the undo log."""


@dataclass
class SlideRecords(ABC, Generic[Held, Change]):
    """Records of slides by slot, and an undo log of the current call."""

    slots: dict[int, Held] = field(default_factory=dict)
    undo: list[Change] = field(default_factory=list)

    def commit(self) -> None:
        """Commit the call: clear the undo log."""
        self.undo.clear()

    def rollback(self) -> None:
        """Undo the changes since the last commit. May be interrupted, and called again."""
        while self.undo:
            self._undo(self.undo[-1])
            self.undo.pop()

    @abstractmethod
    def _undo(self, entry: Change) -> None:
        """Undo one change."""

    def clear(self, slots: Ints) -> None:
        """Remove the records of expired slots."""
        for slot in slots.tolist():
            self.slots.pop(slot, None)


@dataclass
class TimeRecords(SlideRecords[dict[int, int], tuple[int, int, int | None]]):
    """The revisions of slides in time: by slot, then by number. The undo log has slot, number and old revision."""

    width: ClassVar[int] = 3
    """Columns of a record: slot, number, revision."""

    tidied: dict[int, int] = field(default_factory=dict)
    """By slot: the number of records after final ones were last removed."""

    def revisions(self, slots: Ints, numbers: Ints) -> Ints:
        """The last revision of each slide; -1 for none."""
        none: dict[int, int] = {}
        found = [self.slots.get(s, none).get(k, -1) for s, k in zip(slots.tolist(), numbers.tolist(), strict=True)]
        return np.array(found, np.int64)

    def set(self, slots: Ints, numbers: Ints, revisions: Ints) -> None:
        """Record revisions."""
        for s, k, revision in zip(slots.tolist(), numbers.tolist(), revisions.tolist(), strict=True):
            mine = self.slots.setdefault(s, {})
            self.undo.append((s, k, mine.get(k)))
            mine[k] = revision

    def settle(self, slots: Ints, limit: int) -> None:
        """Forget slides up to a number, in slots where many were added since the last time."""
        for s in slots.tolist():
            mine = self.slots.get(s)
            if mine and len(mine) > 2 * self.tidied.get(s, 8):
                for k in [k for k in mine if k <= limit]:
                    self.undo.append((s, k, mine.pop(k)))
                self.tidied[s] = max(len(mine), 8)

    def changes(self) -> list[tuple[int, int, int]]:
        """The changes since the last commit: slots, numbers, revisions; revision -1 for a forgotten slide."""
        return [(s, k, self.slots.get(s, {}).get(k, -1)) for s, k in dict.fromkeys((s, k) for s, k, _ in self.undo)]

    def current(self, names: Ints) -> list[tuple[int, int, int]]:
        """The existing records of these slots and numbers."""
        found = ((s, k, self.slots.get(s, {}).get(k, -1)) for s, k in dict.fromkeys(map(tuple, names.tolist())))
        return [record for record in found if record[2] >= 0]

    def load(self, rows: list[list[int]]) -> None:
        """Load records as `changes` returns them."""
        for s, k, revision in rows:
            if revision >= 0:
                self.slots.setdefault(s, {})[k] = revision
            else:
                self.slots.get(s, {}).pop(k, None)

    def _undo(self, entry: tuple[int, int, int | None]) -> None:
        s, k, revision = entry
        if revision is None:
            self.slots.get(s, {}).pop(k, None)
        else:
            self.slots.setdefault(s, {})[k] = revision

    def clear(self, slots: Ints) -> None:
        """Remove the records of expired slots."""
        super().clear(slots)
        for s in slots.tolist():
            self.tidied.pop(s, None)

    def dump(self) -> Ints:
        """All records: slots, numbers, revisions."""
        found = [(s, k, revision) for s, mine in self.slots.items() for k, revision in mine.items()]
        return np.array(found, np.int64).reshape(-1, self.width)

    @property
    def nbytes(self) -> int:
        """The approximate memory of the records."""
        return 100 * sum(map(len, self.slots.values()))


@dataclass
class RowRecords(SlideRecords[tuple[int, Ints, Ints], tuple[int, tuple[int, Ints, Ints] | None]]):
    """The revisions of slides by rows: by slot the first ordinal, then numbers and revisions in order.

    The undo log has slots and their old records.
    """

    width: ClassVar[int] = 4
    """Columns of a record: slot, ordinal, number, revision."""

    def of(self, slot: int) -> tuple[int, Ints, Ints]:
        """The records of a slot."""
        return self.slots.get(slot, (0, NO_INTS, NO_INTS))

    def set(self, slot: int, first: int, numbers: Ints, revisions: Ints) -> None:
        """Replace the records of a slot."""
        self.undo.append((slot, self.slots.get(slot)))
        self.slots[slot] = (first, numbers, revisions)

    def settle(self, slots: Ints, limits: Ints) -> None:
        """Forget slides up to a number for each slot."""
        for slot, limit in zip(slots.tolist(), limits.tolist(), strict=True):
            first, numbers, revisions = self.of(slot)
            done = int(np.searchsorted(numbers, limit, side="right"))
            if done:
                self.set(slot, first + done, numbers[done:].copy(), revisions[done:].copy())

    def _undo(self, entry: tuple[int, tuple[int, Ints, Ints] | None]) -> None:
        slot, before = entry
        if before is None:
            self.slots.pop(slot, None)
        else:
            self.slots[slot] = before

    def dump(self) -> Ints:
        """All records: slots, ordinals, numbers, revisions, as `load` takes them."""
        found = [row for slot in self.slots for row in self._from(slot, 0)]
        return np.array(found, np.int64).reshape(-1, self.width)

    def _from(self, slot: int, ordinal: int) -> list[tuple[int, int, int, int]]:
        """The records of a slot from an ordinal on, after one (slot, its first ordinal, -1, their first ordinal)."""
        first, numbers, revisions = self.of(slot)
        begin = max(ordinal, first)
        rest = zip(numbers[begin - first :].tolist(), revisions[begin - first :].tolist(), strict=True)
        return [
            (slot, first, -1, begin),
            *((slot, begin + i, number, revision) for i, (number, revision) in enumerate(rest)),
        ]

    def changes(self) -> list[tuple[int, int, int, int]]:
        """The changes since the last commit: for each slot the records from the first that differs."""
        before: dict[int, Any] = {}
        for slot, old in self.undo:
            before.setdefault(slot, old)
        return [row for slot, old in before.items() for row in self._from(slot, self._unchanged(slot, old))]

    def _unchanged(self, slot: int, old: tuple[int, Ints, Ints] | None) -> int:
        """The first ordinal whose record has changed."""
        first, numbers, revisions = self.of(slot)
        if old is None:
            return first
        begin = max(first, old[0])
        length = min(first + len(numbers), old[0] + len(old[1])) - begin
        mine, theirs = slice(begin - first, begin - first + length), slice(begin - old[0], begin - old[0] + length)
        differs = (numbers[mine] != old[1][theirs]) | (revisions[mine] != old[2][theirs])
        return begin + int(differs.argmax() if differs.any() else max(length, 0))

    def current(self, names: Ints) -> list[tuple[int, int, int, int]]:
        """All records of the slots in the first column."""
        return [row for slot in np.unique(names[:, 0]).tolist() for row in self._from(slot, 0)]

    def load(self, rows: list[list[int]]) -> None:
        """Load records as `changes` returns them."""
        at = 0
        while at < len(rows):
            slot, first, _, begin = rows[at]
            stop = next((i for i in range(at + 1, len(rows)) if rows[i][2] == -1), len(rows))
            start, numbers, revisions = self.slots.get(slot, (begin, NO_INTS, NO_INTS))
            same = slice(max(first - start, 0), max(begin - start, 0))
            more = np.array(rows[at + 1 : stop], np.int64).reshape(-1, 4)
            merged = np.concatenate([numbers[same], more[:, 2]]), np.concatenate([revisions[same], more[:, 3]])
            self.slots[slot] = (first, *merged)
            at = stop

    @property
    def nbytes(self) -> int:
        """The memory of the records."""
        return sum(numbers.nbytes + revisions.nbytes for _, numbers, revisions in self.slots.values())


# --- Eager slides ---


@dataclass(slots=True)
class Slides:
    """Slides of one window: slots, names, bounds, ranges of rows."""

    slots: Ints
    names: Ints
    """Numbers in the grid, or ordinals."""
    starts: Numbers
    ends: Numbers
    ranges: Ints
    revisions: Ints
    """The last emitted revision; -1 for none."""

    @property
    def some(self) -> Flags:
        """Which slides hold a row."""
        return self.ranges[:, SOME] > 0


@dataclass(slots=True)
class KnownSlides:
    """Slides of one window that a call may change, as they were before it."""

    slides: Slides
    firsts: Ints
    """For slides by rows: slots, and the number of the first slide of each."""
    ordinals: Ints
    """For slides by rows: the ordinal of the first slide of each slot."""


@dataclass(slots=True)
class AffectedSlides:
    """Slides that may change, by window: before and after the call; and the ranges of all of them."""

    old: list[KnownSlides]
    new: list[Slides]
    offsets: list[int]
    """Where the ranges of each begin among all: those of `old`, then those of `new`."""
    ranges: LabelRanges
    moved: MovedRows


class EmittedSlides(NamedTuple):
    """Slides of one window that are emitted; `places`: those of their ranges among all."""

    slots: Ints
    names: Ints
    starts: Numbers
    ends: Numbers
    places: Ints


class SlideResults:
    """The results of a query with one result for each slide. A slide that becomes empty is emitted without results.

    A retraction may empty a slide. So may an out-of-order row, if slides are counted in rows and a window excludes
    the row it ends at: all slides after it then end at other rows.
    """

    def __init__(self, state: EagerState, output: Output) -> None:
        self.state, self.output = state, output
        self.windows, self.projector = state.bound_query.windows, output.projector
        self.cells = [compared_cells(state.bound_query, one) for one in state.bound_query.projection.slides]
        self.records: list[TimeRecords | RowRecords] = [
            TimeRecords() if window.slide == "time" else RowRecords() for window in self.windows
        ]

    def before(self, change: RowChanges) -> list[KnownSlides]:
        """The slides that a change of rows may affect, as they are before it."""
        return [
            self._time_before(place, change) if window.slide == "time" else self._rows_before(place, change)
            for place, window in enumerate(self.windows)
        ]

    def apply(self, change: RowChanges, known: list[KnownSlides]) -> AffectedSlides:
        """Change the rows, and find the slides after the change."""
        rows, new, removed = self.state.rows, change.new, change.removed
        fresh, gone = (new.slots, change.places, new.time, new.rids), (removed.slots, removed.index)
        given = (rows.heads, rows.lists, self.state.rules.gaps, change.done)
        rows.run(eager_order.change_rows, fresh, gone, change.among_the_rest(), *given)
        after = []
        for place, (window, before) in enumerate(zip(self.windows, known, strict=True)):
            if window.slide == "time":
                was = before.slides
                after.append(self._slides(place, was.slots, was.names, was.ends, was.revisions))
            else:
                after.append(self._rows_after(place, before.firsts))
        slides = [*(before.slides for before in known), *after]
        lengths = [len(one.slots) for one in slides]
        offsets = list(accumulate(lengths, initial=0))
        windows = None
        if not self.state.asks_all:
            windows = np.repeat(np.tile(np.arange(len(known)), 2), lengths)
        ranges = LabelRanges(np.concatenate([one.ranges for one in slides]), offsets[len(known)], windows)
        moved = MovedRows(change.entered, change.left, rows.labels)
        return AffectedSlides(known, after, offsets, ranges, moved)

    def after(self, affected: AffectedSlides, answers: list[RangeResults]) -> list[pa.Array]:
        """The columns of results that are new or have changed."""
        answered = Answered(self.state.aggregates, answers, affected.ranges, affected.moved, self.state.failures)
        parts = [
            (self._time_changed if window.slide == "time" else self._rows_changed)(place, affected, answered)
            for place, window in enumerate(self.windows)
        ]
        return [pa.concat_arrays(pieces) for pieces in zip(*parts, strict=True)] if len(parts) > 1 else parts[0]

    def slide_of(self, affected: AffectedSlides, place: int) -> tuple[Ints, Number]:
        """The slot of the slide that a range belongs to, and the end of the slide."""
        slides = [before.slides for before in affected.old] + affected.new
        which = int(np.searchsorted(affected.offsets, place, "right")) - 1  # the last that begins there is not empty
        at = place - affected.offsets[which]
        return slides[which].slots[at : at + 1], slides[which].ends[at]

    # ---- slides in time ----

    def _time_before(self, place: int, change: RowChanges) -> KnownSlides:
        state, window, own = self.state, self.windows[place], self.state.rules.windows[place]
        slots, _, time, _ = given = change.all()
        if own.rule.in_time:
            right = own.rule.closed_end
            begin = own.rule.last_end(time, right) + 1
            of, names = united(state, slots, begin, own.rule.last_start(time, right) + 1)
        else:
            of, names = self._later(place, given)
        ends = window.rule.ends(names)
        records = self.records[place]
        assert isinstance(records, TimeRecords)
        found = self._slides(place, of, names, ends, records.revisions(of, names))
        return KnownSlides(found, NO_INTS, NO_INTS)

    def _later(self, place: int, given: RowPlaces) -> tuple[Ints, Ints]:
        state, rows, own = self.state, self.state.rows, self.state.rules.windows[place]
        out: tuple[Ints, Ints] = NO_INTS, NO_INTS
        if not len(given.slots):
            return out
        grid = own.grid(np.concatenate([given.time, state.last[given.slots[rows.heads[given.slots, COUNT] > 0]]]))
        while True:
            arguments = (given, rows.heads, rows.lists, state.rules.tables, place, state.rules.gaps, grid, out)
            count = rows.run(eager_windows.later_slides, *arguments)
            if count == len(out[0]):
                return out
            out = np.empty(count, np.int64), np.empty(count, np.int64)

    def _slides(self, place: int, of: Ints, names: Ints, ends: Numbers, revisions: Ints) -> Slides:
        state, window = self.state, self.windows[place]
        is_time = window.rule.in_time
        starts = window.rule.starts(names) if is_time else ends
        ranges = state.slide_ranges(place, of, starts, ends)
        if not is_time:
            starts = state.starts(place, of, ranges)
            newest = window.rule.open_slide(state.newest(of, ranges))
            ranges[:, SOME] &= newest == names  # else no row is new since the slide before
        return Slides(of, names, starts, ends, ranges, revisions)

    def _time_changed(self, place: int, affected: AffectedSlides, answered: Answered) -> list[pa.Array]:
        old, new = affected.old[place].slides, affected.new[place]
        has_rows, was_emitted = new.some, old.some & (old.revisions >= 0)
        changed = has_rows & ~was_emitted
        both = np.flatnonzero(has_rows & was_emitted)
        changed[both] = self._differ(place, affected, answered, both, both)
        emptied = was_emitted & ~has_rows
        at = np.flatnonzero(changed | emptied)
        revisions = old.revisions[at] + 1
        records = self.records[place]
        assert isinstance(records, TimeRecords)
        records.set(new.slots[at], new.names[at], revisions)
        starts, places = np.where(emptied, old.starts, new.starts)[at], at + affected.offsets[len(affected.old) + place]
        emitted = EmittedSlides(new.slots[at], new.names[at], starts, new.ends[at], places)
        return self._columns(place, emitted, revisions, emptied[at], answered)

    def _differ(self, place: int, affected: AffectedSlides, answered: Answered, at: Ints, was: Ints) -> Flags:
        """Which slides of a window have changed, given their places after and before."""
        old, new = affected.old[place].slides, affected.new[place]
        found: Flags = (old.starts[was] != new.starts[at]) | (old.ends[was] != new.ends[at])
        before, after = affected.offsets[place], affected.offsets[len(affected.old) + place]
        pairs = np.stack([after + at, before + was, np.arange(len(at))], 1)
        if self.projector.is_plain:
            for number in range(len(answered.answers)):
                answered.compare(number, pairs, found)
        else:
            mark_changed(self.cells[place], self.projector, answered, lambda _: pairs, found)
        return found

    # ---- slides by rows ----

    def _rows_before(self, place: int, change: RowChanges) -> KnownSlides:
        """The slides from the first that the changed rows may affect."""
        state, rows, own = self.state, self.state.rows, self.state.rules.windows[place]
        given = change.all()
        first = np.append(True, given.slots[1:] != given.slots[:-1]) if len(given.slots) else np.zeros(0, np.bool_)
        given = RowPlaces(*(part[first] for part in given))
        begin = given.places
        if own.rule.measure != "rows":
            begin = np.empty(len(given.places), np.int64)
            arguments = (given, rows.heads, rows.lists, state.rules.tables, place, state.rules.gaps, begin)
            rows.run(eager_windows.first_changed, *arguments)
        from_number = (rows.heads[given.slots, PASSED] + begin) // own.every + 1
        records = self.records[place]
        assert isinstance(records, RowRecords)
        slots, names, numbers, revisions, ordinals = [], [], [], [], []
        for slot, least in zip(given.slots.tolist(), from_number.tolist(), strict=True):
            start, known, last = records.of(slot)
            at = int(np.searchsorted(known, least))
            stop = int(np.searchsorted(known, VANISHED))
            ordinals.append(start + at)
            slots.append(np.full(stop - at, slot))
            names.append(np.arange(start + at, start + stop))
            numbers.append(known[at:stop])
            revisions.append(last[at:stop])
        found = self._at_rows(place, _joined(slots), _joined(names), _joined(numbers), _joined(revisions))
        return KnownSlides(found, np.stack([given.slots, from_number], 1), np.array(ordinals, np.int64))

    def _at_rows(self, place: int, slots: Ints, names: Ints, numbers: Ints, revisions: Ints) -> Slides:
        state, rows, window = self.state, self.state.rows, self.windows[place]
        own = state.rules.windows[place]
        index = numbers * own.every - 1 - rows.heads[slots, PASSED]
        ranges = state.row_ranges(place, slots, index)
        ends = rows.time_at(slots, index)
        starts = window.rule.starts_before(ends) if own.rule.in_time else state.starts(place, slots, ranges)
        if state.bound_query.time is None:
            passed = rows.heads[slots, PASSED]
            ends = passed + index + 1
            starts = np.where(ranges[:, BASE] >= 0, 0, passed + ranges[:, START_AT])
        return Slides(slots, names, starts, ends, ranges, revisions)

    def _rows_after(self, place: int, firsts: Ints) -> Slides:
        """The slides from the first that may have changed; their names are their numbers for now."""
        rows, every = self.state.rows, self.state.rules.windows[place].every
        stops = (rows.heads[firsts[:, 0], PASSED] + rows.heads[firsts[:, 0], COUNT]) // every
        slots, numbers = self._numbers(firsts, stops)
        return self._at_rows(place, slots, numbers, numbers, np.full(len(slots), -1))

    def _rows_changed(self, place: int, affected: AffectedSlides, answered: Answered) -> list[pa.Array]:
        known, new = affected.old[place], affected.new[place]
        old, firsts, ordinals = known.slides, known.firsts, known.ordinals
        slots, numbers, names = new.slots, new.names, new.names.copy()
        some = np.flatnonzero(new.some)  # an empty slide does not count
        order = np.searchsorted(firsts[:, 0], slots[some])
        counts = np.bincount(order, minlength=len(firsts))
        rank = consecutive(np.zeros_like(counts), counts)
        names[some] = ordinals[order] + rank
        before = np.bincount(np.searchsorted(firsts[:, 0], old.slots), minlength=len(firsts))
        offset = np.cumsum(before) - before
        paired = rank < before[order]
        was = offset[order] + rank
        changed = ~paired
        pairs = np.flatnonzero(paired)
        changed[pairs] = self._differ(place, affected, answered, some[pairs], was[pairs])
        revisions = self._revise(place, known, numbers[some], changed, counts)[changed]
        at = some[changed]
        places = at + affected.offsets[len(affected.old) + place]
        emitted = EmittedSlides(slots[at], names[at], new.starts[at], new.ends[at], places)
        columns = self._columns(place, emitted, revisions, np.zeros(len(at), np.bool_), answered)
        fewer = np.flatnonzero(before > counts)
        if not len(fewer):
            return columns
        lost = consecutive((offset + counts)[fewer], (before - counts)[fewer])
        places = lost + affected.offsets[place]
        emptied = EmittedSlides(old.slots[lost], old.names[lost], old.starts[lost], old.ends[lost], places)
        more = self._columns(place, emptied, old.revisions[lost] + 1, np.ones(len(lost), np.bool_), answered)
        return [pa.concat_arrays(pair) for pair in zip(columns, more, strict=True)]

    def _numbers(self, firsts: Ints, stops: Ints) -> tuple[Ints, Ints]:
        """The slides by rows of slots, from a number on, up to the last row."""
        counts = np.maximum(stops - firsts[:, 1] + 1, 0)
        return np.repeat(firsts[:, 0], counts), consecutive(firsts[:, 1], counts)

    def _revise(self, place: int, known: KnownSlides, numbers: Ints, changed: Flags, counts: Ints) -> Ints:
        """Record the slides by rows of each slot from an ordinal on. Returns the revisions of existing slides."""
        records = self.records[place]
        assert isinstance(records, RowRecords)
        made, at = [], 0
        slots = known.firsts[:, 0].tolist()
        for slot, ordinal, count in zip(slots, known.ordinals.tolist(), counts.tolist(), strict=True):
            start, before, last = records.of(slot)
            same = ordinal - start
            length = max(len(before), same + count)
            more, revisions = np.full(length, VANISHED), np.full(length, -1)
            more[:same], revisions[: len(last)] = before[:same], last
            more[same : same + count] = numbers[at : at + count]
            revisions[same : same + count] += changed[at : at + count]
            existing = int(np.searchsorted(before, VANISHED))
            revisions[same + count : existing] += 1
            made.append(revisions[same : same + count])
            records.set(slot, start, more, revisions)
            at += count
        return _joined(made)

    # ---- the output ----

    def _columns(
        self, place: int, some: EmittedSlides, revisions: Ints, emptied: Flags, answered: Answered
    ) -> list[pa.Array]:
        """The columns of some slides; without results for a slide that became empty."""
        keys, count = self.state.keys.keys(some.slots), len(some.slots)
        columns = self.output.slide_head(keys, place, some.starts, some.ends)
        blank = pa.array(emptied, pa.bool_()) if emptied.any() else None
        for column in self.projector.of_slides(place, count, lambda _, number: answered.emitted(number, some.places)):
            if blank is not None:
                places = np.where(emptied, -1, np.arange(count))
                column = column.take(array(places, ~emptied))  # noqa: PLW2901
            columns.append(column)
        return [*columns, array(slide_ids(keys, place, some.names)), array(revisions)]

    # ---- all or nothing ----

    def settle(self, slots: Ints, now: Watermark, settled: Ints) -> None:
        """Drop the records of final slides."""
        for place, (window, records) in enumerate(zip(self.windows, self.records, strict=True)):
            if isinstance(records, TimeRecords):
                at = np.array([now], self.state.numbers)
                records.settle(slots, int(window.rule.last_slide(at)[0]))
            else:
                passed = self.state.rows.heads[slots, PASSED] + settled
                records.settle(slots, passed // self.state.rules.windows[place].every)


def slide_ids(keys: Sequence[pa.Array], place: int, names: Ints) -> Ints:
    """Stable ids of slides: a hash of the key, the window and the slide's name."""
    hashes = Keys(names, tuple(keys), len(names)).hashes()
    mixed = (hashes * np.uint64(31) + np.uint64(place)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) + names.astype(np.int64).view(np.uint64) * np.uint64(0xBF58476D1CE4E5B9)
    found: Ints = (mixed >> np.uint64(1)).astype(np.int64)
    return found


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
