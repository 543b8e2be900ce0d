"""MicroBatch: the counters of one micro-batch of a stream, the size of its state, its hot key and its latest row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

HOT_SHARE = 0.5
"""The share of a shard's rows from which a key is reported as hot."""
FAIR = 2
"""A key is hot only if it has this many times the average rows of a key."""


@dataclass(frozen=True)
class HotKey:
    """The key with the most rows of a micro-batch."""

    key: str
    shard: int
    rows: int
    share: float
    """Its share of the rows of its shard in this micro-batch."""
    is_hot: bool
    """Does it have at least half of the rows of its shard, and twice the average rows of a key?"""

    def __str__(self) -> str:
        return f"key {self.key} has {self.share:.0%} of the rows of shard {self.shard}, {self.rows:,}"


@dataclass(frozen=True)
class LatestRow:
    """The row with the latest time so far: the watermark is `lateness` behind it."""

    time: float
    """In units of the time column."""
    nanoseconds: int
    """The length of a unit; 0 for a numeric time column."""
    key: str | None
    shard: int | None
    batch: int

    @property
    def seconds(self) -> float | None:
        """The time in seconds since 1970; None for a numeric time column."""
        return self.time * self.nanoseconds / 1e9 if self.nanoseconds else None

    @property
    def time_text(self) -> str:
        """The time as text: a timestamp in UTC, or a number."""
        if self.seconds is None:
            return f"{self.time:,.15g}"
        try:
            return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)).isoformat()
        except OverflowError:  # Python has no years beyond 9999
            return f"{self.seconds:,.0f} s after 1970"

    def __str__(self) -> str:
        key = f" of key {self.key}" if self.key else ""
        shard = "" if self.shard is None else f", shard {self.shard}"
        return f"the row{key} at {self.time_text} (batch {self.batch}{shard})"


@dataclass(frozen=True)
class MicroBatch:
    """The counters of one micro-batch, and the size of the state after it."""

    number: int
    at: float
    """When it began, in seconds since 1970."""
    rows_in: int
    rows_out: int
    seconds: float
    late: int
    untimed: int
    malformed: int
    lag: float | None
    """How far the watermark is behind the latest time so far: in seconds, or in units of a numeric time column."""
    lag_unit: str
    """"s" for seconds, else empty."""
    keys: int
    elements: int
    """Elements kept for later windows, and rows in the reorder buffer."""
    state_bytes: int
    pages_read: int
    pages_written: int
    bytes_read: int
    bytes_written: int
    pages_local: int = 0
    """Pages read from files of live state on the executors, instead of Spark's state."""
    failed: int = 0
    failed_results: int = 0
    hot_key: HotKey | None = None
    """The key with the most rows."""
    sources: tuple[tuple[str, int], ...] = ()
    """Spark's description of each source, and its number of rows."""

    @property
    def rows_per_second(self) -> float:
        return self.rows_in / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The counters by names with their units, for JSON."""
        hot = self.hot_key
        lag = "watermark_lag_seconds" if self.lag_unit == "s" else "watermark_lag"
        return {
            "batch": self.number,
            "timestamp": datetime.fromtimestamp(self.at, UTC).isoformat(timespec="milliseconds"),
            "batch_seconds": self.seconds,
            "batch_rows": self.rows_in,
            "batch_results": self.rows_out,
            "batch_late_rows": self.late,
            "batch_untimed_rows": self.untimed,
            "batch_malformed_rows": self.malformed,
            "batch_failed_rows": self.failed,
            "batch_failed_results": self.failed_results,
            "rows_per_second": round(self.rows_per_second, 3),
            lag: self.lag,
            "keys": self.keys,
            "elements": self.elements,
            "state_bytes": self.state_bytes,
            "batch_pages_read": self.pages_read,
            "batch_pages_written": self.pages_written,
            "batch_read_bytes": self.bytes_read,
            "batch_written_bytes": self.bytes_written,
            "batch_pages_local": self.pages_local,
            "hot_key": None if hot is None else hot.key,
            "hot_key_ratio": None if hot is None else round(hot.share, 4),
            "hot_key_shard": None if hot is None else hot.shard,
        }

    def __str__(self) -> str:
        words = [f"batch {self.number}", f"{self.rows_in:,} rows", f"{self.rows_per_second:,.0f} rows/s"]
        words += (
            [] if self.lag is None else [f"watermark {self.lag:,.1f}{self.lag_unit and f' {self.lag_unit}'} behind"]
        )
        words += [f"{self.keys:,} keys", f"{self.late:,} late"]
        words += [f"{self.untimed:,} untimed"] if self.untimed else []
        words += [f"{self.malformed:,} malformed"] if self.malformed else []
        words += [f"{self.failed:,} failed"] if self.failed else []
        words += [f"{self.failed_results:,} failed results"] if self.failed_results else []
        words += [f"state {_size(self.state_bytes)}", f"pages {self.pages_read:,} read, {self.pages_written:,} written"]
        return " · ".join(words)


def hottest(shards: Iterable[Mapping[str, Any]]) -> HotKey | None:
    """The key with the most rows among the hot keys of the shards; None if no shard reports one."""
    named = [one for one in shards if one.get("hot_key") and one.get("rows_in")]
    rows, keys = sum(one["rows_in"] for one in named), sum(one["sampled_keys"] for one in named)
    found = []
    for one in named:
        count = one["hot_rows"]
        share = count / one["rows_in"]
        fair = max(share * one["sampled_keys"], count / rows * keys)  # in its shard, or in all of them
        found.append(HotKey(one["hot_key"], one["shard"], count, share, share >= HOT_SHARE and fair >= FAIR))
    return max(found, key=lambda one: (one.is_hot, one.rows), default=None)


def _size(count: int) -> str:
    size, units = float(count), iter(("B", "KB", "MB", "GB"))
    unit = next(units)
    while size >= 1000 and unit != "GB":
        size, unit = size / 1000, next(units)
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
