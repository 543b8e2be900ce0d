"""Derived columns: inputs of an aggregate that are expressions, or columns under a condition.

    sum(expr("price * qty"), where="ok")      price * qty where ok      null where the condition does not hold
    count(where="ok")                         true where ok             the rows that count

Derived columns are computed where an aggregate reads its inputs, from the columns of a batch: neither buffers nor pages
nor results have them. Their names are the normalised texts of their expressions, so that a fingerprint has them.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

from sash.expressions.tree import CallNode, CastNode, ColumnNode, Expr, LiteralNode, Node, outermost
from sash.monoids.algebra import Bound

if TYPE_CHECKING:
    import pyarrow as pa

FALLIBLE = frozenset(("+", "-", "*", "//", "%", "negate", "abs", "round"))
"""The functions that fail for some integers: those whose result does not fit 64 bits."""


def inputs_of(bound: Bound) -> tuple[Node, ...]:
    """The inputs of an aggregate as trees. A condition makes one of them null in other rows.

    That is an input whose nulls are skipped; an aggregate that counts null rows, such as `lag`, counts these, too.
    """
    trees: list[Node] = [one.tree if isinstance(one, Expr) else ColumnNode(one) for one in bound.columns]
    if bound.condition is None:
        return tuple(trees)
    if not trees:
        return (CallNode("where", (LiteralNode("bool", True), bound.condition.tree)),)
    place = next((place for place in range(len(trees)) if place not in bound.monoid.nullable), 0)
    trees[place] = CallNode("where", (trees[place], bound.condition.tree))
    return tuple(trees)


def input_names(trees: tuple[Node, ...], taken: Container[str]) -> tuple[str, ...]:
    """The names of inputs: of a column its own, of a derived one its text, which no column of the data has."""
    names = []
    for tree in trees:
        if isinstance(tree, ColumnNode):
            names.append(tree.name)
            continue
        name = outermost(str(tree))
        while name in taken:
            name += " "
        names.append(name)
    return tuple(names)


def source_column(tree: Node) -> str | None:
    """The column whose values an input has, unchanged or under a condition; None for any other."""
    if isinstance(tree, CallNode) and tree.function == "where":
        return source_column(tree.arguments[0])
    return tree.name if isinstance(tree, ColumnNode) else None


def is_fallible(tree: Node) -> bool:
    """May the expression fail for some values?"""
    fails = isinstance(tree, CastNode) or (isinstance(tree, CallNode) and tree.function in FALLIBLE)
    return fails or any(map(is_fallible, tree.parts))


def derived_type(tree: Node, column: Callable[[str], pa.DataType], label: str) -> pa.DataType:
    """The type of a derived column, found by computing it without rows.

    `column` gives the types of columns. Raises TypeError, naming the aggregate, if operands do not fit.
    """
    import pyarrow as pa

    from sash.expressions.arrow_evaluation import evaluated

    def empty(name: str) -> Any:
        return pa.nulls(0, column(name))

    try:
        if isinstance(tree, CallNode) and tree.function == "where":
            found = evaluated(tree.arguments[1], empty, 0).type
            if not (pa.types.is_boolean(found) or pa.types.is_null(found)):
                text = outermost(str(tree.arguments[1]))
                raise TypeError(f"where= must be true or false, and {text!r} is of type {found}: compare it")
        found = evaluated(tree, empty, 0).type
    except (TypeError, ValueError) as error:
        raise TypeError(f"{label}: {error}") from None
    if pa.types.is_null(found):
        raise TypeError(
            f"{label}: the expression {outermost(str(tree))!r} is always null: cast it, as in cast(… as double)"
        )
    return found
