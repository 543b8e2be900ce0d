"""ShardProcessor: Spark calls it once per micro-batch for each shard with rows, and when a timer is due.

    DataFrames of packed rows ──▶ PackedRow … ──▶ ShardTask ──▶ ShardOutput … ──▶ DataFrames of about `BYTES`

It is a processor of `transformWithStateInPandas`, of which Spark sends each DataFrame on when it comes: that of rows,
`transformWithState`, collects all that a shard gives. A checkpoint belongs to one of the two. Rows are few and fat
blobs, so that the way through pandas costs little.

The engine is imported lazily: the driver, which plans, does without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sash.spark.stream.progress import COLUMNS, NAMES, ShardOutput
from sash.spark.stream.stream_spec import PackedRow, StreamSpec
from sash.spark.worker_io import message_only

PROCESSED = f"shard int, results binary, side binary, {COLUMNS}"

BYTES = 1 << 23
"""Approximate bytes of blobs in a DataFrame: Spark takes 8 ms to make Arrow of it, for one blob as for 64."""

_NAMES = ("shard", "results", "side", *NAMES)


class ShardProcessor:
    """Runs the operator of a shard on the pages in Spark's state."""

    STATE = ("pages", "page string", "bytes binary")
    """The name and the types of the state variable, a map."""

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec

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
    """The packed rows of a DataFrame: pandas has NaN for a null number.

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

    >>> blob = bytes(BYTES // 2)
    >>> [len(frame) for frame in frames(ShardOutput(4, results=blob) for _ in range(5))]
    [2, 2, 1]
    """
    waiting: list[ShardOutput] = []
    size = 0
    for output in outputs:
        waiting.append(output)
        size += len(output.results or b"") + len(output.side or b"")
        if size >= BYTES:
            yield _frame(waiting)
            waiting, size = [], 0
    if waiting:
        yield _frame(waiting)


def _frame(outputs: list[ShardOutput]) -> Any:
    import pandas as pd

    columns = zip(_NAMES, zip(*(output.values() for output in outputs), strict=True), strict=True)
    # as objects: a null among integers would make floats of them
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns})
