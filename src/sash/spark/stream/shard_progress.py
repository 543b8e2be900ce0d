"""ShardProgress: counters of a shard in a micro-batch, and the size of its state, as columns that Spark sums."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from sash.engine.intake.progress import Metrics
    from sash.spark.stream.map_state_store import MapStateStore

OBSERVED = "sash"
"""The prefix of the names of observed metrics."""


@dataclass(frozen=True)
class Flows:
    """What flows through a shard in one micro-batch, or through all of them."""

    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    untimed: int = 0
    malformed: int = 0
    failed: int = 0
    failed_results: int = 0
    pages_read: int = 0
    pages_written: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    pages_local: int = 0
    """Pages that were read from a file of the executor, instead of Spark's state."""


@dataclass(frozen=True)
class ShardProgress(Flows):
    """The counters of one shard in one micro-batch."""

    greatest: float | None = None
    """The greatest time among the rows, in units of the time column."""
    watermark: float | None = None
    keys: int | None = None
    """None, as the next two, if the operator was not opened."""
    elements: int | None = None
    state_bytes: int | None = None
    hot_key: str | None = None
    """The key with the most rows in this micro-batch, how many, and the number of keys in a sample of the rows."""
    hot_rows: int | None = None
    sampled_keys: int | None = None
    latest_key: str | None = None
    """The key of the row with the latest time, and its shard."""
    latest_shard: int | None = None

    @staticmethod
    def of(before: Metrics, now: Metrics) -> ShardProgress:
        """The difference between two metrics of an operator, and the current size of its state."""
        return ShardProgress(
            now.rows_in - before.rows_in,
            now.rows_out - before.rows_out,
            now.late - before.late,
            now.untimed - before.untimed,
            failed=now.failed - before.failed,
            failed_results=now.failed_results - before.failed_results,
            keys=now.keys,
            elements=now.elements,
            state_bytes=now.state_bytes,
        )

    def stored(self, store: MapStateStore) -> ShardProgress:
        """The same with the pages that a store has read and written."""
        names = ("pages_read", "pages_written", "bytes_read", "bytes_written", "pages_local")
        return replace(self, **{name: getattr(store, name) for name in names})


NAMES = tuple(field.name for field in fields(ShardProgress))
FLOWS, TIMES, LEVELS, HOT, LATEST = NAMES[:12], NAMES[12:14], NAMES[14:17], NAMES[17:20], NAMES[20:]
"""The columns to sum over shards, those to take the maximum of, the sizes of the state, the hot key of a shard, and the
row with the latest time.
"""


class ShardOutput(NamedTuple):
    """An output row of a shard: a blob of results, a blob of the side output, or its progress."""

    shard: int
    results: pa.Buffer | None = None
    side: pa.Buffer | None = None
    progress: ShardProgress | None = None

    def values(self) -> tuple[Any, ...]:
        """One value for each column."""
        progress = (None,) * len(NAMES) if self.progress is None else astuple(self.progress)
        return (self.shard, self.results, self.side, *progress)


_TYPES = dict.fromkeys(TIMES, pa.float64()) | dict.fromkeys(("hot_key", "latest_key"), pa.string())
PROCESSED = pa.schema(
    [("shard", pa.int32()), ("results", pa.binary()), ("side", pa.binary())]
    + [(name, _TYPES.get(name, pa.int64())) for name in NAMES]
)
"""The columns of the output of shards."""
