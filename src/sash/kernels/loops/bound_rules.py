"""The rules of window bounds, shared by column kernels, live state and eager windows.

A window of a size that ends at t starts at `window_start`. A value `precedes` it if it is below the start, or at the
start of a window that does not include its start. The search for the first value in the window differs: `first_from`
bisects, `window_loops` continues from a slot's last start, `column.bounds` does so for four ranges of rows at once.

A window that is shifted against its row at t has two bounds of the same form: it starts at the first value that does
not precede t + by, and ends before the first that does not precede t + another by. A `MovedBound` is (by, floor,
ceiling, inclusive): for t below `floor` or above `ceiling`, t + by would overflow, and it precedes all values or none.
"""

from __future__ import annotations

from typing import Any

MovedBound = tuple[float, float, float, bool]
"""A bound at a distance from a row: the distance, the least and greatest time to which it can be added, and whether a
value at the bound does not precede it."""


def window_start(t: Any, size: Any, floor: Any, least: Any) -> Any:
    """t - size, or `least` where t is below `floor` and integers would overflow.

    The test comes before the subtraction: LLVM assumes that signed integers do not overflow (`nsw`), and would drop a
    test of the difference.
    """
    return least if t < floor else t - size


def precedes(value: Any, start: Any, inclusive: bool) -> bool:
    """Is a value before a window's start?"""
    return bool(value < start if inclusive else value <= start)


def first_from(values: Any, a: int, b: int, start: Any, inclusive: bool) -> int:
    """The first position in [a, b) whose value does not precede `start`, by bisection; b if there is none."""
    while a < b:
        middle = (a + b) // 2
        if precedes(values[middle], start, inclusive):
            a = middle + 1
        else:
            b = middle
    return a


def first_moved(values: Any, a: int, b: int, t: Any, bound: Any) -> int:
    """The first position in [a, b) whose value does not precede the bound of a row at t, by bisection."""
    by, floor, ceiling, inclusive = bound
    if t < floor:
        return a
    if t > ceiling:
        return b
    return first_from(values, a, b, t + by, inclusive)


def next_moved(values: Any, a: int, b: int, t: Any, bound: Any) -> int:
    """`first_moved` from the position of an earlier row on, one step at a time."""
    by, floor, ceiling, inclusive = bound
    if t < floor:
        return a
    if t > ceiling:
        return b
    while a < b and precedes(values[a], t + by, inclusive):
        a += 1
    return a
