"""Group rows by key with a counting sort, and gather and scatter values.

codes     1 0 1 2 0           counts  2 2 1        begins  0 2 4
places    2 0 3 4 1           stable: rows of a key keep their order
"""

from __future__ import annotations

from typing import Any


def counted(codes: Any, first: int, stop: int, counts: Any) -> None:
    """Count the rows of each code."""
    for i in range(first, stop):
        counts[codes[i]] += 1


def grouped(codes: Any, first: int, stop: int, following: Any, places: Any) -> None:
    """Assign places by code to rows [first, stop); `following` is the next place of each code."""
    for i in range(first, stop):
        code = codes[i]
        places[i] = following[code]
        following[code] += 1


def gathered(values: Any, places: Any, first: int, stop: int, out: Any) -> None:
    """Fill `out` with the values at places, 0 for rows without a place."""
    for i in range(first, stop):
        out[i] = values[places[i]] if places[i] >= 0 else 0


def scattered(values: Any, places: Any, first: int, stop: int, out: Any) -> None:
    """Write values to places, except rows without a place."""
    for i in range(first, stop):
        if places[i] >= 0:
            out[places[i]] = values[i]
