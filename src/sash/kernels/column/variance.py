"""Variance and standard deviation over whole columns.

Sums of x - c and of its square, for c a value near the window:

    M2 = Σ (x - c)² - (Σ (x - c))² / n

Over Count windows a piece of a few windows shares one c, and the running sums consist of parts that do not round
(`exact_sum`). If that fails, and over ranges, c is the element at the boundary of two stacks, which is in every window
there. The rounding errors of additions are summed, too (`two_sum`), so that a sum has all its digits for any number of
rows. The farther c is from the window's mean, the more digits the difference loses; a result that may have lost three
of them is uncertain, and so is one whose squares overflow or may have lost digits by underflow. The monoid computes
those. If the values of a window are all equal, its variance is 0, and certain.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sash.kernels.column import exact_sum
from sash.kernels.column.per_key import numpy_division, over_keys, over_uncertain
from sash.monoids.double_double import two_sum

_LOST = 1e-3
_LARGE, _SMALL = 1e300, 1e-280
_SURE = 2.0 ** (44 - 53)
"""The first 44 bits of a sum of squared distances must be without rounding errors of the rests."""
_RANGE = 400
"""Squares of gaps between 2**-400 and 2**400, and their parts, are within the range of floats."""
_PIECE = 256
"""The least number of rows that share a centre."""
_WINDOWS = 8
"""The greatest number of adjacent windows that share a centre."""


@numpy_division
def _added(gap: float, one: float, two: float, lost: float, lost2: float) -> tuple[float, float, float, float]:
    """Add a gap and its square to their sums, and their rounding errors to the sums of errors.

    The critical path has one addition for each sum; the errors are computed in parallel.
    """
    one, less = two_sum(one, gap)
    two, less2 = two_sum(two, gap * gap)
    return one, two, lost + less, lost2 + less2


@numpy_division
def is_uncertain(m2: float, squares: float) -> bool:
    """Is a sum of squared distances uncertain? NaN and 0 are: squares may have been lost."""
    sound = (m2 >= _LOST * squares) & (squares < _LARGE) & (squares > _SMALL)
    return not sound


@numpy_division
def run_to(x: Any, low: int, high: int, after: int, run: int) -> tuple[int, int]:
    """The first of the equal values at the end of the rows [low, high); `low` or less if all are equal.

    `after` and `run` are `high` and the result for the rows before, whose bounds were no larger.
    """
    if after <= low:
        after, run = low + 1, low
    while after < high:
        if x[after] != x[after - 1]:
            run = after
        after += 1
    return after, run


def _two_ways(rooted: bool, name: str) -> Any:
    """Variances from the sums of two stacks, over Count windows."""

    @numpy_division
    def one_key(
        x: Any, begin: int, first: int, stop: int, size: int, ddof: int, out: Any, uncertain: Any, scratch: Any
    ) -> None:
        front, front2, following, following2 = scratch[0], scratch[1], scratch[2], scratch[3]
        back, back2 = scratch[4], scratch[5]
        least = max(begin, first - size + 1)
        centre = x[first - 1] if first > begin else x[first]
        after, run = begin, begin
        one, two, lost, lost2 = 0.0, 0.0, 0.0, 0.0
        for row in range(first - 1, least - 1, -1):
            one, two, lost, lost2 = _added(x[row] - centre, one, two, lost, lost2)
            front[row - first + size], front2[row - first + size] = one + lost, two + lost2
        for j in range(least - first + size):
            front[j], front2[j] = one + lost, two + lost2
        block = first
        while block < stop:
            length = min(size, stop - block)
            end = block + length - 1
            ahead = x[end]
            one, two, lost, lost2 = 0.0, 0.0, 0.0, 0.0
            again, again2, less, less2 = 0.0, 0.0, 0.0, 0.0
            for j in range(length):
                one, two, lost, lost2 = _added(x[block + j] - centre, one, two, lost, lost2)
                back[j], back2[j] = one + lost, two + lost2
                again, again2, less, less2 = _added(x[end - j] - ahead, again, again2, less, less2)
                following[length - 1 - j], following2[length - 1 - j] = again + less, again2 + less2
            front[size], front2[size] = 0.0, 0.0  # the last window of a whole block contains no row of the front
            bad = 0
            share = 1.0 / size
            growing = min(length, max(0, begin + size - block))
            for j in range(growing):
                count = block + j + 1 - begin
                sums, squares = back[j] + front[j + 1], back2[j] + front2[j + 1]
                bad += is_uncertain(_placed(out, block + j, sums, squares, 1.0 / count, count - ddof, rooted), squares)
            for j in range(growing, length):
                sums, squares = back[j] + front[j + 1], back2[j] + front2[j + 1]
                bad += is_uncertain(_placed(out, block + j, sums, squares, share, size - ddof, rooted), squares)
            if bad:
                for j in range(length):
                    count = min(block + j + 1 - begin, size)
                    sums = back[j] + front[j + 1]
                    squares = back2[j] + front2[j + 1]
                    if is_uncertain(squares - sums * (sums * (1.0 / count)), squares):
                        row = block + j
                        after, run = run_to(x, row + 1 - count, row + 1, after, run)
                        uncertain[row] = not _settled(out, row, run <= row + 1 - count, x[row], count - ddof)
            front, following = following, front
            front2, following2 = following2, front2
            centre = ahead
            block += length

    one_key.__qualname__ = f"{name}.two_ways.one_key"
    return over_uncertain(one_key)


def _ranges(rooted: bool, name: str) -> Any:
    """Variances from the sums of two stacks, over ranges."""

    @numpy_division
    def ranges(
        x: Any, los: Any, his: Any, first: int, stop: int, ddof: int, out: Any, uncertain: Any, scratch: Any
    ) -> None:
        front, front2 = scratch[0], scratch[1]
        i = first
        seen = run = np.int64(0)
        while i < stop:
            low, flip = los[i], his[i]
            if low == flip:
                i += 1
                continue
            centre = x[flip - 1]
            one, two, lost, lost2 = 0.0, 0.0, 0.0, 0.0
            for row in range(flip - 1, low - 1, -1):
                one, two, lost, lost2 = _added(x[row] - centre, one, two, lost, lost2)
                front[row - low], front2[row - low] = one + lost, two + lost2
            one, two, lost, lost2 = 0.0, 0.0, 0.0, 0.0
            after = flip
            while i < stop and los[i] < flip:
                for row in range(after, his[i]):
                    one, two, lost, lost2 = _added(x[row] - centre, one, two, lost, lost2)
                after = his[i]
                at = los[i] - low
                count = his[i] - los[i]
                sums, squares = one + (lost + front[at]), two + (lost2 + front2[at])
                if is_uncertain(_placed(out, i, sums, squares, 1.0 / count, count - ddof, rooted), squares):
                    seen, run = run_to(x, los[i], his[i], seen, run)
                    uncertain[i] = not _settled(out, i, run <= los[i], x[his[i] - 1], count - ddof)
                i += 1

    ranges.__qualname__ = f"{name}.ranges"
    return ranges


def _running(rooted: bool, name: str) -> Any:
    """Running sums by `exact_sum`; if one result of a piece is uncertain, the whole piece is."""

    @numpy_division
    def slides(x: Any, begin: int, at: int, stop: int, size: int, ddof: int, out: Any, scratch: Any) -> int:
        bad: int = slid(x, begin, at, stop, size, ddof, rooted, out, scratch)
        return bad

    one_key = exact_sum.moving(_lengths, begun, slides)
    one_key.__qualname__ = f"{name}.one_key"
    return over_keys(one_key)


_CENTRE, _BOUND, _HIGH, _REST, _HIGH2, _REST2, _REACH, _REACH2, _STEPS = range(9)


@numpy_division
def _lengths(size: int) -> tuple[int, int]:
    piece = max(_PIECE, min(_WINDOWS * size, max(exact_sum.PIECE, size)))
    return piece, max(1, _WINDOWS * size // piece)


@numpy_division
def begun(x: Any, low: int, at: int, stop: int, size: int, scratch: Any) -> bool:
    """Start with the window [low, at), with a centre and a bound for the rows up to `stop`; returns False if that is
    not possible.
    """
    state, gaps = scratch[5], scratch[0]
    # the median of three rows: one may be an outlier
    one, two, three = x[at], x[(at + stop) // 2], x[stop - 1]
    centre = max(min(one, two), min(max(one, two), three))
    exponent = -_RANGE
    for block in range(low, stop, exact_sum.BLOCK):
        part = x[block : min(block + exact_sum.BLOCK, stop)]
        for j in range(len(part)):
            gaps[j] = part[j] - centre
        exponent = max(exponent, exact_sum.magnitude(gaps, 0, len(part)))
    if not -_RANGE < exponent < _RANGE:
        return False
    bound = math.ldexp(1.0, exponent + 1)  # gaps may grow
    above, above2 = exact_sum.split_constant(bound, size), exact_sum.split_constant(bound * bound, size)
    high, rest, high2, rest2 = 0.0, 0.0, 0.0, 0.0
    window = x[low:at]
    for j in range(len(window)):
        gap = window[j] - centre
        square = gap * gap
        part, part2 = exact_sum.high_of(gap, above), exact_sum.high_of(square, above2)
        high += part
        rest += gap - part
        high2 += part2
        rest2 += square - part2
    state[_CENTRE], state[_BOUND], state[_STEPS] = centre, bound, at - low
    state[_HIGH], state[_REST], state[_HIGH2], state[_REST2] = high, rest, high2, rest2
    state[_REACH], state[_REACH2] = abs(rest), abs(rest2)
    return True


@numpy_division
def slid(x: Any, begin: int, at: int, stop: int, size: int, ddof: int, rooted: bool, out: Any, scratch: Any) -> int:
    """Write the results of Count windows for rows [at, stop), from the sums of the window before; returns how many are
    uncertain.

    Gaps and their squares are split into highs, whose sums are exact, and rests, whose sums round.
    """
    highs, rests, highs2, rests2 = scratch[0], scratch[1], scratch[2], scratch[3]
    nothing, state = scratch[4], scratch[5]
    centre, bound = state[_CENTRE], state[_BOUND]
    above, above2 = exact_sum.split_constant(bound, size), exact_sum.split_constant(bound * bound, size)
    high, rest, high2, rest2 = state[_HIGH], state[_REST], state[_HIGH2], state[_REST2]
    bad = 0
    while at < stop:
        length = exact_sum.block_length(begin, at, stop, size, nothing, centre)
        old = nothing[:length] if at < begin + size else x[at - size : at - size + length]
        new, found = x[at : at + length], out[at : at + length]
        for j in range(length):
            gap, gone = new[j] - centre, old[j] - centre
            square, gone2 = gap * gap, gone * gone
            part, lost = exact_sum.high_of(gap, above), exact_sum.high_of(gone, above)
            part2, lost2 = exact_sum.high_of(square, above2), exact_sum.high_of(gone2, above2)
            highs[j], rests[j] = part - lost, (gap - part) - (gone - lost)
            highs2[j], rests2[j] = part2 - lost2, (square - part2) - (gone2 - lost2)
            bad += not abs(gap) < bound
        for j in range(length):
            high += highs[j]
            rest += rests[j]
            high2 += highs2[j]
            rest2 += rests2[j]
            highs[j], highs2[j] = high + rest, high2 + rest2
        state[_STEPS] += length
        state[_REACH], state[_REACH2] = max(state[_REACH], abs(rest)), max(state[_REACH2], abs(rest2))
        reach, reach2 = state[_REACH] + above * 2.0**-51 * length, state[_REACH2] + above2 * 2.0**-51 * length
        least = _SURE * state[_STEPS] * (reach2 + 2.0 * bound * reach)
        if at < begin + size:
            for j in range(length):
                count = at + j + 1 - begin
                m2 = _placed(found, j, highs[j], highs2[j], 1.0 / count, count - ddof, rooted)
                bad += (m2 < max(least, _LOST * highs2[j])) & (count > 2)
            second = begin + 1 - at
            if 0 <= second < length:
                # two rows are often nearer to each other than to the centre; the variance of one row is exactly 0
                gap = x[begin + 1] - x[begin]
                _placed(found, second, 0.0, gap * gap * 0.5, 0.5, 2 - ddof, rooted)
                bad += (gap * gap < _SMALL) & (gap != 0.0)
        else:
            share = 1.0 / size
            for j in range(length):
                m2 = _placed(found, j, highs[j], highs2[j], share, size - ddof, rooted)
                bad += m2 < max(least, _LOST * highs2[j])
        at += length
    state[_HIGH], state[_REST], state[_HIGH2], state[_REST2] = high, rest, high2, rest2
    return bad


@numpy_division
def _placed(out: Any, at: int, sums: float, squares: float, share: float, degrees: int, rooted: bool) -> float:
    """Write a result; returns the sum of squared distances from the mean. `share` is 1 / n."""
    m2 = squares - sums * (sums * share)
    found = m2 / np.float64(degrees)  # Python's division by zero raises
    out[at] = math.sqrt(found) if rooted else found
    return m2


@numpy_division
def _settled(out: Any, at: int, equal: bool, value: float, degrees: int) -> bool:
    """Write 0 if all values are equal and finite; else return False."""
    if equal and value - value == 0.0:
        out[at] = 0.0 / np.float64(degrees)
        return True
    return False


var_rows, var_ranges = _running(False, "var"), _ranges(False, "var")
std_rows, std_ranges = _running(True, "std"), _ranges(True, "std")
var_rows_recomputed, std_rows_recomputed = _two_ways(False, "var"), _two_ways(True, "std")
