"""Results at rows for emit="eager": which of them a call may change, and which it has changed.

    before the rows come     ranges of indices whose windows may hold them ──▶ windows, answers
    after                    the same rows and the new ones ──▶ windows, answers ──▶ those that differ

What was last emitted of a row is what its windows held before the call, so nothing of it is kept but its revision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.engine import eager_loops
from sash.engine.arrow_arrays import array
from sash.engine.eager_aggregate import Answers, Asked
from sash.engine.eager_state import EagerState, Touched, together

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass
class Known:
    """Rows whose results may change, as they were: slots and indices, and what the aggregates said of them."""

    slots: Ints
    index: Ints
    asked: Asked
    answers: list[Answers]


@dataclass
class Emitted:
    """Results that leave: columns of the output, and the order of time within a slot."""

    columns: list[pa.Array]


class RowResults:
    """The results of a query that has one for each row."""

    def __init__(self, state: EagerState, flags: bool) -> None:
        self.state, self.flags = state, flags

    def before(self, touched: Touched) -> Known:
        """What the aggregates say now of rows that the touched ones may change."""
        state, rows = self.state, self.state.rows
        given = touched.all()
        begin, end = given[1].copy(), given[1].copy()
        for place, rule in enumerate(state.rules.rules):
            arguments = (given, rows.heads, rows.lists, rows.rule(place), state.rules.gap(rule), (begin, end))
            rows.run(eager_loops.widen_ranges, *arguments, meaning=rows.meaning(place))
        slots, index = united(state, given[0], begin, end)
        asked = self._asked(slots, index)
        return Known(slots, index, asked, state.ask(asked, valued=False))

    def _asked(self, slots: Ints, index: Ints) -> Asked:
        spans = range(len(self.state.rules.rules))
        return together([self.state.row_windows(place, slots, index).asked for place in spans])

    def after(self, touched: Touched, known: Known) -> list[pa.Array]:
        """The columns of results that are new or have changed."""
        state, rows = self.state, self.state.rows
        fresh = (touched.new.slots, touched.places)
        gone = (touched.removed.slots, touched.removed.index)
        room = len(known.slots) + len(touched.new)
        out = tuple(np.empty(room, np.int64) for _ in range(3))
        count = rows.run(eager_loops.merge_places, (known.slots, known.index), fresh, gone, out)
        slots, index, which = (part[:count] for part in out)
        asked = self._asked(slots, index)
        self.rids = rows.at(slots, index)
        answers = state.ask(asked, valued=True)
        changed = which < 0
        old = np.flatnonzero(~changed)
        if len(old):
            spans = len(state.rules.rules)
            changed[old] = differing(state, touched, (known, answers, asked), (old, which[old]), (count, spans))
        at = np.flatnonzero(changed)
        rids = self.rids[at]
        revision = rows.revision[rids] + 1
        assert state.journal is not None
        state.journal.revised.append((rids, rows.revision[rids]))
        rows.revision[rids] = revision
        columns = list(rows.log.take(rows.code[rids]).columns)
        for place in range(len(state.rules.rules)):
            columns += [
                one.column(found, at + place * count) for one, found in zip(state.aggregates, answers, strict=True)
            ]
        return self._finished(columns, rids, revision)

    def _finished(self, columns: list[pa.Array], rids: Ints, revision: Ints) -> list[pa.Array]:
        if self.flags:
            columns.append(array(np.zeros(len(rids), np.bool_)))
        return [*columns, array(self.state.rows.arrival[rids]), array(revision)]

    def taken_back(self, rids: Ints) -> list[pa.Array]:
        """The columns of rows that are taken back: once more, without results."""
        state, rows = self.state, self.state.rows
        columns = list(rows.log.take(rows.code[rids]).columns)
        for _ in state.rules.rules:
            columns += [pa.nulls(len(rids), part.result) for part in state.resolved.parts]
        return self._finished(columns, rids, rows.revision[rids] + 1)


def united(state: EagerState, slots: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The union of ranges of numbers, by slot."""
    nothing = np.zeros(0, np.int64)
    count = state.rows.run(eager_loops.unite_ranges, slots, begin, end, (nothing, nothing))
    out = np.empty(count, np.int64), np.empty(count, np.int64)
    state.rows.run(eager_loops.unite_ranges, slots, begin, end, out)
    return out


def differing(
    state: EagerState, touched: Touched, found: Any, places: tuple[Ints, Ints], shape: tuple[int, int]
) -> Flags:
    """Which results differ from what they were, at new places and old ones, of all windows together.

    `found`: what was known, the answers of now and what they were asked; `shape`: results of each window, and windows.
    """
    known, answers, asked = found
    new, old = places
    count, spans = shape
    changed = np.zeros(len(new), np.bool_)
    entered = inputs_within(state, asked, touched.new.slots, touched.new.rids)
    left = inputs_within(state, known.asked, touched.removed.slots, touched.removed.rids)
    for aggregate, now, before in zip(state.aggregates, answers, known.answers, strict=True):
        for place in range(spans):
            at, was = new + place * count, old + place * len(known.slots)
            changed |= aggregate.differing(now, at, before, was)
            if not aggregate.exact:
                for inside, rids, where in ((entered, touched.new.rids, at), (left, touched.removed.rids, was)):
                    if inside is not None:
                        sums = np.concatenate([[0], np.cumsum(aggregate.seen[rids])])
                        changed |= sums[inside[1][where]] > sums[inside[0][where]]
    return changed


def inputs_within(state: EagerState, asked: Asked, slots: Ints, rids: Ints) -> tuple[Ints, Ints] | None:
    """Which of some rows, sorted by slot and order, lie in each range: [begin, end). None: no aggregate asks for it."""
    if not len(slots) or all(aggregate.exact for aggregate in state.aggregates):
        return None
    begin, end = np.zeros(len(asked.slots), np.int64), np.zeros(len(asked.slots), np.int64)
    ranges = (asked.slots, asked.los, asked.his)
    state.rows.run(eager_loops.labels_between, (slots, state.rows.labels[rids]), ranges, begin, end)
    nobody = ~asked.some
    begin[nobody], end[nobody] = 0, 0
    return begin, end
