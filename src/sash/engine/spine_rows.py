"""Order the rows of a spine and of its events by the same keys, on one axis of time.

    events   ──▶ RowOrder ─┐
                           ├─ the same keys under the same codes, times in units of the events
    spine    ──▶ RowOrder ─┘

A spine may have a finer unit than its events, and so times between two units of theirs. Events are at whole units, so a
spine's time can be rounded: an event is before 2.5 if it is before 3, and at or before 2.5 if it is at or before 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sash.engine.arrow_arrays import array
from sash.engine.key_values import decode, format_value, ranks
from sash.engine.row_order import RowOrder, key_codes, place_rows, times_of
from sash.engine.time_numbers import LIMIT
from sash.kernels.column.column_kernels import RowThreads
from sash.kernels.loops.array_types import Flags, Numbers
from sash.plan.bound_query import BoundQuery
from sash.plan.time_axis import TimeAxis

_OFFSETS = 2**31 - 1
"""The most bytes of text in a column with 32-bit offsets."""


@dataclass(frozen=True)
class SpineColumns:
    """The columns of a spine that a query reads, with their names: those of the key, and the time."""

    by: Mapping[str, Any]
    on: tuple[str, Any]
    rows: int


@dataclass(frozen=True)
class SpineTables:
    """Events and a spine; `encoded` are columns of the events' key that exist as dictionaries."""

    events: pa.RecordBatch
    spine: SpineColumns
    encoded: Mapping[str, Any]


@dataclass(frozen=True)
class SpineRows:
    """Events and spine in order of key and time; by place in the spine, its times in units of the events."""

    events: RowOrder
    spine: RowOrder
    floor: Numbers
    """The last whole unit at or before the time."""
    ceiling: Numbers
    """The first whole unit at or after the time: the same, unless the spine has finer units."""

    def targets(self, inclusive: bool) -> Numbers:
        """The times to compare with events at a bound that includes its own time, or not."""
        return self.ceiling if inclusive else self.floor


def order_spine(
    given: SpineTables, bound_query: BoundQuery, threads: RowThreads, clock: Callable[[], float]
) -> SpineRows:
    """Order the events and the spine by key and time. Raises TypeError or ValueError, naming a column that differs."""
    axis, table, spine = bound_query.time, given.events, given.spine
    assert axis is not None
    time, timed = times_of(table, bound_query, clock)
    name, column = spine.on
    own = spine_axis(name, decode(column).type, axis)
    at, at_times = own.numbers(decode(column))
    is_timed = None if at_times.all() else at_times
    mine = {by: given.encoded.get(by, table.column(by)) for by in bound_query.by}
    pairs = [_joined(*one, *other) for one, other in zip(mine.items(), spine.by.items(), strict=True)]
    codes, bound = key_codes(pairs, table.num_rows + spine.rows, threads)
    own_codes, others = (None, None) if codes is None else (codes[: table.num_rows], codes[table.num_rows :])
    if timed is not None:
        chosen = np.flatnonzero(timed)
        table, time = table.take(array(chosen)), time[chosen]
        own_codes = None if own_codes is None else own_codes[chosen]
    if is_timed is not None:
        at, others = at[is_timed], None if others is None else others[is_timed]
    ties = [ranks(table.column(tie)) for tie in bound_query.ties]
    rows = table.num_rows if timed is None else len(timed)
    events = place_rows(rows, timed, time, (own_codes, bound), ties, threads)
    placed = place_rows(spine.rows, is_timed, at, (others, bound), [], threads)
    return SpineRows(events, placed, *_in_units(placed.time, own, axis))


# ---- times ----


def spine_axis(name: str, kind: pa.DataType, axis: TimeAxis) -> TimeAxis:
    """The axis of a spine's time. Raises TypeError, naming both columns, if its times do not compare with events."""
    found = TimeAxis.of(name, kind, "on= (of the spine)")
    mine, theirs = found.type, axis.type
    both = f"the spine's time {name!r} is of type {mine} and the events' {axis.column!r} of type {theirs}"
    if pa.types.is_timestamp(mine) and pa.types.is_timestamp(theirs):
        if (mine.tz is None) != (theirs.tz is None):
            raise TypeError(f"{both}: one has a time zone and the other has not; localize or convert one")
    elif found.timed != axis.timed or found.has_dates != axis.has_dates:
        raise TypeError(f"{both}, which do not compare: cast one to the type of the other")
    return found


def _in_units(times: Numbers, own: TimeAxis, axis: TimeAxis) -> tuple[Numbers, Numbers]:
    """Times in units of another axis: rounded down and up. Raises ValueError, naming a time that does not fit it."""
    if own.kind != axis.kind:
        return _as_integers(times, own, axis) if own.kind == "float" else _as_floats(times, own, axis)
    if not own.timed or own.unit == axis.unit:
        return times, times
    if own.unit < axis.unit:
        factor = axis.unit // own.unit
        floor = times // factor
        return floor, floor + (times % factor != 0)
    factor = own.unit // axis.unit
    _require_fit(times, _beyond(times, LIMIT // factor), own, axis)
    return times * factor, times * factor


def _as_integers(times: Numbers, own: TimeAxis, axis: TimeAxis) -> tuple[Numbers, Numbers]:
    _require_fit(times, np.abs(times) >= 2.0**63, own, axis)
    return np.floor(times).astype(np.int64), np.ceil(times).astype(np.int64)


def _as_floats(times: Numbers, own: TimeAxis, axis: TimeAxis) -> tuple[Numbers, Numbers]:
    _require_fit(times, _beyond(times, 2**53), own, axis)
    return times.astype(np.float64), times.astype(np.float64)


def _beyond(times: Numbers, limit: int) -> Flags:
    return (times > limit) | (times < -limit)


def _require_fit(times: Numbers, beyond: Flags, own: TimeAxis, axis: TimeAxis) -> None:
    if beyond.any():
        value = format_value(own.array(times[beyond][:1])[0])
        raise ValueError(
            f"the spine's time {own.column!r} holds {value}, which is beyond the events' {axis.column!r} of type "
            f"{axis.type}: filter it, or cast the events' column to {own.type}"
        )


# ---- keys ----


def _joined(name: str, events: Any, own: str, spine: Any) -> pa.Array:
    """A `by` column of the events and, after it, of the spine. Raises TypeError if they do not compare."""
    if pa.types.is_dictionary(events.type) and events.type == spine.type:
        both = pa.chunked_array([*_chunks(events), *_chunks(spine)], events.type).unify_dictionaries()
        return both.combine_chunks()
    first, second = decode(events), decode(spine)
    kind = _common(first.type, second.type)
    if kind is None:
        raise TypeError(
            f"the spine's column {own!r} is of type {second.type} and the events' {name!r} of type {first.type}, which "
            "do not compare: cast one to the type of the other"
        )
    try:
        if pa.types.is_string(kind) and first.nbytes + second.nbytes > _OFFSETS:
            kind = pa.large_string()
        return pa.concat_arrays([first.cast(kind), second.cast(kind)])
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"the spine's column {own!r} of type {second.type} and the events' {name!r} of type {first.type} hold "
            f"values that the other cannot ({error}): cast one to the type of the other"
        ) from None


def _chunks(column: Any) -> Sequence[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def _common(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type in which values of two types are compared; None if there is none."""
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    for narrow, wide in ((pa.string(), pa.large_string()), (pa.binary(), pa.large_binary())):
        if {a, b} == {narrow, wide}:
            return wide
    if pa.types.is_integer(a) and pa.types.is_integer(b):
        return pa.int64()
    if pa.types.is_floating(a) and pa.types.is_floating(b):
        return pa.float64()
    return None
