"""Run a monoid on sample rows, to find the types of its states and results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sash.monoids.algebra import Kind, Monoid

SAMPLES: dict[Kind, tuple[Any, ...]] = {
    "bool": (True, True, False, True, False, False, True),
    "int": (1, 2, 5, 3, 8, 4, 9),
    "float": (1.5, 2.25, 5.0, 3.5, 8.75, 4.0, 9.5),
}
"""Sample values: enough distinct ones for results of a fourth moment and of a regression."""


def sample_rows(columns: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """The rows of sample columns, each rotated by its position: two columns of one type do not hold the same values.

    >>> list(sample_rows([(1, 2, 3), (1, 2, 3)]))
    [(1, 2), (2, 3), (3, 1)]
    """
    return zip(*([*values[i % 3 :], *values[: i % 3]] for i, values in enumerate(columns)), strict=True)


def outcomes(monoid: Monoid, rows: Iterable[tuple[Any, ...]]) -> tuple[list[Any], list[Any], str]:
    """States and results of sample rows, and the last error. A row that fails is skipped.

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
