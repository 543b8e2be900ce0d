"""Sums and means of floats over windows of many sizes, from prefix sums that do not round.

    rows        a   b   c   d   e   f
    prefix    0   a  a+b  …           P     in three parts, of which the first two are exact (`exact_sum`)
    c to f                └── P[6] − P[2]   one subtraction for each part and window; a row is split only once

Prefix sums restart at each key, and on long keys at each piece, with the rows of the longest window before it: so parts
have enough bits, and rests round little. If one result of a piece is uncertain, the whole piece is, for its size.

Cost: splitting each row once, and 5 additions per row and size; computed one size at a time, a row is split twice,
when it enters and when it leaves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.kernels.column import exact_sum
from sash.kernels.column.per_key import numpy_division
from sash.kernels.column.sum_mean import parts


@numpy_division
def prefixed(x: Any, low: int, stop: int, scratch: Any) -> float:
    """Compute prefix sums of the parts of rows [low, stop); returns the smallest result with all its digits, or -1."""
    state = scratch[3]
    if not exact_sum.begun(x, low, low, stop, stop - low, state):
        return -1.0
    parts(x, low, stop, state, scratch[0], scratch[1], scratch[2])
    highs, middles, rests = scratch[0], scratch[1], scratch[2]
    high, middle, rest, reach = 0.0, 0.0, 0.0, 0.0
    highs[0], middles[0], rests[0] = 0.0, 0.0, 0.0
    for j in range(1, stop - low + 1):
        high += highs[j]
        middle += middles[j]
        rest += rests[j]
        reach = max(reach, abs(rest))
        highs[j], middles[j], rests[j] = high, middle, rest
    return float(exact_sum.least(state, reach, 2 * (stop - low)))


@numpy_division
def grown(scratch: Any, first: int, stop: int, begin: int, divides: bool, least: float, out: Any) -> int:
    """Write the sums from one place of the prefix sums to each of [first, stop); returns how many are uncertain."""
    high, middle, rest = scratch[0, begin], scratch[1, begin], scratch[2, begin]
    highs, middles, rests = scratch[0, first:stop], scratch[1, first:stop], scratch[2, first:stop]
    bad = 0
    for j in range(stop - first):
        total = exact_sum.rounded(highs[j] - high, middles[j] - middle, rests[j] - rest)
        bad += abs(total) < least
        out[j] = total / (first + j - begin) if divides else total
    return bad


@numpy_division
def slid(scratch: Any, first: int, stop: int, size: int, divides: bool, least: float, out: Any) -> int:
    """Write the sums of the `size` rows before each of the places [first, stop); returns how many are uncertain."""
    highs, middles, rests = scratch[0, first:stop], scratch[1, first:stop], scratch[2, first:stop]
    first, stop = first - size, stop - size
    highs2, middles2, rests2 = scratch[0, first:stop], scratch[1, first:stop], scratch[2, first:stop]
    bad = 0
    for j in range(stop - first):
        total = exact_sum.rounded(highs[j] - highs2[j], middles[j] - middles2[j], rests[j] - rests2[j])
        bad += abs(total) < least
        out[j] = total / size if divides else total
    return bad


@numpy_division
def between(scratch: Any, los: Any, his: Any, low: int, divides: bool, least: float, out: Any) -> int:
    """Write the sums of ranges, whose prefix sums begin at row `low`; returns how many are uncertain."""
    highs, middles, rests = scratch[0], scratch[1], scratch[2]
    bad = 0
    for j in range(len(his)):
        # unsigned, because a signed index is tested for being negative
        came, went = np.uint64(his[j] - low), np.uint64(los[j] - low)
        total = exact_sum.rounded(highs[came] - highs[went], middles[came] - middles[went], rests[came] - rests[went])
        bad += abs(total) < least
        out[j] = total / (his[j] - los[j]) if divides else total
    return bad


def _over_sizes(divides: bool, name: str) -> tuple[Any, Any]:
    """The kernels over Count windows and over ranges: `found[k, i]` is the result of window k at row i.

    They count in `uncertain` the uncertain pieces of each window. A call may compute some of the windows only, but
    `longest`, and for ranges `lows`, the first row of each piece's windows, are those of all windows: so results do not
    depend on how many threads share the windows.
    """

    @numpy_division
    def rows(x: Any, sizes: Any, edges: Any, longest: int, found: Any, uncertain: Any, scratch: Any) -> None:
        for key in range(len(edges) - 1):
            begin, end = edges[key], edges[key + 1]
            at = begin
            while at < end:
                stop = min(at + max(exact_sum.PIECE, longest), end)
                low = max(begin, at - longest)
                least = prefixed(x, low, stop, scratch)
                for k in range(len(sizes)):
                    size, bad, out = sizes[k], int(least < 0.0), found[k]
                    if not bad:
                        full = min(max(at, begin + size), stop)
                        bad += grown(scratch, at + 1 - low, full + 1 - low, begin - low, divides, least, out[at:full])
                        bad += slid(scratch, full + 1 - low, stop + 1 - low, size, divides, least, out[full:stop])
                    uncertain[k] += bad > 0
                at = stop

    rows.__qualname__ = f"prefix.{name}.rows"

    @numpy_division
    def ranges(x: Any, los: Any, his: Any, lows: Any, longest: int, found: Any, uncertain: Any, scratch: Any) -> None:
        at, count = 0, len(his)
        for piece in range(len(lows)):
            stop, low = min(at + max(exact_sum.PIECE, longest), count), lows[piece]
            least = prefixed(x, low, np.int64(his[stop - 1]), scratch)
            for k in range(len(los)):
                bad = int(least < 0.0)
                if not bad:
                    bad += between(scratch, los[k, at:stop], his[at:stop], low, divides, least, found[k, at:stop])
                uncertain[k] += bad > 0
            at = stop

    ranges.__qualname__ = f"prefix.{name}.ranges"
    return rows, ranges


sum_of_sizes, sum_of_ranges = _over_sizes(False, "sum")
mean_of_sizes, mean_of_ranges = _over_sizes(True, "mean")
