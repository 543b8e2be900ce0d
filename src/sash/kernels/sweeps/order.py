"""Rows grouped by key by counting, gathered in that order, and results put back.

codes     1 0 1 2 0           counts  2 2 1        begins  0 2 4
order     1 4 0 2 3           stable: rows of a key stay as they come
"""

from __future__ import annotations

from typing import Any


def rising(codes: Any, values: Any, first: int, stop: int) -> int:
    """Are rows [first, stop) in order: 2 by code and value, 1 by value alone, 0 by neither?"""
    by_value, by_both = True, True
    for i in range(max(first, 1), stop):
        down = values[i] < values[i - 1]
        if down:
            by_value = False
        if codes[i] < codes[i - 1] or (down and codes[i] == codes[i - 1]):
            by_both = False
        if not (by_value or by_both):
            return 0
    return 2 if by_both else 1


def ascending(values: Any, first: int, stop: int) -> bool:
    """Do the values of rows [first, stop), and the one before them, never fall?"""
    falls = 0
    for i in range(max(first, 1), stop):  # to the end: without a way out the loop is vectorised
        falls += values[i] < values[i - 1]
    return falls == 0


def grouped(codes: Any, first: int, stop: int, places: Any, order: Any) -> None:
    """Put rows [first, stop) in the order of their codes; `places` are where the next of each code goes."""
    for i in range(first, stop):
        code = codes[i]
        order[places[code]] = i
        places[code] += 1


def gathered(values: Any, order: Any, first: int, stop: int, out: Any) -> None:
    """Fill `out` with values in an order."""
    for i in range(first, stop):
        out[i] = values[order[i]]


def scattered(values: Any, order: Any, first: int, stop: int, out: Any) -> None:
    """Put values back from an order."""
    for i in range(first, stop):
        out[order[i]] = values[i]
