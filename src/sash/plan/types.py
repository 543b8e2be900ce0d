"""Input types and result types of aggregates.

    count, min_count, max_count, approx_distinct        int64
    count_distinct                                      int64
    median, percent_rank                                float64
    quantile                                            float64, if it chooses a value the column's type
    rank                                                int64, of the average rank float64
    sum, sum_of_squares, product, range, delta          int64 of integers and booleans, float64 of floats
    mean, var, slope, ewm_mean, pct_change, …           float64
    min, max, first, last, nth, lag, mode               the column's type
    arg_min, arg_max                                    the type of the payload
    any, all                                            bool
    bit_and, bit_or, bit_xor                            int64, of uint64 uint64
    collect, collect_distinct                           list of the column's type
    concat                                              string
    m4                                                  struct of first, min, max, last
    longest_run                                         struct of start, end, interval, count
    frequent_items                                      list of struct of item, count
    approx_quantile, count_min                          float64, int64; of several a list of them
    bloom                                               binary: the bytes of the filter
    a product of aggregates                             struct of their results, by name

The result type of a user's aggregate is `returns=`, or found by running it on sample values:

    float64 column      1.5  2.25  5.0  …   ──lift, combine, lower──▶   results, and their common Arrow type

If that fails, or Arrow has no type for the results, the error asks for `returns=`.

Aggregates of decimals, durations and times: which monoid computes them, and the type of their results.

    of               sum                    mean                       range
    decimal(p, s)    decimal(p + 10, s)     decimal(p + 4, s + 4)      decimal(p + 1, s)      Spark's rules
    duration         duration               duration, rounded          duration
    timestamp        -                      timestamp, rounded         duration
    time             -                      -                          duration
    date             -                      -                          duration

A column of type null has no values: results are nulls, of the type that numbers, text or booleans would give.

Results have at most 38 digits (76 for decimals of 256 bits); one with more is an error. A mean is rounded half up.
Durations have the unit of the column; those of dates are in seconds (for date64 in milliseconds). Medians, and
quantiles between two values: `monoids/rank_statistics.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from importlib.util import find_spec
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.types as is_

from sash import monoids as m
from sash.monoids.algebra import Domain, Kind, Monoid
from sash.monoids.custom import SAMPLES, Custom, outcomes, sample_rows
from sash.monoids.decimals import DecimalMean, DecimalRange, DecimalSum
from sash.monoids.direct_product import DirectProduct
from sash.monoids.durations import PER_SECOND, DurationMean, DurationRange, DurationSum
from sash.monoids.null_rows import NoValues
from sash.monoids.rank_statistics import BETWEEN, INTERPOLATIONS, MORE, BetweenValues
from sash.monoids.sketches import BloomFilter, SketchMonoid

# --- Types ---

WANTED: dict[Domain, str] = {
    "hashable": "values that can be compared for equality, not lists or structs",
    "ordered": "values with an order: numbers, text, times, booleans",
    "number": "numbers",
    "int": "integers",
    "bool": "booleans",
    "text": "text",
}
"""Texts for domains."""


def value_type(type_: pa.DataType) -> pa.DataType:
    """A type without its encoding: dictionaries and run ends become their values, views plain text and bytes."""
    if is_.is_dictionary(type_) or is_.is_run_end_encoded(type_):
        return value_type(type_.value_type)
    if is_.is_decimal(type_) and type_.bit_width < 128:
        return pa.decimal128(type_.precision, type_.scale)
    return _without_views(type_)


def _without_views(type_: pa.DataType) -> pa.DataType:
    """The type without views of texts and bytes, also within lists and structs: Arrow cannot take from views."""
    if is_.is_string_view(type_):
        return pa.string()
    if is_.is_binary_view(type_):
        return pa.binary()
    if is_.is_struct(type_):
        return pa.struct([field.with_type(_without_views(field.type)) for field in type_])
    for holds, make in ((is_.is_list, pa.list_), (is_.is_large_list, pa.large_list)):
        if holds(type_):
            return make(type_.value_field.with_type(_without_views(type_.value_type)))
    return type_


def admits(domain: Domain, type_: pa.DataType) -> bool:
    """Does a column of this type belong to a domain?"""
    number = is_.is_boolean(type_) or is_.is_integer(type_) or is_.is_floating(type_)
    if domain == "any":
        return True
    if domain in ("hashable", "ordered"):
        return not (is_.is_nested(type_) or is_.is_null(type_) or is_.is_interval(type_))
    if domain == "number":
        return bool(number)
    if domain == "int":
        return bool(number) and not is_.is_floating(type_)
    return bool(is_.is_boolean(type_)) if domain == "bool" else is_text(type_)


def is_text(type_: pa.DataType) -> bool:
    """Is it a type of text?"""
    return bool(is_.is_string(type_) or is_.is_large_string(type_) or is_.is_string_view(type_))


def is_dictionary(type_: pa.DataType) -> bool:
    """Is it a type of dictionaries (categories)?"""
    return bool(is_.is_dictionary(type_))


def kind(type_: pa.DataType) -> Kind | None:
    """The kind of compiled column that holds the type; None if none does."""
    if is_.is_boolean(type_):
        return "bool"
    if is_.is_floating(type_):
        return "float"
    return "int" if is_.is_integer(type_) and not is_.is_uint64(type_) else None


def domains(monoid: Monoid, inputs: int) -> list[Domain]:
    """The domain of each input; the last one that the monoid declares is that of all further inputs."""
    return [monoid.domain[min(place, len(monoid.domain) - 1)] for place in range(inputs)]


def check(label: str, monoid: Monoid, columns: Sequence[str], types: Sequence[pa.DataType]) -> None:
    """Raises TypeError, naming the aggregate, the column and its type, if the aggregate does not accept it."""
    for column, type_, domain in zip(columns, types, domains(monoid, len(types)), strict=True):
        if not admits(domain, type_):
            hint = _CHOSEN if isinstance(monoid, m.Median | m.Quantile) else _hint(domain, type_)
            raise TypeError(f"{label} reads {WANTED[domain]}; the column {column!r} is of type {type_}{hint}")
        if isinstance(monoid, SketchMonoid | m.Bloom) and not _sketchable(type_):
            raise TypeError(
                f"{label} takes numbers, text, bytes, dates and timestamps; the column {column!r} is of type {type_}: "
                "cast it to string"
            )


_CHOSEN = (
    ", between whose values there is none: quantile(…, q=0.5, interpolation='lower') chooses one of any type with an "
    "order; decimals of up to 38 digits, durations and times have values between them"
)


def _hint(domain: Domain, type_: pa.DataType) -> str:
    if domain == "number" and is_.is_decimal(type_):
        return ": cast it to float64; sum, mean, range, min and max take decimals"
    if domain == "number" and is_.is_temporal(type_):
        return ", which is ordered but not a number: cast it to int64"
    if domain == "bool":
        return ": compare it first, or cast it to bool"
    return ": cast it to string" if domain == "text" else ""


def _sketchable(type_: pa.DataType) -> bool:
    binary = is_.is_binary(type_) or is_.is_large_binary(type_) or is_.is_fixed_size_binary(type_)
    time = is_.is_timestamp(type_) or is_.is_date(type_)
    return bool(binary or time or is_text(type_) or admits("number", type_))


# ---- result types ----


def _number(type_: pa.DataType) -> pa.DataType:
    return pa.float64() if is_.is_floating(type_) else pa.int64()


def _last(*types: pa.DataType) -> pa.DataType:
    return types[-1]


def _longest_run(_value: pa.DataType, at: pa.DataType) -> pa.DataType:
    return pa.struct([(name, _number(at)) for name in ("start", "end", "interval")] + [("count", pa.int64())])


FIXED: dict[type[Monoid], str] = {
    **dict.fromkeys((m.Count, m.MinCount, m.MaxCount, m.ApproxDistinct, m.CountDistinct), "int64"),
    **dict.fromkeys((m.Mean, m.GeometricMean, m.Var, m.Std, m.Skewness, m.Kurtosis), "float64"),
    **dict.fromkeys((m.Covariance, m.Correlation, m.Slope, m.Intercept), "float64"),
    **dict.fromkeys((m.Median, m.PercentRank), "float64"),
    **dict.fromkeys((m.WeightedMean, m.EwmMean, m.EwmVar, m.EwmStd, m.PctChange), "float64"),
    **dict.fromkeys((m.Any, m.All), "bool"),
    m.Bloom: "binary",
}
"""Result types that do not depend on the columns."""


def selects(monoid: Monoid) -> bool:
    """Are its results values of its last column, unchanged?"""
    if isinstance(monoid, m.Quantile):
        return monoid.interpolation not in BETWEEN
    return monoid.returns is None and BY_COLUMNS.get(type(monoid)) is _last


BY_COLUMNS: dict[type[Monoid], Callable[..., Any]] = {
    **dict.fromkeys((m.Sum, m.SumOfSquares, m.Product, m.Range, m.Delta), _number),
    **dict.fromkeys((m.Min, m.Max, m.First, m.Last, m.Nth, m.Lag, m.Mode, m.ArgMin, m.ArgMax), _last),
    **dict.fromkeys((m.BitAnd, m.BitOr, m.BitXor), lambda type_: type_ if is_.is_uint64(type_) else pa.int64()),
    **dict.fromkeys((m.Collect, m.CollectDistinct), pa.list_),
    m.Concat: lambda type_: pa.large_string() if is_.is_large_string(type_) else pa.string(),
    m.M4: lambda type_: pa.struct([(name, type_) for name in ("first", "min", "max", "last")]),
    m.LongestRun: _longest_run,
    m.FrequentItems: lambda type_: pa.list_(pa.struct([("item", type_), ("count", pa.int64())])),
}
"""Result types as functions of the types of the columns."""


def _count_min(monoid: m.CountMin, _type: pa.DataType) -> pa.DataType:
    if not monoid.items:
        raise TypeError(
            "count_min without items= gives an object that does not fit in a column: name the values, items=('a', 'b')"
        )
    return pa.list_(pa.int64())


BY_PARAMETERS: dict[type[Monoid], Callable[..., Any]] = {
    m.Quantile: lambda monoid, type_: pa.float64() if monoid.interpolation in BETWEEN else type_,
    m.Rank: lambda monoid, _type: pa.float64() if monoid.method == "average" else pa.int64(),
    m.ApproxQuantile: lambda monoid, _type: pa.list_(pa.float64()) if isinstance(monoid.q, tuple) else pa.float64(),
    m.CountMin: _count_min,
}
"""Result types as functions of the aggregate and the types of its columns."""


def result(monoid: Monoid, types: Sequence[pa.DataType]) -> pa.DataType:
    """The result type of an aggregate on columns of these types (without encodings).

    Raises TypeError, saying what to do, if there is none.
    """
    if monoid.returns is not None:
        return named(monoid.returns)
    if type(monoid) in FIXED:
        return pa.type_for_alias(FIXED[type(monoid)])
    if type(monoid) in BY_COLUMNS:
        return BY_COLUMNS[type(monoid)](*types)
    if type(monoid) in BY_PARAMETERS:
        return BY_PARAMETERS[type(monoid)](monoid, *types)
    if not isinstance(monoid, m.DirectProduct):
        return probed_type(monoid, types)
    fields: dict[str, pa.DataType] = {}
    for factor in monoid.parts:
        name = factor.name or "monoid"
        fields[name if name not in fields else f"{name}_{len(fields) + 1}"] = result(factor, types)
    return pa.struct(list(fields.items()))


def named(returns: Any) -> pa.DataType:
    """The Arrow type that `returns=` is or names. Raises TypeError if it is none."""
    if isinstance(returns, pa.DataType):
        return returns
    try:
        return pa.type_for_alias(returns)
    except (TypeError, ValueError):
        raise TypeError(
            "returns= must be an Arrow type or the name of one, such as 'float64', 'string' or 'timestamp[us]'; "
            f"got {returns!r}"
        ) from None


def column(values: Sequence[Any], type_: pa.DataType, name: str) -> pa.Array:
    """Results as a column. Raises TypeError, naming the aggregate and its type, if a result does not fit."""
    try:
        return pa.array([_shaped(value, type_) for value in values], type_)
    except MemoryError:  # that of Arrow is an ArrowException, too
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"a result of {name!r} does not fit its type, {type_}: {error}") from error


def _shaped(value: Any, type_: pa.DataType) -> Any:
    """A result in a form that Arrow accepts: a struct as a dict, a filter as bytes."""
    if value is None:
        return None
    if is_.is_struct(type_) and isinstance(value, tuple):
        return {field.name: _shaped(item, field.type) for field, item in zip(type_, value, strict=True)}
    if (is_.is_list(type_) or is_.is_large_list(type_)) and isinstance(value, list | tuple):
        return [_shaped(item, type_.value_type) for item in value]
    return bytes(value) if isinstance(value, BloomFilter) else value


# --- Type probe ---

_NUMBERS = SAMPLES["int"]


def probed_type(monoid: Monoid, types: Sequence[pa.DataType]) -> pa.DataType:
    """The Arrow type that holds the results on sample values of these types.

    Raises TypeError, naming the aggregate and asking for `returns=`, if there is none.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, results, failed = outcomes(monoid, type_samples(types))
    label = monoid.name or repr(monoid)
    if not results:
        failed = failed or "every result was None"
        raise TypeError(
            f"the result type of {label} could not be found by trying sample values ({failed}): set it with "
            "returns='float64' or another Arrow type in sash.monoid(...)"
        )
    try:
        return common(results, types)
    except TypeError as error:
        raise TypeError(
            f"{label} gave {results[-1]!r} on sample values, which have no common Arrow type ({error}): set it "
            "with returns= in sash.monoid(...), or give it a lower= whose result fits in a column"
        ) from error


def type_samples(types: Sequence[pa.DataType]) -> Iterable[tuple[Any, ...]]:
    """Sample rows of columns of these types."""
    return sample_rows([samples(type_) for type_ in types]) if types else [()] * len(_NUMBERS)


def samples(type_: pa.DataType) -> list[Any]:
    """Sample values of a type as Python objects; nulls for an unknown type."""
    if is_.is_boolean(type_):
        return [*SAMPLES["bool"]]
    if is_.is_floating(type_):
        return [*SAMPLES["float"]]
    if is_.is_list(type_) or is_.is_large_list(type_):
        inner = samples(type_.value_type)
        return [inner[:n] for n in (2, 1, 3, 2, 4, 1, 2)]
    if is_.is_struct(type_):
        fields = {field.name: samples(field.type) for field in type_}
        return [{name: values[i] for name, values in fields.items()} for i in range(len(_NUMBERS))]
    if getattr(type_, "unit", "") == "ns" and has_objects(type_):
        numbers = [n * 3_600_000_000_001 for n in _NUMBERS]
        return [*pa.array(numbers, pa.int64()).cast(type_).to_pylist()]
    if is_.is_timestamp(type_):
        return [datetime(2020, 1, n, n, tzinfo=UTC if type_.tz else None) for n in _NUMBERS]
    if is_.is_fixed_size_binary(type_):
        return [bytes([n]) * type_.byte_width for n in _NUMBERS]
    for holds, made in _SCALARS.items():
        if getattr(is_, holds)(type_):
            return [made(n) for n in _NUMBERS]
    return [None] * len(_NUMBERS)


def has_objects(type_: pa.DataType) -> bool:
    """Are there Python objects for all values of a type of nanoseconds: Timestamp and Timedelta of pandas?"""
    return bool(is_.is_timestamp(type_) or is_.is_duration(type_)) and find_spec("pandas") is not None


_SCALARS: dict[str, Callable[[int], Any]] = {
    "is_integer": int,
    "is_string": lambda n: "bacdfeg"[n % 7] * (n % 3),
    "is_large_string": lambda n: "bacdfeg"[n % 7] * (n % 3),
    "is_string_view": lambda n: "bacdfeg"[n % 7] * (n % 3),
    "is_binary": lambda n: bytes([n]),
    "is_large_binary": lambda n: bytes([n]),
    "is_date": lambda n: date(2020, 1, n),
    "is_time": time,
    "is_duration": lambda n: timedelta(hours=n),
    "is_decimal": Decimal,
}
"""Sample values, by the test that a type passes."""


def common(results: Iterable[Any], types: Sequence[pa.DataType] = ()) -> pa.DataType:
    """The Arrow type of all results: an int beside a float is a float, a tuple a struct of _1, _2, ….

    Times, decimals and text take the type of an input that holds such values, with its unit, zone and digits; the
    difference of two times is a duration of their unit.

    >>> common([(1, 2.5), (2, 3)])
    StructType(struct<_1: int64, _2: double>)

    Raises TypeError if there is none.
    """
    known = [one for one in results if one is not None]
    known = [one.item() if hasattr(one, "item") and not getattr(one, "shape", ()) else one for one in known]
    kinds = {type(one) for one in known}
    names = ", ".join(sorted(kind.__name__ for kind in kinds)) or "None alone"
    if kinds == {int, float}:
        return pa.float64()
    if len(kinds) != 1:
        raise TypeError(f"the results are of {names}")
    (kind,) = kinds
    if issubclass(kind, list):
        return pa.list_(common([item for one in known for item in one], types))
    if issubclass(kind, dict | tuple):
        return pa.struct([(name, common(values, types)) for name, values in _fields(known).items()])
    for type_ in types:
        if kind not in (bool, int, float) and {type(one) for one in samples(type_)} == kinds:
            return type_
    if issubclass(kind, timedelta):
        units = [type_.unit for type_ in types if pa.types.is_timestamp(type_) or pa.types.is_duration(type_)]
        return pa.duration(units[0] if units else "us")
    try:
        found = pa.array(known).type
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise TypeError(str(error)) from error
    if pa.types.is_decimal(found):
        raise TypeError("samples do not show how many digits a Decimal has")
    return found


def _fields(known: list[Any]) -> dict[str, list[Any]]:
    """The fields of structs, by name: of dicts, of named tuples, or of tuples of one length."""
    found: dict[str, list[Any]] = {}
    for one in known:
        if isinstance(one, tuple):
            names = getattr(one, "_fields", None) or [f"_{place}" for place in range(1, len(one) + 1)]
            one = dict(zip(names, one, strict=True))  # noqa: PLW2901 (the same, by name)
        for name, value in one.items():
            if not isinstance(name, str):
                raise TypeError(f"the fields of a struct must be named by text, not {name!r}")
            found.setdefault(name, []).append(value)
    if not found or len({len(one) for one in known if isinstance(one, tuple)}) > 1:
        raise TypeError("the results are tuples of different lengths, or empty ones")
    return found


# --- Typed aggregates ---


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
