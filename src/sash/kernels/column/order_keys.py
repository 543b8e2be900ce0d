"""Keys: 64-bit integers in the order of the values, so that one kernel serves every type of column.

integers, codes    themselves
floats             their bits, those of negative numbers inverted; -0.0 as 0.0; NaN is the greatest key
"""

from __future__ import annotations

from typing import Any

GREATEST = 2**63 - 1
"""The key of NaN. As an integer it is the key of that integer."""

_LEAST = -(2**63)
_INFINITY = 0x7FF0000000000000


def float_keys(bits: Any, first: int, stop: int, keys: Any) -> None:
    """Fill `keys` with the keys of floats, given as their bits."""
    for i in range(first, stop):
        own = bits[i]
        key = own ^ ((own >> 63) & GREATEST)
        key = GREATEST if (own & GREATEST) > _INFINITY else key
        keys[i] = 0 if own == _LEAST else key


def has_several_bits(bits: Any, first: int, stop: int) -> bool:
    """Is there a float, given as its bits, whose equals may have others: -0.0 or NaN?"""
    found = 0
    for i in range(first, stop):
        own = bits[i]
        found |= ((own & GREATEST) > _INFINITY) | (own == _LEAST)  # without a branch, so that eight are tested at once
    return bool(found)


def float_bits(key: Any) -> Any:
    """The bits of the float that has a key."""
    return key ^ ((key >> 63) & GREATEST)
