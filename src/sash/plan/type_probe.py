"""The result type of a user's aggregate, found by running it on sample values.

    float64 column      1.5  2.25  5.0  …   ──lift, combine, lower──▶   results, and their common Arrow type

If that fails, or Arrow has no type for the results, the error asks for `returns=`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sash.monoids.algebra import Monoid
from sash.monoids.sample_probe import SAMPLES, outcomes, sample_rows

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBERS = SAMPLES["int"]


def probed_type(monoid: Monoid, types: Sequence[pa.DataType]) -> pa.DataType:
    """The Arrow type that holds the results on sample values of these types.

    Raises TypeError, naming the aggregate and asking for `returns=`, if there is none.
    """
    results, failed = _results(monoid, types)
    label = monoid.name or repr(monoid)
    if not results:
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


def _results(monoid: Monoid, types: Sequence[pa.DataType]) -> tuple[list[Any], str]:
    """Results of sample rows, and the last error."""
    rows = type_samples(types)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, results, failed = outcomes(monoid, rows)
    return results, failed or "every result was None"


def type_samples(types: Sequence[pa.DataType]) -> Iterable[tuple[Any, ...]]:
    """Sample rows of columns of these types."""
    return sample_rows([samples(type_) for type_ in types]) if types else [()] * len(_NUMBERS)


def samples(type_: pa.DataType) -> list[Any]:
    """Sample values of a type as Python objects; nulls for an unknown type."""
    import pyarrow as pa

    is_ = pa.types
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
    import pyarrow.types as is_

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
    import pyarrow as pa

    known = [_plain(one) for one in results if one is not None]
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


def _plain(value: Any) -> Any:
    """A NumPy scalar as Python's."""
    return value.item() if hasattr(value, "item") and not getattr(value, "shape", ()) else value


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
