"""Derived columns: inputs of an aggregate that are expressions, or columns under a condition.

    sum(expr("price * qty"), where="ok")      price * qty where ok      null where the condition does not hold
    count(where="ok")                         true where ok             the rows that count

Derived columns are computed where an aggregate reads its inputs, from the columns of a batch: neither buffers nor
pages
nor results have them. Their names are the normalised texts of their expressions, so that a fingerprint has them.

Which parts of a query may raise an exception, for a row or for a result.

                      lift                          lower
    ours              never                         integers, decimals, durations whose sum, range, … overflows
    a user's          may                           may

Expressions fail for integers that overflow and for casts (`derived_columns.is_fallible`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any

from sash.expressions.tree import CallNode, CastNode, ColumnNode, Expr, LiteralNode, Node, outermost
from sash.monoids.algebra import Bound, Monoid
from sash.monoids.custom import Custom
from sash.monoids.direct_product import DirectProduct
from sash.monoids.null_rows import NullRows

if TYPE_CHECKING:
    import pyarrow as pa

    from sash.plan.bound_query import BoundQuery
    from sash.plan.query import Query


# --- Derived columns ---

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


# --- Fallible ---

OVERFLOWING = frozenset(("sum", "sum_of_squares", "product", "range", "mean", "delta", "longest_run"))
"""The names of our aggregates whose results may leave the range of their type, except those of floats."""


def lift_may_fail(monoid: Monoid) -> bool:
    """May `lift` raise an exception on values of the types that it accepts?"""
    inner = monoid.of if isinstance(monoid, NullRows) else monoid
    of_ours = type(inner).__module__.startswith("sash.monoids.")
    return not of_ours or isinstance(inner, Custom | DirectProduct)


def lower_may_fail(monoid: Monoid, types: Sequence[pa.DataType]) -> bool:
    """May `lower` raise an exception on columns of these types?"""
    import pyarrow.types as is_

    if lift_may_fail(monoid):
        return True
    return monoid.name in OVERFLOWING and not all(map(is_.is_floating, types))


def may_fail(bound_query: BoundQuery) -> bool:
    """May a row or a result of a query fail?"""
    specs = bound_query.aggregates
    trees = [tree for spec in specs for tree in spec.trees]
    trees += [output.tree for output in bound_query.projection.outputs if output.tree is not None]
    return any(lower_may_fail(spec.monoid, spec.types) for spec in specs) or any(map(is_fallible, trees))


def may_reject_rows(query: Query) -> bool:
    """May a row fail, and then enter no window?"""
    if query.options.failed != "side":
        return False
    bounds = [bound for aggregate in query.aggregates.values() for bound in aggregate.leaves()]
    return any(lift_may_fail(bound.monoid) or any(map(is_fallible, inputs_of(bound))) for bound in bounds)
