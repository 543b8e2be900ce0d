"""Find the starts and ends of windows, for rows [first, stop) in order of key and time.

    Time         from the first row within `size` of the row's time, to the last of its peers
    Count        the last `size` rows up to the row itself
    Session      from the last row that is more than `gap` after the one before it, to the last of the peers
    Lifetime     from the key's first row, to the last of the peers
    Delta        from the first row within `size` of the row's value, to the row itself
    Punctuation  from the row after the last marked one, to the row itself
    shifted      Time and Count windows that end before their row, or after it

Peers are rows of the same key and time. Starts and ends never decrease, so each search continues from the last. The
rule for starts is that of every window (`sash.windows.rules`); the search differs: all rows are known, so that four
ranges of them are searched at once. Every kernel returns the lengths of the shortest and of the longest
window.

Bounds of windows over one table at the times of another: for each row of a spine, a place among the events.

    events    a1  a4  a4  a9  b2  b7        by key and time
    spine     a4  a8  b1                    by key and time
    place      1   3   4                    the first event of the key at or after the row's time

Places never decrease, so a search continues from the last one, in steps that double: O(log d) for a distance d. That
is a few comparisons if the spine is dense, and no scan of all events if it is sparse.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.kernels.column.per_key import key_at
from sash.monoids.algebra import noinline
from sash.windows.rules import first_from, first_moved, precedes, start_of

# --- Bounds ---

_QUARTER = 16
"""The least number of rows in each of four ranges that are searched at once."""


def by_rows(behind: int, ahead: int, edges: Any, first: int, stop: int, los: Any, his: Any) -> tuple[int, int]:
    """Windows from `behind` - 1 rows before the row to `ahead` rows after it; either may be negative."""
    key = key_at(edges, first)
    shortest, longest = stop, 0
    for i in range(first, stop):
        while edges[key + 1] <= i:
            key += 1
        begin, end = edges[key], edges[key + 1]
        hi = min(max(i + 1 + ahead, begin), end)
        lo = min(max(i + 1 - behind, begin), hi)
        los[i], his[i] = lo, hi
        shortest, longest = min(shortest, hi - lo), max(longest, hi - lo)
    return shortest, longest


def _over_keys(name: str, of_key: Any) -> Any:
    """A loop over keys. `of_key(values, given, begin, end, first, stop, los, his)` finds the bounds of one key's rows.

    `given` are the lengths or starts of windows, and [begin, end) are all rows of the key.
    """

    def over(values: Any, given: Any, edges: Any, first: int, stop: int, los: Any, his: Any) -> tuple[int, int]:
        key = key_at(edges, first)
        shortest, longest = stop - edges[key], 0
        while first < stop:
            begin, end = edges[key], edges[key + 1]
            upto = min(end, stop)
            if upto > first:
                of_key(values, given, begin, end, first, upto, los, his)
                short, long = _lengths(los[first:upto], his[first:upto])
                shortest, longest = min(shortest, short), max(longest, long)
                first = upto
            key += 1
        return shortest, longest

    over.__name__ = over.__qualname__ = name  # the name of its machine code
    return over


def _next(values: Any, a: int, b: int, t: Any, bound: Any) -> int:
    """`first_moved` from the position of an earlier row on, one step at a time."""
    by, floor, ceiling, inclusive = bound
    if t < floor:
        return a
    if t > ceiling:
        return b
    while a < b and precedes(values[a], t + by, inclusive):
        a += 1
    return a


def _by_bounds(peers: int) -> Any:
    """Windows that start at a bound, at a distance from given values, and end at another, or by `peers` if not 0."""

    def of_key(values: Any, given: Any, begin: int, end: int, first: int, stop: int, los: Any, his: Any) -> None:
        low, high, lows, highs = given
        hi = first if peers else first_moved(values, begin, end, highs[first], high)
        lo = first_moved(values, begin, hi, lows[first], low)
        for i in range(first, stop):
            hi = i if peers else _next(values, hi, end, highs[i], high)
            lo = _next(values, lo, hi, lows[i], low)
            los[i], his[i] = lo, hi
        if peers > 0:
            _behind_peers(values, end, first, stop, his)
        elif peers < 0:
            _before_peers(values, begin, first, stop, los, his)

    return _over_keys(f"by_bounds.{('both', 'last', 'first')[peers]}", of_key)


def _by_value(closed: bool, peers: int) -> Any:
    """Windows measured on a column; `given` are the distance of their starts, at most 0, and the least value.

    `closed`: the start is in the window. Windows end after the row itself (`peers` 0), after the last of its peers (1),
    or before the first of them (-1).
    """

    def of_key(values: Any, given: Any, begin: int, end: int, first: int, stop: int, los: Any, his: Any) -> None:
        by, least = given
        _starts(values, by, least, closed, begin, first, stop, los)
        if peers == 0:
            for i in range(first, stop):
                his[i] = i + 1
        elif peers > 0:
            _behind_peers(values, end, first, stop, his)
        else:
            _before_peers(values, begin, first, stop, los, his)

    return _over_keys(f"by_value.{'closed' if closed else 'open'}.{('row', 'last', 'first')[peers]}", of_key)


BY_BOUNDS = {peers: _by_bounds(peers) for peers in (-1, 0, 1)}
"""Kernels by `peers`; `given` are the two bounds, and the values from which they are measured."""

BY_VALUE = {(closed, peers): _by_value(closed, peers) for closed in (True, False) for peers in (-1, 0, 1)}
"""Kernels by `closed` and `peers`."""


def _by_sizes(closed: bool) -> Any:
    """Bounds of windows of several sizes that end after the last of the row's peers; `los` has a row for each size."""

    def over(values: Any, given: Any, edges: Any, first: int, stop: int, los: Any, his: Any) -> None:
        distances, least = given
        key = key_at(edges, first)
        while first < stop:
            begin, end = edges[key], edges[key + 1]
            upto = min(end, stop)
            if upto > first:
                for k in range(len(distances)):
                    _starts(values, distances[k], least, closed, begin, first, upto, los[k])
                _behind_peers(values, end, first, upto, his)
                first = upto
            key += 1

    over.__name__ = over.__qualname__ = f"by_sizes.{'closed' if closed else 'open'}"
    return over


BY_SIZES = {closed: _by_sizes(closed) for closed in (True, False)}
"""Kernels by `closed`."""


@noinline
def _start(values: Any, by: Any, least: Any, closed: bool, begin: int, row: int) -> int:
    """The first row of a row's window, by bisection."""
    return first_from(values, begin, row, start_of(values[row], by, least - by, least), closed)


def _step(values: Any, by: Any, least: Any, closed: bool, row: int, lo: int, los: Any) -> tuple[int, int]:
    """Advance the start by one, or assign it to the row and advance the row; without a branch to mispredict."""
    start = start_of(values[np.uint64(row)], by, least - by, least)
    on = int(precedes(values[np.uint64(lo)], start, closed) & (lo < row))
    los[np.uint64(row)] = lo
    return row + 1 - on, lo + on


def _starts(values: Any, by: Any, least: Any, closed: bool, begin: int, first: int, stop: int, los: Any) -> None:
    """Starts of the windows of one key's rows: four quarters at once, because each step waits for the last one's
    result.
    """
    count = (stop - first) // 4
    one, two, three, four = first, first + count, first + 2 * count, first + 3 * count
    lo1 = _start(values, by, least, closed, begin, one)
    if count < _QUARTER:
        _steps(values, by, least, closed, one, stop, lo1, los)
        return
    begins2, begins3, begins4 = two, three, four
    lo2 = _start(values, by, least, closed, begin, two)
    lo3 = _start(values, by, least, closed, begin, three)
    lo4 = _start(values, by, least, closed, begin, four)
    # a quarter takes a step for each row and one for each row that its start advances; all four run for as many steps
    # as the shortest takes
    steps = _start(values, by, least, closed, begin, two - 1) - lo1
    steps = min(steps, _start(values, by, least, closed, begin, three - 1) - lo2)
    steps = min(steps, _start(values, by, least, closed, begin, four - 1) - lo3)
    steps = min(steps, _start(values, by, least, closed, begin, four + count - 1) - lo4)
    for _ in range(count + steps):
        one, lo1 = _step(values, by, least, closed, one, lo1, los)
        two, lo2 = _step(values, by, least, closed, two, lo2, los)
        three, lo3 = _step(values, by, least, closed, three, lo3, los)
        four, lo4 = _step(values, by, least, closed, four, lo4, los)
    _steps(values, by, least, closed, one, begins2, lo1, los)
    _steps(values, by, least, closed, two, begins3, lo2, los)
    _steps(values, by, least, closed, three, begins4, lo3, los)
    _steps(values, by, least, closed, four, stop, lo4, los)


@noinline
def _steps(values: Any, by: Any, least: Any, closed: bool, row: int, stop: int, lo: int, los: Any) -> None:
    """Starts of rows, one at a time."""
    while row < stop:
        row, lo = _step(values, by, least, closed, row, lo, los)


def _behind_peers(values: Any, end: int, first: int, stop: int, his: Any) -> None:
    """Ends after the last row with the same value, for a key that ends at `end`."""
    hi = stop
    while hi < end and values[hi] == values[stop - 1]:
        hi += 1
    his[stop - 1] = hi
    here, behind = values[first : stop - 1], values[first + 1 : stop]
    for back in range(stop - first - 1):
        at = np.uint64(stop - first - 2 - back)
        hi = hi if here[at] == behind[at] else stop - 1 - back
        his[np.uint64(stop - 2 - back)] = hi


def _before_peers(values: Any, begin: int, first: int, stop: int, los: Any, his: Any) -> None:
    """Ends before the first row with the same value, for a key that begins at `begin`; limits starts to the ends."""
    hi = first
    while hi > begin and values[hi - 1] == values[first]:
        hi -= 1
    for row in range(first, stop):
        if row > first and values[row] != values[row - 1]:
            hi = row
        his[row] = hi
        los[row] = min(los[row], hi)


def _lengths(los: Any, his: Any) -> tuple[int, int]:
    """The lengths of the shortest and of the longest window."""
    shortest = longest = his[0] - los[0]
    for i in range(len(los)):
        shortest, longest = min(shortest, his[i] - los[i]), max(longest, his[i] - los[i])
    return int(shortest), int(longest)


def by_starts(
    starts: Any, values: Any, peers: bool, edges: Any, first: int, stop: int, los: Any, his: Any
) -> tuple[int, int]:
    """Bounds from the last row that is a start, or the key's first, to the last peer, or to the row itself."""
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
    """Bounds among the rows that an aggregate reads; `places` is the number of such rows before each row."""
    shortest, longest = len(places), 0
    for i in range(first, stop):
        lo, hi = places[los[i]], places[his[i]]
        new_los[i], new_his[i] = lo, hi
        shortest, longest = min(shortest, hi - lo), max(longest, hi - lo)
    return shortest, longest


# --- Spine bounds ---


def spine_places(
    times: Any, targets: Any, bound: Any, event_edges: Any, spine_edges: Any, first: int, stop: int, out: Any
) -> None:
    """Fill `out` for spine rows [first, stop): the first event of the key that does not precede the row's bound.

    `times` are those of the events, `targets` those of the spine. Both tables have the same keys,
    which begin at their edges.
    """
    key = key_at(spine_edges, first)
    while first < stop:
        at, end = event_edges[key], event_edges[key + 1]
        upto = min(spine_edges[key + 1], stop)
        for i in range(first, upto):
            at = _leapt(times, at, end, targets[i], bound)
            out[i] = at
        first = max(first, upto)
        key += 1


def _leapt(times: Any, a: int, b: int, t: Any, bound: Any) -> int:
    """The first place in [a, b) that does not precede the bound of a row at t; b if there is none."""
    by, floor, ceiling, inclusive = bound
    if t < floor:
        return a
    if t > ceiling:
        return b
    target, width = t + by, 1
    while a + width <= b and precedes(times[a + width - 1], target, inclusive):
        a += width
        width *= 2
    return first_from(times, a, min(a + width - 1, b), target, inclusive)
