"""The schema that `explain` assumes if none is given.

Each column gets the simplest type that all its readers admit: the time column is a timestamp if a size or other length
is a duration, else an integer; an aggregate's input is a float unless the aggregate needs text, booleans or integers.

Guess the types of columns in expressions, from the operators and literals beside them: for `explain` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sash.expressions.tree import CallNode, CastNode, ColumnNode, LiteralNode, Node
from sash.monoids.algebra import Domain
from sash.plan.derived_columns import inputs_of
from sash.plan.types import domains
from sash.plan.validation import halflife_of
from sash.windows.duration import Duration

if TYPE_CHECKING:
    from sash.plan.query import Query


# --- Type guess ---

_NUMBERS = ("+", "-", "*", "/", "//", "%", "negate", "abs", "sign", "round", "floor", "ceil", "sqrt", "exp", "ln")
_FLOATS = ("log", "log2", "log10", "power", "isnan", "isinf", "isfinite")
_TEXTS = (
    "like", "ilike", "||", "concat", "upper", "lower", "trim", "ltrim", "rtrim", "length", "substr", "starts_with",
)  # fmt: skip
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
    has_interval = any(isinstance(one, LiteralNode) and one.kind == "interval" for one in tree.arguments)
    return "timestamp[us]" if tree.function in ("+", "-") and has_interval else None


# --- Default schema ---

_NARROW: tuple[Domain, ...] = ("any", "hashable", "ordered", "number", "int", "bool", "text")
_TYPES: dict[Domain, str] = {"int": "int64", "bool": "bool", "text": "string"}


def default_schema(query: Query) -> pa.Schema:
    """A schema on which the query could run, with the columns that it names."""
    asked: dict[str, list[Domain]] = {}
    fixed: dict[str, Any] = dict.fromkeys(query.by, pa.string())
    overs = [bound for window in query.all_windows.values() for bound in window.decides_by]
    bounds = [*(leaf for one in query.aggregates.values() for leaf in one.leaves()), *overs]
    for bound in bounds:
        for column, domain in zip(bound.columns, domains(bound.monoid, len(bound.columns)), strict=True):
            if isinstance(column, str):
                asked.setdefault(column, []).append(domain)
    for column, needed in asked.items():
        fixed[column] = pa.type_for_alias(_TYPES.get(max(needed, key=_NARROW.index), "float64"))
    for window in query.all_windows.values():
        if window.reads is not None:
            values = pa.timestamp("us") if isinstance(window.length, Duration) else pa.float64()
            fixed[window.reads] = pa.bool_() if window.is_marked else values
    for column in query.on[1:]:
        fixed.setdefault(column, pa.int64())
    if query.on:
        fixed[query.on[0]] = _time(query)
    guessed: dict[str, Any] = {}
    for bound in bounds:
        for tree, domain in zip(inputs_of(bound), bound.monoid.domain, strict=False):
            guess_types(tree, _TYPES.get(domain, "double"), guessed)
    fixed |= {name: pa.type_for_alias(kind) for name, kind in guessed.items() if name not in fixed}
    return pa.schema(list(fixed.items()))


def _time(query: Query) -> pa.DataType:
    lengths = [query.lateness, query.forget, query.ahead]
    leaves = [leaf for aggregated in query.aggregates.values() for leaf in aggregated.leaves()]
    lengths += [halflife_of(leaf.monoid, repr(leaf)) for leaf in leaves]
    for window in query.all_windows.values():
        lengths += [window.step, window.length if window.unit == "time" else None]
    durations = [one for one in lengths if isinstance(one, Duration)]
    if durations:
        return pa.timestamp("us" if all(not one.nanoseconds % 1000 for one in durations) else "ns")
    numbers = [one for one in lengths if isinstance(one, float)]
    return pa.float64() if numbers else pa.int64()
