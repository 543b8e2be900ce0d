"""Arrays that cost next to nothing: flags that are all alike, and the numbers of a column in its own memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Flags = NDArray[np.bool_]

_flags: dict[bool, Flags] = {False: np.zeros(1 << 12, np.bool_), True: np.ones(1 << 12, np.bool_)}


def everyone(count: int) -> Flags:
    """True for so many; not to be written to."""
    return _alike(True, count)


def nobody(count: int) -> Flags:
    """False for so many; not to be written to."""
    return _alike(False, count)


def _alike(value: bool, count: int) -> Flags:
    found = _flags[value]
    if count > len(found):
        found = _flags[value] = np.full(2 * count, value)
    return found[:count]


def word_type(kind: pa.DataType) -> np.dtype[Any] | None:
    """How the values of a column of 64-bit numbers or times are stored; None for other columns."""
    if pa.types.is_float64(kind):
        return np.dtype(np.float64)
    timed = pa.types.is_temporal(kind) and not pa.types.is_interval(kind) and kind.bit_width == 64
    return np.dtype(np.int64) if timed or pa.types.is_int64(kind) else None


def words_of(column: pa.Array, kind: np.dtype[Any]) -> NDArray[Any]:
    """A column of 64-bit numbers as an array of this type, in the same memory; nulls are any value."""
    if not len(column):
        return np.zeros(0, kind)
    return np.frombuffer(column.buffers()[1], kind, len(column), 8 * column.offset)
