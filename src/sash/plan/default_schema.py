"""The schema that `explain` assumes if none is given.

Each column gets the simplest type that all its readers admit: the time column is a timestamp if a size or other length
is a duration, else an integer; an aggregate's input is a float unless the aggregate needs text, booleans or integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sash.monoids.algebra import Domain
from sash.plan.derived_columns import inputs_of
from sash.plan.halflife import halflife_of
from sash.plan.type_guess import guess_types
from sash.plan.types import domains
from sash.windows.duration import Duration
from sash.windows.slide_policy import Policy
from sash.windows.specs import Delta, Punctuation

if TYPE_CHECKING:
    import pyarrow as pa

    from sash.plan.query import Query

_NARROW: tuple[Domain, ...] = ("any", "hashable", "ordered", "number", "int", "bool", "text")
_TYPES: dict[Domain, str] = {"int": "int64", "bool": "bool", "text": "string"}


def default_schema(query: Query) -> pa.Schema:
    """A schema on which the query could run, with the columns that it names."""
    import pyarrow as pa

    asked: dict[str, list[Domain]] = {}
    fixed: dict[str, Any] = dict.fromkeys(query.by, pa.string())
    overs = [bound for window in query.all_windows.values() if isinstance(window, Policy) for bound in window.over]
    bounds = [*(leaf for one in query.aggregates.values() for leaf in one.leaves()), *overs]
    for bound in bounds:
        for column, domain in zip(bound.columns, domains(bound.monoid, len(bound.columns)), strict=True):
            if isinstance(column, str):
                asked.setdefault(column, []).append(domain)
    for column, needed in asked.items():
        fixed[column] = pa.type_for_alias(_TYPES.get(max(needed, key=_NARROW.index), "float64"))
    for window in query.all_windows.values():
        if isinstance(window, Delta):
            fixed[window.column] = pa.timestamp("us") if isinstance(window.size, Duration) else pa.float64()
        if isinstance(window, Punctuation):
            fixed[window.column] = pa.bool_()
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
    import pyarrow as pa

    lengths = [query.lateness, query.forget, query.ahead]
    leaves = [leaf for aggregated in query.aggregates.values() for leaf in aggregated.leaves()]
    lengths += [halflife_of(leaf.monoid, repr(leaf)) for leaf in leaves]
    for window in query.all_windows.values():
        lengths += [window.step, getattr(window, "gap", None)]
        lengths += [getattr(window, "size", None)] if window.measured else []
    durations = [one for one in lengths if isinstance(one, Duration)]
    if durations:
        return pa.timestamp("us" if all(not one.nanoseconds % 1000 for one in durations) else "ns")
    numbers = [one for one in lengths if isinstance(one, float)]
    return pa.float64() if numbers else pa.int64()
