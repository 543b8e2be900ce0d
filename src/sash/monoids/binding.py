"""The decorator of the functions that bind aggregates to columns.

It registers the aggregate, documents the arguments that all of them have, and turns Python's errors about arguments
into errors that name columns and parameters.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

from sash.expressions.tree import Expr
from sash.monoids.algebra import Bound, ColumnLike, Monoid
from sash.monoids.synonyms import parameter_advice

AGGREGATES: dict[str, type[Monoid]] = {}
"""Every built-in aggregate, by the name of its function."""

F = TypeVar("F", bound=Callable[..., Bound])


def binds(aggregate: type[Monoid]) -> Callable[[F], F]:
    """Register a function as the one that binds this aggregate. Its signature stays visible to type checkers.

    Its docstring is extended by the arguments that all of them have.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def bind(*columns: ColumnLike, **given: Any) -> Bound:
            try:
                signature.bind(*columns, **given)
            except TypeError:
                _require_columns(function.__name__, signature, columns)
                _require_parameters(function.__name__, signature, given)
                given.pop("where", None)
                return aggregate(**given)(*columns)  # raises an error that names the columns
            return function(*columns, **given)

        AGGREGATES[function.__name__] = aggregate
        bind.__doc__ = _with_common_arguments(function.__doc__, signature)
        return cast(F, bind)

    return decorate


def _with_common_arguments(text: str | None, signature: inspect.Signature) -> str | None:
    """The docstring with the columns and `where` explained, before its example; other arguments stand between them."""
    if text is None:  # python -OO
        return None
    inputs = [one for one in signature.parameters.values() if one.kind is not one.KEYWORD_ONLY]
    is_single = len(inputs) == 1 and inputs[0].kind is inputs[0].POSITIONAL_ONLY
    noun = "a column's name, or an expression" if is_single else "names of columns, or expressions"
    first = f"{', '.join(one.name for one in inputs)}: {noun} made with `sash.expr`."
    last = 'where: a condition such as "x > 0", or the name of a boolean column; the input of other rows is null.'
    about, example, rest = inspect.cleandoc(text).partition("\n\n>>> ")
    *paragraphs, own = about.split("\n\n")
    if re.split("[:,]", own)[0] in signature.parameters:
        return "\n\n".join([*paragraphs, f"{first}\n{own}\n{last}"]) + example + rest
    return f"{about}\n\n{first}\n{last}{example}{rest}"


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
