"""Casts of expressions on Python values."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from sash.expressions.row_numbers import WIDE, as_datetime, checked, parsed_moment
from sash.expressions.tree import CastNode, UnfitOperands


def cast_value(value: Any, node: CastNode) -> Any:
    """The value converted to the type of a cast. Raises TypeError or ValueError, naming the value, if it cannot be."""
    if value is None:
        return None
    try:
        if node.type.startswith("decimal128"):
            return _to_decimal(value, *node.decimal_digits)
        return _CASTS[node.type](value)
    except (UnfitOperands, TypeError):
        raise TypeError(f"the expression {str(node)!r} cannot convert {value!r}") from None
    except (ValueError, OverflowError, InvalidOperation) as error:
        raise ValueError(f"the expression {str(node)!r} fails for {value!r}: {error}") from None


def _to_int(value: Any) -> int:
    if isinstance(value, float | Decimal):
        value = float(value)
        if not math.isfinite(value):
            raise ValueError("it is not an integer")
        value = round(value)
    if not isinstance(value, bool | int | str):
        raise UnfitOperands
    return int(checked(int(value)))


def _to_float(value: Any) -> float:
    if not isinstance(value, bool | int | float | Decimal | str):
        raise UnfitOperands
    return float(value)


def _to_text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise UnfitOperands
    return str(value)


def _to_bool(value: Any) -> bool:
    if isinstance(value, str):
        words = {"true": True, "false": False, "1": True, "0": False}
        if value.lower() not in words:
            raise ValueError("it is neither true nor false")
        return words[value.lower()]
    if not isinstance(value, bool | int | float):
        raise UnfitOperands
    return bool(value)


def _to_date(value: Any) -> date:
    value = parsed_moment(value)
    if not isinstance(value, date):
        raise UnfitOperands
    return value.date() if isinstance(value, datetime) else value


def _to_timestamp(value: Any) -> datetime:
    value = as_datetime(parsed_moment(value))
    if not isinstance(value, datetime):
        raise UnfitOperands
    return value


def _to_decimal(value: Any, precision: int, scale: int) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise UnfitOperands
    found = Decimal(value).quantize(Decimal(1).scaleb(-scale), context=WIDE)
    if len(found.as_tuple().digits) > precision:
        raise ValueError(f"it does not fit {precision} digits")
    return found


_CASTS: dict[str, Callable[[Any], Any]] = {
    "int64": _to_int,
    "float64": _to_float,
    "string": _to_text,
    "bool": _to_bool,
    "date32": _to_date,
    "timestamp[us]": _to_timestamp,
}
"""The casts, by the name of the type, except those to decimal."""
