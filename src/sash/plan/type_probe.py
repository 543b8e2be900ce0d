"""Trial: the type of what a user's aggregate gives, found by running it on sample values.

    float64 column      1.5  2.25  5.0  …   ──lift, combine, lower──▶   results, and their common Arrow type

A trial that fails, or gives what Arrow has no type for, asks for `returns=`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sash.monoids.algebra import Monoid
from sash.monoids.sample_probe import outcomes

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBERS = (1, 2, 5, 3, 8, 4, 9)
"""Enough of them, and different enough, for most statistics to have a result."""


def probed_type(monoid: Monoid, types: Sequence[pa.DataType]) -> pa.DataType:
    """The Arrow type that holds the results on sample values of these types.

    Raises TypeError, naming the aggregate and asking for `returns=`, if there is none.
    """
    results, failed = _results(monoid, types)
    label = monoid.name or repr(monoid)
    if not results:
        raise TypeError(
            f"what type {label} gives could not be found by trying it on sample values ({failed}): say it with "
            "returns='float64' or another Arrow type in sash.monoid(...)"
        )
    try:
        return common(results, types)
    except TypeError as error:
        raise TypeError(
            f"{label} gave {results[-1]!r} on sample values, for which there is no one Arrow type ({error}): say it "
            "with returns= in sash.monoid(...), or give it a lower= whose result fits in a column"
        ) from error


def _results(monoid: Monoid, types: Sequence[pa.DataType]) -> tuple[list[Any], str]:
    """Results of sample rows, and why the last that failed did."""
    columns = [_turned(samples(type_), place) for place, type_ in enumerate(types)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, results, failed = outcomes(monoid, _rows(columns))
    return results, failed or "every result was None"


def _rows(columns: list[list[Any]]) -> Iterable[tuple[Any, ...]]:
    return zip(*columns, strict=True) if columns else [()] * len(_NUMBERS)


def _turned(values: list[Any], place: int) -> list[Any]:
    # two columns of one type do not hold the same values, for a division by their difference
    return values[place % 3 :] + values[: place % 3]


def samples(type_: pa.DataType) -> list[Any]:
    """Python values as a column of this type holds them; of a type that is not known, nulls."""
    import pyarrow as pa

    is_ = pa.types
    if is_.is_boolean(type_):
        return [True, True, False, True, False, False, True]
    if is_.is_list(type_) or is_.is_large_list(type_):
        inner = samples(type_.value_type)
        return [inner[:n] for n in (2, 1, 3, 2, 4, 1, 2)]
    if is_.is_struct(type_):
        parts = {field.name: samples(field.type) for field in type_}
        return [{name: part[i] for name, part in parts.items()} for i in range(len(_NUMBERS))]
    if is_.is_timestamp(type_):
        return [datetime(2020, 1, n, n, tzinfo=UTC if type_.tz else None) for n in _NUMBERS]
    if is_.is_fixed_size_binary(type_):
        return [bytes([n]) * type_.byte_width for n in _NUMBERS]
    for holds, made in _SCALARS.items():
        if getattr(is_, holds)(type_):
            return [made(n) for n in _NUMBERS]
    return [None] * len(_NUMBERS)


_SCALARS: dict[str, Callable[[int], Any]] = {
    "is_integer": int,
    "is_floating": lambda n: n + 1 / (n + 1),
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

    Times, decimals and text take the type of an input that holds such values, with its unit, zone and digits.

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
        return pa.list_(common([part for one in known for part in one], types))
    if issubclass(kind, dict | tuple):
        return pa.struct([(name, common(part, types)) for name, part in _fields(known).items()])
    for type_ in types:
        if kind not in (bool, int, float) and {type(one) for one in samples(type_)} == kinds:
            return type_
    try:
        found = pa.array(known).type
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise TypeError(str(error)) from error
    if pa.types.is_decimal(found):
        raise TypeError("how many digits a Decimal has, samples cannot tell")
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
        for name, part in one.items():
            if not isinstance(name, str):
                raise TypeError(f"a struct's fields are named by text, not {name!r}")
            found.setdefault(name, []).append(part)
    if not found or len({len(one) for one in known if isinstance(one, tuple)}) > 1:
        raise TypeError("the results are tuples of several lengths, or of none")
    return found
