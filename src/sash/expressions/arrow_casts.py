"""Casts of expressions on Arrow arrays."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_

from sash.expressions.arrow_types import Datum, as_float, cast_to, is_number, is_text_type
from sash.expressions.tree import CastNode, UnfitOperands, outermost


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
