"""Sums and means over whole columns.

Sums of floats are running sums of parts that do not round (`exact_sum`). A sum has all its digits, or a piece of the
column is recomputed from two stacks, without subtraction: sums from the boundary of the stacks in both directions, with
the rounding errors of all additions (`two_sum`; such sums are as accurate as in twice the precision, as Ogita, Rump and
Oishi show in SIAM J. Sci. Comput. 26, 2005). Sums that are not finite are computed by the monoid, which distinguishes
an intermediate overflow from an infinite input.

Integers are exact in two words, value = high * 2**32 + low, so leaving values are subtracted. Sums beyond 64 bits are
computed by the monoid, which raises.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sash.kernels.column import exact_sum
from sash.kernels.column.per_key import numpy_division, over_keys, over_uncertain, over_uncertain_ranges
from sash.monoids.double_double import two_sum

_LOW = 2**32 - 1
_WORD = 2**31


@numpy_division
def joined(high: float, rest: float, other: float, other_rest: float) -> float:
    """The sum of two sums, each with its rounding error."""
    total, lost = two_sum(high, other)
    return total + (lost + (rest + other_rest))


def _two_ways(divides: bool, name: str) -> tuple[Any, Any]:
    """Sums from two stacks, over Count windows and over ranges: correct for all finite sums."""

    @numpy_division
    def one_key(
        x: Any, begin: int, first: int, stop: int, size: int, _setting: int, out: Any, uncertain: Any, scratch: Any
    ) -> None:
        front, front_rest, following, following_rest = scratch[0], scratch[1], scratch[2], scratch[3]
        back, back_rest = scratch[4], scratch[5]
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
            # both directions at once: four independent chains of additions
            for j in range(length):
                high, lost = two_sum(high, x[block + j])
                rest += lost
                back[j], back_rest[j] = high, rest
                again, lost = two_sum(again, x[end - j])
                again_rest += lost
                following[length - 1 - j], following_rest[length - 1 - j] = again, again_rest
            bad = 0
            front[size], front_rest[size] = 0.0, 0.0  # the last window of a whole block contains no row of the front
            for j in range(length):
                found = joined(back[j], back_rest[j], front[j + 1], front_rest[j + 1])
                bad += not math.isfinite(found)
                out[block + j] = found
            if bad:
                for row in range(block, block + length):
                    uncertain[row] = not math.isfinite(out[row])
            if divides:
                for row in range(block, min(block + length, begin + size)):
                    out[row] /= row + 1 - begin
                for row in range(max(block, begin + size), block + length):
                    out[row] /= size
            front, following = following, front
            front_rest, following_rest = following_rest, front_rest
            block += length

    one_key.__qualname__ = f"{name}.two_ways.one_key"

    @numpy_division
    def ranges(
        x: Any, los: Any, his: Any, first: int, stop: int, _setting: int, out: Any, uncertain: Any, scratch: Any
    ) -> None:
        front, front_rest = scratch[0], scratch[1]
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
                    uncertain[i] = True
                out[i] = found / (his[i] - los[i]) if divides else found
                i += 1

    ranges.__qualname__ = f"{name}.two_ways.ranges"
    return over_uncertain(one_key), over_uncertain_ranges(ranges)


def _running(divides: bool, name: str) -> tuple[Any, Any]:
    """Running sums by `exact_sum`; if one result of a piece is uncertain, the whole piece is."""

    @numpy_division
    def slides(x: Any, begin: int, at: int, stop: int, size: int, _setting: int, out: Any, scratch: Any) -> int:
        bad: int = slid(x, begin, at, stop, size, out, scratch)
        if divides:
            divided(out, begin, at, stop, size)
        return bad

    one_key = exact_sum.moving(_lengths, _begun, slides)
    one_key.__qualname__ = f"{name}.one_key"

    @numpy_division
    def ranges(
        x: Any, los: Any, his: Any, first: int, stop: int, _setting: int, out: Any, uncertain: Any, scratch: Any
    ) -> None:
        longest = len(scratch[6])
        piece, _ = _lengths(longest)
        runs, at = exact_sum.RUNS, first
        lo = hi = np.int64(0)
        while at < stop:
            end = min(at + piece, stop)
            bad, tries = 1, 0 if runs < exact_sum.RUNS else 1
            while bad and tries < 2:
                if tries == 1:
                    lo = hi = np.int64(los[at])
                    most = max(lo, np.int64(his[end - 1]))
                    if not exact_sum.begun(x, lo, lo, most, longest + exact_sum.BLOCK, scratch[6]):
                        break
                    runs = 0
                lo, hi, bad = slid_ranges(x, los, his, at, end, lo, hi, divides, out, scratch)
                tries += 1
            if bad:
                uncertain[at:end] = True
                runs = exact_sum.RUNS
            runs += 1
            at = end

    ranges.__qualname__ = f"{name}.ranges"
    return over_keys(one_key), ranges


@numpy_division
def _lengths(size: int) -> tuple[int, int]:
    return max(exact_sum.PIECE, size), exact_sum.RUNS


@numpy_division
def _begun(x: Any, low: int, at: int, stop: int, size: int, scratch: Any) -> bool:
    found: bool = exact_sum.begun(x, low, at, stop, size, scratch[6])
    return found


@numpy_division
def slid(x: Any, begin: int, at: int, stop: int, size: int, out: Any, scratch: Any) -> int:
    """Write the sums of Count windows for rows [at, stop), from that of the window before; returns how many are
    uncertain.
    """
    highs, middles, rests, nothing, state = scratch[0], scratch[1], scratch[2], scratch[3], scratch[6]
    bound, above, below = state[exact_sum.BOUND], state[exact_sum.ABOVE], state[exact_sum.BELOW]
    high, middle, rest = state[exact_sum.HIGH], state[exact_sum.MIDDLE], state[exact_sum.REST]
    bad = 0
    while at < stop:
        length = exact_sum.block_length(begin, at, stop, size, nothing, 0.0)
        old = nothing[:length] if at < begin + size else x[at - size : at - size + length]
        new, found = x[at : at + length], out[at : at + length]
        some = 0
        # separate from the sums, so that four rows are split at once
        for j in range(length):
            one, two, three = exact_sum.split(new[j], above, below)
            gone, gone2, gone3 = exact_sum.split(old[j], above, below)
            highs[j], middles[j], rests[j] = one - gone, two - gone2, three - gone3
            some += three != 0.0
            bad += not abs(new[j]) < bound
        for j in range(length):
            high += highs[j]
            middle += middles[j]
            rest += rests[j]
            found[j] = exact_sum.rounded(high, middle, rest)
        state[exact_sum.RESTS] += some
        least = exact_sum.least(state, rest, length)
        for j in range(length):
            bad += abs(found[j]) < least
        at += length
    state[exact_sum.HIGH], state[exact_sum.MIDDLE], state[exact_sum.REST] = high, middle, rest
    return bad


@numpy_division
def divided(out: Any, begin: int, at: int, stop: int, size: int) -> None:
    """Divide the sums of Count windows by their numbers of rows."""
    for row in range(at, min(stop, begin + size)):
        out[row] /= row + 1 - begin
    sums = out[max(at, min(stop, begin + size)) : stop]
    for j in range(len(sums)):
        sums[j] /= size


@numpy_division
def slid_ranges(
    x: Any, los: Any, his: Any, at: int, stop: int, lo: int, hi: int, divides: bool, out: Any, scratch: Any
) -> tuple[int, int, int]:
    """Write the sums of ranges [at, stop), from the sum of the rows [lo, hi).

    Returns the bounds of the last range, and how many sums are uncertain.


    The sum of each range of a block is the previous sum plus the rows after `hi` minus those before the new start, by
    prefix sums.
    """
    highs, middles, rests = scratch[0], scratch[1], scratch[2]
    lost_highs, lost_middles, lost_rests, state = scratch[3], scratch[4], scratch[5], scratch[6]
    bad = 0
    while at < stop:
        if los[at] >= hi:  # nothing of the last range is in this one
            lo, hi = los[at], los[at]
            state[exact_sum.HIGH], state[exact_sum.MIDDLE], state[exact_sum.REST] = 0.0, 0.0, 0.0
        length = within(his, at, min(exact_sum.BLOCK, stop - at), hi + exact_sum.BLOCK)
        length = within(los, at, length, lo + exact_sum.BLOCK)
        if length == 0:  # a long step: a separate block
            # all places are 64-bit integers, because each combination of types compiles `summed` again
            bad += exact_sum.summed(x, hi, np.int64(his[at]), state, 1.0)
            exact_sum.summed(x, lo, np.int64(los[at]), state, -1.0)
            lo, hi = los[at], his[at]
            continue
        last = at + length - 1
        bad += parts(x, hi, his[last], state, scratch[0], scratch[1], scratch[2])
        parts(x, lo, los[last], state, scratch[3], scratch[4], scratch[5])
        prefixes(his[last] - hi, los[last] - lo, state, scratch)
        least = exact_sum.least(
            state, max(abs(scratch[2, his[last] - hi]), abs(scratch[5, los[last] - lo])), 2 * length
        )
        sums, starts, ends = out[at : at + length], los[at : at + length], his[at : at + length]
        for j in range(length):
            # unsigned, because a signed index is tested for being negative
            came, went = np.uint64(ends[j] - hi), np.uint64(starts[j] - lo)
            found = exact_sum.rounded(
                highs[came] - lost_highs[went], middles[came] - lost_middles[went], rests[came] - lost_rests[went]
            )
            bad += (abs(found) < least) & (ends[j] > starts[j])
            sums[j] = found / (ends[j] - starts[j]) if divides else found
        came, went = his[last] - hi, los[last] - lo
        state[exact_sum.HIGH] = scratch[0, came] - scratch[3, went]
        state[exact_sum.MIDDLE] = scratch[1, came] - scratch[4, went]
        state[exact_sum.REST] = scratch[2, came] - scratch[5, went]
        lo, hi = los[last], his[last]
        at += length
    return lo, hi, bad


@numpy_division
def within(places: Any, at: int, length: int, limit: int) -> int:
    """How many of the next `length` places, which ascend, are at most `limit`."""
    if length == 0 or places[at + length - 1] <= limit:
        return length
    low, high = 0, length
    while low < high:
        between = (low + high) // 2
        if places[at + between] <= limit:
            low = between + 1
        else:
            high = between
    return low


@numpy_division
def parts(x: Any, first: int, stop: int, state: Any, highs: Any, middles: Any, rests: Any) -> int:
    """Split rows into parts, from place 1 on; returns how many rows are too large to be split."""
    values = x[first:stop]
    bound, above, below = state[exact_sum.BOUND], state[exact_sum.ABOVE], state[exact_sum.BELOW]
    some, bad = 0, 0
    highs, middles, rests = highs[1:], middles[1:], rests[1:]
    for j in range(stop - first):
        highs[j], middles[j], rests[j] = exact_sum.split(values[j], above, below)
        some += rests[j] != 0.0
        bad += not abs(values[j]) < bound
    state[exact_sum.RESTS] += some
    return bad


@numpy_division
def prefixes(come: int, gone: int, state: Any, scratch: Any) -> None:
    """Prefix sums of the entering and of the leaving parts: six at once, if there are both."""
    high, middle, rest = state[exact_sum.HIGH], state[exact_sum.MIDDLE], state[exact_sum.REST]
    high2, middle2, rest2 = 0.0, 0.0, 0.0
    scratch[0, 0], scratch[1, 0], scratch[2, 0] = high, middle, rest
    scratch[3, 0], scratch[4, 0], scratch[5, 0] = high2, middle2, rest2
    both = min(come, gone)
    a, b, c, d, e, f = scratch[0][1:], scratch[1][1:], scratch[2][1:], scratch[3][1:], scratch[4][1:], scratch[5][1:]
    for j in range(both):
        high += a[j]
        middle += b[j]
        rest += c[j]
        high2 += d[j]
        middle2 += e[j]
        rest2 += f[j]
        a[j], b[j], c[j], d[j], e[j], f[j] = high, middle, rest, high2, middle2, rest2
    for j in range(both, come):
        high += a[j]
        middle += b[j]
        rest += c[j]
        a[j], b[j], c[j] = high, middle, rest
    for j in range(both, gone):
        high2 += d[j]
        middle2 += e[j]
        rest2 += f[j]
        d[j], e[j], f[j] = high2, middle2, rest2


sum_rows, sum_ranges = _running(False, "sum")
mean_rows, mean_ranges = _running(True, "mean")
sum_rows_recomputed, sum_ranges_recomputed = _two_ways(False, "sum")
mean_rows_recomputed, mean_ranges_recomputed = _two_ways(True, "mean")


def _words(divides: bool, name: str) -> Any:
    """Sums of integers over ranges; or means, rounded once if the sum has at most 53 bits, else marked as uncertain."""
    limit = 2**21 if divides else _WORD

    @numpy_division
    def words(
        x: Any, los: Any, his: Any, first: int, stop: int, _setting: int, out: Any, uncertain: Any, _scratch: Any
    ) -> None:
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
                uncertain[i] = True

    words.__qualname__ = f"{name}.words"
    return words


word_sums, word_means = _words(False, "sum"), _words(True, "mean")
