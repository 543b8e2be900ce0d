"""The aggregates as functions that bind them to columns: `max("price")`, `var("x", ddof=0)`.

Each is made from its class: columns are positional and named as the inputs of `lift`, parameters are keywords
and named as the constructor's. This module shadows built-ins (`sum`, `max`, `any`...) and uses none of them
below the imports.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any as Anything

from sash.monoids.algebra import Bound, Monoid
from sash.monoids.bloom import Bloom
from sash.monoids.gather import Collect, CollectDistinct, Concat
from sash.monoids.logic import All, Any, BitAnd, BitOr, BitXor
from sash.monoids.moments import Kurtosis, Skewness, Std, Var
from sash.monoids.order import ArgMax, ArgMin, Max, MaxCount, Min, MinCount, Range
from sash.monoids.positions import M4, First, Last, Nth
from sash.monoids.product import GeometricMean, Product
from sash.monoids.regression import Correlation, Covariance, Intercept, Slope
from sash.monoids.runs import LongestRun
from sash.monoids.sketches import ApproxDistinct, ApproxQuantile, CountMin, FrequentItems
from sash.monoids.sums import Count, Mean, Sum, SumOfSquares

AGGREGATES: dict[str, type[Monoid]] = {}
"""Every aggregate of ours, by the name of its function."""


def _parameters(aggregate: type[Monoid]) -> list[inspect.Parameter]:
    """What a user may set: all of the constructor's arguments but those that `typed` fills.

    These are named as a part of the algebra (`identity`) or begin with an underscore.
    """
    return [
        parameter.replace(kind=parameter.KEYWORD_ONLY)
        for key, parameter in inspect.signature(aggregate).parameters.items()
        if key not in Monoid.__annotations__ and not key.startswith("_")
    ]


def _inputs(aggregate: type[Monoid]) -> list[inspect.Parameter]:
    _, *inputs = inspect.signature(aggregate.lift).parameters.values()
    return [
        parameter.replace(
            kind=parameter.VAR_POSITIONAL if parameter.kind is parameter.VAR_POSITIONAL else parameter.POSITIONAL_ONLY,
            annotation="str",
        )
        for parameter in inputs
    ]


def _description(aggregate: type[Monoid]) -> str:
    """What the class says, without its examples: they show states, which a caller of the function never sees."""
    paragraphs = inspect.cleandoc(aggregate.__doc__ or "").split("\n\n")
    return "\n\n".join([paragraph for paragraph in paragraphs if ">>>" not in paragraph])


def _binder(aggregate: type[Monoid]) -> Callable[..., Bound]:
    """The function of an aggregate, listed in AGGREGATES."""
    name, parameters = aggregate.name, _parameters(aggregate)
    known = [parameter.name for parameter in parameters]

    def bind(*columns: str, **given: Anything) -> Bound:
        for key in given:
            if key not in known:
                takes = f"the parameters {', '.join(known)}" if known else "no parameters"
                raise TypeError(f"{name}() got an unknown parameter {key!r}; it takes {takes}")
        for parameter in parameters:
            if parameter.default is parameter.empty and parameter.name not in given:
                raise TypeError(f"{name}() needs the parameter {parameter.name}=")
        return aggregate(**given)(*columns)

    bind.__name__ = bind.__qualname__ = name
    bind.__doc__ = _description(aggregate)
    signature = inspect.Signature([*_inputs(aggregate), *parameters], return_annotation="Bound")
    bind.__signature__ = signature  # type: ignore[attr-defined]
    AGGREGATES[name] = aggregate
    return bind


count = _binder(Count)
sum = _binder(Sum)
product = _binder(Product)
mean = _binder(Mean)
geometric_mean = _binder(GeometricMean)
min = _binder(Min)
max = _binder(Max)
range = _binder(Range)
arg_min = _binder(ArgMin)
arg_max = _binder(ArgMax)
min_count = _binder(MinCount)
max_count = _binder(MaxCount)
first = _binder(First)
last = _binder(Last)
nth = _binder(Nth)
collect = _binder(Collect)
collect_distinct = _binder(CollectDistinct)
concat = _binder(Concat)
any = _binder(Any)
all = _binder(All)
bit_and = _binder(BitAnd)
bit_or = _binder(BitOr)
bit_xor = _binder(BitXor)
sum_of_squares = _binder(SumOfSquares)
var = _binder(Var)
std = _binder(Std)
skewness = _binder(Skewness)
kurtosis = _binder(Kurtosis)
covariance = _binder(Covariance)
correlation = _binder(Correlation)
slope = _binder(Slope)
intercept = _binder(Intercept)
m4 = _binder(M4)
longest_run = _binder(LongestRun)
approx_distinct = _binder(ApproxDistinct)
approx_quantile = _binder(ApproxQuantile)
frequent_items = _binder(FrequentItems)
count_min = _binder(CountMin)
bloom = _binder(Bloom)
