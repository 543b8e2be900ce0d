"""Keys: 64-bit integers in the order of the values, so that one kernel serves every type of column.

integers, codes    themselves
floats             their bits, those of negative numbers inverted; -0.0 as 0.0; NaN is the greatest key
"""

from __future__ import annotations

from typing import Any

import numpy as np

GREATEST = 2**63 - 1
"""The key of NaN; in a column of integers, of the greatest integer."""

_LEAST = -(2**63)
_INFINITY = 0x7FF0000000000000


def float_keys(bits: Any, first: int, stop: int, keys: Any) -> None:
    """Fill `keys` with the keys of floats, given as their bits."""
    for i in range(first, stop):
        at = np.uint64(i)  # an index that may be negative prevents vectorisation
        own = bits[at]
        key = own ^ ((own >> 63) & GREATEST)
        key = GREATEST if (own & GREATEST) > _INFINITY else key
        keys[at] = 0 if own == _LEAST else key


def has_several_bits(bits: Any, first: int, stop: int) -> bool:
    """Is there a float, given as its bits, that equals floats with other bits: -0.0 or NaN?"""
    least = greatest = 0
    for i in range(first, stop):
        own = bits[np.uint64(i)]
        least, greatest = min(least, own), max(greatest, own & GREATEST)  # vectorised, eight at once
    return least == _LEAST or greatest > _INFINITY


def float_bits(key: Any) -> Any:
    """The bits of the float with this key."""
    return key ^ ((key >> 63) & GREATEST)
