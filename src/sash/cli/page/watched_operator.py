"""WatchedOperator: observes the calls of an operator or of a pipeline: counters, latencies, rates.

    op.process(batch) ──▶ results, seconds ──▶ counters, a histogram, a reference to the results
                                                        ▲
                                             the server reads them in its threads

The work is per call, not per row. Measuring the size of the state, which takes longer, is limited to 2% of the
time.

WatchedQueries: observes the operator of several queries, with figures for each query.

QueryFigures: the counters of a query at one time, and the rate of its rows over the last minutes.

LatencyHistogram: percentiles of durations, from a fixed number of logarithmic buckets.
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from sash.cli.page.newest_results import NewestResults, results_json
from sash.engine import QueriesOperator
from sash.engine.intake.progress import Metrics, Progress
from sash.engine.operator import Operator
from sash.engine.query_state import QueryState
from sash.plan.query import Query
from sash.plan.time_axis import TimeAxis

if TYPE_CHECKING:
    from sash.pipeline import Pipeline


# --- Latency histogram ---

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


# --- Query figures ---


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


# --- Watched operator ---

SHARE = 0.02
"""The share of the time that measuring the size of the state may take."""

ALLOWANCE = 0.5
"""Seconds that it may take in any case, so that short programs measure it after each call."""


class WatchedCalls:
    """A query that a page shows by the results of its calls."""

    calls: CallFigures

    def keys(self) -> list[str]:
        """The keys of the newest results."""
        return self.calls.newest.keys()

    def results(self, key: str) -> dict[str, Any] | None:
        """The newest results of a key."""
        return self.calls.results(key)

    def catch_up(self) -> None:
        """Add the newest results to those of the chosen keys."""
        self.calls.newest.catch_up()


class WatchedOperator(WatchedCalls):
    """An operator that a page shows.

    operator: the operator whose calls are observed.
    name: its name on the page.
    pipeline: the pipeline that it belongs to, which counts malformed records.
    """

    def __init__(self, operator: Operator, name: str, pipeline: Pipeline | None = None) -> None:
        self.operator, self.name, self.pipeline = operator, name, pipeline
        self.calls = CallFigures(operator.query)
        operator.set_observer(self._observe)
        if operator.schema is not None:
            self.calls.measure(operator.state)

    def _observe(self, results: pa.RecordBatch, seconds: float) -> None:
        self.calls.take(self.operator.state, results, seconds)

    def release(self) -> None:
        """Stop watching the operator."""
        self.operator.remove_observer()

    def figures(self) -> QueryFigures:
        """The figures after the last call."""
        malformed = None if self.pipeline is None else self.pipeline.position.malformed
        finished = self.pipeline is not None and self.pipeline.position.finished
        kind = "operator" if self.pipeline is None else "pipeline"
        return self.calls.figures(self.name, kind, malformed, finished)

    def plan(self) -> str:
        """The text of `explain()`."""
        return self.operator.query.explain(self.operator.schema)


class CallFigures:
    """Counters, latencies and newest results of a query's calls."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.newest, self.latency, self.rate = NewestResults(query.by), LatencyHistogram(), RowRate()
        self.compiling = LatencyHistogram()
        """The calls that compiled or loaded kernels: percentiles with them would be those of the compiler."""
        self._kernels = -1
        self.progress = Progress()
        self.metrics = Metrics()
        self.problem = ""
        self._time: TimeAxis | None = None
        self._inputs: Sequence[str] = ()
        self._start, self._spent = time.monotonic(), 0.0

    # ---- in the thread of the query ----

    def take(self, operator: QueryState, results: pa.RecordBatch, seconds: float) -> None:
        """Record a call. An error here is shown on the page: it must not make the call fail."""
        try:
            kernels = _kernels_compiled()
            (self.latency if kernels == self._kernels else self.compiling).add(seconds)
            self._kernels = kernels
            self.newest.add(results)
            self.measure(operator)
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"

    def measure(self, operator: QueryState) -> None:
        """Record the counters, and the size of the state if the time allows."""
        self.progress = operator.progress
        self._time, self._inputs = operator.bound_query.time, operator.bound_query.schema.names
        start = time.monotonic()
        self.rate.add(self.progress.rows_in, start)
        affordable = self._spent <= ALLOWANCE + SHARE * (start - self._start)
        if affordable or self.progress.watermark == math.inf:
            self.metrics = operator.metrics
            self._spent += time.monotonic() - start

    # ---- in threads of the server ----

    def figures(self, name: str, kind: str, malformed: int | None = None, finished: bool = False) -> QueryFigures:
        """The figures after the last call."""
        now, size = self.progress, self.metrics
        watermark, lag, unit = self._watermark(now.watermark)
        return QueryFigures(
            name=name,
            kind=kind,
            finished=finished or now.watermark == math.inf,
            rows_in=now.rows_in,
            rows_out=now.rows_out,
            rows_per_second=self.rate.current(),
            late=now.late,
            untimed=now.untimed,
            malformed=malformed,
            keys=size.keys,
            elements=size.elements,
            state_bytes=size.state_bytes,
            pages_read=size.pages_read,
            pages_written=size.pages_written,
            watermark=watermark,
            lag=lag,
            lag_unit=unit,
            lag_of="clock",
            latency=self.latency.to_json()
            | {"compiling": self.compiling.count, "compiling_seconds": self.compiling.total},
            rates=self.rate.history(),
            has_results=True,
            has_plan=True,
            problem=self.problem,
        )

    def _watermark(self, watermark: Any) -> tuple[str | None, float | None, str]:
        """The watermark as text, and its distance from the clock if it is a time."""
        axis = self._time
        if watermark is None or axis is None or not math.isfinite(watermark):
            return None, None, ""
        if not axis.timed:
            return str(watermark), None, ""
        lag = time.time() - watermark * axis.unit / 1e9
        return _readable(pa.scalar(watermark, pa.int64()).cast(axis.type).cast(pa.string()).as_py()), lag, "s"

    def results(self, key: str) -> dict[str, Any] | None:
        """The newest results of a key."""
        chosen = self.newest.of_key(key)
        on = self.query.on[0] if self.query.on else None
        return None if chosen is None else results_json(chosen, self.newest.by, on, self._inputs)


def _kernels_compiled() -> int:
    """How many kernels this process has compiled; 0 where nothing is compiled."""
    compiler = sys.modules.get("sash.kernels.jit.compile")  # not imported: it loads Numba
    return 0 if compiler is None else len(compiler.compiled_kernels)


def _readable(time: str) -> str:
    """A time without digits that are zero.

    >>> _readable("2024-05-01 09:30:00.000000000"), _readable("2024-05-01 09:30:00.250000Z")
    ('2024-05-01 09:30:00', '2024-05-01 09:30:00.25Z')
    """
    return re.sub(r"\.(\d*?)0+(?!\d)", lambda found: f".{found[1]}" if found[1] else "", time)


# --- Watched queries ---


class WatchedQueries:
    """Observes the calls of the operator once for all queries."""

    def __init__(self, operator: QueriesOperator, name: str) -> None:
        self.operator = operator
        self.members = [
            WatchedMember(f"{name}: {member}", CallFigures(query), self)
            for member, query in operator.queries.queries.items()
        ]
        self._names = [*operator.queries.queries]
        operator.set_observer(self._observe)

    def _observe(self, results: dict[str, Any], seconds: float) -> None:
        inner = {name: state for state in self.operator.states for name in state.names}
        for name, member in zip(self._names, self.members, strict=True):
            member.calls.take(inner[name], results[name], seconds)

    def release(self) -> None:
        """Stop watching the operator."""
        self.operator.remove_observer()


class WatchedMember(WatchedCalls):
    """One of several queries. Queries that share a state show its size and counters."""

    def __init__(self, name: str, calls: CallFigures, watched: WatchedQueries) -> None:
        self.name, self.calls, self.watched = name, calls, watched

    def figures(self) -> QueryFigures:
        """The figures after the last call."""
        return self.calls.figures(self.name, "operator")

    def plan(self) -> str:
        """The text of `explain()`."""
        return self.calls.query.explain(self.watched.operator.schema)

    def release(self) -> None:
        """Stop watching all of them."""
        self.watched.release()
