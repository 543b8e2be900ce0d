"""Monitor: follows the progress of a streaming query, and writes a line for each micro-batch.

    query ──progress──▶ ProgressFeed ──▶ Monitor ──▶ batches, totals, warnings ──▶ a line, JSON, Prometheus
            Spark's own figures, and the progress of the shards (`shard_progress`)

A classic session calls a listener for each micro-batch. Over Connect the progress is polled, because removing a
listener can deadlock in Spark 4.3: the client waits for its thread while it holds a lock that this thread needs for
the remaining events.

Names of metrics follow the rules of Prometheus: base units, `_total` for counters, `_seconds`, `_bytes`, `_ratio`.

Why the watermark stands still (`StallTracker`), with the row that it follows:

    kind      what happens                                            why
    idle      no rows arrive                                          there is no later time
    future    one row is far ahead, and later rows are late           it follows that row
    untimed   all rows that arrive have no time                       there is no later time
    behind    rows arrive in time, none later than the latest so far  the source repeats earlier times

Spark's watermark follows the latest time of all sources. So a silent source does not hold it back, but its next rows
may be late; therefore it is reported, too.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TextIO

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

from sash.spark.session import is_connect
from sash.spark.stream.shard_progress import FLOWS, LEVELS, OBSERVED, Flows

# --- Monitor metrics ---

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


# --- Micro batch ---

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


@dataclass(frozen=True, kw_only=True)
class MicroBatch(Flows):
    """The counters of one micro-batch, and the size of the state after it."""

    number: int
    at: float
    """When it began, in seconds since 1970."""
    seconds: float
    lag: float | None
    """How far the watermark is behind the latest time so far: in seconds, or in units of a numeric time column."""
    lag_unit: str
    """"s" for seconds, else empty."""
    keys: int
    elements: int
    """Elements kept for later windows, and rows in the reorder buffer."""
    state_bytes: int
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
        counts = {name: getattr(self, name) for name in ("untimed", "malformed", "failed", "failed_results")}
        words += [f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count]
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


# --- Progress feed ---


class ProgressListener(StreamingQueryListener):  # type: ignore[misc]
    """Passes on the progress of one query."""

    def __init__(self, query: Any, take: Callable[[Any], None]) -> None:
        self.run, self.take = str(query.runId), take

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Does nothing: the query has started already."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        if str(event.progress.runId) == self.run:
            self.take(event.progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Does nothing: a monitor has its own clock."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Does nothing: the monitor is closed by its user."""


class ProgressFeed:
    """Calls `take` with each progress of a query, from a thread, until it is closed."""

    SECONDS = 0.5
    """Seconds between two reads of the progress, where it is polled."""

    def __init__(self, query: Any, take: Callable[[Any], None]) -> None:
        self.query, self.take = query, take
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._listener: ProgressListener | None = None
        session = SparkSession.getActiveSession()
        self._streams: Any = None if session is None or is_connect(session) else session.streams
        if self._streams is not None:
            self._listener = ProgressListener(query, take)
            self._streams.addListener(self._listener)
        else:
            self._thread = threading.Thread(target=self._poll, name="sash monitor", daemon=True)
            self._thread.start()

    def _poll(self) -> None:
        last = None
        while not self._closed.wait(self.SECONDS):
            try:
                progress = self.query.lastProgress
                if progress is not None and progress["batchId"] != last:
                    for one in self.query.recentProgress:
                        self.take(one)
                    last = progress["batchId"]
            except Exception:  # the session has ended, and `close` of the monitor reports it
                return

    def close(self) -> None:
        """Stop: a listener is removed, a thread ends."""
        self._closed.set()
        if self._listener is not None:
            self._streams.removeListener(self._listener)
            self._listener = None
        if self._thread is not None:
            self._thread.join()
            self._thread = None


# --- Watermark stall ---


@dataclass(frozen=True)
class Stall:
    """Why a watermark stands still."""

    kind: Literal["idle", "future", "untimed", "behind"]
    seconds: float
    """How long no row was later than `row`."""
    row: LatestRow | None
    """The row with the latest time, which the watermark follows; None if no row had a time."""
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class SilentSource:
    """A source without rows, while others have some."""

    number: int
    """Its place among the sources, from 0."""
    description: str
    seconds: float

    def __str__(self) -> str:
        return (
            f"source {self.number} has had no rows for {self.seconds:,.0f} s, while others had: {self.description}; "
            "the watermark follows the others, so that its next rows may be late"
        )


class StallTracker:
    """Follows the latest time of a stream. `after`: seconds without a later time before a stall is reported."""

    def __init__(self, after: float) -> None:
        self.after = after
        self.row: LatestRow | None = None
        self.advanced_at: float | None = None
        """When the latest time last advanced; before the first time, when the first rows arrived."""
        self.rows = self.late = self.untimed = 0
        """Counters of the micro-batches since then."""

    def take(self, batch: MicroBatch, latest: LatestRow | None) -> None:
        """Add a micro-batch and its row with the latest time."""
        if self.advanced_at is None:
            self.advanced_at = batch.at
        if latest is not None and (self.row is None or latest.time > self.row.time):
            self.row, self.advanced_at = latest, batch.at + batch.seconds
            self.rows = self.late = self.untimed = 0
            return
        self.rows += batch.rows_in + batch.malformed
        self.late += batch.late
        self.untimed += batch.untimed + batch.malformed

    def found(self, now: float) -> Stall | None:
        """Why the watermark stands still, at a time in seconds since 1970; None if it does not."""
        if self.advanced_at is None:
            return None
        seconds = max(0.0, now - self.advanced_at)
        row = self.row
        timed = self.rows - self.untimed
        if row is not None and self.late and 2 * self.late >= timed:
            return Stall("future", seconds, row, self._future(row))
        if seconds < self.after:
            return None
        still = f"the watermark has stood still for {seconds:,.0f} s"
        at = "" if row is None else f"; it follows {row}"
        if not self.rows:
            return Stall("idle", seconds, row, f"{still}: no rows have come{at}")
        if not timed:
            return Stall("untimed", seconds, row, f"{still}: none of {self.rows:,} rows has a time{at}")
        return Stall("behind", seconds, row, f"{still}: none of {timed:,} rows is later{at}")

    def _future(self, row: LatestRow) -> str:
        ahead = None if row.seconds is None or self.advanced_at is None else row.seconds - self.advanced_at
        clock = f", {ahead:,.0f} s ahead of the clock" if ahead is not None and ahead > 0 else ""
        return (
            f"{self.late:,} of {self.rows:,} rows since batch {row.batch} are late: {row} is ahead of them{clock}, and "
            "the watermark follows it. Set ahead= of the query to the maximum time that a row may be ahead of the "
            "clock, and start with a new checkpointLocation"
        )


class SourceTracker:
    """Follows the sources of a stream."""

    def __init__(self, after: float) -> None:
        self.after = after
        self.last_rows: dict[int, float] = {}
        """When each source last had rows."""
        self.descriptions: dict[int, str] = {}

    def take(self, batch: MicroBatch) -> None:
        """Add a micro-batch."""
        for number, (description, rows) in enumerate(batch.sources):
            self.descriptions[number] = description
            if rows or number not in self.last_rows:
                self.last_rows[number] = batch.at

    def silent(self) -> list[SilentSource]:
        """The sources that had no rows for `after` seconds, while another one had."""
        last = max(self.last_rows.values(), default=0.0)
        return [
            SilentSource(number, self.descriptions[number], last - since)
            for number, since in self.last_rows.items()
            if last - since >= self.after
        ]


# --- Monitor ---

LineFormat = Literal["text", "json"]


class Monitor:
    """Follows a streaming query. `batches` are the last micro-batches, `totals` the sums over all of them."""

    KEPT = 1000

    def __init__(
        self,
        query: Any,
        to: TextIO | None,
        format: LineFormat = "text",  # noqa: A002
        stalled_after: float = 60.0,
    ) -> None:
        self.query, self.to, self.format = query, to, format
        self.batches: list[MicroBatch] = []
        self.totals: dict[str, int] = dict.fromkeys(FLOWS, 0)
        self.batch_count: int = 0
        self.batch_seconds: float = 0.0
        self._after = stalled_after
        self._stalls: dict[str, StallTracker] = {}
        self._sources = SourceTracker(stalled_after)
        self._shards: dict[tuple[str, int], dict[str, Any]] = {}
        """The last progress of each shard, by the name of its metrics and its number."""
        self._seen: set[int] = set()
        self._lock = threading.RLock()
        self._width = 0
        self._feed: ProgressFeed | None = None
        self._closed = False

    @property
    def last(self) -> MicroBatch | None:
        """The last micro-batch, None before there is one."""
        return self.batches[-1] if self.batches else None

    @property
    def identity(self) -> dict[str, str]:
        """The name of the query, if it has one, and its id."""
        found = {"query": getattr(self.query, "name", None), "query_id": getattr(self.query, "id", None)}
        return {name: str(value) for name, value in found.items() if value is not None}

    @property
    def stall(self) -> Stall | None:
        """Why the watermark stands still; None if it does not."""
        with self._lock:
            now = self._now()
            found = [one for one in (tracker.found(now) for tracker in self._stalls.values()) if one is not None]
        return max(found, key=lambda one: one.seconds, default=None)

    @property
    def silent_sources(self) -> list[SilentSource]:
        """The sources that have had no rows for as long as a watermark may stand still, while others had."""
        with self._lock:
            return self._sources.silent()

    @property
    def warnings(self) -> list[str]:
        """What slows the query down, as text: a watermark that stands still, silent sources, a hot key."""
        stall, last = self.stall, self.last
        found = [] if stall is None else [str(stall)]
        found += map(str, self.silent_sources)
        if last is not None and last.hot_key is not None and last.hot_key.is_hot:
            found.append(f"{last.hot_key}: one key cannot be shared among shards")
        return found

    def as_dict(self) -> dict[str, Any]:
        """The metrics by names with their units: totals, the last micro-batch, the hot key, the warnings."""
        values = {one.name: one.value(self) for one in METRICS}
        found: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
        hot = None if self.last is None else self.last.hot_key
        if hot is not None:
            found |= {"hot_key": hot.key, "hot_key_shard": hot.shard}
        return found | {"warnings": self.warnings} | self.identity

    def prometheus(self) -> str:
        """The metrics in the text format of Prometheus, with the query as labels.

        The hot key is not a label: Prometheus would keep a time series for each key that was ever hot.
        """
        escaped = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
        pairs = ",".join(f'{name}="{value.translate(escaped)}"' for name, value in self.identity.items())
        labels = f"{{{pairs}}}" if pairs else ""
        lines = []
        for one in METRICS:
            value = one.value(self)
            if value is not None:
                name = PREFIX + one.name
                lines += [f"# HELP {name} {one.help}", f"# TYPE {name} {one.kind}", f"{name}{labels} {value:.17g}"]
        return "".join(f"{line}\n" for line in lines)

    def update(self) -> Monitor:
        """Read Spark's recent progress, whose last report may come after the end of the query."""
        for progress in self.query.recentProgress:
            self.take(progress)
        return self

    def take(self, progress: Any) -> None:
        """Add a progress report of the query; one that was added already changes nothing."""
        with self._lock:
            number = progress["batchId"]
            counts = {name: row for name, row in progress["observedMetrics"].items() if name.startswith(OBSERVED)}
            if number in self._seen or not counts:  # between micro-batches Spark reports that it is idle
                return
            self._seen.add(number)
            if len(self._seen) > 2 * self.KEPT:  # Spark repeats only its last reports, some hundred of them
                self._seen = set(sorted(self._seen)[-self.KEPT :])
            self._add(number, progress, {name: _as_dict(row) for name, row in counts.items()})
            self._write()

    def _add(self, number: int, progress: Any, counts: dict[str, dict[str, Any]]) -> None:
        flows = {name: sum(row.get(name) or 0 for row in counts.values()) for name in FLOWS}
        for name, flow in flows.items():
            self.totals[name] += flow
        now: dict[tuple[str, int], dict[str, Any]] = {}
        for name, row in counts.items():
            for shard in map(_as_dict, row.get("shards") or ()):
                place = name, shard["shard"]
                if place not in now or (shard.get("rows_in") or 0) > 0:  # a timer may call a shard a second time
                    now[place] = shard
        self._shards |= now
        levels = {name: sum(shard[name] for shard in self._shards.values()) for name in LEVELS}
        began, seconds = progress.get("timestamp"), progress["durationMs"].get("triggerExecution", 0) / 1000
        latest = {name: _latest(name, number, row) for name, row in counts.items()}
        lag, unit = max(
            (lag for name, row in counts.items() for lag in self._lag(name, row, latest[name])), default=(None, "")
        )
        batch = MicroBatch(
            number=number,
            at=datetime.fromisoformat(began).timestamp() if began else 0.0,
            seconds=seconds,
            lag=lag,
            lag_unit=unit,
            hot_key=hottest(now.values()),
            sources=tuple((one["description"], one["numInputRows"]) for one in progress.get("sources") or ()),
            **flows,
            **levels,
        )
        self.batches.append(batch)
        del self.batches[: -self.KEPT]
        self.batch_count += 1
        self.batch_seconds += seconds
        self._sources.take(batch)
        for name, one in latest.items():
            self._stalls[name].take(batch, one)

    def _lag(self, name: str, row: dict[str, Any], latest: LatestRow | None) -> list[tuple[float, str]]:
        before = self._stalls.setdefault(name, StallTracker(self._after)).row
        watermark, rows = row.get("watermark"), [one for one in (before, latest) if one is not None]
        if watermark is None or not rows:
            return []
        greatest = max(rows, key=lambda one: one.time)
        behind = greatest.time - watermark
        return [(behind * greatest.nanoseconds / 1e9, "s") if greatest.nanoseconds else (behind, "")]

    def _now(self) -> float:
        """The time of the clock while the query is followed; afterwards, the end of the last micro-batch."""
        if self._feed is not None and not self._closed:
            return time.time()
        return self.last.at + self.last.seconds if self.last else 0.0

    def _write(self) -> None:
        if self.to is None or self.last is None:
            return
        if self.format == "json":
            line = json.dumps(self.identity | self.last.as_dict() | {"warnings": self.warnings}, ensure_ascii=False)
        else:
            line = " · ".join([str(self.last), *self.warnings])
        if self.to.isatty() and self.format == "text":
            self.to.write("\r" + line.ljust(self._width))
            self._width = len(line)
        else:
            self.to.write(line + "\n")
        self.to.flush()

    def follow(self) -> Monitor:
        """Read the progress until `close` is called: from a listener, or in a thread."""
        self._feed = ProgressFeed(self.query, self.take)
        return self

    def close(self) -> None:
        """Read the progress for the last time, and end the line."""
        if self._closed:
            return
        if self._feed is not None:
            self._feed.close()
        self.update()
        self._closed = True
        if self.to is not None and self.to.isatty() and self.format == "text" and self.batches:
            self.to.write("\n")

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def monitor(
    query: Any,
    to: TextIO | None = None,
    format: LineFormat = "text",  # noqa: A002
    stalled_after: float = 60.0,
) -> Monitor:
    """Follow a streaming query: rows a second, watermark, keys, late rows, state and pages of each micro-batch.

    `to`: where to write a line about each micro-batch; by default standard error if that is a terminal, where one line
    is overwritten.
    `format`: "text", or "json" for an object in each line.
    `stalled_after`: seconds without a later event time, or without rows of a source, before the monitor warns.

    A classic session calls a listener; over Connect the progress is polled. Use it in a `with`, or `close` it at the
    end:

        with sash.spark.monitor(query) as watched:
            query.awaitTermination()
        print(watched.last, watched.totals, watched.warnings)
        print(watched.as_dict(), watched.prometheus())

    Raises ValueError for another format, and for a negative time.
    """
    if format not in ("text", "json"):
        raise ValueError(f"format= of monitor() must be 'text' or 'json'; got {format!r}")
    if not stalled_after >= 0:
        raise ValueError(f"stalled_after= of monitor() must be a number of seconds; got {stalled_after!r}")
    if to is None and format == "text" and sys.stderr.isatty():
        to = sys.stderr
    return Monitor(query, to, format, stalled_after).follow()


def _latest(name: str, number: int, row: dict[str, Any]) -> LatestRow | None:
    """The row with the latest time of a micro-batch; the name of the metrics contains the length of a unit of time."""
    greatest = row.get("greatest")
    if greatest is None:
        return None
    found = _as_dict(row["latest"]) if row.get("latest") is not None else {}
    return LatestRow(greatest, int(name.split()[1]), found.get("latest_key"), found.get("latest_shard"), number)


def _as_dict(row: Any) -> dict[str, Any]:
    """A Spark row as a dict; Connect sends its values and its schema."""
    found: dict[str, Any] = row if isinstance(row, dict) else row.asDict()
    if found.keys() != {"values", "schema"}:
        return found
    return dict(zip((field["name"] for field in found["schema"]["fields"]), found["values"], strict=True))
