"""Which parts of a query may raise an exception, for a row or for a result.

                      lift                          lower
    ours              never                         integers, decimals, durations whose sum, range, … overflows
    a user's          may                           may

Expressions fail for integers that overflow and for casts (`derived_columns.is_fallible`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sash.monoids.algebra import Monoid
from sash.monoids.custom import Custom
from sash.monoids.direct_product import DirectProduct
from sash.monoids.null_rows import NullRows
from sash.plan.derived_columns import inputs_of, is_fallible

if TYPE_CHECKING:
    import pyarrow as pa

    from sash.plan.bound_query import BoundQuery
    from sash.plan.query import Query

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
