"""WatchedStream: follows a streaming query of Spark by its monitor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sash.cli.page.watched_operator import LatencyHistogram, QueryFigures

if TYPE_CHECKING:
    from sash.plan.query import Query
    from sash.spark.stream.monitor import Monitor


class WatchedStream:
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

    def keys(self) -> list[str]:
        """Nothing: Spark writes the results to the sink."""
        return []

    def results(self, key: str) -> dict[str, Any] | None:
        """Nothing: Spark writes the results to the sink."""
        del key
        return None

    def plan(self) -> str:
        """The text of `explain()`, if the query is known."""
        return "" if self.query is None else self.query.explain()

    def catch_up(self) -> None:
        """Does nothing: the monitor keeps its batches."""

    def release(self) -> None:
        """Stop the monitor, if it was started here."""
        if self.owned:
            self.monitor.close()
