"""The decorator of the functions that bind aggregates to columns.

It registers the aggregate, and turns Python's errors about arguments into errors that name columns and parameters.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from sash.expressions.tree import Expr
from sash.monoids.algebra import Bound, ColumnLike, Condition, Monoid
from sash.monoids.synonyms import parameter_advice

AGGREGATES: dict[str, type[Monoid]] = {}
"""Every built-in aggregate, by the name of its function."""

F = TypeVar("F", bound=Callable[..., Bound])


def binds(aggregate: type[Monoid]) -> Callable[[F], F]:
    """Register a function as the one that binds this aggregate. Its signature stays visible to type checkers.

    `where=` is handled here for all of them: a function declares it for type checkers and `help`, and need not use it.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def bind(*columns: ColumnLike, where: Condition = None, **given: Any) -> Bound:
            try:
                signature.bind(*columns, **given)
            except TypeError:
                _require_columns(function.__name__, signature, columns)
                _require_parameters(function.__name__, signature, given)
                return aggregate(**given)(*columns)  # raises an error that names the columns
            bound = function(*columns, **given)
            return bound if where is None else Bound(bound.monoid, bound.columns, where)

        AGGREGATES[function.__name__] = aggregate
        return cast(F, bind)

    return decorate


def _require_columns(name: str, signature: inspect.Signature, columns: tuple[Any, ...]) -> None:
    """Raises TypeError for a parameter that is passed behind the columns: `lag("price", 2)`."""
    named = [one.name for one in signature.parameters.values() if one.kind is one.KEYWORD_ONLY and one.name != "where"]
    inputs = [one for one in signature.parameters.values() if one.kind is one.POSITIONAL_ONLY]
    rest = columns[len(inputs) :]
    if named and rest and not isinstance(rest[0], str | Expr):
        call = ", ".join([*map(repr, columns[: len(inputs)]), f"{named[0]}={rest[0]!r}"])
        raise TypeError(f"{name}() takes its parameters by name: sash.{name}({call})")


def _require_parameters(name: str, signature: inspect.Signature, given: dict[str, Any]) -> None:
    """Raises TypeError for an unknown parameter, and for one that is missing."""
    known = [one for one in signature.parameters.values() if one.kind is one.KEYWORD_ONLY]
    names = [one.name for one in known]
    for key in given:
        if key not in names:
            takes = f"the parameters {', '.join(names)}" if names else "no parameters"
            advice = parameter_advice(key, names)
            raise TypeError(f"{name}() got an unknown parameter {key!r}{advice}; it takes {takes}")
    for one in known:
        if one.default is one.empty and one.name not in given:
            raise TypeError(f"{name}() needs the parameter {one.name}=")
