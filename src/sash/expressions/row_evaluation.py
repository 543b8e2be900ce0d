"""Compute an expression on one row of Python values: for windows in a loop, and to test the computation by Arrow.

It follows the definitions: SQL's three-valued logic, 64-bit integers, floats of IEEE 754.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sash.expressions.row_numbers import (
    as_datetime,
    cast_value,
    checked,
    divide,
    guarded,
    integer_quotient,
    is_python_number,
    logarithm,
    modulo,
    natural_log,
    negated,
    parsed_moment,
    plus,
    power,
    python_float,
    rounded,
    same_kind,
    same_zone,
    sign_of,
    stepped,
    strict,
    times,
)
from sash.expressions.tree import CHAINS, CallNode, CastNode, ColumnNode, LiteralNode, Node, UnfitOperands, outermost

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
