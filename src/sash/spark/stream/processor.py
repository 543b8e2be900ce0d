"""The processor: what Spark calls, once a micro-batch for each shard with rows, and when a timer is due.

The engine is imported where it is needed: Spark starts a process on the driver for `init` alone, and waits for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from sash.spark.stream.progress import COLUMNS, NAMES
from sash.spark.stream.stream_spec import StreamSpec

PROCESSED = f"shard int, results binary, aside binary, {COLUMNS}"

_ROW = Row("shard", "results", "aside", *NAMES)


class ShardProcessor(StatefulProcessor):  # type: ignore[misc]
    """Runs the operator of a shard on the pages in Spark's state."""

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec

    def init(self, handle: Any) -> None:
        """Called in each task, and once on the driver to learn what state there is."""
        self.handle = handle
        self.pages = handle.getMapState("pages", "page string", "bytes binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802
        from sash.spark.stream.shard_task import PackedRows

        packed = [PackedRows(row.rows, row.now, row.aside, row.malformed, row.greatest) for row in rows]
        return self._run(key, packed, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802
        return self._run(key, [], timerValues, expiredTimerInfo.getExpiryTimeInMs())

    def close(self) -> None:
        """Nothing is held."""

    def _run(self, key: Any, packed: list[Any], times: Any, fired: int | None = None) -> Iterator[Row]:
        from sash.spark.stream.shard_task import ShardTask

        try:
            shard = ShardTask(self.spec, key[0], self.pages, self.handle)
            for values in shard.run(packed, times.getCurrentWatermarkInMs(), fired):
                yield _ROW(*values)
        except Exception:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # the message alone, as in a batch's worker
            raise
