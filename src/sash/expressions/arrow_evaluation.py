"""Compute an expression on Arrow arrays: one function of `pyarrow.compute` for each node.

Numbers are computed as 64-bit integers, 64-bit floats, or decimals; an integer that does not fit is an error. Types
are checked by computing on arrays without rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_

from sash.expressions.arrow_casts import cast_values
from sash.expressions.arrow_decimals import decimal_arithmetic
from sash.expressions.arrow_types import (
    Datum,
    UnfitOperands,
    as_float,
    cast_to,
    in_common,
    is_moment,
    is_number,
    is_text_type,
    require_type,
)
from sash.expressions.tree import CallNode, CastNode, ColumnNode, LiteralNode, Node, outermost

ReadColumn = Callable[[str], pa.Array]


def evaluated(tree: Node, column: ReadColumn, rows: int) -> pa.Array:
    """The values of an expression for each row.

    Raises TypeError, naming the types, for operands that do not fit, and ValueError, naming the first row, for a value
    that does not: an integer overflow, text that is no number.
    """
    try:
        return unchecked(tree, column, rows)
    except pa.ArrowInvalid as error:
        raise _failure(tree, column, rows, error) from None


def chosen_rows(tree: Node, column: ReadColumn, rows: int, said: str) -> pa.Array:
    """Is a condition true, for each row? A null is not; `said` names the condition in errors.

    Raises ValueError for an expression that is neither true nor false, and as `evaluated`.
    """
    found = evaluated(tree, column, rows)
    if not is_.is_boolean(found.type):
        raise ValueError(f"{said} is of type {found.type}; it must be true or false")
    return found.fill_null(False)


def unchecked(tree: Node, column: ReadColumn, rows: int) -> pa.Array:
    """The values of an expression for each row. Raises Arrow's own error for a value that does not fit."""
    return _as_array(_value(tree, column), rows)


def _failure(tree: Node, column: ReadColumn, rows: int, error: Exception) -> ValueError:
    """The error of the first row that fails: found by halving."""
    if not rows:
        return ValueError(f"the expression {outermost(str(tree))!r} cannot be computed: {error}")
    names = tuple(dict.fromkeys(tree.columns()))
    low, high = 0, rows
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _value(tree, lambda name, a=low, b=middle: column(name).slice(a, b - a))  # type: ignore[misc]
            low = middle
        except pa.ArrowInvalid as found:
            high, error = middle, found
    values = "".join(f", {name}={column(name)[low].as_py()!r}" for name in names)
    return ValueError(f"the expression {outermost(str(tree))!r} fails at row {low}{values}: {error}")


def _as_array(value: Datum, rows: int) -> pa.Array:
    if isinstance(value, pa.ChunkedArray):
        return value.combine_chunks()
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def _value(node: Node, column: ReadColumn) -> Datum:
    if isinstance(node, ColumnNode):
        return column(node.name)
    if isinstance(node, LiteralNode):
        return _literal(node)
    if isinstance(node, CastNode):
        return cast_values(_value(node.value, column), node)
    assert isinstance(node, CallNode)
    operands = [_value(one, column) for one in node.arguments]
    try:
        return _CALLS[node.function](node, operands)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError, UnfitOperands):
        raise _mismatch(node, operands) from None


def _literal(node: LiteralNode) -> pa.Scalar:
    if node.kind == "null":
        return pa.scalar(None, pa.null())
    kinds = {"timestamp": pa.timestamp("us"), "interval": pa.duration("us")}
    return pa.scalar(node.value, kinds.get(node.kind))


def _mismatch(node: CallNode, operands: Sequence[Datum]) -> TypeError:
    pairs = zip(node.arguments, operands, strict=True)
    given = " and ".join(f"{outermost(str(one))} of type {value.type}" for one, value in pairs)
    return TypeError(f"{node.function!r} in the expression {outermost(str(node))!r} does not take {given}")


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
    a, b = _as_array(a, rows), _as_array(b, rows)
    missing = np.asarray(pc.or_(a.is_null(), b.is_null()))
    left, right = (np.asarray(pc.fill_null(one, 1.0)) for one in (a, b))
    with np.errstate(invalid="ignore"):
        return pa.array(np.fmod(left, right), pa.float64(), mask=missing)


def _moments(function: str, a: Datum, b: Datum) -> Datum:
    if function not in ("+", "-"):
        raise UnfitOperands
    a, b = (cast_to(one, pa.timestamp("us")) if is_.is_date(one.type) else one for one in (a, b))
    if is_.is_null(a.type) or is_.is_null(b.type):
        other = b.type if is_.is_null(a.type) else a.type
        return pa.scalar(None, other) if isinstance(a, pa.Scalar) and isinstance(b, pa.Scalar) else _nulls(a, b, other)
    if is_.is_timestamp(a.type) and is_.is_timestamp(b.type):
        if function == "+":
            raise UnfitOperands
        return pc.subtract_checked(*in_common([a, b]))
    if is_number(a.type) or is_number(b.type):
        raise UnfitOperands
    return (pc.add_checked if function == "+" else pc.subtract_checked)(a, b)


def _nulls(a: Datum, b: Datum, type_: pa.DataType) -> pa.Array:
    return pa.nulls(len(b) if isinstance(a, pa.Scalar) else len(a), type_)


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


def _comparison(node: CallNode, operands: list[Datum]) -> Datum:
    a, b = in_common(operands)
    return cast_to(_COMPARISONS[node.function](a, b), pa.bool_())


def _bool(value: Datum) -> Datum:
    require_type(is_.is_boolean, value)
    return cast_to(value, pa.bool_())


def _case(_node: CallNode, operands: list[Datum]) -> Datum:
    conditions = [pc.fill_null(_bool(one), False) for one in operands[:-1:2]]
    *values, last = in_common([*operands[1:-1:2], operands[-1]])
    for on, then in reversed(list(zip(conditions, values, strict=True))):
        last = pc.if_else(on, then, last)
    return last


def _where(_node: CallNode, operands: list[Datum]) -> Datum:
    """A value where a condition holds, of any type, and else null."""
    return masked(operands[0], pc.fill_null(_bool(operands[1]), False))


def masked(value: Datum, on: Datum) -> Datum:
    """A value of any type where a flag is set, and else null."""
    nothing = pa.scalar(None, value.type)
    if isinstance(on, pa.Scalar):
        return value if on.as_py() else nothing
    if isinstance(value, pa.Scalar) or not is_.is_nested(value.type):
        return pc.if_else(on, value, nothing)
    return value.take(pc.if_else(on, pa.array(np.arange(len(value))), pa.scalar(None, pa.int64())))


def _like(node: CallNode, operands: list[Datum]) -> Datum:
    value, pattern = operands
    require_type(is_text_type, value)
    value = cast_to(value, pa.string()) if is_.is_null(value.type) else value
    return pc.match_like(value, pattern.as_py(), ignore_case=node.function == "ilike")


# ---- functions ----


def _on_floats(function: Callable[[Datum], Datum]) -> Callable[[CallNode, list[Datum]], Datum]:
    return lambda _node, operands: function(as_float(operands[0]))


def _on_texts(function: Callable[[Datum], Datum]) -> Callable[[CallNode, list[Datum]], Datum]:
    return lambda _node, operands: function(_text(operands[0]))


def _text(value: Datum) -> Datum:
    require_type(is_text_type, value)
    return cast_to(value, pa.string()) if is_.is_null(value.type) else value


def _rounded(function: Callable[..., Datum]) -> Callable[[CallNode, list[Datum]], Datum]:
    """Floor and ceil: integers are as they are."""

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


def _extreme(function: Callable[..., Datum]) -> Callable[[CallNode, list[Datum]], Datum]:
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


def _coalesce(_node: CallNode, operands: list[Datum]) -> Datum:
    return pc.coalesce(*in_common(operands))


def _joined(nulls: str) -> Callable[[CallNode, list[Datum]], Datum]:
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


def _field(function: Callable[[Datum], Datum]) -> Callable[[CallNode, list[Datum]], Datum]:
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


def _finite(value: Datum) -> Datum:
    return pc.is_finite(value)


def _log(_node: CallNode, operands: list[Datum]) -> Datum:
    base, value = operands
    return pc.logb(as_float(value), as_float(base))


def _power(_node: CallNode, operands: list[Datum]) -> Datum:
    return pc.power(as_float(operands[0]), as_float(operands[1]))


_CALLS: dict[str, Callable[[CallNode, list[Datum]], Datum]] = {
    **dict.fromkeys(("+", "-", "*", "/", "//", "%"), _arithmetic),
    **dict.fromkeys(_COMPARISONS, _comparison),
    "negate": _negate,
    "and": lambda _node, operands: pc.and_kleene(*map(_bool, operands)),
    "or": lambda _node, operands: pc.or_kleene(*map(_bool, operands)),
    "not": lambda _node, operands: pc.invert(_bool(operands[0])),
    "is null": lambda _node, operands: pc.is_null(operands[0]),
    "case": _case,
    "where": _where,
    **dict.fromkeys(("like", "ilike"), _like),
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
    "log": _log,
    "power": _power,
    "isnan": _on_floats(pc.is_nan),
    "isinf": _on_floats(pc.is_inf),
    "isfinite": _on_floats(_finite),
    "coalesce": _coalesce,
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
