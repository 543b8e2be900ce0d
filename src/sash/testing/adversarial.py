"""Streams of floats that break careless sums and moments, and exact results for their windows.

0.3  −1.1  +1e16  0.8  −1e16  1.4  …
     ╰──────── window ──────╯          its sum is near 1, and all its digits are below those of the spikes

name                   the error of running sums with subtraction, or of moments from squares
spikes of 1e16         one up, one down: they meet in a window, cancel, and leave
spikes of 1e22         the same, beyond what 106 bits could hold twice
offset of 1e9          the variance is 1, the squares are 1e18
offset of -1e9, close  the variance is 1e-12
level shift            from around 0 to around 1e9 and back
magnitudes in turn     1e-9, 1e-6 … 1e9, with signs
one spike of 1e300     its square exceeds the range of floats; windows after it must not be affected
growing                up to 1e12, then again from 1
NaN now and then       windows after it must not be affected
infinity now and then  windows after it must not be affected
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

Stream = Callable[[int], list[float]]
"""From a length to values, deterministic."""

Exact = list[Fraction | None]
"""The result of each window, None if there is none to compare with."""


def _gauss(length: int, mean: float, deviation: float) -> list[float]:
    rng = random.Random(7)
    return [rng.gauss(mean, deviation) for _ in range(length)]


def _with_spikes(values: list[float], every: int, *spikes: float) -> list[float]:
    """Values with spikes: all of them a few rows apart, then none for a while."""
    for place in range(every // 2, len(values), every):
        for at, spike in zip(range(place, len(values), 9), spikes, strict=False):
            values[at] = spike
    return values


def _level_shift(length: int) -> list[float]:
    low, high = _gauss(length, 0.0, 1e-3), _gauss(length, 1e9, 1e-3)
    return [high[i] if i // 150 % 2 else low[i] for i in range(length)]


ADVERSARIAL: dict[str, Stream] = {
    "spikes of 1e16": lambda length: _with_spikes(_gauss(length, 0.3, 1.0), 131, 1e16, -1e16),
    "spikes of 1e22": lambda length: _with_spikes(_gauss(length, 0.3, 1.0), 131, 1e22, -1e22),
    "offset of 1e9": lambda length: _gauss(length, 1e9, 1.0),
    "offset of -1e9, close": lambda length: _gauss(length, -1e9, 1e-6),
    "level shift": _level_shift,
    "magnitudes in turn": lambda length: [
        x * 10.0 ** (3 * (i % 7) - 9) for i, x in enumerate(_gauss(length, 0.3, 1.0))
    ],
    "one spike of 1e300": lambda length: [
        1e300 if i == length // 4 else x for i, x in enumerate(_gauss(length, 0.3, 1.0))
    ],
    "growing": lambda length: [1.1 ** (i % 290) for i in range(length)],
    "NaN now and then": lambda length: _with_spikes(_gauss(length, 0.3, 1.0), 211, math.nan),
    "infinity now and then": lambda length: _with_spikes(_gauss(length, 0.3, 1.0), 211, math.inf, -math.inf),
}
"""Every stream by name."""


def exact_windows(function: str, values: Sequence[float], windows: Iterable[tuple[int, int]]) -> Exact:
    """The sum, mean or var (of a sample) of each window `values[start:end]`, in fractions.

    None for a window with a NaN or an infinity in it, with too few values, and where no float can hold the result.

    >>> exact_windows("sum", [0.5, 1e16, 0.25, -1e16], [(0, 2), (1, 4)])
    [Fraction(20000000000000001, 2), Fraction(1, 4)]

    O(1) per window: prefix sums are integers in one unit, so their differences are exact.
    """
    return ExactSums(values).windows(function, windows)


class ExactSums:
    """The exact sums of values and of their squares up to each row, for several functions or sets of windows.

    >>> sums = ExactSums([1.0, 2.0, 4.5])
    >>> sums.windows("sum", [(0, 2)]), sums.windows("mean", [(1, 3)])
    ([Fraction(3, 1)], [Fraction(13, 4)])
    """

    def __init__(self, values: Sequence[float]) -> None:
        self._unit, self._multiples = _in_units([x if math.isfinite(x) else 0.0 for x in values])
        self._sums = [0, *accumulate(self._multiples)]
        self._not_finite = [0, *accumulate(not math.isfinite(x) for x in values)]

    @cached_property
    def _squares(self) -> list[int]:
        return [0, *accumulate(x * x for x in self._multiples)]

    def windows(self, function: str, windows: Iterable[tuple[int, int]]) -> Exact:
        """As `exact_windows`."""
        if function not in ("sum", "mean", "var"):
            raise ValueError(f"exact_windows supports sum, mean and var; got {function!r}")
        unit, sums, not_finite = self._unit, self._sums, self._not_finite
        squares = self._squares if function == "var" else []
        found: Exact = []
        for start, end in windows:
            n, result = end - start, None
            if not_finite[end] == not_finite[start] and n > (function == "var"):
                total = sums[end] - sums[start]
                if function == "var":
                    square = squares[end] - squares[start]
                    result = Fraction(n * square - total * total, n * (n - 1)) * unit * unit
                else:
                    result = Fraction(total, 1 if function == "sum" else n) * unit
            found.append(result if result is None or _is_float(result) else None)
        return found


def _in_units(values: Sequence[float]) -> tuple[Fraction, list[int]]:
    """A power of two that divides all values, and the values as multiples of it."""
    ratios = [float(value).as_integer_ratio() for value in values]
    most = max((denominator for _, denominator in ratios), default=1)
    return Fraction(1, most), [numerator * (most // denominator) for numerator, denominator in ratios]


def _is_float(x: Fraction) -> bool:
    return x == 0 or 2.0**-1000 < abs(x) < 2**1023


def worst_error(found: Iterable[float], exact: Exact) -> float:
    """The largest relative error; infinite if a result is NaN or infinite and the exact one is a number.

    >>> worst_error([1.0, 2.5], [Fraction(1), Fraction(2)])
    0.25
    >>> worst_error([math.nan], [Fraction(1)])
    inf
    """
    worst = 0.0
    for got, wanted in zip(found, exact, strict=True):
        if wanted is not None:
            worst = max(worst, _error(got, wanted))
    return worst


def _error(got: float, wanted: Fraction) -> float:
    if not math.isfinite(got):
        return math.inf
    if wanted == 0:
        return 0.0 if got == 0 else math.inf
    return _float(abs((Fraction(got) - wanted) / wanted))


def _float(x: Fraction) -> float:
    try:
        return float(x)
    except OverflowError:
        return math.inf
