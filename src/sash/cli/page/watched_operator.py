"""What a page shows of a running query: counters, latencies, rates. Of an operator by its calls, on Spark by a monitor.

    op.process(batch) ──▶ results, seconds ──▶ counters, a histogram, a reference to the results
                                                        ▲
                                             the server reads them in its threads

The work is per call, not per row. Measuring the size of the state, which takes longer, is limited to 2% of the time.
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sash.cli.page.newest_results import NewestResults, results_json
from sash.columns.time_numbers import time_text
from sash.engine import QueriesOperator
from sash.engine.intake.progress import Metrics, Progress
from sash.engine.operator import Operator
from sash.engine.query_state import QueryState
from sash.plan.query import Query
from sash.plan.time_axis import TimeAxis

if TYPE_CHECKING:
    from sash.pipeline import Pipeline
    from sash.spark.stream.monitor import Monitor


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


class WatchedQuery:
    """A query that a page shows."""

    name: str

    def figures(self) -> QueryFigures:
        """The figures now."""
        raise NotImplementedError

    def plan(self) -> str:
        """The text of `explain()`; empty if it is unknown."""
        raise NotImplementedError

    def release(self) -> None:
        """Stop watching."""
        raise NotImplementedError

    def keys(self) -> list[str]:
        """The keys of the newest results, as JSON arrays; none where results are not shown."""
        return []

    def results(self, key: str) -> dict[str, Any] | None:  # noqa: ARG002 (for those that override it)
        """The newest results of a key; None before there are any. Raises ValueError if it is not a key."""
        return None

    def catch_up(self) -> None:
        """Read new results before they are dropped."""


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


def watched_queries(
    operator: Operator | QueriesOperator, name: str, pipeline: Pipeline | None = None
) -> list[WatchedOperator]:
    """Observe the calls of an operator, once for all of its queries: the query, or each of several, for a page."""
    if isinstance(operator, Operator):
        found = [WatchedOperator(operator, name, operator.query, pipeline)]
    else:
        members = operator.queries.queries.items()
        found = [WatchedOperator(operator, f"{name}: {member}", query) for member, query in members]

    def observe(results: Any, seconds: float) -> None:
        if isinstance(operator, Operator):
            found[0].calls.take(operator.state, results, seconds)
            return
        inner = {member: state for state in operator.states for member in state.names}
        for member, watched in zip(operator.queries.queries, found, strict=True):
            watched.calls.take(inner[member], results[member], seconds)

    operator.set_observer(observe)
    if isinstance(operator, Operator) and operator.schema is not None:
        found[0].calls.measure(operator.state)
    return found


class WatchedOperator(WatchedQuery):
    """A query of an operator, by the results of its calls. Queries that share a state show its size and counters.

    operator: the operator whose calls are observed.
    name: its name on the page.
    query: the query.
    pipeline: the pipeline that the operator belongs to, which counts malformed records.
    """

    def __init__(
        self, operator: Operator | QueriesOperator, name: str, query: Query, pipeline: Pipeline | None = None
    ) -> None:
        self.operator, self.name, self.pipeline = operator, name, pipeline
        self.calls = CallFigures(query)

    def figures(self) -> QueryFigures:
        """The figures after the last call."""
        if self.pipeline is None:
            return self.calls.figures(self.name, "operator")
        at = self.pipeline.position
        return self.calls.figures(self.name, "pipeline", at.malformed, at.finished)

    def keys(self) -> list[str]:
        """The keys of the newest results."""
        return self.calls.newest.keys()

    def results(self, key: str) -> dict[str, Any] | None:
        """The newest results of a key."""
        return self.calls.results(key)

    def catch_up(self) -> None:
        """Add the newest results to those of the chosen keys."""
        self.calls.newest.catch_up()

    def plan(self) -> str:
        """The text of `explain()`."""
        return self.calls.query.explain(self.operator.schema)

    def release(self) -> None:
        """Stop watching the operator, with all of its queries."""
        self.operator.remove_observer()


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
        text = str(time_text(watermark, axis.type))
        if not axis.timed:
            return text, None, ""
        return _readable(text), time.time() - watermark * axis.unit / 1e9, "s"

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


# --- Watched stream ---


class WatchedStream(WatchedQuery):
    """A streaming query of Spark. Spark writes its results to the sink, so the page shows only figures.

    monitor: a `sash.spark.Monitor`.
    name: its name on the page.
    query: the `sash.Query`, whose plan the page shows.
    owned: was the monitor started for the page?
    """

    def __init__(self, monitor: Monitor, name: str, query: Query | None, owned: bool) -> None:
        self.monitor, self.name, self.query, self.owned = monitor, name, query, owned
        self.latency = LatencyHistogram()
        self._counted = -1

    def figures(self) -> QueryFigures:
        """The figures of the last micro-batch, and the sums over all."""
        batches, totals = [*self.monitor.batches], dict(self.monitor.totals)
        for batch in batches:
            if batch.number > self._counted:
                self.latency.add(batch.seconds)
                self._counted = batch.number
        last = batches[-1] if batches else None
        ended = not self.monitor.query.isActive
        return QueryFigures(
            name=self.name,
            kind="spark",
            finished=ended,
            rows_in=totals["rows_in"],
            rows_out=totals["rows_out"],
            rows_per_second=0.0 if last is None or ended else last.rows_per_second,
            late=totals["late"],
            untimed=totals["untimed"],
            malformed=totals["malformed"],
            keys=0 if last is None else last.keys,
            elements=0 if last is None else last.elements,
            state_bytes=0 if last is None else last.state_bytes,
            pages_read=totals["pages_read"],
            pages_written=totals["pages_written"],
            watermark=None,
            lag=None if last is None else last.lag,
            lag_unit="" if last is None else last.lag_unit,
            lag_of="newest row",
            latency=self.latency.to_json(),
            rates=[(batches[-1].at - one.at, one.rows_per_second) for one in batches[-240:]],
            has_plan=self.query is not None,
        )

    def plan(self) -> str:
        """The text of `explain()`, if the query is known."""
        return "" if self.query is None else self.query.explain()

    def release(self) -> None:
        """Stop the monitor, if it was started here."""
        if self.owned:
            self.monitor.close()
