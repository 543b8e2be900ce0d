"""Sums and means over whole columns.

Floats are added up with what each addition lost beside them (`two_sum`; sums of this kind are as
good as ones in twice the precision, as Ogita, Rump and Oishi show in SIAM J. Sci. Comput. 26, 2005), and joined from
two such sums, never subtracted. A sum that is not finite is left to the monoid, which knows an overflow on the way
from an infinite input.

Integers are exact in two words, value = high * 2**32 + low, so those that leave are taken off. A sum beyond 64 bits is
left to the monoid, which raises.
"""

from __future__ import annotations

import math
from typing import Any

from sash.kernels.sweeps.stretch import over_keys, whole
from sash.monoids.twofold import two_sum

_LOW = 2**32 - 1
_WORD = 2**31


@whole
def joined(high: float, rest: float, other: float, other_rest: float) -> float:
    """The sum of two sums, each with what it lost."""
    total, lost = two_sum(high, other)
    return total + (lost + (rest + other_rest))


def _totals(divides: bool, name: str) -> tuple[Any, Any]:
    @whole
    def stretch(
        x: Any, begin: int, first: int, stop: int, size: int, setting: int, out: Any, doubt: Any, room: Any
    ) -> None:
        front, front_rest, following, following_rest, back, back_rest = (
            room[0],
            room[1],
            room[2],
            room[3],
            room[4],
            room[5],
        )
        # front[j]: the sum of the rows [block - size + j, block), not before the key begins
        least = max(begin, first - size + 1)
        high, rest = 0.0, 0.0
        for row in range(first - 1, least - 1, -1):
            high, lost = two_sum(high, x[row])
            rest += lost
            front[row - first + size], front_rest[row - first + size] = high, rest
        for j in range(least - first + size):
            front[j], front_rest[j] = high, rest
        block = first
        while block < stop:
            length = min(size, stop - block)
            end = block + length - 1
            high, rest, again, again_rest = 0.0, 0.0, 0.0, 0.0
            # both ways at once: four chains of additions, none of which waits for another
            for j in range(length):
                high, lost = two_sum(high, x[block + j])
                rest += lost
                back[j], back_rest[j] = high, rest
                again, lost = two_sum(again, x[end - j])
                again_rest += lost
                following[length - 1 - j], following_rest[length - 1 - j] = again, again_rest
            bad = 0
            front[size], front_rest[size] = 0.0, 0.0  # the last window of a whole block has nothing of the front
            for j in range(length):
                found = joined(back[j], back_rest[j], front[j + 1], front_rest[j + 1])
                bad += not math.isfinite(found)
                out[block + j] = found
            if bad:
                for row in range(block, block + length):
                    doubt[row] = not math.isfinite(out[row])
            if divides:
                for row in range(block, min(block + length, begin + size)):
                    out[row] /= row + 1 - begin
                for row in range(max(block, begin + size), block + length):
                    out[row] /= size
            front, following = following, front
            front_rest, following_rest = following_rest, front_rest
            block += length

    stretch.__qualname__ = f"{name}.stretch"

    @whole
    def spans(x: Any, los: Any, his: Any, first: int, stop: int, setting: int, out: Any, doubt: Any, room: Any) -> None:
        front, front_rest = room[0], room[1]
        i = first
        while i < stop:
            low, flip = los[i], his[i]
            if low == flip:
                i += 1
                continue
            high, rest = 0.0, 0.0
            for row in range(flip - 1, low - 1, -1):
                high, lost = two_sum(high, x[row])
                rest += lost
                front[row - low], front_rest[row - low] = high, rest
            high, rest = 0.0, 0.0
            after = flip
            while i < stop and los[i] < flip:
                for row in range(after, his[i]):
                    high, lost = two_sum(high, x[row])
                    rest += lost
                after = his[i]
                found = joined(high, rest, front[los[i] - low], front_rest[los[i] - low])
                if not math.isfinite(found):
                    doubt[i] = True
                out[i] = found / (his[i] - los[i]) if divides else found
                i += 1

    spans.__qualname__ = f"{name}.spans"
    return over_keys(stretch), spans


sum_rows, sum_spans = _totals(False, "sum")
mean_rows, mean_spans = _totals(True, "mean")


def _words(divides: bool, name: str) -> Any:
    """Sums of integers over spans; or means, rounded once if the sum has no more than 53 bits, and else in doubt."""
    limit = 2**21 if divides else _WORD

    @whole
    def words(x: Any, los: Any, his: Any, first: int, stop: int, setting: int, out: Any, doubt: Any, room: Any) -> None:
        low, after = los[first], los[first]
        high, rest = 0, 0
        for i in range(first, stop):
            if los[i] >= after:  # nothing of the last window is in this one
                low, after, high, rest = los[i], los[i], 0, 0
            for row in range(after, his[i]):
                high += x[row] >> 32
                rest += x[row] & _LOW
            for row in range(low, los[i]):
                high -= x[row] >> 32
                rest -= x[row] & _LOW
            low, after = los[i], max(after, his[i])
            carried = high + (rest >> 32)
            if divides:
                out[i] = (carried * 4294967296.0 + (rest & _LOW)) / (his[i] - los[i])
            else:
                out[i] = (carried << 32) + (rest & _LOW)
            if not -limit <= carried < limit:
                doubt[i] = True

    words.__qualname__ = f"{name}.words"
    return words


word_sums, word_means = _words(False, "sum"), _words(True, "mean")
