"""Rows grouped by key by counting, put in that order, and results brought back.

codes     1 0 1 2 0           counts  2 2 1        begins  0 2 4
places    2 0 3 4 1           stable: rows of a key stay as they come
"""

from __future__ import annotations

from typing import Any


def ascending(values: Any, first: int, stop: int) -> bool:
    """Do the values of rows [first, stop), and the one before them, never fall?"""
    first = max(first, 1)
    here, before = values[first:stop], values[first - 1 : stop]
    falls = 0
    for i in range(len(here)):  # to the end: without a way out the loop is vectorised
        falls += here[i] < before[i]
    return falls == 0


def rising(codes: Any, values: Any, first: int, stop: int) -> bool:
    """Are rows [first, stop), and the one before them, in order by code and value?"""
    for i in range(max(first, 1), stop):
        if codes[i] < codes[i - 1] or (codes[i] == codes[i - 1] and values[i] < values[i - 1]):
            return False
    return True


def counted(codes: Any, first: int, stop: int, counts: Any) -> None:
    """Count the rows of each code."""
    for i in range(first, stop):
        counts[codes[i]] += 1


def grouped(codes: Any, first: int, stop: int, following: Any, places: Any) -> None:
    """Give rows [first, stop) their places by code; `following` is where the next of each code goes."""
    for i in range(first, stop):
        code = codes[i]
        places[i] = following[code]
        following[code] += 1


def gathered(values: Any, places: Any, first: int, stop: int, out: Any) -> None:
    """Fill `out` with the values at places, 0 for what has none."""
    for i in range(first, stop):
        out[i] = values[places[i]] if places[i] >= 0 else 0


def scattered(values: Any, places: Any, first: int, stop: int, out: Any) -> None:
    """Put values at places, but for what has none."""
    for i in range(first, stop):
        if places[i] >= 0:
            out[places[i]] = values[i]
