"""The operators and functions of expressions on Arrow arrays, by those of `pyarrow.compute`.

Numbers are computed as 64-bit integers, 64-bit floats, or decimals; an integer that does not fit is an error.

Sums, differences and products of decimals on Arrow arrays: exact, with at most 38 digits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_

from sash.expressions.arrow_types import (
    Datum,
    as_float,
    cast_to,
    common_type,
    in_common,
    is_moment,
    is_number,
    is_text_type,
    require_type,
)
from sash.expressions.tree import CallNode, UnfitOperands

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
