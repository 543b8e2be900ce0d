"""What one step of the engine works on: rows in order, cut into segments; and items, what windows are made of.

rows       new rows, sorted by segment, then by time, tie-breakers and arrival
segment    the rows and stored items of one key and one life of it (`forget` begins a new one)
items      stored items of each segment, then its new rows or what they were folded into

    segment 0                 segment 1
    ├─ stored ─┼─ new rows ─┤ ├─ new rows ─┤
items  0  1  2    3  4  5        6  7
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.operator.keys import told

Numbers = NDArray[Any]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass
class Segments:
    """By segment: its key; whether what is stored of the key belongs to it; from and up to where results are due.

    `before`: results up to there have left (None: none has). `now`: results up to there are due; `done`: all are, and
    no row will follow, so nothing is kept.
    """

    key: Ints
    stored: Flags
    before: Numbers
    started: Flags
    now: Numbers
    done: Flags
    rows: Ints
    """How many rows of this life came before."""
    over: Flags
    """Whether a later life of the key follows: nothing of this one is kept."""

    def __len__(self) -> int:
        return len(self.key)


def stable_order(codes: Ints, count: int) -> Ints:
    """The order of codes below `count`, equal ones as they come, by radix: a million in 14 ms, compared in 67."""
    if count <= _DIGIT:
        return np.argsort(codes.astype(np.uint16), kind="stable")
    low = np.argsort((codes & (_DIGIT - 1)).astype(np.uint16), kind="stable")
    high = codes[low] // _DIGIT
    return low[stable_order(high, count // _DIGIT + 1)]


_DIGIT = 1 << 16


@dataclass
class Rows:
    """New rows in order, with what is known of each."""

    table: pa.RecordBatch
    """The columns that windows and aggregates read."""
    given: pa.RecordBatch
    """All columns, in the order in which the rows were given."""
    order: Ints | None
    """By row: its place among the given ones; None if it is the same."""
    leaving: Ints | None
    """The given rows in the order in which results leave; None if it is the same."""
    segment: Ints
    time: Numbers
    arrival: Ints
    ordinal: Ints
    """The row's number in its life, from 0."""
    peers: tuple[Ints, Ints]
    """By row: the first row of its segment with the same time, and the one behind the last."""

    def __len__(self) -> int:
        return len(self.segment)

    def told(self, at: int) -> str:
        """A row, for a message."""
        return told(self.given, at if self.order is None else int(self.order[at]))


def peers_of(segment: Ints, time: Numbers) -> tuple[Ints, Ints]:
    """By row: the first row of equal segment and time, and the one behind the last."""
    count = len(segment)
    if not count:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    edge = np.concatenate([[True], (segment[1:] != segment[:-1]) | (time[1:] != time[:-1])])
    starts = np.flatnonzero(edge)
    group = np.cumsum(edge) - 1
    return starts[group], np.append(starts[1:], count)[group]


@dataclass
class Items:
    """What the windows of a series are made of, sorted by segment and order; an item is a row or a partial."""

    segment: Ints
    first: Numbers
    last: Numbers
    rows: Ints
    row: Ints
    """The number, in its life, of an item's first row."""
    low: Numbers
    high: Numbers
    """The coordinate by which items are found, of its first and its last row: the time, or a slice's cut."""
    deltas: list[tuple[Numbers, Numbers]]
    """For each column of a Delta window: the value of the item's first and of its last row."""

    def __len__(self) -> int:
        return len(self.segment)

    @property
    def behind(self) -> Ints:
        """By item: how many rows there are up to its end, over all segments."""
        return np.cumsum(self.rows)

    def take(self, order: Any) -> Items:
        """These items in this order."""
        taken: dict[int, Any] = {}

        def column(values: Any) -> Any:  # of rows the four coordinates are one column: it is taken once
            if id(values) not in taken:
                taken[id(values)] = values[order]
            return taken[id(values)]

        columns = {name: column(getattr(self, name)) for name in COLUMNS}
        return Items(**columns, deltas=[(column(a), column(b)) for a, b in self.deltas])


COLUMNS = ("segment", "first", "last", "rows", "row", "low", "high")


def joined(parts: list[Items]) -> Items:
    """Items of several sources in one, in the order given."""

    parts = [part for part in parts if len(part)] or parts[:1]
    made: dict[tuple[int, ...], Any] = {}

    def column(columns: list[Any]) -> Any:
        found = tuple(map(id, columns))
        if found not in made:
            made[found] = np.concatenate(columns)
        return made[found]

    deltas = [
        (column([a for a, _ in pairs]), column([b for _, b in pairs]))
        for pairs in zip(*(part.deltas for part in parts), strict=True)
    ]
    return Items(**{name: column([getattr(part, name) for part in parts]) for name in COLUMNS}, deltas=deltas)


@dataclass
class Answer:
    """Results of one window of the query: over which items, for which row or slide."""

    span: int
    segment: Ints
    los: Ints
    his: Ints
    on: Flags
    """Whether there is a result: false for a count window that is not full yet."""
    rows: Ints | None
    """The rows that the results belong to; None for slides."""
    starts: Numbers
    ends: Numbers
    ident: Ints
    """For slides: their number in the segment's order, by which an early result is found again."""

    def only(self, chosen: Flags) -> Answer:
        """These of the answers."""
        if chosen.all():
            return self
        return Answer(
            self.span,
            self.segment[chosen],
            self.los[chosen],
            self.his[chosen],
            self.on[chosen],
            None if self.rows is None else self.rows[chosen],
            self.starts[chosen],
            self.ends[chosen],
            self.ident[chosen],
        )
