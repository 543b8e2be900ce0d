"""LatencyHistogram: percentiles of durations, from a fixed number of logarithmic buckets."""

from __future__ import annotations

import math

LEAST = 1e-6
"""Seconds: shorter durations count as this."""

PER_OCTAVE = 8
OCTAVES = 32
"""From a microsecond to more than an hour; longer ones share the last bucket."""

RATIO = 2 ** (1 / PER_OCTAVE)


class LatencyHistogram:
    """Counts durations in 256 buckets, each 9% wider than the one before: percentiles are right within 5%.

    >>> calls = LatencyHistogram()
    >>> for milliseconds in range(1, 101):
    ...     calls.add(milliseconds / 1000)
    >>> 0.0475 < calls.percentile(50) < 0.0525, calls.percentile(100)
    (True, 0.1)

    One thread adds, others may read: the values that they read may differ by a few calls.
    """

    def __init__(self) -> None:
        self.count, self.greatest, self.total = 0, 0.0, 0.0
        self._buckets = [0] * (PER_OCTAVE * OCTAVES)

    def add(self, seconds: float) -> None:
        """Count a duration."""
        place = int(math.log2(max(seconds, LEAST) / LEAST) * PER_OCTAVE)
        self._buckets[min(place, len(self._buckets) - 1)] += 1
        self.greatest = max(self.greatest, seconds)
        self.total += seconds
        self.count += 1

    def percentile(self, percent: float) -> float | None:
        """The duration that `percent` of all durations do not exceed; None if there are none."""
        buckets = [*self._buckets]
        wanted, seen = math.ceil(sum(buckets) * percent / 100), 0
        for place, count in enumerate(buckets):
            seen += count
            if count and seen >= wanted:
                middle = LEAST * RATIO ** (place + 0.5)
                return self.greatest if seen == self.count else min(middle, self.greatest)
        return None

    def to_json(self) -> dict[str, float | None]:
        """Count, percentiles and maximum, in seconds."""
        found = {f"p{percent}": self.percentile(percent) for percent in (50, 90, 99)}
        return {"count": self.count, **found, "max": self.greatest if self.count else None}
