"""Sums, differences and products of decimals on Arrow arrays: exact, with at most 38 digits."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_

from sash.expressions.arrow_types import Datum, cast_to, common_type
from sash.expressions.tree import UnfitOperands

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
