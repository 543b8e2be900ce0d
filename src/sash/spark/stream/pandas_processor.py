"""PandasProcessor: a processor for Spark 4.0, where transformWithState exists with pandas DataFrames alone.

    DataFrame of packed rows ──▶ PackedRow … ──▶ processor ──▶ Row … ──▶ DataFrame of one row each

Rows are few and fat blobs, so that the way through pandas costs little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sash.spark.stream.stream_spec import PackedRow


class PandasProcessor:
    """Calls a processor of rows with the rows of DataFrames, and gives what it yields as DataFrames."""

    def __init__(self, processor: Any) -> None:
        self.processor = processor

    def init(self, handle: Any) -> None:
        self.processor.init(handle)

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802
        packed = (row for frame in rows for row in packed_rows(frame))
        return map(_frame, self.processor.handleInputRows(key, packed, timerValues))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802
        return map(_frame, self.processor.handleExpiredTimer(key, timerValues, expiredTimerInfo))

    def close(self) -> None:
        self.processor.close()


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


def _frame(row: Any) -> Any:
    import pandas as pd

    # as objects: a null among integers would make floats of them
    return pd.DataFrame({name: pd.Series([value], dtype=object) for name, value in row.asDict().items()})
