"""WatchedOperator: observes the calls of an operator, or of a pipeline's operator.

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
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sash.cli.page.latency_histogram import LatencyHistogram
from sash.cli.page.newest_results import NewestResults
from sash.cli.page.query_figures import QueryFigures, RowRate
from sash.cli.page.result_rows import results_json
from sash.engine import Operator
from sash.engine.metrics import Metrics, Progress
from sash.plan.query import Query
from sash.plan.time_axis import TimeAxis

if TYPE_CHECKING:
    from sash.pipeline import Pipeline

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
            self.calls.measure(operator)

    def _observe(self, results: pa.RecordBatch, seconds: float) -> None:
        self.calls.take(self.operator, results, seconds)

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

    def take(self, operator: Operator, results: pa.RecordBatch, seconds: float) -> None:
        """Record a call. An error here is shown on the page: it must not make the call fail."""
        try:
            kernels = _kernels_compiled()
            (self.latency if kernels == self._kernels else self.compiling).add(seconds)
            self._kernels = kernels
            self.newest.add(results)
            self.measure(operator)
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"

    def measure(self, operator: Operator) -> None:
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
