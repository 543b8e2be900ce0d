"""The types, operators and functions of expressions on Arrow arrays, by those of `pyarrow.compute`.

Numbers are computed as 64-bit integers, 64-bit floats, or decimals, exactly and with at most 38 digits; an integer that
does not fit is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_

from sash.expressions.tree import CallNode, CastNode, UnfitOperands, outermost

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


# --- Arrow decimals ---

_MOST = 38
"""The greatest number of digits of a result; one with more is an error of its row."""
_WIDEST = 76
"""Digits of a decimal of 256 bits, in which results are computed: Arrow refuses a type with more."""


def decimal_arithmetic(function: str, a: Datum, b: Datum) -> Datum:
    """a + b, a - b or a * b; one operand is a decimal, the other a decimal or an integer."""
    found = _product(a, b) if function == "*" else _sum(function, a, b)
    if found.type.scale > _MOST:
        raise UnfitOperands
    return cast_to(found, pa.decimal128(min(found.type.precision, _MOST), found.type.scale))


def _sum(function: str, a: Datum, b: Datum) -> Datum:
    common = common_type([a.type, b.type])
    wide = pa.decimal256(common.precision, common.scale)
    return (pc.add_checked if function == "+" else pc.subtract_checked)(cast_to(a, wide), cast_to(b, wide))


def _product(a: Datum, b: Datum) -> Datum:
    """The product. Its type has the digits of both operands, and Arrow requires one more."""
    digits, places = zip(*(_digits(one.type) for one in (a, b)), strict=True)
    second = min(digits[1], _WIDEST - 1 - digits[0])
    wide = pa.decimal256(digits[0], places[0]), pa.decimal256(second, places[1])
    return pc.multiply_checked(cast_to(a, wide[0]), cast_to(b, wide[1]))


def _digits(type_: pa.DataType) -> tuple[int, int]:
    """Digits and decimal places of a number, at most 38 digits."""
    if is_.is_decimal(type_):
        return min(type_.precision, _MOST), type_.scale
    return (20 if type_ == pa.uint64() else 19), 0


# --- Arrow functions ---

Call = Callable[[CallNode, list[Datum]], Datum]


def as_array(value: Datum, rows: int) -> pa.Array:
    """A value as one array: a scalar is repeated."""
    if isinstance(value, pa.ChunkedArray):
        return value.combine_chunks()
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


# ---- operators ----


def _arithmetic(node: CallNode, operands: list[Datum]) -> Datum:
    a, b = operands
    if is_moment(a.type) or is_moment(b.type) or is_.is_duration(a.type) or is_.is_duration(b.type):
        return _moments(node.function, a, b)
    require_type(is_number, a, b)
    if node.function == "/":
        return pc.divide(as_float(a), _nonzero(as_float(b)))
    exact = node.function in "+-*" and not any(is_.is_floating(one.type) or is_.is_null(one.type) for one in (a, b))
    if exact and (is_.is_decimal(a.type) or is_.is_decimal(b.type)):
        return decimal_arithmetic(node.function, a, b)
    a, b = in_common([a, b])
    if is_.is_null(a.type):
        return a
    if node.function in ("//", "%"):
        return _quotient(node.function, a, b)
    return {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}[node.function](a, b)


def _nonzero(value: Datum) -> Datum:
    """Zeros become nulls."""
    zero = pa.scalar(0).cast(value.type)
    return pc.if_else(pc.equal(value, zero), pa.scalar(None, value.type), value)


def _quotient(function: str, a: Datum, b: Datum) -> Datum:
    if is_.is_integer(a.type):
        b = _nonzero(b)
        quotient = pc.divide_checked(a, b)
        return quotient if function == "//" else pc.subtract(a, pc.multiply(quotient, b))
    if function == "//":
        raise UnfitOperands
    a, b = as_float(a), _nonzero(as_float(b))
    if isinstance(a, pa.Scalar) and isinstance(b, pa.Scalar):
        is_null = a.as_py() is None or b.as_py() is None
        return pa.scalar(None if is_null else float(np.fmod(a.as_py(), b.as_py())), pa.float64())
    rows = len(b) if isinstance(a, pa.Scalar) else len(a)
    a, b = as_array(a, rows), as_array(b, rows)
    missing = np.asarray(pc.or_(a.is_null(), b.is_null()))
    left, right = (np.asarray(pc.fill_null(one, 1.0)) for one in (a, b))
    with np.errstate(invalid="ignore"):
        return pa.array(np.fmod(left, right), pa.float64(), mask=missing)


def _moments(function: str, a: Datum, b: Datum) -> Datum:
    if function not in ("+", "-"):
        raise UnfitOperands
    a, b = (cast_to(one, pa.timestamp("us")) if is_.is_date(one.type) else one for one in (a, b))
    if is_.is_null(a.type) or is_.is_null(b.type):
        return pa.scalar(None, b.type if is_.is_null(a.type) else a.type)
    if is_.is_timestamp(a.type) and is_.is_timestamp(b.type):
        if function == "+":
            raise UnfitOperands
        return pc.subtract_checked(*in_common([a, b]))
    if is_number(a.type) or is_number(b.type):
        raise UnfitOperands
    return (pc.add_checked if function == "+" else pc.subtract_checked)(a, b)


def _negate(_node: CallNode, operands: list[Datum]) -> Datum:
    (value,) = operands
    require_type(lambda type_: is_number(type_) or is_.is_duration(type_), value)
    if is_.is_duration(value.type):
        return cast_to(pc.negate_checked(cast_to(value, pa.int64())), value.type)
    (value,) = in_common([value])
    return value if is_.is_null(value.type) else pc.negate_checked(value)


_COMPARISONS = {
    "=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip


def _bool(value: Datum) -> Datum:
    require_type(is_.is_boolean, value)
    return cast_to(value, pa.bool_())


def _case(_node: CallNode, operands: list[Datum]) -> Datum:
    conditions = [pc.fill_null(_bool(one), False) for one in operands[:-1:2]]
    *values, last = in_common([*operands[1:-1:2], operands[-1]])
    for on, then in reversed(list(zip(conditions, values, strict=True))):
        last = pc.if_else(on, then, last)
    return last


def masked(value: Datum, on: Datum) -> Datum:
    """A value of any type where a flag is set, else null."""
    null = pa.scalar(None, value.type)
    if isinstance(on, pa.Scalar):
        return value if on.as_py() else null
    if isinstance(value, pa.Scalar) or not is_.is_nested(value.type):
        return pc.if_else(on, value, null)
    return value.take(pc.if_else(on, pa.array(np.arange(len(value))), pa.scalar(None, pa.int64())))


# ---- functions ----


def _on_floats(function: Callable[[Datum], Datum]) -> Call:
    return lambda _node, operands: function(as_float(operands[0]))


def _on_texts(function: Callable[[Datum], Datum]) -> Call:
    return lambda _node, operands: function(_text(operands[0]))


def _text(value: Datum) -> Datum:
    require_type(is_text_type, value)
    return cast_to(value, pa.string()) if is_.is_null(value.type) else value


def _rounded(function: Callable[..., Datum]) -> Call:
    """Floor and ceil: integers are unchanged."""

    def call(_node: CallNode, operands: list[Datum]) -> Datum:
        (value,) = operands
        require_type(is_number, value)
        return cast_to(value, pa.int64()) if is_.is_integer(value.type) else function(as_float(value))

    return call


def _round(_node: CallNode, operands: list[Datum]) -> Datum:
    value, digits = operands[0], operands[1].as_py() if len(operands) > 1 else 0
    require_type(is_number, value)
    if is_.is_integer(value.type) and digits >= 0:
        return cast_to(value, pa.int64())
    value = cast_to(value, pa.int64()) if is_.is_integer(value.type) else as_float(value)
    return pc.round(value, ndigits=digits, round_mode="half_towards_infinity")


def _abs(_node: CallNode, operands: list[Datum]) -> Datum:
    require_type(is_number, *operands)
    (value,) = in_common(operands)
    return value if is_.is_null(value.type) else pc.abs_checked(value)


def _sign(_node: CallNode, operands: list[Datum]) -> Datum:
    require_type(is_number, *operands)
    (value,) = in_common(operands)
    if is_.is_null(value.type):
        return value
    return cast_to(pc.sign(value), pa.int64()) if is_.is_integer(value.type) else pc.sign(as_float(value))


def _extreme(function: Callable[..., Datum]) -> Call:
    """Greatest and least: nulls are skipped, and NaN wins over every number, as in max() and min()."""

    def call(_node: CallNode, operands: list[Datum]) -> Datum:
        values = in_common(operands)
        if is_.is_null(values[0].type):
            return values[0]
        found = function(*values, skip_nulls=True)
        if is_.is_floating(values[0].type):
            has_nan = reduce(pc.or_, [pc.fill_null(pc.is_nan(value), False) for value in values])
            found = pc.if_else(has_nan, pa.scalar(float("nan")), found)
        return found

    return call


def _nullif(_node: CallNode, operands: list[Datum]) -> Datum:
    value, other = in_common(operands)
    if is_.is_null(value.type):
        return value
    return pc.if_else(pc.fill_null(pc.equal(value, other), False), pa.scalar(None, value.type), value)


def _joined(nulls: str) -> Call:
    def call(_node: CallNode, operands: list[Datum]) -> Datum:
        texts = in_common([_text(one) for one in operands])
        empty = pa.scalar("", texts[0].type)
        return pc.binary_join_element_wise(*texts, empty, null_handling=nulls, null_replacement="")

    return call


def _substr(_node: CallNode, operands: list[Datum]) -> Datum:
    start = operands[1].as_py() - 1
    stop = start + operands[2].as_py() if len(operands) > 2 else None
    return pc.utf8_slice_codeunits(_text(operands[0]), start, stop)


def _starts_with(_node: CallNode, operands: list[Datum]) -> Datum:
    value, prefix = (_text(one) for one in operands)
    if not isinstance(prefix, pa.Scalar) or prefix.as_py() is None:
        raise UnfitOperands
    return pc.starts_with(value, prefix.as_py())


def _field(function: Callable[[Datum], Datum]) -> Call:
    def call(node: CallNode, operands: list[Datum]) -> Datum:
        (value,) = operands
        require_type(is_moment, value)
        if is_.is_null(value.type) or (is_.is_date(value.type) and node.function in ("hour", "minute", "second")):
            value = cast_to(value, pa.timestamp("s") if is_.is_null(value.type) else pa.timestamp("ms"))
        return cast_to(function(value), pa.int64())

    return call


def _epoch(_node: CallNode, operands: list[Datum]) -> Datum:
    (value,) = operands
    require_type(is_moment, value)
    value = cast_to(value, pa.timestamp("us")) if not is_.is_timestamp(value.type) else value
    units = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[value.type.unit]
    return pc.divide(as_float(cast_to(value, pa.int64())), pa.scalar(units))


CALLS: dict[str, Call] = {
    **dict.fromkeys(("+", "-", "*", "/", "//", "%"), _arithmetic),
    **dict.fromkeys(
        _COMPARISONS,
        lambda node, operands: cast_to(_COMPARISONS[node.function](*in_common(operands)), pa.bool_()),
    ),
    "negate": _negate,
    "and": lambda _node, operands: pc.and_kleene(*map(_bool, operands)),
    "or": lambda _node, operands: pc.or_kleene(*map(_bool, operands)),
    "not": lambda _node, operands: pc.invert(_bool(operands[0])),
    "is null": lambda _node, operands: pc.is_null(operands[0]),
    "case": _case,
    "where": lambda _node, operands: masked(operands[0], pc.fill_null(_bool(operands[1]), False)),
    "like": lambda _node, operands: pc.match_like(_text(operands[0]), operands[1].as_py()),
    "ilike": lambda _node, operands: pc.match_like(_text(operands[0]), operands[1].as_py(), ignore_case=True),
    "||": _joined("emit_null"),
    "concat": _joined("replace"),
    "abs": _abs,
    "sign": _sign,
    "round": _round,
    "floor": _rounded(pc.floor),
    "ceil": _rounded(pc.ceil),
    "sqrt": _on_floats(pc.sqrt),
    "exp": _on_floats(pc.exp),
    "ln": _on_floats(pc.ln),
    "log2": _on_floats(pc.log2),
    "log10": _on_floats(pc.log10),
    "log": lambda _node, operands: pc.logb(as_float(operands[1]), as_float(operands[0])),
    "power": lambda _node, operands: pc.power(*map(as_float, operands)),
    "isnan": _on_floats(pc.is_nan),
    "isinf": _on_floats(pc.is_inf),
    "isfinite": _on_floats(pc.is_finite),
    "coalesce": lambda _node, operands: pc.coalesce(*in_common(operands)),
    "nullif": _nullif,
    "greatest": _extreme(pc.max_element_wise),
    "least": _extreme(pc.min_element_wise),
    "upper": _on_texts(pc.utf8_upper),
    "lower": _on_texts(pc.utf8_lower),
    "trim": _on_texts(lambda value: pc.utf8_trim(value, " ")),
    "ltrim": _on_texts(lambda value: pc.utf8_ltrim(value, " ")),
    "rtrim": _on_texts(lambda value: pc.utf8_rtrim(value, " ")),
    "length": _on_texts(lambda value: cast_to(pc.utf8_length(value), pa.int64())),
    "substr": _substr,
    "starts_with": _starts_with,
    "year": _field(pc.year),
    "quarter": _field(pc.quarter),
    "month": _field(pc.month),
    "day": _field(pc.day),
    "dow": _field(lambda value: pc.day_of_week(value, count_from_zero=True, week_start=7)),
    "hour": _field(pc.hour),
    "minute": _field(pc.minute),
    "second": _field(pc.second),
    "epoch": _epoch,
}
"""The operators and functions by name."""
