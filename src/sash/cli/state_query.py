"""Rebuild the query that wrote a state from the description in its root page, which is parsed and never executed."""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from sash.cli.job_query import WINDOWS
from sash.expressions.parser import expr
from sash.monoids import functions
from sash.monoids.arithmetic import Aggregated
from sash.plan.query import Query

OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def described_query(described: Mapping[str, Any], schema: pa.Schema, fingerprint: str) -> Query | None:
    """The query of a description, if it is the one that wrote the state; None if the description is not complete.

    A description has no functions: for user-defined aggregates, the query itself is needed.
    """
    try:
        given = {name: _value(described[name]) for name in ("lateness", "forget", "min_periods") if described.get(name)}
        aggregates = {name: _aggregate(text) for name, text in described["aggregates"].items()}
        query = Query(_windows(described), by=described["by"], on=described["on"] or None, **given, **aggregates)
        return query if query.bind(schema).fingerprint == fingerprint else None
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        RecursionError,
        SyntaxError,
        TypeError,
        ValueError,
    ):
        return None


def _windows(described: Mapping[str, Any]) -> Any:
    """The windows of the query: one, several by name, or none if each aggregate has its own."""
    found = {}
    for name, window in described["windows"].items():
        arguments = {key: _value(text) for key, text in window.items() if key != "kind"}
        found[name] = WINDOWS[window["kind"]](**arguments)
    if "" in found:
        return found[""]
    own = {f"{window!r}" for window in found.values()}
    named = {name: window for name, window in found.items() if name not in own}
    return named or None


def _value(text: str) -> Any:
    """A parameter as it was given: a number, true or false, or text."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _aggregate(text: str) -> Any:
    """An aggregate such as "quantile('x') with q=0.9"."""
    call, _, parameters = text.partition(" with ")
    given = {}
    for parameter in parameters.split(", ") if parameters else []:
        name, _, value = parameter.partition("=")
        given[name] = _value(value)
    return _evaluated(ast.parse(call, mode="eval").body, given)


def _operand(node: ast.expr, more: Mapping[str, Any]) -> Any:
    """An operand of a formula: an aggregate or a number; texts and lists could be repeated until memory is full."""
    found = _evaluated(node, more)
    if not isinstance(found, Aggregated | int | float):
        raise ValueError(f"{ast.unparse(node)} is not an operand")
    return found


def _evaluated(node: ast.expr, more: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](_operand(node.left, more), _operand(node.right, more))
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    values = [_evaluated(one, {}) for one in node.args]
    named = {str(one.arg): _evaluated(one.value, {}) for one in node.keywords}
    if isinstance(node.func, ast.Attribute) and node.func.attr == "over":
        return _evaluated(node.func.value, more).over(*values)
    if not isinstance(node.func, ast.Name):
        raise ValueError(f"{ast.unparse(node.func)} is not a name")
    name = node.func.id
    if name == "expr":
        return expr(*values)
    if name in WINDOWS:
        return WINDOWS[name](*values, **named)
    if name.startswith("_"):
        raise ValueError(f"{name} is not an aggregate")
    return getattr(functions, name)(*values, **named, **more)
