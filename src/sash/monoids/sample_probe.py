"""Trying a monoid on sample rows, to learn what its states and results look like."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sash.monoids.algebra import Monoid


def outcomes(monoid: Monoid, rows: Iterable[tuple[Any, ...]]) -> tuple[list[Any], list[Any], str]:
    """States and results of sample rows, and why the last that failed did. What fails on one is judged by the others.

    >>> from sash.monoids import Max
    >>> outcomes(Max(), [(3,), (5,)])
    ([3, 5, 5], [3, 5, 5], '')
    """
    failed = ""
    states: list[Any] = []
    results: list[Any] = []
    for row in rows:
        try:
            lifted = monoid.lift(*row)
            states += [lifted, monoid.combine(states[-1], lifted)] if states else [lifted]
            results += [result for result in map(monoid.lower, states[-2:]) if result is not None]
        except Exception as error:
            failed = f"it raised {type(error).__name__}: {error}"
    return states, results, failed
