"""Where windows start and end, for rows [first, stop) in order of key and time.

    Time       from the first row within `size` of the row's time, to the last of its peers
    Count      the last `size` rows up to the row itself
    Session    from the row that came `gap` or more after the one before it, to the last of the peers
    Lifetime   from the key's first row, to the last of the peers
    Delta      from the first row within `size` of the row's value, to the row itself
    Punctuation  from the row after the last marked one, to the row itself

Starts and ends never go back, so each is found by going on from the last: one step a row. Every kernel returns the
lengths of the shortest and of the longest window.
"""

from __future__ import annotations

from typing import Any

from sash.kernels.sweeps.stretch import key_at


def by_rows(size: int, edges: Any, first: int, stop: int, los: Any, his: Any) -> tuple[int, int]:
    """The last `size` rows of the key."""
    key = key_at(edges, first)
    shortest, longest = stop, 0
    for i in range(first, stop):
        while edges[key + 1] <= i:
            key += 1
        lo = max(edges[key], i + 1 - size)
        los[i], his[i] = lo, i + 1
        shortest, longest = min(shortest, i + 1 - lo), max(longest, i + 1 - lo)
    return shortest, longest


def _by_value(closed: bool, peers: int) -> Any:
    """Rows whose value is beyond the row's, less the size (`closed`: or at it); `least` where that would wrap around.

    Ends: at the row itself (`peers` 0), behind the last of its peers (1), or at the first of them (-1).
    """

    def by_value(
        values: Any, size: Any, least: Any, edges: Any, first: int, stop: int, los: Any, his: Any
    ) -> tuple[int, int]:
        key = key_at(edges, first)
        begin, end = edges[key], edges[key + 1]
        lo, hi = _first_beyond(values, begin, first, _below(values[first], size, least), closed), first
        if peers < 0:
            while hi > begin and values[hi - 1] == values[first]:
                hi -= 1
        shortest, longest = stop - begin, 0
        for i in range(first, stop):
            if i >= end:
                while edges[key + 1] <= i:
                    key += 1
                begin, end = edges[key], edges[key + 1]
                lo, hi = begin, begin
            value = values[i]
            low = _below(value, size, least)
            while lo < i and (values[lo] < low if closed else values[lo] <= low):
                lo += 1
            if peers == 0:
                hi = i + 1
            elif peers > 0:
                hi = max(hi, i + 1)
                while hi < end and values[hi] == value:
                    hi += 1
            elif i > begin and value != values[i - 1]:
                hi = i
            start = min(lo, hi)
            los[i], his[i] = start, hi
            shortest, longest = min(shortest, hi - start), max(longest, hi - start)
        return shortest, longest

    by_value.__qualname__ = f"by_value.{'closed' if closed else 'open'}.{('row', 'last', 'first')[peers]}"
    return by_value


BY_VALUE = {(closed, peers): _by_value(closed, peers) for closed in (True, False) for peers in (-1, 0, 1)}
"""By whether the start is inside, and by where windows end."""


def _below(value: Any, size: Any, least: Any) -> Any:
    low = value - size
    return low if low <= value else least


def _first_beyond(values: Any, low: int, high: int, threshold: Any, closed: bool) -> int:
    """The first of the places [low, high], whose values rise, with a value beyond a threshold (`closed`: or at it)."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] < threshold or (not closed and values[middle] == threshold):
            low = middle + 1
        else:
            high = middle
    return low


def by_starts(
    starts: Any, values: Any, peers: bool, edges: Any, first: int, stop: int, los: Any, his: Any
) -> tuple[int, int]:
    """From the last row that is a start, or the key's first, to the last of the row's peers, or to the row itself."""
    key = key_at(edges, first)
    begin, end = edges[key], edges[key + 1]
    lo, hi = first, first
    while lo > begin and not starts[lo]:
        lo -= 1
    shortest, longest = stop - begin, 0
    for i in range(first, stop):
        if i >= end:
            while edges[key + 1] <= i:
                key += 1
            begin, end = edges[key], edges[key + 1]
            lo, hi = begin, begin
        if starts[i]:
            lo = i
        hi = max(hi, i + 1)
        if peers:
            while hi < end and values[hi] == values[i]:
                hi += 1
        los[i], his[i] = lo, hi
        shortest, longest = min(shortest, hi - lo), max(longest, hi - lo)
    return shortest, longest


def mapped(places: Any, los: Any, his: Any, first: int, stop: int, new_los: Any, new_his: Any) -> tuple[int, int]:
    """Bounds among the rows that an aggregate sees: `places` says how many of these lie before each row."""
    shortest, longest = len(places), 0
    for i in range(first, stop):
        lo, hi = places[los[i]], places[his[i]]
        new_los[i], new_his[i] = lo, hi
        shortest, longest = min(shortest, hi - lo), max(longest, hi - lo)
    return shortest, longest


def held(los: Any, his: Any, least: int, first: int, stop: int, out: Any) -> None:
    """Which spans hold at least so many rows."""
    for i in range(first, stop):
        out[i] = his[i] - los[i] >= least
