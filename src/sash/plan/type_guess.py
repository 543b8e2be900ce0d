"""Guess the types of columns in expressions, from the operators and literals beside them: for `explain` alone."""

from __future__ import annotations

from typing import Any

from sash.expressions.tree import CallNode, CastNode, ColumnNode, LiteralNode, Node

_NUMBERS = ("+", "-", "*", "/", "//", "%", "negate", "abs", "sign", "round", "floor", "ceil", "sqrt", "exp", "ln")
_FLOATS = ("log", "log2", "log10", "power", "isnan", "isinf", "isfinite")
_TEXTS = (
    "like",
    "ilike",
    "||",
    "concat",
    "upper",
    "lower",
    "trim",
    "ltrim",
    "rtrim",
    "length",
    "substr",
    "starts_with",
)
_TIMES = ("year", "quarter", "month", "day", "dow", "hour", "minute", "second", "epoch")
_OPERANDS = {
    **dict.fromkeys((*_NUMBERS, *_FLOATS), "double"),
    **dict.fromkeys(_TEXTS, "string"),
    **dict.fromkeys(_TIMES, "timestamp[us]"),
    **dict.fromkeys(("and", "or", "not"), "bool"),
}
"""The type of operands, by function."""

_LITERALS = {"bool": "bool", "text": "string", "date": "timestamp[us]", "timestamp": "timestamp[us]"}


def guess_types(tree: Node, wanted: str, found: dict[str, Any]) -> None:
    """Add a type for each column of the tree to `found`, unless there is one; the tree's own should be `wanted`."""
    if isinstance(tree, ColumnNode):
        found.setdefault(tree.name, wanted)
    elif isinstance(tree, CastNode):
        guess_types(tree.value, "double", found)
    elif isinstance(tree, CallNode):
        for place, operand in enumerate(tree.arguments):
            guess_types(operand, _wanted(tree, place, wanted), found)


def _wanted(tree: CallNode, place: int, wanted: str) -> str:
    """The type that an operand of a call should have."""
    if tree.function in _OPERANDS:
        return _OPERANDS[tree.function]
    if (tree.function == "where" and place == 1) or (
        tree.function == "case" and place % 2 == 0 and place < len(tree.arguments) - 1
    ):
        return "bool"
    if tree.function in ("case", "where"):
        return wanted
    near = [_LITERALS.get(one.kind) for one in tree.arguments if isinstance(one, LiteralNode)]
    near += [_result(one) for one in tree.arguments if isinstance(one, CallNode)]
    compares = tree.function in ("=", "<>", "<", "<=", ">", ">=", "is null")
    return next((kind for kind in near if kind is not None), "double" if compares else wanted)


def _result(tree: CallNode) -> str | None:
    if tree.function in ("upper", "lower", "trim", "ltrim", "rtrim", "substr", "concat", "||"):
        return "string"
    return "timestamp[us]" if tree.function in ("+", "-") and _has_interval(tree) else None


def _has_interval(tree: CallNode) -> bool:
    return any(isinstance(one, LiteralNode) and one.kind == "interval" for one in tree.arguments)
