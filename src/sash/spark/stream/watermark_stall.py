"""StallTracker: finds out why the watermark of a stream stands still, and names the row that it follows.

    kind      what happens                                            why the watermark stands still
    idle      no rows arrive                                          there is no later time
    future    one row is far ahead, and later rows are late           it follows that row
    untimed   all rows that arrive have no time                       there is no later time
    behind    rows arrive in time, none later than the latest so far  the source repeats earlier times

Spark's watermark follows the latest time of all sources. So a silent source does not hold it back, but its next rows
may be late; therefore it is reported, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sash.spark.stream.micro_batch import LatestRow, MicroBatch


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
