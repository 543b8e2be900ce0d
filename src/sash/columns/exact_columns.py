"""Convert columns that users give to the types of a schema, without loss.

1.7 for int64, 0.5 s for seconds, 2**53 + 1 for float64         refused: the value does not fit
"2.5" for float64, a time without a zone for one with a zone    refused: another kind of value
1700000000 for a timestamp, 0.5 or true among times             refused: the same
2 for float64, ms for us, int32 for int64, text for categories  converted
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_

from sash.columns.keys import format_value
from sash.plan.types import is_text, value_type

_TYPED = ("dtype", "__arrow_array__", "__arrow_c_array__", "__arrow_c_stream__")
"""What columns have whose values are of one type; others are sequences of Python objects."""

_BOOLEANS: tuple[type, ...] = (bool, np.bool_)
_NUMBERS: tuple[type, ...] = (int, float, Decimal, np.integer, np.floating)

ARROW_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def column_of(name: str, values: Any, kind: pa.DataType | None) -> pa.Array:
    """The values of a column, which may be any sequence, as an array: of this type, or of the one they seem to have.

    Raises ValueError, naming the column and the value, if one does not fit the type, TypeError, naming the column, for
    values of which Arrow makes no column.
    """
    if isinstance(values, pa.ChunkedArray):
        found = values.combine_chunks()
    elif isinstance(values, pa.Array):
        found = values
    elif isinstance(values, list | tuple) or str(getattr(values, "dtype", "")) == "object":
        return _of_objects(name, values, kind)
    elif isinstance(values, Iterable) and not any(hasattr(values, one) for one in _TYPED):
        return _of_objects(name, list(values), kind)
    else:
        found = inferred_column(name, values)
    return found if kind is None else exact_cast(found, name, kind)


def exact_cast(column: Any, name: str, kind: pa.DataType) -> Any:
    """The column in another type, if it holds the same values.

    Raises ValueError, naming the column and the first value that the type cannot hold.
    """
    if column.type == kind:
        return column
    if is_.is_null(value_type(column.type)):
        return pa.nulls(len(column), kind)
    if not _converts(column.type, kind):
        raise _refused(name, _first(column), column.type, kind)
    try:
        made = _cast(column, kind)
    except (pa.ArrowNotImplementedError, TypeError):
        raise _refused(name, _first(column), column.type, kind) from None
    except pa.ArrowInvalid:
        raise _refused(name, _first_bad(column, kind), column.type, kind) from None
    if not _keeps(column, made):
        raise _refused(name, _first_bad(column, kind), column.type, kind)
    return made


def _cast(column: Any, kind: pa.DataType) -> Any:
    """The cast of Arrow, which has none from views to dictionaries, and none of narrow integers to narrow decimals."""
    given = value_type(column.type)
    if is_.is_dictionary(kind) and not is_.is_dictionary(column.type):
        column = column.cast(given)
    if is_.is_integer(given) and is_.is_decimal(kind):
        column = column.cast(given).cast(pa.decimal256(76, kind.scale))
    return column.cast(kind)


def object_column(name: str, values: Any, from_pandas: bool) -> pa.Array:
    """Python objects as a column of the type that Arrow infers; times of pandas keep their nanoseconds.

    `from_pandas`: whether NaN is null. Raises TypeError, naming the column, for times with and without a zone, and for
    numbers among times, which Arrow would truncate to whole units since 1970.
    """
    found = inferred_column(name, values, from_pandas)
    if is_.is_temporal(found.type) or is_.is_floating(found.type) or is_.is_integer(found.type):
        _require_one_kind(name, values, found.type)
    if is_.is_timestamp(found.type) or is_.is_duration(found.type):
        require_one_zone(name, values, found.type)
        if found.type.unit != "ns" and any(_has_nanoseconds(value) for value in values):
            finest = pa.timestamp("ns", found.type.tz) if is_.is_timestamp(found.type) else pa.duration("ns")
            return inferred_column(name, values, from_pandas, finest)
    if is_.is_date(found.type) and len({type(value) for value in values if isinstance(value, date)}) > 1:
        raise TypeError(f"the column {name!r} has dates and times: give only one of them")
    return found


def _require_one_kind(name: str, values: Iterable[Any], kind: pa.DataType) -> None:
    """Raises TypeError, naming column and value, for numbers among times, and for booleans among numbers."""
    what, others = ("times", _BOOLEANS + _NUMBERS) if is_.is_temporal(kind) else ("numbers", _BOOLEANS)
    kinds = set(map(type, values)) - {np.timedelta64}  # which NumPy derives from its integers
    odd = tuple(found for found in kinds if issubclass(found, others))
    bad = next((value for value in values if isinstance(value, odd) and value == value), None) if odd else None
    if bad is not None:
        raise TypeError(f"the column {name!r} has {what} and {bad!r}: convert the values to one type")


def require_one_zone(name: str, values: Iterable[Any], kind: pa.DataType) -> None:
    """Raises TypeError, naming the column, if some datetime objects have a time zone and others do not.

    Arrow reads those without as UTC.
    """
    if is_.is_timestamp(kind):
        zones = {value.tzinfo is None for value in values if hasattr(value, "tzinfo") and value == value}
        if len(zones) > 1:
            raise TypeError(
                f"the column {name!r} has times with a time zone and times without: give all of them a zone, or none"
            )


def _has_nanoseconds(value: Any) -> bool:
    """Is it a time or a duration of pandas that is finer than microseconds?"""
    return bool(getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0))


def inferred_column(name: str, values: Any, from_pandas: bool = False, kind: pa.DataType | None = None) -> pa.Array:
    """Values as a column of the type that Arrow infers, or of a given one. Raises TypeError, naming the column."""
    try:
        if type(values).__module__.partition(".")[0] == "polars":
            return pa.chunked_array(values).combine_chunks()
        if isinstance(values, np.ndarray) and values.dtype.kind in "US":  # Arrow ends texts of NumPy at their first NUL
            values = values.tolist()
        found = pa.array(values, kind, from_pandas=from_pandas)
    except ARROW_ERRORS as error:
        if kind is None and _are_unsigned(values):
            return pa.array(values, pa.uint64())  # Arrow infers only int64
        what = f"is of type {values.dtype}, which is" if hasattr(values, "dtype") else "has values whose type is"
        raise TypeError(f"the column {name!r} {what} not an Arrow type ({error}): cast it") from error
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _are_unsigned(values: Any) -> bool:
    """Are they objects of Python that are integers of 64 bits without a sign?"""
    if str(getattr(values, "dtype", "object")) != "object":
        return False
    return all(value is None or (type(value) is int and 0 <= value < 2**64) for value in values)


def _of_objects(name: str, values: Any, kind: pa.DataType | None) -> pa.Array:
    """Python objects as a column. Arrow truncates what does not fit, unless it infers the type of the values first."""
    if kind is None:
        return object_column(name, values, from_pandas=False)
    plain, nested = _plain_types(kind), is_.is_nested(kind)
    if not nested and (plain is None or not set(map(type, values)) <= plain):
        return exact_cast(object_column(name, values, from_pandas=False), name, kind)
    try:
        made = pa.array(values, kind, from_pandas=False)
    except ARROW_ERRORS:
        for value in values:
            try:
                pa.array([value], kind)
            except ARROW_ERRORS:
                raise _refused(name, repr(value), None, kind) from None
        raise
    if nested:  # the types of items are not inferred: those of structs may lack fields
        for value, found in zip(values, made.to_pylist(), strict=True):
            if not _same(value, found):
                raise _refused(name, repr(value), None, kind)
    return made


def _same(given: Any, made: Any) -> bool:
    """Is a nested value what Arrow made of it? Fields that the type does not name do not count."""
    if given is None:
        return True
    if isinstance(given, str | bytes):  # which Arrow takes for lists of numbers and for empty structs
        return isinstance(made, str | bytes)
    if isinstance(made, dict):
        return isinstance(given, dict) and all(_same(given.get(name), value) for name, value in made.items())
    if isinstance(made, list | tuple):
        items = given.items() if isinstance(given, dict) else given
        return all(_same(one, other) for one, other in zip(items, made, strict=True))
    if isinstance(given, _BOOLEANS) != isinstance(made, bool):
        return False
    return bool(made == given) or given != given


def _plain_types(kind: pa.DataType) -> set[type] | None:
    """The types of Python whose values Arrow converts to this type, or refuses; None if it needs to infer theirs."""
    none = type(None)
    if is_.is_integer(kind):
        return {none, int}
    if is_.is_date(kind):
        return {none, date}
    if is_.is_float64(kind):
        return {none, int, float}
    if is_.is_boolean(kind):
        return {none, bool}
    if is_.is_decimal(kind):
        return {none, int, Decimal}
    if is_text(kind):
        return {none, str}
    return {none, bytes} if is_.is_binary(kind) or is_.is_large_binary(kind) else None


# ---- which types convert ----


def _converts(given: pa.DataType, kind: pa.DataType) -> bool:
    """May values of one type be equal to values of another? Text is not parsed, and booleans are no numbers."""
    given, kind = value_type(given), value_type(kind)
    if given == kind or is_.is_null(given):
        return True
    if _is_list(given) and _is_list(kind):
        return _converts(given.value_type, kind.value_type)
    if is_.is_struct(given) and is_.is_struct(kind):
        names = {field.name: field.type for field in kind}
        return all(field.name in names and _converts(field.type, names[field.name]) for field in given)
    if is_.is_integer(given):
        return bool(is_.is_integer(kind) or is_.is_floating(kind) or is_.is_decimal(kind))
    if is_.is_floating(given):
        return bool(is_.is_integer(kind) or is_.is_floating(kind))
    if is_.is_decimal(given):
        return bool(is_.is_integer(kind) or is_.is_decimal(kind))
    if is_.is_timestamp(given):
        if is_.is_timestamp(kind):
            return (given.tz is None) == (kind.tz is None)
        return bool(is_.is_date(kind)) and given.tz is None
    if is_.is_date(given):
        return bool(is_.is_date(kind)) or (is_.is_timestamp(kind) and kind.tz is None)
    for same in (is_.is_duration, is_.is_time, _is_bytes):
        if same(given):
            return bool(same(kind))
    return False


def _is_list(kind: pa.DataType) -> bool:
    return bool(is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return is_text(kind) or bool(
        is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_fixed_size_binary(kind) or is_.is_binary_view(kind)
    )


def _keeps(column: Any, made: Any) -> bool:
    """Did a cast keep all values?

    That of Arrow rounds floats to narrower ones, truncates times to dates, and digits of decimals of 32 bits.
    """
    given, kind = value_type(column.type), value_type(made.type)
    if is_.is_decimal(kind) and made.type.bit_width < 64:
        widest = pa.decimal256(76, kind.scale)
        return bool(_cast(made, widest).equals(_cast(column, widest)))
    narrower = is_.is_floating(kind) and kind.bit_width < 64 and (is_.is_floating(given) or is_.is_float16(kind))
    if _is_list(kind) or is_.is_struct(kind):
        return _same(column.to_pylist(), made.to_pylist())
    if not narrower and not (is_.is_date(kind) and is_.is_timestamp(given)):
        return True
    column, made = column.cast(given), made.cast(kind).cast(given, safe=False)
    if is_.is_float16(given):  # which Arrow does not compare
        column, made = column.cast(pa.float64()), made.cast(pa.float64())
    same = pc.equal(made, column)
    if is_.is_floating(given):
        same = pc.or_(same, pc.is_nan(column))
    return pc.all(same, min_count=0).as_py() is not False


# ---- messages ----


def _first(column: Any) -> str:
    """The first value that is not null, for a message."""
    place = pc.index(column.is_valid(), True).as_py()  # columns of views cannot be filtered
    return "null" if place < 0 else format_value(column[place])


def _first_bad(column: Any, kind: pa.DataType) -> str:
    """The first value that does not fit, for a message: found in half of the column, and so on."""
    start, stop = 0, len(column)
    while stop - start > 1:
        middle = (start + stop) // 2
        if _fits(_part(column, start, middle), kind):
            start = middle
        else:
            stop = middle
    return format_value(column[start])


def _part(column: Any, start: int, stop: int) -> Any:
    """Some rows, copied, because a slice of lists is cast with all its items; `take` does not know views."""
    part = column.slice(start, stop - start)
    return pa.concat_arrays(part.chunks if isinstance(part, pa.ChunkedArray) else [part])


def _fits(column: Any, kind: pa.DataType) -> bool:
    try:
        return _keeps(column, _cast(column, kind))
    except pa.ArrowException:
        return False


def _refused(name: str, value: str, given: pa.DataType | None, kind: pa.DataType) -> ValueError:
    what = f"the column {name!r} of type {kind} cannot hold {value}"
    if given is None or given == kind:
        return ValueError(f"{what}: convert the values, or open the operator with a schema in which they fit")
    zones = [value_type(one).tz for one in (given, kind) if is_.is_timestamp(value_type(one))]
    if len(zones) == 2 and (zones[0] is None) != (zones[1] is None):
        which = "no time zone: localize" if zones[0] is None else "a time zone, which the first times had not: convert"
        return ValueError(f"{what}, which has {which} the times")
    return ValueError(
        f"{what} of type {given} without loss: convert the values to {kind}, or open the operator with a schema in "
        "which they fit"
    )
