"""Monitor: follows the progress of a streaming query, and writes a line for each micro-batch.

query ──progress──▶ Monitor ──▶ batches, totals, warnings ──▶ a line, JSON, Prometheus
        Spark's own figures, and the progress of the shards (`progress`)
"""

from __future__ import annotations

import json
import sys
import threading
import time
from datetime import datetime
from typing import Any, Literal, TextIO

from sash.spark.stream import monitor_metrics
from sash.spark.stream.micro_batch import LatestRow, MicroBatch, hottest
from sash.spark.stream.progress import FLOWS, LEVELS, OBSERVED
from sash.spark.stream.progress_feed import ProgressFeed
from sash.spark.stream.watermark_stall import SilentSource, SourceTracker, Stall, StallTracker

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
        return monitor_metrics.as_dict(self)

    def prometheus(self) -> str:
        """The metrics in the text format of Prometheus."""
        return monitor_metrics.prometheus(self)

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
        seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
        latest = {name: _latest(name, number, row) for name, row in counts.items()}
        lag, unit = max(
            (lag for name, row in counts.items() for lag in self._lag(name, row, latest[name])), default=(None, "")
        )
        batch = MicroBatch(
            number=number,
            at=_timestamp(progress),
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


def _timestamp(progress: Any) -> float:
    text = progress.get("timestamp")
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def _as_dict(row: Any) -> dict[str, Any]:
    """A Spark row as a dict; Connect sends its values and its schema."""
    found: dict[str, Any] = row if isinstance(row, dict) else row.asDict()
    if found.keys() != {"values", "schema"}:
        return found
    return dict(zip((field["name"] for field in found["schema"]["fields"]), found["values"], strict=True))
