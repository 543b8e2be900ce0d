"""Translate window frames and window table functions of SQL to windows of sash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sash.cli.sql_aggregates import UnsupportedSQL, number_of
from sash.expressions.parsed_sql import Part
from sash.windows import Count, Duration, Lifetime, Session, Time, WindowKind

ENDLESS = 2**62
"""The size of a window of rows that no row ever leaves."""

UNITS = {"NANOSECOND": "ns", "MICROSECOND": "us", "MILLISECOND": "ms", "SECOND": "s", "MINUTE": "m", "HOUR": "h"}
UNITS |= {"DAY": "d", "WEEK": "w", "MONTH": "mo", "QUARTER": "q", "YEAR": "y"}


def length_of(part: Part, what: str) -> Any:
    """A duration in the syntax of sash, or a number. Raises UnsupportedSQL for anything else."""
    if part.kind == "Interval":
        unit = part.get("unit")
        unit = "" if unit is None else unit.name.upper().removesuffix("S")
        if unit in UNITS and part.this.kind == "Literal" and part.name.isdigit():
            return f"{part.name}{UNITS[unit]}"
        raise UnsupportedSQL(f"{what} is {part.text}: write one number with its unit, such as INTERVAL '5' MINUTE")
    if part.is_text:
        return part.name  # Spark's window(ts, '10 minutes')
    return number_of(part, what)


# ---- OVER (…) ----


def frame_of(spec: Part | None, on: Sequence[str], text: str) -> WindowKind:
    """The window of a frame clause in an order; without a clause the default of SQL, all rows up to the current one."""
    if spec is None:
        if not on:
            raise UnsupportedSQL(f"{text} is the whole partition, which does not slide: add ORDER BY, or use GROUP BY")
        return Lifetime()
    kind, exclude = str(spec.get("kind") or "").upper(), spec.get("exclude")
    excluded = "NO OTHERS" if exclude is None else exclude.name.upper()
    start, end = (_bound(spec, side, text) for side in ("start", "end"))
    if start.sign > end.sign:
        raise UnsupportedSQL(f"{text} must begin before it ends")
    if kind == "ROWS":
        return _rows(start, end, excluded, text)
    if kind != "RANGE":
        raise UnsupportedSQL(f"{text}: frames are ROWS or RANGE, not {kind}")
    if not on:
        raise UnsupportedSQL(f"{text}: RANGE needs ORDER BY")
    if len(on) > 1 and any(isinstance(spec.get(side), Part) for side in ("start", "end")):
        raise UnsupportedSQL(
            f"{text}: RANGE with a distance needs one column in ORDER BY, to measure it: leave out "
            f"{', '.join(on[1:])}, or write ROWS"
        )
    return _range(start, end, excluded, text)


class FrameBound(NamedTuple):
    """Where a frame starts or ends: a length before its row (sign -1) or after it (1); the current row is 0, 0."""

    length: Any
    """None if it is unbounded."""
    sign: int


def _bound(spec: Part, side: str, text: str) -> FrameBound:
    """The bound of a frame at its "start" or "end"."""
    value, direction = spec.get(side), str(spec.get(f"{side}_side") or "").upper()
    is_short = side == "end" and value is None  # ROWS 3 PRECEDING
    if is_short or (isinstance(value, str) and value.upper() == "CURRENT ROW"):
        return FrameBound(0, 0)
    if direction not in ("PRECEDING", "FOLLOWING"):
        raise UnsupportedSQL(f"{text}: a bound of a frame is CURRENT ROW, or has PRECEDING or FOLLOWING")
    if not isinstance(value, str):
        return FrameBound(length_of(value, f"a bound of {text}"), -1 if direction == "PRECEDING" else 1)
    if direction == "FOLLOWING":
        raise UnsupportedSQL(f"{text}: a window ends at most a fixed length after its row")
    if side == "end":
        raise UnsupportedSQL(f"{text} has no rows")
    return FrameBound(None, -1)


def _rows(start: FrameBound, end: FrameBound, excluded: str, text: str) -> WindowKind:
    for bound in (start, end):
        if not isinstance(bound.length, int | None):
            raise UnsupportedSQL(f"{text}: ROWS counts rows, so its bounds are whole numbers; for lengths write RANGE")
    last = end.length * end.sign
    if excluded == "CURRENT ROW":
        if last != 0:
            raise UnsupportedSQL(f"{text}: EXCLUDE CURRENT ROW needs a frame that ends at CURRENT ROW")
        last = -1
    elif excluded != "NO OTHERS":
        raise UnsupportedSQL(f"{text}: ROWS supports only EXCLUDE CURRENT ROW")
    if start.length is None:
        return Count(ENDLESS, shift=last)
    size = last - start.length * start.sign + 1
    if size < 1:
        raise UnsupportedSQL(f"{text} has no rows")
    return Count(size, shift=last)


def _range(start: FrameBound, end: FrameBound, excluded: str, text: str) -> WindowKind:
    if excluded not in ("NO OTHERS", "GROUP"):
        raise UnsupportedSQL(f"{text}: a RANGE has all rows of equal time, so write EXCLUDE GROUP to leave them out")
    if start.length is None:
        if end.length != 0 or excluded == "GROUP":
            raise UnsupportedSQL(f"{text}: RANGE UNBOUNDED PRECEDING ends at CURRENT ROW, and takes no EXCLUDE")
        return Lifetime()
    if end.length == 0:
        if start.sign > 0 or start.length == 0:
            raise UnsupportedSQL(f"{text} must begin before CURRENT ROW")
        return Time(start.length, closed="left" if excluded == "GROUP" else "both")
    if excluded == "GROUP":
        raise UnsupportedSQL(f"{text}: EXCLUDE GROUP needs a frame that ends at CURRENT ROW")
    if start.sign > 0:
        raise UnsupportedSQL(f"{text} must begin at or before CURRENT ROW")
    if start.length != 0 and isinstance(start.length, str) != isinstance(end.length, str):
        raise UnsupportedSQL(f"{text}: both bounds must be intervals, or both numbers")
    first, last = _signed(*start), _signed(*end)
    size = last - first
    if not size > 0 * size:
        raise UnsupportedSQL(f"{text} must begin before it ends")
    return Time(size, closed="both", shift=last)


def _signed(length: Any, sign: int) -> Any:
    """A bound as a number, or as a timedelta64 where it is a duration."""
    if length == 0 or not isinstance(length, str):
        return length * sign
    found = Duration.of(length)
    if found.calendar:
        raise UnsupportedSQL(f"INTERVAL of months and years is for frames that end at CURRENT ROW; got {length}")
    return np.timedelta64(found.nanoseconds, "ns") * sign


# ---- TUMBLE, HOP, SESSION, CUMULATE; window(…), session_window(…) ----


def table_window(name: str, lengths: list[Any]) -> Any:
    """The windows of a table function of Flink, from its lengths in order."""
    if name == "tumble" and 1 <= len(lengths) <= 2:
        return Time(lengths[0], every=lengths[0], offset=lengths[1] if len(lengths) == 2 else 0)
    if name == "hop" and 2 <= len(lengths) <= 3:
        return Time(lengths[1], every=lengths[0], offset=lengths[2] if len(lengths) == 3 else 0, align="start")
    if name == "session" and len(lengths) == 1:
        return Session(lengths[0], every="close")
    if name == "cumulate" and len(lengths) == 2:
        return _cumulated(*lengths)
    shapes = "TUMBLE(…, size [, offset]), HOP(…, slide, size [, offset]), SESSION(…, gap) and CUMULATE(…, step, size)"
    raise UnsupportedSQL(f"{name.upper()} takes other arguments; write {shapes}")


def _cumulated(step: Any, size: Any) -> dict[str, Time]:
    """Cumulating windows: one for each number of steps, all with the same start."""
    first, total = _signed(step, 1), _signed(size, 1)
    if total % first != 0 * total:
        raise UnsupportedSQL(f"CUMULATE: the size {size} must be a multiple of the step {step}")
    return {str(i): Time(first * i, every=total, offset=first * i) for i in range(1, int(total // first) + 1)}


def spark_window(name: str, lengths: list[Any]) -> Any:
    """The windows of `window(ts, size [, slide [, start]])` and `session_window(ts, gap)` of Spark."""
    if name == "session_window" and len(lengths) == 1:
        return Session(lengths[0], every="close")
    if name == "window" and 1 <= len(lengths) <= 3:
        every = lengths[1] if len(lengths) > 1 else lengths[0]
        return Time(lengths[0], every=every, offset=lengths[2] if len(lengths) == 3 else 0, align="start")
    raise UnsupportedSQL("there are window(ts, size [, slide [, start]]) and session_window(ts, gap)")
