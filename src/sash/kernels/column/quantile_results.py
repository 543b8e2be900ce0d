"""Write a quantile: a number between two keys, the first of them, or NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sash.kernels.column.order_keys import float_bits
from sash.kernels.jit.word_operations import float_of
from sash.monoids.algebra import noinline
from sash.monoids.order_statistics import interpolated


def write_quantile(row: int, key: Any, following: Any, fraction: float, is_nan: bool, asked: Any, out: Any) -> None:
    """Write the result of a row.

    `asked` are the quantile, the number of the interpolation, and whether keys are those of floats; `out` is one array,
    as floats and as integers.
    """
    if asked[2] and (asked[1] == 0 or asked[1] == 4):
        low, high = float_of(float_bits(key)), float_of(float_bits(following))
        out[0][np.uint64(row)] = math.nan if is_nan else interpolated(low, high, fraction)
    else:
        _write_other(row, key, following, fraction, is_nan, asked, out)


@noinline
def _write_other(row: int, key: Any, following: Any, fraction: float, is_nan: bool, asked: Any, out: Any) -> None:
    """Write an interpolated integer, or a key that was chosen."""
    floats, bits = out
    _, rule, is_float = asked
    if is_nan:
        floats[row] = math.nan
    elif rule == 0 or rule == 4:
        floats[row] = interpolated(float(key), float(following), fraction)
    else:
        bits[row] = float_bits(key) if is_float else key
