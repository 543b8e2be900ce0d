"""Compute an expression on one row of Python values: for windows in a loop, and to test the computation by Arrow.

It follows the definitions: SQL's three-valued logic, 64-bit integers, floats of IEEE 754, decimals.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from sash.expressions.tree import CHAINS, CallNode, CastNode, ColumnNode, LiteralNode, Node, UnfitOperands, outermost

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


# --- Row evaluation ---


_EPOCH = datetime(1970, 1, 1)


def row_value(tree: Node, read: Callable[[str], Any]) -> Any:
    """The value of an expression for one row, whose columns `read` gives by name.

    Raises TypeError, naming the values, for operands that do not fit, and ValueError for an integer overflow and for
    text that is no number.
    """
    if isinstance(tree, ColumnNode):
        return _plain(read(tree.name))
    if isinstance(tree, LiteralNode):
        return tree.value
    if isinstance(tree, CastNode):
        return cast_value(row_value(tree.value, read), tree)
    assert isinstance(tree, CallNode)
    if tree.function in _LOGIC:
        return _LOGIC[tree.function](tree.arguments, read)
    values = [row_value(one, read) for one in tree.arguments]
    if tree.function not in CHAINS:
        return _called(tree, values)
    found = values[0]
    for i, value in enumerate(values[1:], 1):
        found = _called(tree, [found, value], i)
    return found


def _called(call: CallNode, values: list[Any], place: int = 1) -> Any:
    """A call on its operands, or the step of a chain that adds its operand at a place."""
    try:
        return _CALLS[call.function](*values)
    except UnfitOperands:
        tree = call.step(place)
        given = " and ".join(f"{value!r}, a {type(value).__name__}" for value in values)
        remedy = "; for conditions write OR" if tree.function == "||" else ""
        raise TypeError(
            f"{tree.function!r} in the expression {outermost(str(tree))!r} does not take {given}{remedy}"
        ) from None
    except ValueError as error:
        raise ValueError(f"the expression {outermost(str(call.step(place)))!r} fails: {error}") from None


def _plain(value: Any) -> Any:
    """A value of NumPy as one of Python."""
    item = getattr(value, "item", None)
    return item() if item is not None and type(value).__module__ == "numpy" else value


# ---- comparison and logic ----


def comparable(a: Any, b: Any) -> tuple[Any, Any]:
    """Two values in forms that Python compares as SQL does. Raises UnfitOperands if they cannot be compared."""
    if is_python_number(a) and is_python_number(b):
        return same_kind(a, b)
    if isinstance(a, date) or isinstance(b, date):
        a, b = (as_datetime(parsed_moment(one)) for one in (a, b))
        if not (isinstance(a, datetime) and isinstance(b, datetime)):
            raise UnfitOperands
        return same_zone(a, b)
    if type(a) is not type(b):
        raise UnfitOperands
    return a, b


def _compared(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    return strict(lambda a, b: bool(test(*comparable(a, b))))


def _bool(node: Node, read: Callable[[str], Any]) -> bool | None:
    value = row_value(node, read)
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"{outermost(str(node))!r} must be true or false; got {value!r}, a {type(value).__name__}")
    return value


def _and(nodes: Sequence[Node], read: Callable[[str], Any]) -> bool | None:
    values = [_bool(node, read) for node in nodes]
    return False if False in values else None if None in values else True


def _or(nodes: Sequence[Node], read: Callable[[str], Any]) -> bool | None:
    values = [_bool(node, read) for node in nodes]
    return True if True in values else None if None in values else False


def _not(nodes: Sequence[Node], read: Callable[[str], Any]) -> bool | None:
    a = _bool(nodes[0], read)
    return None if a is None else not a


def _case(nodes: Sequence[Node], read: Callable[[str], Any]) -> Any:
    values = [row_value(node, read) for node in [*nodes[1:-1:2], nodes[-1]]]
    taken = next((i for i, on in enumerate(nodes[:-1:2]) if _bool(on, read)), len(values) - 1)
    return _alike(values)[taken]


def _alike(values: Sequence[Any]) -> list[Any]:
    """Values in one kind: with a float among them, numbers are floats."""
    some = [value for value in values if value is not None]
    if some and all(map(is_python_number, some)):
        numbers = iter(same_kind(*some))
        return [None if value is None else next(numbers) for value in values]
    return list(values)


def _nullif(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return a
    return None if operator.eq(*comparable(a, b)) else _alike([a, b])[0]


def _extreme(pick: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        some = [value for value in _alike(values) if value is not None]
        nans = [value for value in some if value != value]
        for value in some[1:]:
            comparable(some[0], value)
        return nans[0] if nans else pick(some) if some else None

    return call


# ---- texts and times ----


def _on_text(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(value: Any, *more: Any) -> Any:
        if not isinstance(value, str):
            raise UnfitOperands
        return function(value, *more)

    return strict(call)


def _pattern(flags: int) -> Callable[[str, str], bool]:
    def matches(value: str, pattern: str) -> bool:
        parts, escaped = [], False
        for letter in pattern:
            if escaped:
                parts.append(re.escape(letter))
                escaped = False
            elif letter == "\\":
                escaped = True
            else:
                parts.append({"%": ".*", "_": "."}.get(letter, re.escape(letter)))
        return re.fullmatch("".join(parts), value, re.DOTALL | flags) is not None

    return matches


def _concat(*values: Any) -> str:
    if not all(value is None or isinstance(value, str) for value in values):
        raise UnfitOperands
    return "".join(value for value in values if value is not None)


def _join(a: Any, b: Any) -> Any:
    if not (isinstance(a, str) and isinstance(b, str)):
        raise UnfitOperands
    return a + b


def _field(function: Callable[[datetime], int]) -> Callable[[Any], Any]:
    def call(value: Any) -> int:
        if not isinstance(value, date):
            raise UnfitOperands
        return function(as_datetime(value))

    return strict(call)


def _epoch(value: Any) -> float:
    if not isinstance(value, date):
        raise UnfitOperands
    moment = as_datetime(value)
    return float((moment - _EPOCH.replace(tzinfo=moment.tzinfo and UTC)) / timedelta(seconds=1))


_LOGIC: dict[str, Callable[[Sequence[Node], Callable[[str], Any]], Any]] = {
    "and": _and,
    "or": _or,
    "not": _not,
    "case": _case,
    "where": lambda nodes, read: row_value(nodes[0], read) if _bool(nodes[1], read) else None,
}

_CALLS: dict[str, Callable[..., Any]] = {
    "+": strict(plus(1)),
    "-": strict(plus(-1)),
    "*": strict(times),
    "/": strict(divide),
    "//": strict(integer_quotient),
    "%": strict(modulo),
    "negate": strict(negated),
    "=": _compared(operator.eq),
    "<>": _compared(operator.ne),
    "<": _compared(operator.lt),
    "<=": _compared(operator.le),
    ">": _compared(operator.gt),
    ">=": _compared(operator.ge),
    "is null": lambda value: value is None,
    "like": _on_text(_pattern(0)),
    "ilike": _on_text(_pattern(re.IGNORECASE)),
    "||": strict(_join),
    "concat": _concat,
    "abs": strict(lambda value: checked(abs(same_kind(value)[0]))),
    "sign": strict(sign_of),
    "round": strict(rounded),
    "floor": strict(stepped(math.floor)),
    "ceil": strict(stepped(math.ceil)),
    "sqrt": strict(guarded(math.sqrt)),
    "exp": strict(guarded(math.exp)),
    "ln": strict(natural_log),
    "log2": strict(guarded(math.log2, -math.inf)),
    "log10": strict(guarded(math.log10, -math.inf)),
    "log": strict(logarithm),
    "power": strict(power),
    "isnan": strict(lambda value: math.isnan(python_float(value))),
    "isinf": strict(lambda value: math.isinf(python_float(value))),
    "isfinite": strict(lambda value: math.isfinite(python_float(value))),
    "coalesce": lambda *values: next((value for value in _alike(values) if value is not None), None),
    "nullif": _nullif,
    "greatest": _extreme(max),
    "least": _extreme(min),
    "upper": _on_text(str.upper),
    "lower": _on_text(str.lower),
    "trim": _on_text(lambda value: value.strip(" ")),
    "ltrim": _on_text(lambda value: value.lstrip(" ")),
    "rtrim": _on_text(lambda value: value.rstrip(" ")),
    "length": _on_text(len),
    "substr": _on_text(lambda value, at, count=None: value[at - 1 : None if count is None else at - 1 + count]),
    "starts_with": _on_text(lambda value, prefix: value.startswith(prefix)),
    "year": _field(lambda value: value.year),
    "quarter": _field(lambda value: (value.month + 2) // 3),
    "month": _field(lambda value: value.month),
    "day": _field(lambda value: value.day),
    "dow": _field(lambda value: value.isoweekday() % 7),
    "hour": _field(lambda value: value.hour),
    "minute": _field(lambda value: value.minute),
    "second": _field(lambda value: value.second),
    "epoch": strict(_epoch),
}
"""The operators and functions by name."""
