"""Monitor: reads the progress of a running query for each micro-batch, and prints a line in a terminal.

query ──progress──▶ Monitor ──▶ batches, totals, a line
        Spark's own figures, and the progress of the shards (`progress`)
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from typing import Any, TextIO

from sash.spark.stream.progress import FLOWS, LEVELS, OBSERVED


@dataclass(frozen=True)
class MicroBatch:
    """The counters of one micro-batch, and the size of the state after it."""

    number: int
    rows_in: int
    rows_out: int
    seconds: float
    late: int
    untimed: int
    malformed: int
    lag: float | None
    """How far the watermark is behind the greatest time seen: in seconds, or in units of a numeric time column."""
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

    @property
    def rows_per_second(self) -> float:
        return self.rows_in / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        words = [f"batch {self.number}", f"{self.rows_in:,} rows", f"{self.rows_per_second:,.0f} rows/s"]
        words += (
            [] if self.lag is None else [f"watermark {self.lag:,.1f}{self.lag_unit and f' {self.lag_unit}'} behind"]
        )
        words += [f"{self.keys:,} keys", f"{self.late:,} late"]
        words += [f"{self.untimed:,} untimed"] if self.untimed else []
        words += [f"{self.malformed:,} malformed"] if self.malformed else []
        words += [f"state {_size(self.state_bytes)}", f"pages {self.pages_read:,} read, {self.pages_written:,} written"]
        return " · ".join(words)


class Monitor:
    """Follows a streaming query. `batches` are the last micro-batches, `totals` the sums over all of them."""

    KEPT = 1000
    SECONDS = 0.5
    """Seconds between two reads of the query's progress."""

    def __init__(self, query: Any, to: TextIO | None) -> None:
        self.query, self.to = query, to
        self.batches: list[MicroBatch] = []
        self.totals: dict[str, int] = dict.fromkeys(FLOWS, 0)
        self._shards: dict[Any, dict[str, int]] = {}
        self._greatest: dict[str, float] = {}
        self._seen: set[int] = set()
        self._lock = threading.RLock()
        self._width = 0
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def last(self) -> MicroBatch | None:
        """The last micro-batch, None before there is one."""
        return self.batches[-1] if self.batches else None

    def update(self) -> Monitor:
        """Read Spark's recent progress: after the end of a query the last report may be delayed."""
        for progress in self.query.recentProgress:
            self.take(progress)
        return self

    def take(self, progress: Any) -> None:
        """Add one progress of the query; one that was added already changes nothing."""
        with self._lock:
            number = progress["batchId"]
            counts = {name: row for name, row in progress["observedMetrics"].items() if name.startswith(OBSERVED)}
            if number in self._seen or not counts:  # between micro-batches Spark reports only that it waits
                return
            self._seen.add(number)
            self._add(number, progress, {name: _as_dict(row) for name, row in counts.items()})
        self._write()

    def _add(self, number: int, progress: Any, counts: dict[str, dict[str, Any]]) -> None:
        flows = {name: sum(row.get(name) or 0 for row in counts.values()) for name in FLOWS}
        for name, flow in flows.items():
            self.totals[name] += flow
        lags: list[tuple[float, str]] = []
        for name, row in counts.items():
            lags += self._lag(name, row)
            for shard in map(_as_dict, row.get("shards") or ()):
                self._shards[name, shard["shard"]] = shard
        levels = {name: sum(shard[name] for shard in self._shards.values()) for name in LEVELS}
        seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
        lag, unit = max(lags, default=(None, ""))
        self.batches.append(MicroBatch(number=number, seconds=seconds, lag=lag, lag_unit=unit, **flows, **levels))
        del self.batches[: -self.KEPT]

    def _lag(self, name: str, row: dict[str, Any]) -> list[tuple[float, str]]:
        greatest, watermark = row.get("greatest"), row.get("watermark")
        if greatest is not None:
            self._greatest[name] = max(greatest, self._greatest.get(name, greatest))
        if watermark is None or name not in self._greatest:
            return []
        nanoseconds = int(name.split()[1])
        behind = self._greatest[name] - watermark
        return [(behind * nanoseconds / 1e9, "s") if nanoseconds else (behind, "")]

    def _write(self) -> None:
        if self.to is None:
            return
        line = str(self.last)
        if self.to.isatty():
            self.to.write("\r" + line.ljust(self._width))
            self._width = len(line)
        else:
            self.to.write(line + "\n")
        self.to.flush()

    def follow(self) -> Monitor:
        """Read the progress in a thread until the query ends, or `close` is called."""
        self._thread = threading.Thread(target=self._poll, name="sash monitor", daemon=True)
        self._thread.start()
        return self

    def _poll(self) -> None:
        while not self._closed.wait(self.SECONDS):
            try:
                last = self.query.lastProgress
                if last is not None and last["batchId"] not in self._seen:
                    self.update()
            except Exception:  # the session has ended, and `close` reports it
                return

    def close(self) -> None:
        """Read the progress a last time, and end the line."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
        self.update()
        if self.to is not None and self.to.isatty() and self.batches:
            self.to.write("\n")

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def monitor(query: Any, to: TextIO | None = None) -> Monitor:
    """Follow a streaming query: rows a second, watermark, keys, late rows, state and pages of each micro-batch.

    `to`: where to write a line about each micro-batch; by default standard error if that is a terminal, where one line
    is overwritten. Use it in a `with`, or `close` it at the end:

        with sash.spark.monitor(query) as watched:
            query.awaitTermination()
        print(watched.last, watched.totals)
    """
    if to is None and sys.stderr.isatty():
        to = sys.stderr
    return Monitor(query, to).follow()


def _as_dict(row: Any) -> dict[str, Any]:
    """A Spark row as a dict; Connect sends its values and its schema."""
    found: dict[str, Any] = row if isinstance(row, dict) else row.asDict()
    if found.keys() != {"values", "schema"}:
        return found
    return dict(zip((field["name"] for field in found["schema"]["fields"]), found["values"], strict=True))


def _size(count: int) -> str:
    size, units = float(count), iter(("B", "KB", "MB", "GB"))
    unit = next(units)
    while size >= 1000 and unit != "GB":
        size, unit = size / 1000, next(units)
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
