"""Aggregates of decimals, durations and times: which monoid computes them, and the type of their results.

    of               sum                    mean                       range
    decimal(p, s)    decimal(p + 10, s)     decimal(p + 4, s + 4)      decimal(p + 1, s)      Spark's rules
    duration         duration               duration, rounded          duration
    timestamp        -                      timestamp, rounded         duration
    time             -                      -                          duration
    date             -                      -                          duration

A column of type null has no values: results are nulls, of the type that numbers, text or booleans would give.

Results have at most 38 digits (76 for decimals of 256 bits); one with more is an error. A mean is rounded half up.
Durations have the unit of the column; those of dates are in seconds (for date64 in milliseconds). Medians, and
quantiles between two values: `monoids/between_values.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.types as is_

from sash import monoids as m
from sash.monoids.algebra import Monoid
from sash.monoids.between_values import MORE, BetweenValues
from sash.monoids.custom import Custom
from sash.monoids.decimals import DecimalMean, DecimalRange, DecimalSum
from sash.monoids.direct_product import DirectProduct
from sash.monoids.durations import PER_SECOND, DurationMean, DurationRange, DurationSum
from sash.monoids.null_rows import NoValues
from sash.monoids.order_statistics import BETWEEN, INTERPOLATIONS
from sash.plan.types import domains, result


class TypedAggregate(NamedTuple):
    """The monoid that computes an aggregate on columns of some types, and its result type.

    `reads` is the only column that it reads, if it does not read all.
    """

    monoid: Monoid
    result: pa.DataType
    reads: int | None = None


def typed_aggregate(monoid: Monoid, types: Sequence[pa.DataType]) -> TypedAggregate | None:
    """The form of an aggregate on columns of these types; None if it takes them as they are, or not at all."""
    if monoid.returns is not None or not types:
        return None
    needed = domains(monoid, len(types))
    taken = [place in monoid.nullable and needed[place] == "any" for place in range(len(types))]
    nulls = [place for place, type_ in enumerate(types) if is_.is_null(type_) and not taken[place]]
    if nulls:
        return _of_null_type(monoid, types, nulls[0])
    if len(types) != 1:
        return None
    (type_,) = types
    ordered = is_.is_decimal(type_) or (is_.is_temporal(type_) and not is_.is_interval(type_))
    if ordered and (found := _between(monoid, type_)) is not None:
        return found
    if is_.is_decimal(type_) and type(monoid) in _OF_DECIMALS:
        return _OF_DECIMALS[type(monoid)](type_)
    if is_.is_temporal(type_) and not is_.is_interval(type_):
        return _of_times(monoid, type_)
    return None


# ---- no values ----

_STAND_INS: dict[str, str] = {"number": "float64", "int": "int64", "bool": "bool", "text": "string"}
"""By domain, the type whose results a column of type null has."""


def _of_null_type(monoid: Monoid, types: Sequence[pa.DataType], place: int) -> TypedAggregate | None:
    """An aggregate of a column of type null: nulls, or 0 if it counts. None for those that take any column."""
    if isinstance(monoid, m.Count | DirectProduct):
        return None
    if isinstance(monoid, Custom):
        return _custom_of_null_type(monoid, types)
    if monoid.empty == 0:
        return TypedAggregate(m.Count(), pa.int64(), place)
    found = [
        pa.type_for_alias(_STAND_INS[domain]) if domain in _STAND_INS and pa.types.is_null(type_) else type_
        for type_, domain in zip(types, domains(monoid, len(types)), strict=True)
    ]
    return TypedAggregate(NoValues(), result(monoid, found), place)


def _custom_of_null_type(monoid: Monoid, types: Sequence[pa.DataType]) -> TypedAggregate:
    """A user's aggregate: its type on samples of nulls, or, if there is none, that of its empty result."""
    try:
        return TypedAggregate(monoid, result(monoid, types))
    except TypeError:
        return TypedAggregate(monoid, pa.null() if monoid.empty is None else pa.array([monoid.empty]).type)


# ---- decimals ----


def _decimal(of: Any, more_digits: int, more_places: int) -> Any:
    """A decimal type with more digits, cut at the most that its width holds; all of them may be decimal places."""
    make, most = (pa.decimal128, 38) if of.bit_width <= 128 else (pa.decimal256, 76)
    return make(min(most, of.precision + more_digits), min(most, of.scale + more_places))


def _sum(type_: Any) -> TypedAggregate:
    found = _decimal(type_, 10, 0)
    return TypedAggregate(DecimalSum(found.precision, type_.scale), found)


def _mean(type_: Any) -> TypedAggregate:
    found = _decimal(type_, 4, 4)
    return TypedAggregate(DecimalMean(found.precision, type_.scale, found.scale - type_.scale), found)


def _range(type_: Any) -> TypedAggregate:
    found = _decimal(type_, 1, 0)
    return TypedAggregate(DecimalRange(found.precision, type_.scale), found)


def _between(monoid: Any, type_: Any) -> TypedAggregate | None:
    """A median, or a quantile between two values, of decimals or of times; None for other aggregates."""
    if type(monoid) not in (m.Median, m.Quantile) or INTERPOLATIONS[monoid.rule] not in BETWEEN:
        return None
    if is_.is_decimal(type_):
        if type_.bit_width > 128:
            return None
        found = _decimal(type_, MORE, MORE)
        return TypedAggregate(BetweenValues(monoid.name, monoid.q, monoid.rule, type_.scale), found)
    is_days = is_.is_date32(type_)
    unit = "s" if is_days else getattr(type_, "unit", "ms")
    made = BetweenValues(monoid.name, monoid.q, monoid.rule, None, PER_SECOND[unit], 86_400 if is_days else 1)
    return TypedAggregate(made, pa.timestamp(unit) if is_.is_date(type_) else type_)


_OF_DECIMALS: dict[type[Monoid], Callable[[Any], TypedAggregate]] = {m.Sum: _sum, m.Mean: _mean, m.Range: _range}


# ---- durations and times ----


def _of_times(monoid: Monoid, type_: Any) -> TypedAggregate | None:
    unit = getattr(type_, "unit", "s" if is_.is_date32(type_) else "ms")
    units = PER_SECOND[unit]
    if type(monoid) is m.Sum and is_.is_duration(type_):
        return TypedAggregate(DurationSum(units), type_)
    if type(monoid) is m.Mean and (is_.is_duration(type_) or is_.is_timestamp(type_)):
        return TypedAggregate(DurationMean(units), type_)
    if type(monoid) is m.Range:
        return TypedAggregate(DurationRange(units, 86_400 if is_.is_date32(type_) else 1), pa.duration(unit))
    return None
