"""Group rows by key with a counting sort, and gather and scatter values.

codes     1 0 1 2 0           counts  2 2 1        begins  0 2 4
places    2 0 3 4 1           stable: rows of a key keep their order

Loops over rows in NumPy: loops that are as fast as machine code, and those of `group_rows` for few rows.

Compiling a loop takes some 100 ms. In that time NumPy groups a few rows thousands of times.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# --- Group rows ---


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


# --- Numpy loops ---

CHUNK = 1 << 15
"""The number of rows to compare at once, so that intermediate arrays stay in the processor's cache."""

FEW_ROWS = 256
"""Up to this many rows, NumPy takes only a few microseconds more than a kernel."""

# ---- for any number of rows ----


def ascending(values: Any, first: int, stop: int) -> bool:
    """Are the values of rows [first, stop) ascending, from the row before them on?"""
    for begin in range(max(first, 1), stop, CHUNK):
        end = min(begin + CHUNK, stop)
        if (values[begin:end] < values[begin - 1 : end - 1]).any():
            return False
    return True


def rising(codes: Any, values: Any, first: int, stop: int) -> bool:
    """Are rows [first, stop) in order of code and value, from the row before them on?"""
    for begin in range(max(first, 1), stop, CHUNK):
        here, before = slice(begin, min(begin + CHUNK, stop)), slice(begin - 1, min(begin + CHUNK, stop) - 1)
        falls = (codes[here] == codes[before]) & (values[here] < values[before])
        if (falls | (codes[here] < codes[before])).any():
            return False
    return True


def held(los: Any, his: Any, least: int, first: int, stop: int, out: Any) -> None:
    """Which ranges contain at least `least` rows."""
    for begin in range(first, stop, CHUNK):
        here = slice(begin, min(begin + CHUNK, stop))
        np.greater_equal(his[here] - los[here], least, out=out[here])


# ---- for few rows ----


def counted_few(codes: Any, first: int, stop: int, counts: Any) -> None:
    """`group_rows.counted`."""
    counts += np.bincount(codes[first:stop], minlength=len(counts))


def grouped_few(codes: Any, first: int, stop: int, following: Any, places: Any) -> None:
    """`group_rows.grouped`."""
    order = np.argsort(codes[first:stop], kind="stable")
    ordered = codes[first:stop][order]
    places[first + order] = following[ordered] + np.arange(len(order)) - np.searchsorted(ordered, ordered)


def gathered_few(values: Any, places: Any, first: int, stop: int, out: Any) -> None:
    """`group_rows.gathered`."""
    here = places[first:stop]
    out[first:stop] = np.where(here >= 0, values[here], 0) if len(values) else 0


def scattered_few(values: Any, places: Any, first: int, stop: int, out: Any) -> None:
    """`group_rows.scattered`."""
    here = places[first:stop]
    out[here[here >= 0]] = values[first:stop][here >= 0]
