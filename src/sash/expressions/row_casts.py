"""Casts of expressions on Python values."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from sash.expressions.row_numbers import WIDE, UnfitValues, as_datetime, checked, parsed_moment
from sash.expressions.tree import CastNode


def cast_value(value: Any, node: CastNode) -> Any:
    if value is None:
        return None
    try:
        found = _CASTS[node.type.partition("(")[0]](value, node.type)
    except (UnfitValues, TypeError):
        raise TypeError(f"the expression {str(node)!r} converts {value!r}, which cannot be") from None
    except (ValueError, OverflowError, InvalidOperation) as error:
        raise ValueError(f"the expression {str(node)!r} fails for {value!r}: {error}") from None
    return found


def _to_int(value: Any, _type: str) -> int:
    if isinstance(value, float | Decimal):
        value = float(value)
        if not math.isfinite(value):
            raise ValueError("it is no integer")
        value = round(value)
    if not isinstance(value, bool | int | str):
        raise UnfitValues
    return int(checked(int(value)))


def _to_float(value: Any, _type: str) -> float:
    if not isinstance(value, bool | int | float | Decimal | str):
        raise UnfitValues
    return float(value)


def _to_text(value: Any, _type: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise UnfitValues
    return str(value)


def _to_bool(value: Any, _type: str) -> bool:
    if isinstance(value, str):
        words = {"true": True, "false": False, "1": True, "0": False}
        if value.lower() not in words:
            raise ValueError("it is neither true nor false")
        return words[value.lower()]
    if not isinstance(value, bool | int | float):
        raise UnfitValues
    return bool(value)


def _to_date(value: Any, _type: str) -> date:
    value = parsed_moment(value)
    if not isinstance(value, date):
        raise UnfitValues
    return value.date() if isinstance(value, datetime) else value


def _to_timestamp(value: Any, _type: str) -> datetime:
    value = as_datetime(parsed_moment(value))
    if not isinstance(value, datetime):
        raise UnfitValues
    return value


def _to_decimal(value: Any, type_: str) -> Decimal:
    precision, scale = (int(one) for one in type_[len("decimal128(") : -1].split(","))
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise UnfitValues
    found = Decimal(value).quantize(Decimal(1).scaleb(-scale), context=WIDE)
    if len(found.as_tuple().digits) > precision:
        raise ValueError(f"it does not fit {precision} digits")
    return found


_CASTS: dict[str, Callable[[Any, str], Any]] = {
    "int64": _to_int,
    "float64": _to_float,
    "string": _to_text,
    "bool": _to_bool,
    "date32": _to_date,
    "timestamp[us]": _to_timestamp,
    "decimal128": _to_decimal,
}
"""The casts, by the name of the type."""
