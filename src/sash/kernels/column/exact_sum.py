"""Running sums of floats without rounding: each float is split into three parts, which are summed separately.

    x  =  high  +  middle  +  rest
          │        │          the remainder: some 2**-90 of the largest value, in sums that are rounded
          │        a multiple of a second unit, small enough that a window's sum of them is not rounded
          a multiple of a unit so coarse that the sum of a window's highs has no more than 53 bits

So running sums of highs and of middles are exact, whatever was added and subtracted; only the rests round, far below
the digits of the result. The error is bounded: `least` is the smallest result with all its digits, and smaller results
are recomputed by other kernels. If no value has a rest, nothing rounds. Splitting a float takes two additions (Rump,
Ogita and Oishi, SIAM J. Sci. Comput. 31, 2008), vectorised four at a time.

A sum is started for values of some magnitude, and accepts somewhat larger ones; the caller must check that values stay
below the bound. There is no such sum of values that are not finite, or near the upper end of the range.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from sash.kernels.column.per_key import numpy_division

BLOCK = 512
"""The number of rows whose parts fit into the L1 cache."""
PIECE = 8192
"""The least number of rows to recompute if one of them is uncertain."""
RUNS = 16
"""The number of pieces after which a sum restarts, to bound the rounding of the rests."""

HIGH, MIDDLE, REST, BOUND, ABOVE, BELOW, RESTS, REACH, STEPS = range(9)
"""The state of a sum: the three sums; the bound of values; the constants that split off highs and middles; the number
of values with a rest; the largest sum of rests so far; the number of roundings."""

_LARGEST = sys.float_info.max
_SPARE = 2
"""Bits that values may grow by before a sum must restart."""
_LOWEST, _HIGHEST = -800, 900
_DIGITS = 60
"""Correct bits of a result before it is rounded to 53."""
_MARGIN = 2.0 ** (_DIGITS - 52)


@numpy_division
def magnitude(x: Any, first: int, stop: int) -> int:
    """The least e so that all values are below 2**e; 1025 if some are not finite, -1074 if all are 0."""
    # four at once, because each step waits for the result of the last
    quarter = (stop - first) // 4
    a, b, c, d = x[first:stop], x[first + quarter : stop], x[first + 2 * quarter : stop], x[first + 3 * quarter : stop]
    one, two, three, four = 0.0, 0.0, 0.0, 0.0
    odd = 0
    for j in range(quarter):
        one, two = max(one, abs(a[j])), max(two, abs(b[j]))
        three, four = max(three, abs(c[j])), max(four, abs(d[j]))
    for j in range(quarter, len(d)):
        four = max(four, abs(d[j]))
    for j in range(len(a)):  # the maximum does not find NaN
        odd += not abs(a[j]) <= _LARGEST
    one, three = max(one, two), max(three, four)
    most = max(one, three)
    return 1025 if odd else int(math.frexp(most)[1]) if most else -1074


@numpy_division
def bits_of(count: int) -> int:
    """The least b with count < 2**b."""
    return int(math.frexp(float(count))[1])


@numpy_division
def split_constant(bound: float, size: int) -> float:
    """The constant that splits values below a power of two into high and low parts, for sums of up to `size` values."""
    return math.ldexp(1.5 * bound, bits_of(size))


@numpy_division
def high_of(value: float, above: float) -> float:
    """The high part of a value."""
    return (value + above) - above


@numpy_division
def begun(x: Any, low: int, at: int, stop: int, size: int, state: Any) -> bool:
    """Start a sum of up to `size` rows with [low, at), for rows up to `stop`; returns False if that is not possible."""
    exponent = max(magnitude(x, low, stop), _LOWEST) + _SPARE
    if exponent > _HIGHEST:
        return False
    state[BOUND] = math.ldexp(1.0, exponent)
    state[ABOVE] = split_constant(state[BOUND], size)
    state[BELOW] = split_constant(state[ABOVE] / 1.5 * 2.0**-53, size)
    state[HIGH], state[MIDDLE], state[REST] = 0.0, 0.0, 0.0
    state[STEPS], state[RESTS], state[REACH] = 0.0, 0.0, 0.0
    summed(x, low, at, state, 1.0)
    return True


@numpy_division
def least(state: Any, rest: float, steps: int) -> float:
    """The smallest result with all its digits, after `steps` more steps.

    Every step may have rounded the sum of rests by at most half of its last digit; between two checks it grew by no
    more than a rest for each row that entered or left.
    """
    state[STEPS] += steps
    state[REACH] = max(state[REACH], abs(rest))
    if state[RESTS] == 0.0:
        return 0.0
    unit = state[BELOW] * 2.0**-52
    return float((state[REACH] + 2.0 * steps * unit) * state[STEPS] * _MARGIN)


@numpy_division
def split(value: float, above: float, below: float) -> tuple[float, float, float]:
    """Split a value into its high, middle and rest parts."""
    high = high_of(value, above)
    left = value - high
    middle = high_of(left, below)
    return high, middle, left - middle


@numpy_division
def rounded(high: float, middle: float, rest: float) -> float:
    """The total of the three sums. Highs are multiples of the last digit of any middle, so their sum is exact."""
    total = high + middle
    return total + ((middle - (total - high)) + rest)


@numpy_division
def summed(x: Any, first: int, stop: int, state: Any, sign: float) -> int:
    """Add rows (`sign` 1) or subtract them (-1); returns how many are too large to be split."""
    values = x[first:stop]
    high, middle, rest = 0.0, 0.0, 0.0
    some, bad = 0, 0
    for j in range(stop - first):
        one, two, three = split(values[j], state[ABOVE], state[BELOW])
        high += one
        middle += two
        rest += three
        some += three != 0.0
        bad += not abs(values[j]) < state[BOUND]
    state[HIGH] += sign * high
    state[MIDDLE] += sign * middle
    state[REST] += sign * rest
    state[RESTS] += some
    state[STEPS] += stop - first
    state[REACH] = max(state[REACH], abs(rest) + abs(state[REST]))
    return bad


@numpy_division
def block_length(begin: int, at: int, stop: int, size: int, nothing: Any, zero: float) -> int:
    """The length of the next block of rows whose Count windows all grow, or all lose a row.

    If they grow, that many values of `nothing` become `zero`, in place of the rows that leave.
    """
    length = min(BLOCK, stop - at)
    if at < begin + size:
        length = min(length, begin + size - at)
        for j in range(length):
            nothing[j] = zero
    return length


def moving(lengths: Any, begun: Any, slid: Any) -> Any:
    """A kernel of running sums for the rows of one key, a piece at a time.

    `lengths(size)` returns the number of rows of a piece, and the number of pieces before a restart; `begun` starts
    with the window before a piece, if possible; `slid` continues, and returns the number of uncertain results: if there
    are any, the whole piece is uncertain. Each has one call site, because it is inlined there.
    """

    @numpy_division
    def one_key(
        x: Any, begin: int, first: int, stop: int, size: int, setting: int, out: Any, uncertain: Any, scratch: Any
    ) -> None:
        piece, most = lengths(size)
        runs, at = most, first
        while at < stop:
            end = min(at + piece, stop)
            bad, tries = 1, 0 if runs < most else 1
            while bad and tries < 2:
                if tries == 1:
                    if not begun(x, max(begin, at - size), at, end, size, scratch):
                        break
                    runs = 0
                bad = slid(x, begin, at, end, size, setting, out, scratch)
                tries += 1
            if bad:
                uncertain[at:end] = True
                runs = most
            runs += 1
            at = end

    return one_key
