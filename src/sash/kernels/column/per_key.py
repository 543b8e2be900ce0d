"""Turn a kernel for the rows of one key into a kernel for a range of rows of many keys.

    edges     0           4       7               the first row of each key, and the number of rows
    rows      a a a a     b b b   c c c …
                  ├───── range ─────┤             a thread's rows
              calls   a[2:4]  b[0:3]  c[0:2]

A call that begins in the middle of a key reads the rows before it, so ranges are independent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

OneKeyKernel = Callable[..., None]
"""Fills the results of rows [first, stop) of a key that begins at `begin`; windows have up to `size` rows."""


def numpy_division(kernel: Any) -> Any:
    """Let a kernel divide as NumPy does: Python's check for 0 prevents vectorisation."""
    kernel.error_model = "numpy"
    return kernel


def over_keys(one_key: OneKeyKernel) -> Any:
    """The kernel that runs `one_key` for each key in a range of rows."""

    @numpy_division
    def over(
        x: Any, size: int, edges: Any, first: int, stop: int, setting: int, out: Any, uncertain: Any, scratch: Any
    ) -> None:
        key = key_at(edges, first)
        while first < stop:
            begin, end = edges[key], min(edges[key + 1], stop)
            if end > first:
                # no window is longer than its key, so blocks need not be either
                one_key(x, begin, first, end, min(size, edges[key + 1] - begin), setting, out, uncertain, scratch)
                first = end
            key += 1

    over.__qualname__ = f"over_keys.{one_key.__qualname__}"  # the name of its machine code
    return over


def over_uncertain(one_key: OneKeyKernel) -> Any:
    """The kernel that runs `one_key` for each run of uncertain rows in a key."""

    @numpy_division
    def over(
        x: Any, size: int, edges: Any, first: int, stop: int, setting: int, out: Any, uncertain: Any, scratch: Any
    ) -> None:
        key = key_at(edges, first)
        while first < stop:
            begin, end = edges[key], min(edges[key + 1], stop)
            while first < end:
                until = settled(uncertain, first, end)
                if until > first:
                    one_key(x, begin, first, until, min(size, edges[key + 1] - begin), setting, out, uncertain, scratch)
                first = max(until, first + 1)
            key += 1

    over.__qualname__ = f"over_uncertain.{one_key.__qualname__}"
    return over


def over_uncertain_ranges(ranges: Any) -> Any:
    """The kernel that runs `ranges` for each run of uncertain rows."""

    @numpy_division
    def over(
        x: Any, los: Any, his: Any, first: int, stop: int, setting: int, out: Any, uncertain: Any, scratch: Any
    ) -> None:
        while first < stop:
            until = settled(uncertain, first, stop)
            if until > first:
                ranges(x, los, his, first, until, setting, out, uncertain, scratch)
            first = max(until, first + 1)

    over.__qualname__ = f"over_uncertain_ranges.{ranges.__qualname__}"
    return over


def settled(uncertain: Any, first: int, stop: int) -> int:
    """Clear the marks of the uncertain results from `first` on; returns the first that is not uncertain."""
    while first < stop and uncertain[first]:
        uncertain[first] = False
        first += 1
    return first


def key_at(edges: Any, row: int) -> int:
    """The key of a row: the last that begins at or before it."""
    low, high = 0, len(edges) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if edges[middle] <= row:
            low = middle
        else:
            high = middle
    return low
