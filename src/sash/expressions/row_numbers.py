"""Numbers and moments in expressions on Python values: 64-bit integers, floats of IEEE 754, decimals.

Casts of expressions on Python values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from sash.expressions.tree import CastNode, UnfitOperands

# --- Row numbers ---

_LEAST, _MOST = -(2**63), 2**63 - 1
WIDE = Context(prec=76)


def is_python_number(value: Any) -> bool:
    """Is it an integer, a float or a decimal, and no boolean?"""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def same_kind(*values: Any) -> tuple[Any, ...]:
    """Numbers of one kind: floats if there is one, else decimals if there is one."""
    if not all(map(is_python_number, values)):
        raise UnfitOperands
    if any(isinstance(value, float) for value in values):
        return tuple(map(float, values))
    if any(isinstance(value, Decimal) for value in values):
        return tuple(map(Decimal, values))
    return values


def checked(value: Any) -> Any:
    """The value. Raises ValueError for an integer beyond 64 bits."""
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        raise ValueError("overflow: the integer does not fit 64 bits")
    return value


def python_float(value: Any) -> float:
    if not is_python_number(value):
        raise UnfitOperands
    return float(value)


def strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function return null if an operand is null."""
    return lambda *values: None if any(value is None for value in values) else function(*values)


def plus(sign: int) -> Callable[[Any, Any], Any]:
    """The function a + b, or a - b for a sign of -1."""

    def add(a: Any, b: Any) -> Any:
        if isinstance(a, date | timedelta) or isinstance(b, date | timedelta):
            return _moments(a, b, sign)
        a, b = same_kind(a, b)
        if isinstance(a, Decimal):
            return WIDE.add(a, b) if sign > 0 else WIDE.subtract(a, b)
        return checked(a + b if sign > 0 else a - b)

    return add


def _moments(a: Any, b: Any, sign: int) -> Any:
    a, b = (as_datetime(one) for one in (a, b))
    if isinstance(a, datetime) and isinstance(b, datetime) and sign < 0:
        a, b = same_zone(a, b)
        return a - b
    if isinstance(b, timedelta) and isinstance(a, datetime | timedelta):
        return a + sign * b
    if isinstance(a, timedelta) and isinstance(b, datetime) and sign > 0:
        return b + a
    raise UnfitOperands


def as_datetime(value: Any) -> Any:
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return value


def same_zone(a: datetime, b: datetime) -> tuple[datetime, datetime]:
    """Two moments; one without a zone is in UTC, if the other has one."""
    if (a.tzinfo is None) == (b.tzinfo is None):
        return a, b
    return tuple(one.replace(tzinfo=UTC) if one.tzinfo is None else one for one in (a, b))  # type: ignore[return-value]


def times(a: Any, b: Any) -> Any:
    a, b = same_kind(a, b)
    return WIDE.multiply(a, b) if isinstance(a, Decimal) else checked(a * b)


def divide(a: Any, b: Any) -> Any:
    a, b = python_float(a), python_float(b)
    return None if b == 0 else a / b


def integer_quotient(a: Any, b: Any) -> Any:
    if not all(isinstance(one, int) and not isinstance(one, bool) for one in (a, b)):
        raise UnfitOperands
    if b == 0:
        return None
    quotient = abs(a) // abs(b)
    return checked(quotient if (a < 0) == (b < 0) else -quotient)


def modulo(a: Any, b: Any) -> Any:
    a, b = same_kind(a, b)
    if isinstance(a, int):
        return None if b == 0 else checked(a - integer_quotient(a, b) * b)
    a, b = float(a), float(b)
    if b == 0:
        return None
    return math.nan if math.isinf(a) or a != a or b != b else math.fmod(a, b)


def negated(a: Any) -> Any:
    if isinstance(a, timedelta):
        return -a
    if not is_python_number(a):
        raise UnfitOperands
    return checked(-a)


def rounded(value: Any, digits: int = 0) -> Any:
    if not is_python_number(value):
        raise UnfitOperands
    if isinstance(value, int):
        if digits >= 0:
            return value
        unit = 10**-digits
        size = (abs(value) + unit // 2) // unit * unit
        return checked(size if value >= 0 else -size)
    value = float(value)
    scaled = value * 10.0**digits if digits >= 0 else value / 10.0**-digits
    if not math.isfinite(scaled):
        return value
    found = _half_away(scaled)
    if found == scaled:
        return value
    return found / 10.0**digits if digits > 0 else found * 10.0**-digits


def _half_away(value: float) -> float:
    """The nearest integer; the one further from zero if two are equally near."""
    low = math.floor(value)
    fraction = value - low
    if fraction == 0.5:
        return float(low + 1 if value > 0 else low)
    return float(low + 1 if fraction > 0.5 else low)


def stepped(function: Callable[[float], int]) -> Callable[[Any], Any]:
    def call(value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        value = python_float(value)
        return float(function(value)) if math.isfinite(value) else value

    return call


def sign_of(value: Any) -> Any:
    if not is_python_number(value):
        raise UnfitOperands
    found = value if value != value else (value > 0) - (value < 0)
    return found if isinstance(value, int) else float(found)


def guarded(function: Callable[..., float], on_zero: float = math.nan) -> Callable[..., float]:
    """A function of floats, with IEEE's results where Python raises."""

    def call(*values: Any) -> float:
        floats = [python_float(value) for value in values]
        try:
            found = function(*floats)
            return found if isinstance(found, float) else math.nan
        except OverflowError:
            return math.inf
        except (ValueError, ZeroDivisionError):
            return on_zero if floats[-1] == 0 else math.nan

    return call


def power(a: Any, b: Any) -> float:
    a, b = python_float(a), python_float(b)
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf
    except ValueError:
        if a == 0:
            return math.copysign(math.inf, a) if b % 2 == 1 else math.inf
        return math.nan


def logarithm(base: Any, value: Any) -> float:
    over, under = natural_log(value), natural_log(base)
    if under == 0:
        return math.nan if over == 0 or over != over else math.copysign(math.inf, over)
    return over / under


natural_log = guarded(math.log, -math.inf)


def parsed_moment(value: Any) -> Any:
    """Text as the moment that it names."""
    return datetime.fromisoformat(value) if isinstance(value, str) else value


# --- Row casts ---


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
