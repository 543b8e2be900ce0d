"""Compute an expression on Arrow arrays, node by node; `arrow_functions.py` has the operators and functions.

Types are checked by computing on arrays without rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.types as is_

from sash.expressions.arrow_functions import CALLS, Datum, as_array, cast_values
from sash.expressions.tree import CHAINS, CallNode, CastNode, ColumnNode, LiteralNode, Node, UnfitOperands, outermost

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


def chosen_rows(tree: Node, column: ReadColumn, rows: int, label: str) -> pa.Array:
    """Is a condition true, for each row? Null counts as false; `label` names the condition in errors.

    Raises ValueError for an expression that is neither true nor false, and as `evaluated`.
    """
    found = evaluated(tree, column, rows)
    if not is_.is_boolean(found.type):
        raise ValueError(f"{label} is of type {found.type}; it must be true or false")
    return found.fill_null(False)


def failing_rows(tree: Node, column: ReadColumn, rows: int) -> dict[int, str]:
    """The rows on which an expression fails, with the errors."""
    names = tuple(dict.fromkeys(tree.columns()))
    what = f"the expression {outermost(str(tree))!r} fails"
    return {row: f"{what}{_values(names, column, row)}: {error}" for row, error in _failing(tree, column, rows)}


def _failing(tree: Node, column: ReadColumn, rows: int) -> Iterator[tuple[int, Exception]]:
    """The rows on which an expression fails, in order: found by halving, so that few of them cost little."""
    parts = [(0, rows)] if rows else []
    while parts:
        low, high = parts.pop()
        try:
            _value(tree, lambda name, a=low, b=high: column(name).slice(a, b - a))  # type: ignore[misc]
        except pa.ArrowInvalid as error:
            middle = (low + high) // 2
            if high - low > 1:
                parts += [(middle, high), (low, middle)]
            else:
                yield low, error


def unchecked(tree: Node, column: ReadColumn, rows: int) -> pa.Array:
    """The values of an expression for each row. Raises Arrow's own error for a value that does not fit."""
    return as_array(_value(tree, column), rows)


def _failure(tree: Node, column: ReadColumn, rows: int, error: Exception) -> ValueError:
    """The error of the first row that fails."""
    if not rows:
        return ValueError(f"the expression {outermost(str(tree))!r} cannot be computed: {error}")
    row, found = next(_failing(tree, column, rows), (0, error))
    where = f" at row {row}{_values(tuple(dict.fromkeys(tree.columns())), column, row, ', ')}"
    return ValueError(f"the expression {outermost(str(tree))!r} fails{where}: {found}")


def _values(names: Sequence[str], column: ReadColumn, row: int, start: str = " at ") -> str:
    values = ", ".join(f"{name}={column(name)[row].as_py()!r}" for name in names)
    return start + values if values else ""


def _value(node: Node, column: ReadColumn) -> Datum:
    if isinstance(node, ColumnNode):
        return column(node.name)
    if isinstance(node, LiteralNode):
        return _literal(node)
    if isinstance(node, CastNode):
        return cast_values(_value(node.value, column), node)
    assert isinstance(node, CallNode)
    if node.function not in CHAINS:
        return _called(node, [_value(one, column) for one in node.arguments])
    found = _value(node.arguments[0], column)
    for i, one in enumerate(node.arguments[1:], 1):
        found = _called(node, [found, _value(one, column)], i)
    return found


def _called(node: CallNode, operands: list[Datum], place: int = 1) -> Datum:
    """A call on its operands, or the step of a chain that adds its operand at a place."""
    try:
        return CALLS[node.function](node, operands)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError, UnfitOperands):
        raise _mismatch(node.step(place), operands) from None


def _literal(node: LiteralNode) -> pa.Scalar:
    if node.kind == "null":
        return pa.scalar(None, pa.null())
    kinds = {"timestamp": pa.timestamp("us"), "interval": pa.duration("us")}
    return pa.scalar(node.value, kinds.get(node.kind))


def _mismatch(node: CallNode, operands: Sequence[Datum]) -> TypeError:
    pairs = zip(node.arguments, operands, strict=True)
    given = " and ".join(f"{outermost(str(one))} of type {value.type}" for one, value in pairs)
    remedy = "; for conditions write OR" if node.function == "||" else ""
    return TypeError(f"{node.function!r} in the expression {outermost(str(node))!r} does not take {given}{remedy}")
