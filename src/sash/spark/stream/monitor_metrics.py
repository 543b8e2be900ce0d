"""Metrics of a monitored stream: a dict by names with units, and the text format of Prometheus.

Names follow the rules of Prometheus: base units, `_total` for counters, `_seconds`, `_bytes`, `_ratio`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sash.spark.stream.micro_batch import MicroBatch
    from sash.spark.stream.monitor import Monitor

PREFIX = "sash_stream_"


@dataclass(frozen=True)
class StreamMetric:
    """A metric: its name, its description, and the function that reads it from a monitor."""

    name: str
    help: str
    value: Callable[[Monitor], float | None]

    @property
    def kind(self) -> str:
        """The type in Prometheus."""
        return "counter" if self.name.endswith("_total") else "gauge"


def _total(flow: str) -> Callable[[Monitor], float | None]:
    return lambda monitor: monitor.totals[flow]


def _last(read: Callable[[MicroBatch], float | None]) -> Callable[[Monitor], float | None]:
    return lambda monitor: None if monitor.last is None else read(monitor.last)


METRICS = (
    StreamMetric("batches_total", "Micro-batches.", lambda monitor: monitor.batch_count),
    StreamMetric("batch_seconds_total", "Time of all micro-batches.", lambda monitor: monitor.batch_seconds),
    StreamMetric("rows_total", "Input rows, without malformed ones.", _total("rows_in")),
    StreamMetric("results_total", "Rows of results.", _total("rows_out")),
    StreamMetric("late_rows_total", "Rows below the watermark.", _total("late")),
    StreamMetric("untimed_rows_total", "Rows without a time, or too far ahead of the clock.", _total("untimed")),
    StreamMetric("malformed_rows_total", "Rows that could not be parsed.", _total("malformed")),
    StreamMetric("failed_rows_total", "Rows on which an aggregate failed.", _total("failed")),
    StreamMetric("failed_results_total", "Results on which an aggregate failed.", _total("failed_results")),
    StreamMetric("pages_read_total", "Pages read from Spark's state.", _total("pages_read")),
    StreamMetric("pages_local_total", "Pages read from files of executors instead.", _total("pages_local")),
    StreamMetric("pages_written_total", "Pages written to Spark's state.", _total("pages_written")),
    StreamMetric("state_read_bytes_total", "Bytes read from Spark's state.", _total("bytes_read")),
    StreamMetric("state_written_bytes_total", "Bytes written to Spark's state.", _total("bytes_written")),
    StreamMetric("batch_rows", "Input rows of the last micro-batch.", _last(lambda batch: batch.rows_in)),
    StreamMetric("batch_seconds", "Time of the last micro-batch.", _last(lambda batch: batch.seconds)),
    StreamMetric("keys", "Keys in the state.", _last(lambda batch: batch.keys)),
    StreamMetric("elements", "Elements that windows need, and rows that wait.", _last(lambda batch: batch.elements)),
    StreamMetric("state_bytes", "Size of the state.", _last(lambda batch: batch.state_bytes)),
    StreamMetric(
        "watermark_lag_seconds",
        "How far the watermark is behind the latest time.",
        _last(lambda batch: batch.lag if batch.lag_unit == "s" else None),
    ),
    StreamMetric(
        "watermark_lag",
        "How far the watermark is behind the latest time, in units of a numeric time column.",
        _last(lambda batch: None if batch.lag_unit == "s" else batch.lag),
    ),
    StreamMetric(
        "watermark_stalled_seconds",
        "How long the watermark has stood still; 0 while it moves.",
        lambda monitor: 0.0 if monitor.stall is None else monitor.stall.seconds,
    ),
    StreamMetric("silent_sources", "Sources without rows, while others have some.", lambda m: len(m.silent_sources)),
    StreamMetric(
        "hot_key_ratio",
        "Share of the key with the most rows in the rows of its shard, in the last micro-batch.",
        _last(lambda batch: None if batch.hot_key is None else batch.hot_key.share),
    ),
)
"""All metrics, in the order in which they are written."""


def as_dict(monitor: Monitor) -> dict[str, Any]:
    """The metrics that have a value, by name; then what is not a number: the query, the hot key, and the warnings."""
    values = {one.name: one.value(monitor) for one in METRICS}
    found: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    hot = None if monitor.last is None else monitor.last.hot_key
    if hot is not None:
        found |= {"hot_key": hot.key, "hot_key_shard": hot.shard}
    return found | {"warnings": monitor.warnings} | monitor.identity


def prometheus(monitor: Monitor) -> str:
    """The metrics in the text format of Prometheus, with the query as labels.

    The hot key is not a label: Prometheus would keep a time series for each key that was ever hot.
    """
    labels = _labels(monitor.identity)
    lines = []
    for one in METRICS:
        value = one.value(monitor)
        if value is not None:
            name = PREFIX + one.name
            lines += [f"# HELP {name} {one.help}", f"# TYPE {name} {one.kind}", f"{name}{labels} {value:.17g}"]
    return "".join(f"{line}\n" for line in lines)


def _labels(identity: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in identity.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
