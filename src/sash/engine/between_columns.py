"""What lies between two columns of decimals, durations or times (`monoids/between_values.py`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.monoids.between_values import ONE

_DIGITS = 18
"""The decimal places of a fraction."""


class AroundColumns(NamedTuple):
    """The values around quantiles, null where there is no result, and the fractions of the way between them."""

    low: pa.Array
    high: pa.Array
    fraction: NDArray[np.float64]


def between_column(around: AroundColumns, kind: pa.DataType, name: str) -> pa.Array:
    """The quantiles as a column of this type. Raises OverflowError, naming the aggregate, for too many digits."""
    low, high = (_decimals(end, kind) for end in around[:2])
    whole = np.zeros((len(low), 2), np.int64)
    whole[:, 0] = np.rint(around.fraction * ONE)
    words = [None, pa.py_buffer(whole)]
    fraction = pa.Array.from_buffers(pa.decimal128(19, _DIGITS), len(low), words).cast(pa.decimal256(19, _DIGITS))
    exact = pc.add(low, pc.multiply(pc.subtract(high, low), fraction))
    places = kind.scale if pa.types.is_decimal(kind) else 0
    rounded = pc.round(exact, ndigits=places, round_mode="half_towards_infinity")
    if not pa.types.is_decimal(kind):
        return as_times(rounded.cast(pa.int64()), kind)
    try:
        return rounded.cast(kind)
    except pa.ArrowInvalid:
        raise OverflowError(
            f"a result of {name} has more than {kind.precision} digits: cast the column to fewer decimal places"
        ) from None


def as_times(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Integers in units of a type of times as a column of it; values of another type unchanged."""
    if not pa.types.is_integer(column.type):
        return column
    return (column.cast(pa.int32()) if kind.bit_width == 32 else column).view(kind)


def _decimals(column: Any, kind: pa.DataType) -> Any:
    """A column as decimals of 256 bits, whose products with fractions are exact; times in units of the result."""
    given = column.cast(kind) if pa.types.is_date(column.type) else column
    if pa.types.is_decimal(given.type):
        return given.cast(pa.decimal256(given.type.precision, given.type.scale))
    return given.view(pa.int32() if given.type.bit_width == 32 else pa.int64()).cast(pa.decimal256(19, 0))
