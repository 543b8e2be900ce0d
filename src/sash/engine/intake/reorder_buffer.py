"""The reorder buffer: rows at or above the watermark W, in sorted runs that are merged; the order of sorted input.

    W
    ▼
    ├──────────────── run of 4,000 rows ────────────────┤       each run is sorted by time and arrival
    ├───── run of 300 ─────┤
        ├─┤   ├──┤  ├──┤                                        small runs of the last calls

A push adds one run. When W rises, a prefix of each run that starts below W is released: a slice, without a copy. As in
a log-structured merge tree, `FAN_OUT` runs of similar size are merged, so n waiting rows form O(log n) runs and a row
is merged O(log n) times. Runs are immutable and the buffer's state is one tuple: a rollback assigns the old one.

Mode "sorted": check the order of rows, and find the last rows of equal key and time, which may get more peers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.columns.arrow_arrays import array, no_rows, stable_order
from sash.columns.keys import format_row, key_column, keys_of, ranks
from sash.columns.time_numbers import Watermark, after
from sash.engine.atomic import attributes
from sash.kernels.loops.array_types import NO_INTS, Flags, Ints, Numbers
from sash.kernels.loops.loop_cache import call_loop
from sash.kernels.loops.slot_loops import in_turn
from sash.plan.bound_query import BoundQuery
from sash.plan.time_axis import Number

# --- Reorder buffer ---

FAN_OUT = 16
"""Runs of similar size that are merged into one. One-row calls while 100,000 wait: 12 µs with 8; 8 with 16 and 32."""

SHRINK = 1024
"""A longer run is copied when three quarters of its rows have been released, to free their memory."""

LARGEST = 1 << 30
"""The most bytes of a merged run: offsets of strings and lists have 32 bits."""

_RADIX = 1 << 32
"""Times in a smaller range are sorted by radix sort."""

_FEW = 256
"""Fewer times are sorted by comparison."""

_LOW = itemgetter(0)
_UNCHECKED = pc.TakeOptions(boundscheck=False)


@dataclass(slots=True)
class TimedRows:
    """Rows with their times (numbers in units of the time column) and arrival numbers."""

    table: pa.RecordBatch
    time: Numbers
    arrival: Ints

    @staticmethod
    def none(schema: pa.Schema, time_type: np.dtype[Any]) -> TimedRows:
        """No rows, of these columns."""
        return TimedRows(no_rows(schema), np.zeros(0, time_type), NO_INTS)

    def __len__(self) -> int:
        return len(self.time)

    def slice(self, start: int, stop: int) -> TimedRows:
        """The rows in [start, stop), in the same memory."""
        return TimedRows(self.table.slice(start, stop - start), self.time[start:stop], self.arrival[start:stop])

    def take(self, at: Ints) -> TimedRows:
        """The rows at some positions, copied."""
        table = pc.call_function("take", [self.table, array(at)], _UNCHECKED)  # 10 µs; RecordBatch.take: 17
        return TimedRows(table, self.time[at], self.arrival[at])


class SortedRun(NamedTuple):
    """Rows sorted by time and arrival; the first `start` have been released; `low` is the time of the next."""

    low: Number
    start: int
    rows: TimedRows

    @property
    def waiting(self) -> int:
        """The number of buffered rows."""
        return len(self.rows.time) - self.start

    def rest(self) -> TimedRows:
        """The rows that wait."""
        return self.rows.slice(self.start, len(self.rows)) if self.start else self.rows


class BufferState(NamedTuple):
    """The state of a buffer."""

    runs: tuple[SortedRun, ...] = ()
    """By their least waiting time."""
    waiting: int = 0
    settled: int = 0
    """Runs after the last merge: the next is due when there are `FAN_OUT` more."""


class ReorderBuffer:
    """Holds rows at or above the watermark until it passes them.

    Tables must have exactly the buffer's schema, and arrays that the caller does not change later. A call costs
    O(r log r + log n) for r rows that are pushed or released while n wait, and its share of the merges.

    >>> def rows(*times: int) -> TimedRows:
    ...     arrival = np.arange(len(times))
    ...     return TimedRows(pa.record_batch({"t": pa.array(times, pa.int64())}), np.array(times), arrival)
    >>> buffer = ReorderBuffer(pa.schema([("t", pa.int64())]), (), np.dtype(np.int64))
    >>> buffer.push_and_release(rows(5, 3, 9, 4), until=5).time.tolist()
    [3, 4]
    >>> len(buffer), buffer.due
    (2, 6)
    >>> before = buffer.mark()
    >>> buffer.push_and_release(rows(7), until=8).time.tolist()
    [5, 7]
    >>> buffer.rollback(before)
    >>> buffer.rows().time.tolist()
    [5, 9]
    """

    def __init__(self, schema: pa.Schema, ties: Sequence[str], time_type: np.dtype[Any]) -> None:
        self.schema, self.ties = schema, tuple(ties)
        self._empty = TimedRows.none(schema, time_type)
        self._state = BufferState()

    def push_and_release(self, rows: TimedRows, until: Watermark, everything: bool = False) -> TimedRows:
        """Push rows; return all rows below `until` (None: none; everything: all), by time, tie-breakers and arrival.

        `until` is a number of the type of the times. The state changes by one assignment, at the end.
        """
        runs, waiting, settled = self._state
        passing, staying, in_turn = self._split(rows, until, everything)
        leaving: list[TimedRows] = []
        if everything:
            leaving, runs = [run.rest() for run in runs], ()
        elif runs and until is not None and runs[0].low < until:
            leaving, runs = _released(runs, until)
        for part in leaving:
            waiting -= len(part.time)
        if staying is not None:
            waiting += len(staying.rows.time)
            runs = _inserted(runs, staying)
            if len(runs) >= settled + FAN_OUT:
                runs = _merged_by_size(runs)
                settled = len(runs)
        if passing is not None:
            leaving.append(passing)
        found = self._in_order(leaving, in_turn)
        self._state = BufferState(runs, waiting, settled)
        return found

    def rows(self) -> TimedRows:
        """All rows that wait, in the order of release. They stay in the buffer."""
        return self._in_order([run.rest() for run in self._state.runs], are_sorted=True)

    def __len__(self) -> int:
        return self._state.waiting

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that wait. Memory in use may be four times as much, because of released rows of a run."""
        return _bytes([run.rest() for run in self._state.runs])

    @property
    def due(self) -> Number | None:
        """The least watermark that releases a row; None if no row waits."""
        runs = self._state.runs
        if not runs:
            return None
        return after(runs[0].low)

    def mark(self) -> BufferState:
        """The current state, for `rollback`."""
        return self._state

    def rollback(self, mark: BufferState) -> None:
        """Restore the state at `mark`, in O(1)."""
        self._state = mark

    def emptied(self) -> partial[Any]:
        """The change that removes all rows, for `all_at_once`."""
        return attributes(self, _state=BufferState())

    # ---- steps ----

    def _split(
        self, rows: TimedRows, until: Watermark, everything: bool
    ) -> tuple[TimedRows | None, SortedRun | None, bool]:
        """Split new rows into those below `until`, and a run of the others; are the first sorted already?"""
        time = rows.time
        count = len(time)
        if not count:
            return None, None, True
        if count == 1:
            low = time.item()
            passes = everything or (until is not None and low < until)
            return (rows, None, True) if passes else (None, SortedRun(low, 0, rows), True)
        in_turn = _in_turn(rows)
        if everything:
            return rows, None, in_turn
        if in_turn:
            low, high = time.item(0), time.item(-1)
        else:
            low, high = time.min().item(), time.max().item()
        if until is None or low >= until:
            return None, SortedRun(low, 0, rows if in_turn else _sorted(rows)), True
        if high < until:
            return rows, None, in_turn
        if in_turn:
            cut = int(time.searchsorted(until))
            passing, staying = rows.slice(0, cut), rows.slice(cut, count)
        else:
            below = time < until
            passing, staying = _chosen(rows, np.flatnonzero(below)), _sorted(_chosen(rows, np.flatnonzero(~below)))
        if len(staying.time) * 4 < count and count > SHRINK:
            staying = _copied(staying)
        return passing, SortedRun(staying.time.item(0), 0, staying), in_turn or len(passing.time) == 1

    def _in_order(self, parts: list[TimedRows], are_sorted: bool) -> TimedRows:
        """Merge parts by time, tie-breakers and arrival; `are_sorted`: each part is sorted by time and arrival."""
        if not parts:
            return self._empty
        if not are_sorted:
            return _sorted(joined_rows(parts), self.ties)
        if len(parts) > 1:
            return _merged(parts, self.ties)
        (rows,) = parts
        return _sorted(rows, self.ties) if self.ties and len(rows.time) > 1 else rows


def time_sorted(rows: TimedRows) -> TimedRows:
    """Sort rows by time and arrival; rows in order are not copied."""
    return rows if len(rows) < 2 else _sorted(rows)


def _in_turn(rows: TimedRows) -> bool:
    """Whether rows are sorted by time and arrival."""
    kind = rows.time.dtype.str
    return bool(call_loop(in_turn, kind, (np.ascontiguousarray(rows.time), np.ascontiguousarray(rows.arrival))))


def _released(runs: tuple[SortedRun, ...], until: Number) -> tuple[list[TimedRows], tuple[SortedRun, ...]]:
    """The released rows of each run, and the remaining runs."""
    leaving: list[TimedRows] = []
    cut: list[SortedRun] = []
    for low, start, rows in runs:
        if low >= until:
            break
        count = len(rows.time)
        stop = _position(rows.time, start, until)
        leaving.append(rows if stop - start == count else rows.slice(start, stop))
        if stop < count:
            rest = rows.time.item(stop)
            if count > SHRINK and (count - stop) * 4 < count:
                cut.append(SortedRun(rest, 0, _copied(rows.slice(stop, count))))
            else:
                cut.append(SortedRun(rest, stop, rows))
    left = runs[len(leaving) :]
    for run in cut:
        left = _inserted(left, run)
    return leaving, left


def _inserted(runs: tuple[SortedRun, ...], run: SortedRun) -> tuple[SortedRun, ...]:
    """Insert a run, in the order of the least waiting times."""
    if not runs or run.low >= runs[-1].low:
        return (*runs, run)
    at = bisect_right(runs, run.low, key=_LOW)
    return (*runs[:at], run, *runs[at:])


def _position(time: Numbers, start: int, until: Number) -> int:
    """Position of the first time not below `until`; that of `start` is below."""
    if time.item(-1) < until:
        return len(time)  # from here on `until` is within the range of the times' type
    if time.item(start + 1) >= until:
        return start + 1
    return int(time.searchsorted(until))


def _merged_by_size(runs: Sequence[SortedRun]) -> tuple[SortedRun, ...]:
    """Merge the runs of each level that has `FAN_OUT` of them; runs of level k have FAN_OUT**k rows or more."""
    levels: dict[int, list[SortedRun]] = {}
    bits = FAN_OUT.bit_length() - 1
    for run in runs:
        levels.setdefault((run.waiting.bit_length() - 1) // bits, []).append(run)
    level = 0
    while level <= max(levels):
        if len(levels.get(level, ())) >= FAN_OUT:
            parts = [run.rest() for run in levels[level]]
            if level == 0 or _bytes(parts) <= LARGEST:  # measuring small runs would cost more than merging them
                rows = _merged(parts)
                del levels[level]
                above = (len(rows.time).bit_length() - 1) // bits
                levels.setdefault(above, []).append(SortedRun(rows.time.item(0), 0, rows))
        level += 1
    return tuple(sorted(chain.from_iterable(levels.values()), key=_LOW))


def _bytes(parts: Sequence[TimedRows]) -> int:
    return sum(part.table.nbytes + part.time.nbytes + part.arrival.nbytes for part in parts)


def _merged(parts: list[TimedRows], ties: Sequence[str] = ()) -> TimedRows:
    """Merge parts, each sorted by time and arrival."""
    by_time = sorted(parts, key=lambda part: part.time.item(0))
    if all(one.time.item(-1) < following.time.item(0) for one, following in pairwise(by_time)):
        rows = joined_rows(by_time)
        return _sorted(rows, ties) if ties else rows
    by_arrival = sorted(parts, key=lambda part: part.arrival.item(0))  # then rows of equal time are in order
    return _sorted(joined_rows(by_arrival), ties, are_merged=True)


def _sorted(rows: TimedRows, ties: Sequence[str] = (), are_merged: bool = False) -> TimedRows:
    """Sort rows by time, tie-breakers and arrival; `are_merged`: they are a concatenation of sorted parts."""
    time, arrival = rows.time, rows.arrival
    if not ties and _in_turn(rows):
        return rows
    later, peers = time[1:] > time[:-1], time[1:] == time[:-1]
    in_turn = later | (peers & (arrival[1:] > arrival[:-1]))
    if in_turn.all() and (not ties or not peers.any()):
        return rows
    order = np.arange(len(time)) if (later | peers).all() else _time_order(time, are_merged)
    found, came = time[order], arrival[order]
    peers = found[1:] == found[:-1]
    if peers.any() and (ties or not (came[1:] > came[:-1])[peers].all()):
        _sort_peers(rows, order, peers, ties)
    return rows.take(order)


def _time_order(time: Numbers, are_merged: bool) -> Ints:
    """The order of times by the fastest sort; usually a stable one, which saves sorting rows of equal time.

    100,000 random times take 8 ms by a stable sort, 3 ms by an unstable one, and 1.5 to 4.5 ms by radix sort (stable),
    if their range allows it. A stable sort of 16 sorted parts takes 2 ms.
    """
    if are_merged or len(time) < _FEW:
        return time.argsort(kind="stable")
    if time.dtype.kind == "i":
        low = time.min().item()
        count = time.max().item() - low + 1
        if count <= _RADIX:
            return stable_order(time - low, count)
    return time.argsort()


def _sort_peers(rows: TimedRows, order: Ints, peers: Flags, ties: Sequence[str]) -> None:
    """Sort rows of equal time in `order` by tie-breakers and arrival; `peers`: which times equal the next."""
    at = np.flatnonzero(np.append(peers, False) | np.append(False, peers))
    some = np.sort(order[at])  # usually the order of arrival, which sorts fast
    chosen = array(some)
    values = [ranks(rows.table.column(name).take(chosen)) for name in reversed(ties)]
    order[at] = some[np.lexsort((rows.arrival[some], *values, rows.time[some]))]


def _chosen(rows: TimedRows, at: Ints) -> TimedRows:
    """The rows at rising positions: a slice if they are consecutive."""
    first, last = at.item(0), at.item(-1)
    return rows.slice(first, last + 1) if last - first + 1 == len(at) else rows.take(at)


def joined_rows(parts: Sequence[TimedRows]) -> TimedRows:
    """Concatenate rows; a single part is not copied."""
    if len(parts) == 1:
        return parts[0]
    return TimedRows(
        pa.concat_batches([part.table for part in parts]),  # 2.4 µs for two rows of three columns; column by column 17
        np.concatenate([part.time for part in parts]),
        np.concatenate([part.arrival for part in parts]),
    )


def _copied(rows: TimedRows) -> TimedRows:
    """A copy of the rows."""
    columns = [pa.concat_arrays([column]) for column in rows.table.columns]
    table = pa.RecordBatch.from_arrays(columns, schema=rows.table.schema)
    return TimedRows(table, rows.time.copy(), rows.arrival.copy())


# --- Sorted rows ---


class SortedRows:
    """Checks of rows that are ordered by key and time."""

    def __init__(self, bound_query: BoundQuery) -> None:
        self.bound_query = bound_query

    def codes(self, table: pa.RecordBatch) -> Ints:
        """The codes of the keys of rows."""
        return keys_of([key_column(table.column(name)) for name in self.bound_query.by], table.num_rows).codes

    def waiting(self, table: pa.RecordBatch, time: Numbers) -> int:
        """The number of rows with the key and time of the last."""
        if not len(time):
            return 0
        codes = self.codes(table)
        differs = np.flatnonzero((codes != codes[-1]) | (time != time[-1]))
        return len(time) - (int(differs[-1]) + 1 if len(differs) else 0)

    def check(self, table: pa.RecordBatch, time: Numbers) -> None:
        """Raises ValueError, naming the row, if rows are not ordered by key and time."""
        if len(time) < 2:
            return
        codes = self.codes(table)
        earlier, equal = time[1:] < time[:-1], time[1:] == time[:-1]
        for name in self.bound_query.ties:
            step = np.diff(ranks(table.column(name)))
            earlier, equal = earlier | (equal & (step < 0)), equal & (step == 0)
        back = np.flatnonzero((np.diff(codes) < 0) | ((np.diff(codes) == 0) & earlier))
        if len(back):
            at = int(back[0]) + 1
            order = ", ".join([*self.bound_query.by, *self.bound_query.query.on])
            raise ValueError(
                f"mode 'sorted' takes rows ordered by {order or 'arrival'}; "
                f"{format_row(table, at)} comes after {format_row(table, at - 1)}"
            )
