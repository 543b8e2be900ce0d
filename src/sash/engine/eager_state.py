"""The state of all slots for emit="eager": keys, rows, aggregates, and where the sessions and lives of slots begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.engine import eager_loops, eager_order
from sash.engine.eager_aggregate import Answers, Asked, EagerAggregate, subset
from sash.engine.eager_loops import COUNT, PASSED, START
from sash.engine.eager_rows import NewRows, OrderedRows, longer
from sash.engine.eager_rules import WindowRules
from sash.engine.key_table import KeyTable
from sash.engine.keys import plain_schema
from sash.kernels.lane import Failed
from sash.query.resolved import Resolved

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_NONE = np.zeros(0, np.int64)


@dataclass
class Windows:
    """Windows over the rows of slots: indices [lo, hi), and the ranges of labels to ask for."""

    lo: Ints
    hi: Ints
    asked: Asked

    @property
    def some(self) -> Flags:
        """Which hold a row."""
        return self.asked.some


@dataclass
class Removed:
    """Rows that are taken back, sorted by slot and index: slots, indices, times and row numbers."""

    slots: Ints
    index: Ints
    time: NDArray[Any]
    rids: Ints

    def __len__(self) -> int:
        return len(self.slots)


@dataclass
class Touched:
    """Where a call changes the order: rows that come, before which index, and rows that go."""

    new: NewRows
    places: Ints
    removed: Removed

    def all(self) -> tuple[Ints, Ints, NDArray[Any], Ints]:
        """Slots, indices, times and row numbers of both, sorted by slot and order."""
        new, removed = self.new, self.removed
        if not len(removed):
            return new.slots, self.places, new.time, new.rids
        parts = [
            np.concatenate(pair)
            for pair in (
                (new.slots, removed.slots),
                (self.places, removed.index),
                (new.time, removed.time),
                (new.rids, removed.rids),
            )
        ]
        is_removed = np.arange(len(parts[0])) >= len(new)
        order = np.lexsort((is_removed, parts[2], parts[1], parts[0]))
        slots, places, time, rids = (part[order] for part in parts)
        return slots, places, time, rids


@dataclass
class Journal:
    """What a call changes, as it was: until the call is committed, it can be undone."""

    fresh: Ints
    marks: Any
    slots: Ints = field(default_factory=lambda: _NONE)
    saved: Sequence[NDArray[Any]] = ()
    bases: list[tuple[NDArray[Any], ...]] = field(default_factory=list)
    tails: Any = None
    revised: list[tuple[Ints, Ints]] = field(default_factory=list)
    dropped: list[Ints] = field(default_factory=list)
    """Row numbers that are free when the call has succeeded."""
    gone: Ints = field(default_factory=lambda: _NONE)


class EagerState:
    """Keys, rows and aggregates of a query; every change is in a journal until it is committed."""

    def __init__(self, resolved: Resolved) -> None:
        self.resolved = resolved
        self.rules = WindowRules(resolved)
        self.numbers = self.rules.numbers
        self.plain = plain_schema(resolved.schema)
        self.keys = KeyTable([self.plain.field(name).type for name in resolved.by])
        self.rows = OrderedRows(resolved, self.rules, self.plain)
        self.aggregates = [EagerAggregate(part, self.rules.anchors) for part in resolved.parts]
        self.rows.followers += self.aggregates
        self.never: Any = np.iinfo(np.int64).max if self.numbers.kind == "i" else np.inf
        self.least: Any = np.iinfo(np.int64).min if self.numbers.kind == "i" else -np.inf
        self.alive = np.zeros(0, np.bool_)
        self.last, self.due = np.zeros(0, self.numbers), np.zeros(0, self.numbers)
        self.soonest: Any = self.never
        """The least of all `due`, or below it."""
        self.anchored = np.zeros((0, self.rules.anchors), np.bool_)
        """By slot and window with a base: does the first kept row go on with rows before it?"""
        self.begins = np.zeros((0, self.rules.anchors), self.numbers)
        """When the session or life of these rows began."""
        self.journal: Journal | None = None

    # ---- room ----

    def reserve(self, slots: Ints, more: Ints) -> None:
        """Make room for keys and rows."""
        capacity = self.keys.capacity
        if capacity > len(self.alive):
            before = len(self.alive)
            for name in ("last", "due", "anchored", "begins"):
                setattr(self, name, longer(getattr(self, name), capacity))
            self.due[before:], self.last[before:] = self.never, self.least
            self.alive = longer(self.alive, capacity)
        self.rows.reserve(capacity, slots, more, self._move)

    def _move(self, slots: Ints) -> None:
        """The blocks of slots move, and with them the pools of compiled trees."""
        for aggregate in self.aggregates:
            if aggregate.lane.compiled:
                aggregate.trees.reset(slots)

    def stale(self, slots: Ints) -> None:
        """Let all trees of slots be built again."""
        for aggregate in self.aggregates:
            aggregate.trees.reset(slots)

    # ---- trees ----

    def build(self, slots: Ints) -> None:
        """Build the trees of slots that are not there. Raises Blamed."""
        rows = self.rows
        for p, aggregate in enumerate(self.aggregates):
            missing = aggregate.missing(slots)
            if len(missing):
                counts = rows.heads[missing, COUNT]
                given = np.repeat(missing, counts), rows.first_rids(missing, counts)
                with blaming(p, "numbers"):
                    aggregate.build(missing, given, rows.heads, rows.labels)

    def change_trees(self, removed: tuple[Ints, Ints], inserted: tuple[Ints, Ints]) -> None:
        """Take rows out of the trees and put rows in: slots and row numbers of both. Raises Blamed."""
        rows = self.rows
        for p, aggregate in enumerate(self.aggregates):
            with blaming(p, "numbers"):
                if len(removed[0]):
                    aggregate.remove(removed, rows.heads, rows.labels)
                aggregate.insert(inserted, rows.heads, rows.labels)

    # ---- windows ----

    def row_windows(self, place: int, slots: Ints, index: Ints) -> Windows:
        """The windows of a span that end at rows."""
        out = tuple(np.zeros((4, len(slots)), np.int64))
        rows = self.rows
        if not len(slots):
            return self._windows(place, slots, out)
        arguments = (slots, index, rows.heads, rows.lists, rows.rule(place), out)
        rows.run(eager_loops.row_windows, *arguments, meaning=rows.meaning(place))
        return self._windows(place, slots, out)

    def slide_windows(self, place: int, slots: Ints, starts: NDArray[Any], ends: NDArray[Any]) -> Windows:
        """The windows of a span that slides in time."""
        out = tuple(np.zeros(len(slots), np.int64) for _ in range(4))
        rows = self.rows
        bounds = np.ascontiguousarray(starts, self.numbers), np.ascontiguousarray(ends, self.numbers)
        arguments = (slots, bounds, rows.heads, rows.lists, rows.rule(place), out)
        rows.run(eager_loops.slide_windows, *arguments, meaning=rows.meaning(place))
        return self._windows(place, slots, out)

    def _windows(self, place: int, slots: Ints, out: tuple[Ints, ...]) -> Windows:
        lo, hi, first, last = out
        rule = self.rules.rules[place]
        on = hi - lo == rule.count if rule.span.full else np.ones(len(slots), np.bool_)
        base = np.full(len(slots), -1, np.int64)
        if rule.anchor >= 0:
            reaches = (lo == 0) & self.anchored[slots, rule.anchor]
            base = np.where(reaches, slots * self.rules.anchors + rule.anchor, base)
        return Windows(lo, hi, Asked(slots, first, last, lo < hi, base, on))

    def starts(self, place: int, slots: Ints, windows: Windows) -> NDArray[Any]:
        """When windows start that do so at their first row."""
        rule = self.rules.rules[place]
        found = self.rows.time_at(slots, np.where(windows.some, windows.lo, 0))
        if rule.anchor >= 0:
            found = np.where(windows.asked.base >= 0, self.begins[slots, rule.anchor], found)
        return found

    def ask(self, asked: Asked, valued: bool) -> list[Answers]:
        """What each aggregate says of ranges; not `valued`: inexact ones without results. Raises Blamed."""
        found = []
        for p, aggregate in enumerate(self.aggregates):
            with blaming(p, asked):
                found.append(aggregate.ask(asked, self.rows.heads, valued or aggregate.exact))
        return found

    # ---- all or nothing ----

    def begin(self, fresh: Ints) -> Journal:
        """Open the journal of a call, in which these keys are new."""
        rows = self.rows
        dictionaries = [one for aggregate in self.aggregates for one in aggregate.dictionaries.values()]
        marks = (
            (rows.free_count, rows.numbered),
            rows.log.mark(),
            rows.ties.mark(),
            [(one, one.mark()) for one in dictionaries],
        )
        self.journal = Journal(fresh, marks)
        return self.journal

    def save(self, slots: Ints) -> None:
        """Keep what belongs to slots as it is, after `reserve`; of slots that have been kept already, what it was."""
        journal = self.journal
        assert journal is not None
        if journal.saved:
            slots = np.setdiff1d(slots, journal.slots)
        arrays = self.rows.heads, self.alive, self.last, self.due, self.anchored, self.begins
        saved = [part[slots] for part in arrays]
        if not self.rules.anchors:
            if journal.saved:
                saved = [np.concatenate(pair) for pair in zip(journal.saved, saved, strict=True)]
                slots = np.concatenate([journal.slots, slots])
            journal.slots, journal.saved = slots, saved
            return
        at = (slots[:, None] * self.rules.anchors + np.arange(self.rules.anchors)).reshape(-1)
        bases = [(at, *subset(one.bases, at), one.base_seen[at]) for one in self.aggregates]
        if journal.saved:
            saved = [np.concatenate(pair) for pair in zip(journal.saved, saved, strict=True)]
            bases = [_joined(*pair) for pair in zip(journal.bases, bases, strict=True)]
            slots = np.concatenate([journal.slots, slots])
        journal.slots, journal.bases, journal.saved = slots, bases, saved

    def rollback(self) -> None:
        """Undo the call that has not been committed; may be interrupted, and called again."""
        journal = self.journal
        if journal is None:
            return
        rows = self.rows
        self.soonest = self.least
        if journal.saved:
            slots = journal.slots
            head = journal.saved[0]
            rows.heads[slots, START:] = head[:, START:]  # a block that has moved stays where it is
            arrays = self.alive, self.last, self.due, self.anchored, self.begins
            for part, saved in zip(arrays, journal.saved[1:], strict=True):
                part[slots] = saved
            for aggregate, (at, *states, seen) in zip(self.aggregates, journal.bases, strict=False):
                for leaf, saved in zip(aggregate.bases, states, strict=True):
                    leaf[at] = saved
                aggregate.base_seen[at] = seen
            if journal.tails is not None:
                rows.restore(journal.tails)
            self.stale(slots)
        for rids, revisions in journal.revised:
            rows.revision[rids] = revisions
        (rows.free_count, rows.numbered), log, ties, dictionaries = journal.marks
        rows.log.rollback(log)
        rows.ties.rollback(ties)
        for dictionary, mark in dictionaries:
            dictionary.rollback(mark)
        self.keys.release(journal.fresh)
        self.journal = None

    def commit(self) -> None:
        """The call has succeeded: free what has gone."""
        journal, self.journal = self.journal, None
        if journal is None:
            return
        for rids in journal.dropped:
            self.rows.release(rids)
        if len(journal.gone):
            self.release(journal.gone)

    def release(self, slots: Ints) -> None:
        """Forget keys and all that belongs to them."""
        self.rows.clear(slots)
        self.alive[slots], self.due[slots], self.anchored[slots] = False, self.never, False
        self.last[slots] = self.least
        self.stale(slots)
        for a in range(self.rules.anchors):
            for aggregate in self.aggregates:
                aggregate.base_seen[slots * self.rules.anchors + a] = False
        self.keys.release(slots)

    # ---- what is not needed any more ----

    def watch(self, slots: Ints) -> None:
        """Look at slots that have no timer when their newest row of now is settled."""
        idle = slots[self.due[slots] == self.never]
        if len(idle):
            newest = self.last[idle]
            due = newest + (newest < self.never) if self.numbers.kind == "i" else np.nextafter(newest, np.inf)
            self.due[idle] = due
            self.soonest = min(self.soonest, due.min().item())

    def fired(self, now: Any) -> Ints:
        """The slots whose timers are at most `now`."""
        return _NONE if now is None or now < self.soonest else np.flatnonzero(self.due <= now)

    def needed(self, slots: Ints, now: Any) -> tuple[Ints, Ints]:
        """By slot: how many rows are settled at a watermark, and the first row that a window may still hold."""
        rows = self.rows
        settled, first = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
        limit = self.numbers.type(now).item()
        rows.run(eager_order.settled_rows, slots, limit, rows.heads, rows.lists, settled, first)
        for place in range(len(self.rules.rules)):
            arguments = (slots, limit, rows.heads, rows.lists, rows.rule(place), settled, first)
            rows.run(eager_order.needed_rows, *arguments, meaning=rows.meaning(place))
        return settled, first

    def shorten(self, slots: Ints, counts: Ints) -> None:
        """Drop the first rows of slots, folded into the bases of the windows that begin before what is kept."""
        assert self.journal is not None
        rows = self.rows
        cuts = (slots, rows.labels[rows.at(slots, counts - 1)])
        folds: list[Sequence[NDArray[Any]]] = []
        changed = []
        for rule in self.rules.anchored:
            begin = np.empty(len(slots), np.int64)
            rows.run(eager_order.begins_at, slots, counts, rows.heads, rows.lists, rule.column, begin)
            goes_on = (begin == 0) & self.anchored[slots, rule.anchor]
            folded = np.flatnonzero(begin < counts)
            first = rows.at(slots[folded], begin[folded])
            base = slots * self.rules.anchors + rule.anchor
            folds.append((slots[folded], rows.labels[first], cuts[1][folded], base[folded], goes_on[folded]))
            started = np.where(goes_on, self.begins[slots, rule.anchor], rows.time_at(slots, np.minimum(begin, counts)))
            changed.append((rule.anchor, begin < counts, started, base[begin >= counts]))
        joined = tuple(np.concatenate(parts) for parts in zip(*folds, strict=True)) if folds else _NO_FOLDS
        self.build(slots)
        for p, aggregate in enumerate(self.aggregates):
            with blaming(p, None):
                aggregate.shorten(joined, cuts, rows.heads)
            for _, _, _, ended in changed:
                aggregate.base_seen[ended] = False
        for anchor, continues, started, _ in changed:
            self.anchored[slots, anchor], self.begins[slots, anchor] = continues, started
        self.journal.dropped.append(rows.first_rids(slots, counts))
        rows.heads[slots, START] += counts
        rows.heads[slots, COUNT] -= counts
        rows.heads[slots, PASSED] += counts

    @property
    def nbytes(self) -> int:
        """The memory of the state."""
        arrays = self.alive, self.last, self.due, self.anchored, self.begins
        own = sum(part.nbytes for part in arrays) + self.keys.nbytes + self.rows.nbytes
        return own + sum(aggregate.nbytes for aggregate in self.aggregates)


_NO_FOLDS = (*(np.zeros(0, np.int64) for _ in range(4)), np.zeros(0, np.bool_))


class Blamed(Exception):
    """A monoid raised in a step of an aggregate: which one, what, and what it was asked."""

    def __init__(self, part: int, failed: Failed, about: Any) -> None:
        super().__init__(str(failed))
        self.part, self.failed, self.about = part, failed, about


class blaming:  # noqa: N801 (a context manager, of which contextlib's take 1 µs more)
    """Turns what an aggregate's monoid raises into Blamed."""

    def __init__(self, part: int, about: Any) -> None:
        self.part, self.about = part, about

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, Failed):
            raise Blamed(self.part, error, self.about) from error.error


def _joined(one: tuple[NDArray[Any], ...], other: tuple[NDArray[Any], ...]) -> tuple[NDArray[Any], ...]:
    return tuple(np.concatenate(pair) for pair in zip(one, other, strict=True))


def together(parts: Sequence[Asked]) -> Asked:
    """Ranges of several windows, one window after the other."""
    if len(parts) == 1:
        return parts[0]
    names = ("slots", "los", "his", "some", "base", "on")
    return Asked(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def empty_rows(schema: pa.Schema) -> pa.RecordBatch:
    """No rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, column.type) for column in schema], schema=schema)
