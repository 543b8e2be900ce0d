"""Variance and standard deviation over whole columns.

Sums of x - c and of its square, for c a value near the window:

    M2 = Σ (x - c)² - (Σ (x - c))² / n

Over Count windows c serves a piece of a few windows, and the sums go on from row to row in parts that do not round
(`levels`). Where that does not do, and over spans, c is the element at the boundary of two stacks, which every window
there holds. What additions lose is added up beside them (`two_sum`), so that a sum has all its digits however many
rows it is of. The more c lies apart from the window's mean, the more digits the difference costs; a result that may
have lost three of them is in doubt, and so is one whose squares left the range of floats or may have lost digits at its
lower end. The monoid computes those.
"""

from __future__ import annotations

import math
from typing import Any

from sash.kernels.sweeps import levels
from sash.kernels.sweeps.stretch import over_keys, whole
from sash.monoids.twofold import two_sum

_LOST = 1e-3
_LARGE, _SMALL = 1e300, 1e-280
_SURE = 2.0 ** (44 - 53)
"""A sum of squared distances is to have 44 bits that no rounding of the rests has reached."""
_RANGE = 400
"""Gaps between 2**-400 and 2**400 have squares within the range of floats, and so have their parts."""
_PIECE = 256
"""Rows, at least, with a centre of their own."""
_WINDOWS = 8
"""Windows, side by side, that one centre may serve."""


@whole
def _added(gap: float, one: float, two: float, lost: float, lost2: float) -> tuple[float, float, float, float]:
    """A gap and its square added to their sums, and to what those have lost so far by rounding.

    The sums wait for one addition each, as plain ones do; what is lost is computed beside it.
    """
    one, less = two_sum(one, gap)
    two, less2 = two_sum(two, gap * gap)
    return one, two, lost + less, lost2 + less2


@whole
def doubtful(m2: float, squares: float) -> bool:
    """Is a sum of squared distances not to be trusted? A NaN is not."""
    sound = (m2 >= _LOST * squares) & (squares < _LARGE) & ((squares == 0.0) | (squares > _SMALL))
    return not sound


def _two_ways(rooted: bool, name: str) -> Any:
    """From the sums of two stacks, over Count windows."""

    @whole
    def stretch(
        x: Any, begin: int, first: int, stop: int, size: int, ddof: int, out: Any, doubt: Any, room: Any
    ) -> None:
        front, front2, following, following2, back, back2 = room[0], room[1], room[2], room[3], room[4], room[5]
        least = max(begin, first - size + 1)
        centre = x[first - 1] if first > begin else x[first]
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
            front[size], front2[size] = 0.0, 0.0  # the last window of a whole block has nothing of the front
            bad = 0
            share = 1.0 / size
            growing = min(length, max(0, begin + size - block))
            for j in range(growing):
                count = block + j + 1 - begin
                sums, squares = back[j] + front[j + 1], back2[j] + front2[j + 1]
                bad += doubtful(_placed(out, block + j, sums, squares, 1.0 / count, count - ddof, rooted), squares)
            for j in range(growing, length):
                sums, squares = back[j] + front[j + 1], back2[j] + front2[j + 1]
                bad += doubtful(_placed(out, block + j, sums, squares, share, size - ddof, rooted), squares)
            if bad:
                for j in range(length):
                    count = min(block + j + 1 - begin, size)
                    sums = back[j] + front[j + 1]
                    squares = back2[j] + front2[j + 1]
                    doubt[block + j] = doubtful(squares - sums * (sums * (1.0 / count)), squares)
            front, following = following, front
            front2, following2 = following2, front2
            centre = ahead
            block += length

    stretch.__qualname__ = f"{name}.two_ways.stretch"
    return stretch


def _spans(rooted: bool, name: str) -> Any:
    """From the sums of two stacks, over spans."""

    @whole
    def spans(x: Any, los: Any, his: Any, first: int, stop: int, ddof: int, out: Any, doubt: Any, room: Any) -> None:
        front, front2 = room[0], room[1]
        i = first
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
                if doubtful(_placed(out, i, sums, squares, 1.0 / count, count - ddof, rooted), squares):
                    doubt[i] = True
                i += 1

    spans.__qualname__ = f"{name}.spans"
    return spans


def _running(rooted: bool, name: str) -> Any:
    """Sums that go on from row to row, by `levels`; a piece in which one is in doubt is computed two ways."""

    @whole
    def slides(x: Any, begin: int, at: int, stop: int, size: int, ddof: int, out: Any, room: Any) -> int:
        bad: int = slid(x, begin, at, stop, size, ddof, rooted, out, room)
        return bad

    stretch = levels.moving(_lengths, begun, slides, _two_ways(rooted, name))
    stretch.__qualname__ = f"{name}.stretch"
    return over_keys(stretch)


_CENTRE, _BOUND, _HIGH, _REST, _HIGH2, _REST2, _REACH, _REACH2, _STEPS = range(9)


@whole
def _lengths(size: int) -> tuple[int, int]:
    piece = max(_PIECE, min(_WINDOWS * size, max(levels.PIECE, size)))
    return piece, max(1, _WINDOWS * size // piece)


@whole
def begun(x: Any, low: int, at: int, stop: int, size: int, room: Any) -> bool:
    """Begin with the window [low, at), with a centre and a bound for the rows up to `stop`; False: they have none."""
    state, gaps = room[5], room[0]
    # of three rows that in the middle: one may lie apart
    one, two, three = x[at], x[(at + stop) // 2], x[stop - 1]
    centre = max(min(one, two), min(max(one, two), three))
    exponent = -_RANGE
    for block in range(low, stop, levels.BLOCK):
        part = x[block : min(block + levels.BLOCK, stop)]
        for j in range(len(part)):
            gaps[j] = part[j] - centre
        exponent = max(exponent, levels.magnitude(gaps, 0, len(part)))
    if not -_RANGE < exponent < _RANGE:
        return False
    bound = math.ldexp(1.0, exponent + 1)  # gaps may grow on the way
    above, above2 = levels.parting(bound, size), levels.parting(bound * bound, size)
    high, rest, high2, rest2 = 0.0, 0.0, 0.0, 0.0
    window = x[low:at]
    for j in range(len(window)):
        gap = window[j] - centre
        square = gap * gap
        part, part2 = levels.high_of(gap, above), levels.high_of(square, above2)
        high += part
        rest += gap - part
        high2 += part2
        rest2 += square - part2
    state[_CENTRE], state[_BOUND], state[_STEPS] = centre, bound, at - low
    state[_HIGH], state[_REST], state[_HIGH2], state[_REST2] = high, rest, high2, rest2
    state[_REACH], state[_REACH2] = abs(rest), abs(rest2)
    return True


@whole
def slid(x: Any, begin: int, at: int, stop: int, size: int, ddof: int, rooted: bool, out: Any, room: Any) -> int:
    """Results of Count windows for rows [at, stop), from the sums of the window before them; how many are in doubt.

    Of the gaps and of their squares there are highs, whose sums are exact, and rests, whose sums round.
    """
    highs, rests, highs2, rests2, nothing, state = room[0], room[1], room[2], room[3], room[4], room[5]
    centre, bound = state[_CENTRE], state[_BOUND]
    above, above2 = levels.parting(bound, size), levels.parting(bound * bound, size)
    high, rest, high2, rest2 = state[_HIGH], state[_REST], state[_HIGH2], state[_REST2]
    bad = 0
    while at < stop:
        old = levels.leaving(x, begin, at, stop, size, nothing, centre)
        length = len(old)
        new, found = x[at : at + length], out[at : at + length]
        for j in range(length):
            gap, gone = new[j] - centre, old[j] - centre
            square, gone2 = gap * gap, gone * gone
            part, lost = levels.high_of(gap, above), levels.high_of(gone, above)
            part2, lost2 = levels.high_of(square, above2), levels.high_of(gone2, above2)
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
                bad += m2 < max(least, _LOST * highs2[j])
        else:
            share = 1.0 / size
            for j in range(length):
                m2 = _placed(found, j, highs[j], highs2[j], share, size - ddof, rooted)
                bad += m2 < max(least, _LOST * highs2[j])
        at += length
    state[_HIGH], state[_REST], state[_HIGH2], state[_REST2] = high, rest, high2, rest2
    return bad


@whole
def _placed(out: Any, at: int, sums: float, squares: float, share: float, degrees: int, rooted: bool) -> float:
    """Put a result in its place; the sum of squared distances from the mean. `share` is 1 / n."""
    m2 = squares - sums * (sums * share)
    found = m2 / degrees
    out[at] = math.sqrt(found) if rooted else found
    return m2


var_rows, var_spans = _running(False, "var"), _spans(False, "var")
std_rows, std_spans = _running(True, "std"), _spans(True, "std")
