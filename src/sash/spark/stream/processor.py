"""ShardProcessor: Spark calls it once per micro-batch for each shard with rows, and when a timer is due.

    DataFrames of packed rows ──▶ PackedRow … ──▶ ShardTask ──▶ ShardOutput … ──▶ DataFrames of about `BYTES`

It is a processor of `transformWithStateInPandas`, where Spark forwards each DataFrame as soon as it is yielded;
`transformWithState`, which takes rows, collects the whole output of a shard. A checkpoint can be used with only one of
the two. Rows are few, large blobs, so pandas adds little cost.

The engine is imported lazily: the driver, which only plans, does not need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sash.spark.arrow_ipc import blob_batch
from sash.spark.stream.progress import PROCESSED, ShardOutput
from sash.spark.stream.stream_spec import PackedRow, StreamSpec
from sash.spark.worker_io import message_only

BYTES = 1 << 23
"""Approximate bytes of blobs in a DataFrame: Spark takes 2 ms to convert it to Arrow, for one blob or for 64."""


class ShardProcessor:
    """Runs the operator of a shard on the pages in Spark's state."""

    STATE = ("pages", "page string", "bytes binary")
    """The name and the types of the state variable, a map."""

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec
        self.handle: Any = None
        """Spark's timers, from `open` on."""
        self.pages: Any = None
        """The state variable, from `open` on."""

    def open(self, handle: Any, pages: Any) -> None:
        """Take the handle of Spark's timers, and the state variable that `STATE` declares."""
        self.handle, self.pages = handle, pages

    def handle_rows(self, key: Any, rows: Iterable[Any], times: Any) -> Iterator[Any]:
        """DataFrames of the output for DataFrames of packed rows."""
        packed = [row for frame in rows for row in packed_rows(frame)]
        return message_only(self._run(key, packed, times))

    def handle_timer(self, key: Any, times: Any, info: Any) -> Iterator[Any]:
        """DataFrames of the output when a timer has fired."""
        return message_only(self._run(key, [], times, info.getExpiryTimeInMs()))

    def _run(self, key: Any, packed: list[PackedRow], times: Any, fired: int | None = None) -> Iterator[Any]:
        from sash.spark.stream.shard_task import ShardTask

        shard = ShardTask(self.spec, int(key[0]), self.pages, self.handle)
        return frames(shard.run(packed, times.getCurrentWatermarkInMs(), fired))


def packed_rows(frame: Any) -> Iterator[PackedRow]:
    """The packed rows of a DataFrame, in which a null number is NaN.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"shard": [2], "max_ts": [None], "rows": [b"x"], "now": [1.5], "side": [None]})
    >>> row = next(packed_rows(frame.assign(malformed=0, greatest=float("nan"), latest_key=None, latest_shard=4.0)))
    >>> row == PackedRow(2, rows=b"x", now=1.5, latest_shard=4)
    True
    """
    names = ("shard", "rows", "now", "side", "malformed", "greatest", "latest_key", "latest_shard")
    for shard, rows, now, side, malformed, greatest, key, of in zip(*(frame[name] for name in names), strict=True):
        latest = (_number(greatest), key, None if _number(of) is None else int(of))
        yield PackedRow(int(shard), None, rows, _number(now), side, int(malformed), *latest)


def _number(value: float | None) -> float | None:
    return None if value is None or value != value else float(value)


def frames(outputs: Iterable[ShardOutput]) -> Iterator[Any]:
    """DataFrames of a shard's output, each as soon as it has enough bytes.

    >>> import pyarrow as pa
    >>> blob = pa.py_buffer(bytes(BYTES // 2))
    >>> [len(frame) for frame in frames(ShardOutput(4, results=blob) for _ in range(5))]
    [2, 2, 1]
    """
    waiting: list[ShardOutput] = []
    size = 0
    for output in outputs:
        waiting.append(output)
        size += sum(blob.size for blob in (output.results, output.side) if blob is not None)
        if size >= BYTES:
            yield _frame(waiting)
            waiting, size = [], 0
    if waiting:
        yield _frame(waiting)


def _frame(outputs: list[ShardOutput]) -> Any:
    """A DataFrame whose columns are Arrow arrays, which Spark need not convert."""
    import pandas as pd

    batch = blob_batch([output.values() for output in outputs], PROCESSED)
    columns = zip(PROCESSED.names, batch.columns, strict=True)
    return pd.DataFrame({name: pd.arrays.ArrowExtensionArray(column) for name, column in columns})
