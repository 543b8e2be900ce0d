"""QueryFigures: the counters of a query at one time, and the rate of its rows over the last minutes."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Protocol


@dataclass(frozen=True)
class QueryFigures:
    """The figures of a query; None: unknown."""

    name: str
    kind: str
    """"operator", "pipeline" or "spark"."""
    finished: bool
    rows_in: int
    rows_out: int
    rows_per_second: float
    late: int
    untimed: int
    malformed: int | None
    """Records that could not be decoded; None for an operator, which gets decoded rows."""
    keys: int
    elements: int
    state_bytes: int
    pages_read: int
    pages_written: int
    watermark: str | None
    """As text, in the type of the time column."""
    lag: float | None
    """How far the watermark is behind, in `lag_unit`."""
    lag_unit: str
    """"s" for seconds; empty for units of a numeric time column."""
    lag_of: str
    """Behind what: "clock", or "newest row"."""
    latency: dict[str, float | None]
    """The number of calls or micro-batches; percentiles and maximum, in seconds; of calls also the number that compiled
    or came first, which are not among them, and their seconds."""
    rates: list[tuple[float, float]] = field(default_factory=list)
    """Seconds ago, and rows per second then; the oldest first."""
    has_results: bool = False
    """Can the newest results of a key be shown?"""
    has_plan: bool = False
    problem: str = ""
    """What the page could not do, and why."""

    def to_json(self) -> dict[str, Any]:
        """As a JSON value."""
        return asdict(self)


class WatchedQuery(Protocol):
    """A query that a page shows."""

    name: str

    def figures(self) -> QueryFigures:
        """The figures now."""

    def keys(self) -> list[str]:
        """The keys of the newest results, as JSON arrays."""

    def results(self, key: str) -> dict[str, Any] | None:
        """The newest results of a key; None before there are any. Raises ValueError if it is not a key."""

    def plan(self) -> str:
        """The text of `explain()`; empty if it is unknown."""

    def catch_up(self) -> None:
        """Read new results before they are dropped."""

    def release(self) -> None:
        """Stop watching."""


class RowRate:
    """Rows per second, from counts at some points in time."""

    APART = 0.5
    """The minimum seconds between two counts that are kept."""
    RECENT = 5.0
    """Seconds over which the current rate is computed."""
    KEPT = 240

    def __init__(self) -> None:
        self._counts: deque[tuple[float, int]] = deque(maxlen=self.KEPT)

    def add(self, rows: int, now: float | None = None) -> None:
        """Record a count of rows."""
        now = time.monotonic() if now is None else now
        counts = self._counts
        if len(counts) > 1 and now - counts[-2][0] < self.APART:
            counts[-1] = now, rows
        else:
            counts.append((now, rows))

    def current(self, now: float | None = None) -> float:
        """Rows per second over the last seconds."""
        now = time.monotonic() if now is None else now
        counts = [*self._counts]
        start = next((count for count in counts if now - count[0] <= self.RECENT), None)
        if start is None or start is counts[-1]:
            return 0.0
        return (counts[-1][1] - start[1]) / max(now - start[0], 1e-9)

    def history(self, now: float | None = None) -> list[tuple[float, float]]:
        """Seconds ago and rows per second, between each count and the next."""
        now = time.monotonic() if now is None else now
        counts = [*self._counts]
        return [
            (round(now - end[0], 1), round((end[1] - start[1]) / max(end[0] - start[0], 1e-9), 1))
            for start, end in pairwise(counts)
        ]
