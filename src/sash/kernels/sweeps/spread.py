"""Variance and standard deviation over whole columns.

Sums of x - c and of its square, for c the element at the boundary of front and back, which every window there holds:

    M2 = Σ (x - c)² - (Σ (x - c))² / n

The more c lies apart from the window's mean, the more digits the difference costs; a result that may have lost three
of them is in doubt, and so is one whose squares left the range of floats or may have lost digits at its lower end.
The monoid computes those.
"""

from __future__ import annotations

import math
from typing import Any

from sash.kernels.sweeps.stretch import over_keys, whole

_LOST = 1e-3
_LARGE, _SMALL = 1e300, 1e-280


@whole
def doubtful(m2: float, squares: float) -> bool:
    """Is a sum of squared distances not to be trusted? A NaN is not."""
    sound = (m2 >= _LOST * squares) & (squares < _LARGE) & ((squares == 0.0) | (squares > _SMALL))
    return not sound


def _spread(rooted: bool, name: str) -> tuple[Any, Any]:
    @whole
    def stretch(
        x: Any, begin: int, first: int, stop: int, size: int, ddof: int, out: Any, doubt: Any, room: Any
    ) -> None:
        front, front2, following, following2, back, back2 = room[0], room[1], room[2], room[3], room[4], room[5]
        least = max(begin, first - size + 1)
        centre = x[first - 1] if first > begin else x[first]
        one, two = 0.0, 0.0
        for row in range(first - 1, least - 1, -1):
            gap = x[row] - centre
            one += gap
            two += gap * gap
            front[row - first + size], front2[row - first + size] = one, two
        for j in range(least - first + size):
            front[j], front2[j] = one, two
        block = first
        while block < stop:
            length = min(size, stop - block)
            end = block + length - 1
            ahead = x[end]
            one, two, again, again2 = 0.0, 0.0, 0.0, 0.0
            for j in range(length):
                gap = x[block + j] - centre
                one += gap
                two += gap * gap
                back[j], back2[j] = one, two
                gap = x[end - j] - ahead
                again += gap
                again2 += gap * gap
                following[length - 1 - j], following2[length - 1 - j] = again, again2
            front[size], front2[size] = 0.0, 0.0  # the last window of a whole block has nothing of the front
            bad = 0
            share = 1.0 / size
            growing = min(length, max(0, begin + size - block))
            for j in range(growing):
                count = block + j + 1 - begin
                sums, squares = back[j] + front[j + 1], back2[j] + front2[j + 1]
                bad += _placed(out, block + j, sums, squares, 1.0 / count, count - ddof, rooted)
            for j in range(growing, length):
                sums, squares = back[j] + front[j + 1], back2[j] + front2[j + 1]
                bad += _placed(out, block + j, sums, squares, share, size - ddof, rooted)
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

    stretch.__qualname__ = f"{name}.stretch"

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
            one, two = 0.0, 0.0
            for row in range(flip - 1, low - 1, -1):
                gap = x[row] - centre
                one += gap
                two += gap * gap
                front[row - low], front2[row - low] = one, two
            one, two = 0.0, 0.0
            after = flip
            while i < stop and los[i] < flip:
                for row in range(after, his[i]):
                    gap = x[row] - centre
                    one += gap
                    two += gap * gap
                after = his[i]
                at = los[i] - low
                count = his[i] - los[i]
                if _placed(out, i, one + front[at], two + front2[at], 1.0 / count, count - ddof, rooted):
                    doubt[i] = True
                i += 1

    spans.__qualname__ = f"{name}.spans"
    return over_keys(stretch), spans


@whole
def _placed(out: Any, at: int, sums: float, squares: float, share: float, degrees: int, rooted: bool) -> int:
    """Put a result in its place; is it in doubt? `share` is 1 / n."""
    m2 = squares - sums * (sums * share)
    found = m2 / degrees
    out[at] = math.sqrt(found) if rooted else found
    return int(doubtful(m2, squares))


var_rows, var_spans = _spread(False, "var")
std_rows, std_spans = _spread(True, "std")
