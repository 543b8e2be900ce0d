"""The types of values in expressions on Arrow arrays: tests, casts, and the common type of several values.

Casts of expressions on Arrow arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_

from sash.expressions.tree import CastNode, UnfitOperands, outermost

# --- Arrow types ---

Datum = Any
"""A pyarrow Array or Scalar."""


def is_number(type_: pa.DataType) -> bool:
    """Is it an integer, a float or a decimal?"""
    return bool(is_.is_integer(type_) or is_.is_floating(type_) or is_.is_decimal(type_))


def is_text_type(type_: pa.DataType) -> bool:
    return bool(is_.is_string(type_) or is_.is_large_string(type_))


def is_moment(type_: pa.DataType) -> bool:
    return bool(is_.is_timestamp(type_) or is_.is_date(type_))


def cast_to(value: Datum, type_: pa.DataType) -> Datum:
    return value if value.type == type_ else pc.cast(value, type_)


def as_float(value: Datum) -> Datum:
    if is_.is_null(value.type) or is_number(value.type):
        # from 64-bit integers a cast that checks refuses those that a float rounds
        return value if value.type == pa.float64() else pc.cast(value, pa.float64(), safe=False)
    raise UnfitOperands


def in_common(values: Sequence[Datum]) -> list[Datum]:
    """Values cast to their common type. Raises UnfitOperands if there is none."""
    types = [value.type for value in values if not is_.is_null(value.type)]
    if not types:
        return list(values)
    if any(map(is_moment, types)):
        values = [_parsed_moment(value) for value in values]
        types = [value.type for value in values if not is_.is_null(value.type)]
    target = common_type(types)
    if is_.is_floating(target):
        return [as_float(value) for value in values]
    return [cast_to(_zoned(value, target), target) for value in values]


def common_type(types: Sequence[pa.DataType]) -> pa.DataType:
    """The type that values of all these types are cast to. Raises UnfitOperands if there is none."""
    if all(map(is_number, types)):
        if any(map(is_.is_floating, types)):
            return pa.float64()
        if any(map(is_.is_decimal, types)):
            return _decimal_type(types)
        return pa.int64()
    if all(map(is_text_type, types)):
        return pa.large_string() if any(map(is_.is_large_string, types)) else pa.string()
    if all(map(is_moment, types)):
        if all(map(is_.is_date, types)):
            return types[0]
        stamps = [type_ for type_ in types if is_.is_timestamp(type_)]
        unit = max((type_.unit for type_ in stamps), key=["s", "ms", "us", "ns"].index)
        zone = next((type_.tz for type_ in stamps if type_.tz is not None), None)
        return pa.timestamp(unit, zone)
    if all(map(is_.is_duration, types)):
        return pa.duration(max((type_.unit for type_ in types), key=["s", "ms", "us", "ns"].index))
    if any(type_ != types[0] for type_ in types) or is_.is_nested(types[0]):
        raise UnfitOperands
    return types[0]


def _decimal_type(types: Sequence[pa.DataType]) -> pa.DataType:
    scale = max(type_.scale if is_.is_decimal(type_) else 0 for type_ in types)
    integer_digits = max(type_.precision - type_.scale if is_.is_decimal(type_) else 19 for type_ in types)
    return pa.decimal128(min(integer_digits + scale, 38), scale)


def _parsed_moment(value: Datum) -> Datum:
    """A text literal that is compared with a time, as a timestamp."""
    if isinstance(value, pa.Scalar) and is_text_type(value.type):
        return pc.cast(value, pa.timestamp("us"))
    return value


def _zoned(value: Datum, target: pa.DataType) -> Datum:
    """A timestamp without a zone as one in UTC, if it is compared with one that has a zone."""
    if not is_.is_timestamp(target) or target.tz is None or getattr(value.type, "tz", None) is not None:
        return value
    if is_.is_null(value.type):
        return value
    return pc.assume_timezone(cast_to(value, pa.timestamp(target.unit)), "UTC")


def require_type(test: Callable[[pa.DataType], bool], *values: Datum) -> None:
    """Raises UnfitOperands unless the types of all values pass the test, or are null."""
    for value in values:
        if not (is_.is_null(value.type) or test(value.type)):
            raise UnfitOperands


# --- Arrow casts ---


def cast_values(value: Datum, node: CastNode) -> Datum:
    """The values converted to the type of a cast. Raises TypeError, naming both types, if there is no conversion."""
    is_decimal = node.type.startswith("decimal128")
    target = pa.decimal128(*node.decimal_digits) if is_decimal else pa.type_for_alias(node.type)
    given = value.type
    try:
        if is_.is_integer(target) and (is_.is_floating(given) or is_.is_decimal(given)):
            value = pc.round(as_float(value), round_mode="half_to_even")
        if is_.is_floating(target) and is_number(given):
            return as_float(value)
        if is_text_type(target) and not (is_.is_integer(given) or is_text_type(given) or is_.is_null(given)):
            raise pa.ArrowNotImplementedError("to text")
        if is_.is_date(target) and is_.is_timestamp(given):
            return pc.cast(pc.floor_temporal(pc.local_timestamp(value) if given.tz else value, unit="day"), target)
        if is_.is_timestamp(target) and is_.is_timestamp(given):
            return pc.cast(value, pa.timestamp("us", given.tz), safe=False)
        return cast_to(value, target)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError, UnfitOperands):
        what = outermost(str(node.value))
        raise TypeError(f"the expression {str(node)!r} cannot convert {what} of type {given}") from None
