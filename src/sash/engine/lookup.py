"""Lookup: the aggregates of some keys now, or at a time, without a change of state.

The keys asked for are copied, with the rows of theirs that still wait, into an engine of their own, and their windows
are computed there. A window without `every` is the one that would end at that time; with `every` it is the slide in
progress. What a call costs follows from the elements of the keys asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from sash.engine import slide_grid
from sash.engine.arrow_arrays import array, everyone, no_rows
from sash.engine.key_table import KeyTable
from sash.engine.key_values import decode, decoded_schema, key_column
from sash.engine.live_aggregate import LiveAggregate
from sash.engine.live_engine import LiveEngine
from sash.engine.pane_assigner import CountedPanes, PaneAssigner
from sash.engine.reorder_buffer import TimedRows
from sash.engine.row_assigner import RowAssigner
from sash.engine.running_assigner import RunningAssigner
from sash.engine.state_codec import StateCodec
from sash.engine.step_data import StepRows, WindowRanges
from sash.engine.time_numbers import below
from sash.engine.window_assigner import WindowAssigner
from sash.kernels.loops.array_types import NO_FLAGS, NO_INTS, Ints, Numbers
from sash.kernels.loops.live_loops import BACK, BEGIN, FRONT
from sash.kernels.loops.slot_loops import LAST, ROWS
from sash.kernels.loops.window_loops import CLOSED, OPEN
from sash.plan.bound_query import BoundQuery, WindowSpec
from sash.plan.validation import labels
from sash.windows.arguments import length


def key_columns(bound_query: BoundQuery, keys: Any) -> list[pa.Array]:
    """The keys of a lookup as columns. Raises ValueError, naming the column, if one is missing or too many."""
    if not isinstance(keys, Mapping):
        keys = {name: keys.column(name) for name in keys.schema.names} if hasattr(keys, "schema") else keys
    if not isinstance(keys, Mapping) or set(keys) != set(bound_query.by):
        wanted = ", ".join(map(repr, bound_query.by)) or "no column"
        raise ValueError(f"lookup() takes the columns of by=, {wanted}, each with its values; got {keys!r}")
    found = []
    for name in bound_query.by:
        kind = bound_query.schema.field(name).type
        values = keys[name]
        given = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, from_pandas=False)
        found.append(decode(given.cast(decode(pa.nulls(0, kind)).type)))
    if len({len(column) for column in found}) > 1:
        raise ValueError(f"lookup() takes columns of one length; got {', '.join(str(len(c)) for c in found)} values")
    return found


class Lookup:
    """The state of some keys in an engine of its own."""

    def __init__(self, source: LiveEngine, columns: list[pa.Array], waiting: TimedRows | None) -> None:
        self.bound_query = source.bound_query
        self.engine = LiveEngine(source.plan)
        self.rows = len(columns[0]) if columns else 1
        normal = [key_column(column) for column in columns]
        known = source.keys.find(normal, self.rows, insert=False)
        batches = StateCodec(source, None).encode(known.touched, [np.zeros(len(known.touched), np.int64)] * 64)
        if len(known.touched):
            codec = StateCodec(self.engine, None)
            codec.put(codec.read(batches), emitted=False)
        if waiting is not None and len(waiting):
            self._add(waiting, normal)
        self.slots = self.engine.keys.find(normal, self.rows, insert=False).slots

    def _add(self, waiting: TimedRows, keys: list[pa.Array]) -> None:
        """Let the rows of these keys that wait take their places."""
        asked = KeyTable(self.engine.keys.types)
        asked.find(keys, self.rows)
        of = [key_column(waiting.table.column(name)) for name in self.bound_query.by]
        mine = np.flatnonzero(asked.find(of, len(waiting), insert=False).slots >= 0)
        if len(mine):
            self.engine.step(waiting.take(mine))
            self.engine.commit()

    def newest(self) -> Any:
        """The time of the newest row of these keys; None if they have none."""
        live = self.engine.live
        return None if not len(live) else self.engine.table["stamps"][live, LAST].max().item()

    def results(self, at: Any, last: Any) -> list[pa.Array]:
        """For each window and aggregate a column, in the order of the keys asked for."""
        found: dict[int, list[pa.Array]] = {}
        for assigner, aggregates in zip(self.engine.assigners, self.engine.aggregates, strict=True):
            windows = [self._window(assigner, w, at, last) for w in range(len(assigner.windows))]
            made: dict[int, list[pa.Array]] = {}
            for aggregate in aggregates:
                made |= self._values(aggregate, windows)
            for w, window in enumerate(windows):
                found[window.window] = [made[number][w] for number in sorted(made)]
        back = np.where(self.slots < 0, len(self.engine.live), np.searchsorted(self.engine.live, self.slots))
        order = array(back, self.slots >= 0)
        return [column.take(order) for place in sorted(found) for column in found[place]]

    def _values(self, aggregate: LiveAggregate, windows: list[WindowRanges]) -> dict[int, list[pa.Array]]:
        """By the number of each aggregate that is computed here: a column for each window."""
        table, none = no_rows(decoded_schema(self.bound_query.schema)), np.zeros(0, self.engine.numbers)
        nothing = StepRows(*(table, NO_INTS, none, NO_INTS, NO_INTS, NO_INTS, NO_FLAGS, False, none, self.engine.table))
        if aggregate.kernel.elements == "running":
            aggregate.assigner.assign(nothing)
            aggregate.take(nothing)
        found = aggregate.results(windows, nothing)
        return {
            view.number: [column for column, _, _ in results]
            for view, results in zip(aggregate.views, found, strict=True)
        }

    # ---- which elements ----

    def _window(self, assigner: WindowAssigner, w: int, at: Any, last: Any) -> WindowRanges:
        slots = self.engine.live
        window = assigner.windows[w]
        size = window.size if last is None else shorter(window, self.bound_query, last)
        zeros = np.zeros(len(slots), np.int64)
        if isinstance(assigner, RunningAssigner):
            self._empty_closed(assigner, slots, at)
            on = everyone(len(slots))
            return WindowRanges(assigner.places[w], slots, on, zeros, zeros, zeros, after=zeros, his=slots)
        pairs = [self._range(assigner, w, slot, at, size) for slot in slots.tolist()]
        los, his = (np.array(part, np.int64) for part in (zip(*pairs, strict=True) if pairs else ([], [])))
        on = np.ones(len(slots), np.bool_)
        if window.full:
            on = his - los >= int(size or 1)
        return WindowRanges(assigner.places[w], slots, on, zeros, zeros, zeros, None, los, his)

    def _empty_closed(self, assigner: RunningAssigner, slots: Ints, at: Any) -> None:
        """Let windows that are over hold no value."""
        heads = self.engine.table[f"{assigner.name}.heads"]
        there = (heads[slots, OPEN] != 0) & (heads[slots, CLOSED] == 0)
        if assigner.window.kind == "session" and at is not None:
            there &= ~assigner.is_silent(at, assigner.last(slots))
        over = slots[~there]
        for aggregate in self.engine.aggregates[self.engine.assigners.index(assigner)]:
            self.engine.table[aggregate.name, "base"][over] = self.engine.table[aggregate.name, "totals"][over]

    def _range(self, assigner: Any, w: int, slot: int, at: Any, size: Any) -> tuple[int, int]:
        heads = assigner.arena.heads
        front, back, begin = (int(heads[slot, c]) for c in (FRONT, BACK, BEGIN))
        front = max(front, begin)
        window = assigner.windows[w]
        places = assigner.located(np.full(back - front, slot), np.arange(front, back))
        columns = assigner.arena.columns
        if isinstance(assigner, CountedPanes):
            stop = (int(self.engine.table["keys"][slot, ROWS]) // int(window.every) + 1) * int(window.every)
            return front + int(np.searchsorted(columns["low"][places], stop - int(size))), back
        if isinstance(assigner, PaneAssigner):
            k = open_slide(window, at, self.engine.numbers)
            lows = columns["low"][places]
            bounds = (slide_grid.starts(window, k), slide_grid.ends(window, k))
            lo, hi = (front + int(np.searchsorted(lows, bound)) for bound in bounds)
            return lo, hi
        assert isinstance(assigner, RowAssigner)
        time = columns["time"][places]
        stop = len(time) if at is None else rows_up_to(window, at, time)
        if window.kind == "policy":
            return min(max(int(heads[slot, assigner.start_column(w)]), front), front + stop), front + stop
        values = columns["delta", str(window.column)][places] if window.kind == "delta" else time
        return front + window_start(window, size, at, values, stop), front + stop


def window_start(window: WindowSpec, size: Any, at: Any, values: Numbers, stop: int) -> int:
    """The first row of a window of rows that ends before place `stop`, at the time `at`.

    `values` are what the window is measured on: times, or the values of a Delta window's column.
    """
    if window.kind == "count":
        return max(stop - int(size), 0)
    newest = at
    if window.kind == "delta":
        newest = values[stop - 1] if stop else 0
    open_start = window.kind == "delta" or window.closed in ("right", "neither")
    least = below(np.array([newest], values.dtype), size, open_start)[0]
    inclusive = not open_start or values.dtype.kind != "f"
    return min(int(values[:stop].searchsorted(least, "left" if inclusive else "right")), stop)


def rows_up_to(window: WindowSpec, at: Any, time: Numbers) -> int:
    """How many rows a window that ends at the time `at` may hold."""
    open_end = window.kind == "time" and window.closed in ("left", "neither")
    return int(time.searchsorted(at, "left" if open_end else "right"))


def open_slide(window: WindowSpec, at: Any, numbers: np.dtype[Any]) -> Any:
    """The number of the slide in progress at a time."""
    return slide_grid.last_end(window, np.array([at], numbers), window.closed == "right")[0] + 1


def shorter(window: WindowSpec, bound_query: BoundQuery, last: Any) -> Any:
    """The size of a shorter range. Raises ValueError if the window is not one that a shorter range can be cut from."""
    if window.kind == "count" and window.slide == "row":
        if isinstance(last, bool) or not hasattr(last, "__index__") or not 1 <= int(last) <= int(window.size or 1):
            raise ValueError(f"last= of lookup() is a number of rows from 1 to {window.size}; got {last!r}")
        return int(last)
    if window.kind == "time" and window.slide == "row" and bound_query.time is not None:
        size = bound_query.time.number(length("last= of lookup()", last), "last= of lookup()")
        if not 0 < size <= (window.size or 0):
            raise ValueError(f"last= of lookup() is at most the window's size, {window.window!r}; got {last!r}")
        return size
    raise ValueError(
        f"last= of lookup() asks for a shorter range of a Time or Count window per row; got {window.window!r}"
    )


def names(bound_query: BoundQuery) -> list[str]:
    """The names of a lookup's columns beside those of the keys."""
    query = bound_query.query
    return labels(query.windows, query.aggregates)
