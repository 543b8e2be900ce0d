"""Sums that may be added to and taken from without rounding: each float in three parts, summed apart.

    x  =  high  +  middle  +  rest
          │        │          what is left: some 2**-90 of the largest value, in sums that are rounded
          │        a multiple of a second unit, small enough that a window's sum of them is not rounded
          a multiple of a unit so coarse that the sum of a window's highs has no more than 53 bits

So a running sum of highs is exact, whatever came and went, and that of middles too; only the rests round, far below
the digits of the result. How far is known: `least` is the smallest result that has all its digits, and a smaller one
is computed otherwise. Where no value has a rest, nothing rounds at all. Parting a float takes two
additions (Rump, Ogita and Oishi, SIAM J. Sci. Comput. 31, 2008), which a processor does for four at once.

A sum is begun for values of some magnitude, with scratch for somewhat larger ones; who goes on with it has to see that
they stay below the bound. For values that are not finite, or near the upper end of the range, none can be begun.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from sash.kernels.column.per_key import numpy_division

BLOCK = 512
"""Rows whose parts lie in the fastest memory at once."""
PIECE = 8192
"""Rows, at least, that are computed anew if one of them is uncertain."""
RUNS = 16
"""Pieces after which a sum begins anew, so that the rounding of the rests has an end."""

HIGH, MIDDLE, REST, BOUND, ABOVE, BELOW, RESTS, REACH, STEPS = range(9)
"""What the state of a sum holds: the three sums; what values must stay below; what parts highs and middles; how many
values had a rest; the largest sum of rests that was seen; how often it was rounded."""

_LARGEST = sys.float_info.max
_SPARE = 2
"""Bits that values may grow by before a sum must begin anew."""
_LOWEST, _HIGHEST = -800, 900
_DIGITS = 60
"""Bits of a result that are right, before it is rounded to 53."""
_MARGIN = 2.0 ** (_DIGITS - 52)


@numpy_division
def magnitude(x: Any, first: int, stop: int) -> int:
    """The least e so that all values are below 2**e; 1025 if some are not finite, -1074 if all are 0."""
    # four at once, for each has to wait for the one before it
    quarter = (stop - first) // 4
    a, b, c, d = x[first:stop], x[first + quarter : stop], x[first + 2 * quarter : stop], x[first + 3 * quarter : stop]
    one, two, three, four = 0.0, 0.0, 0.0, 0.0
    odd = 0
    for j in range(quarter):
        one, two = max(one, abs(a[j])), max(two, abs(b[j]))
        three, four = max(three, abs(c[j])), max(four, abs(d[j]))
    for j in range(quarter, len(d)):
        four = max(four, abs(d[j]))
    for j in range(len(a)):  # a NaN is no larger than others
        odd += not abs(a[j]) <= _LARGEST
    one, three = max(one, two), max(three, four)
    most = max(one, three)
    return 1025 if odd else int(math.frexp(most)[1]) if most else -1074


@numpy_division
def bits_of(count: int) -> int:
    """The least b with count < 2**b."""
    return int(math.frexp(float(count))[1])


@numpy_division
def parting(bound: float, size: int) -> float:
    """What parts the highs of values within a bound, a power of two, of which up to `size` are summed."""
    return math.ldexp(1.5 * bound, bits_of(size))


@numpy_division
def high_of(value: float, above: float) -> float:
    """The high of a value."""
    return (value + above) - above


@numpy_division
def begun(x: Any, low: int, at: int, stop: int, size: int, state: Any) -> bool:
    """Begin a sum of up to `size` rows: [low, at) now, then such as those up to `stop`; False: there can be none."""
    exponent = max(magnitude(x, low, stop), _LOWEST) + _SPARE
    if exponent > _HIGHEST:
        return False
    state[BOUND] = math.ldexp(1.0, exponent)
    state[ABOVE] = parting(state[BOUND], size)
    state[BELOW] = parting(state[ABOVE] / 1.5 * 2.0**-53, size)
    state[HIGH], state[MIDDLE], state[REST] = 0.0, 0.0, 0.0
    state[STEPS], state[RESTS], state[REACH] = 0.0, 0.0, 0.0
    summed(x, low, at, state, 1.0)
    return True


@numpy_division
def least(state: Any, rest: float, steps: int) -> float:
    """After so many more steps: the smallest result that has all its digits.

    Every step may have rounded the sum of rests, at most by half of its last digit; between two looks at it, it grew
    by no more than a rest for each row that came or went.
    """
    state[STEPS] += steps
    state[REACH] = max(state[REACH], abs(rest))
    if state[RESTS] == 0.0:
        return 0.0
    unit = state[BELOW] * 2.0**-52
    return float((state[REACH] + 2.0 * steps * unit) * state[STEPS] * _MARGIN)


@numpy_division
def parted(value: float, above: float, below: float) -> tuple[float, float, float]:
    """High, middle and rest of a value."""
    high = high_of(value, above)
    left = value - high
    middle = high_of(left, below)
    return high, middle, left - middle


@numpy_division
def rounded(high: float, middle: float, rest: float) -> float:
    """The sum of the sums. Highs are multiples of the last digit of any middle, so their sum loses nothing."""
    total = high + middle
    return total + ((middle - (total - high)) + rest)


@numpy_division
def summed(x: Any, first: int, stop: int, state: Any, sign: float) -> int:
    """Add rows (`sign` 1) or take them off (-1); how many are too large to be parted so."""
    values = x[first:stop]
    high, middle, rest = 0.0, 0.0, 0.0
    some, bad = 0, 0
    for j in range(stop - first):
        one, two, three = parted(values[j], state[ABOVE], state[BELOW])
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
    """How many of the next rows, a block at most, have Count windows that all grow, or from all of which a row leaves.

    If they grow, so many values of `nothing` become `zero`: they stand for the rows that leave.
    """
    length = min(BLOCK, stop - at)
    if at < begin + size:
        length = min(length, begin + size - at)
        for j in range(length):
            nothing[j] = zero
    return length


def moving(lengths: Any, begun: Any, slid: Any) -> Any:
    """A kernel for the rows of one key whose sums go on from row to row, a piece at a time.

    `lengths` of a size says how many rows a piece has, and after how many pieces to begin anew; `begun` begins with the
    window before a piece, if it can; `slid` goes on, and says how many results are uncertain: then the whole piece is.
    Each is called in one place, for it is compiled there, inlined.
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
