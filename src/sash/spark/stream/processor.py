"""ShardProcessor: Spark calls it once per micro-batch for each shard with rows, and when a timer is due.

The engine is imported lazily: Spark starts a process on the driver for `init` alone, and waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import Row

from sash.spark.stream.progress import COLUMNS, NAMES
from sash.spark.stream.stream_spec import PackedRow, StreamSpec
from sash.spark.worker_io import message_only

try:
    from pyspark.sql.streaming import StatefulProcessor
except ImportError:  # Spark 3.5, which has no state for Python: `plan_stream` refuses streams
    StatefulProcessor = object

PROCESSED = f"shard int, results binary, side binary, {COLUMNS}"

_ROW = Row("shard", "results", "side", *NAMES)


class ShardProcessor(StatefulProcessor):  # type: ignore[misc]
    """Runs the operator of a shard on the pages in Spark's state."""

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec

    def init(self, handle: Any) -> None:
        """Called in each task, and once on the driver to find the state variables."""
        self.handle = handle
        self.pages = handle.getMapState("pages", "page string", "bytes binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802
        return message_only(self._run(key, list(rows), timerValues))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802
        return message_only(self._run(key, [], timerValues, expiredTimerInfo.getExpiryTimeInMs()))

    def close(self) -> None:
        """Does nothing: there are no resources to release."""

    def _run(self, key: Any, packed: Sequence[PackedRow], times: Any, fired: int | None = None) -> Iterator[Row]:
        from sash.spark.stream.shard_task import ShardTask

        shard = ShardTask(self.spec, key[0], self.pages, self.handle)
        for output in shard.run(packed, times.getCurrentWatermarkInMs(), fired):
            yield _ROW(*output.values())
