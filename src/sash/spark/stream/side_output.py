"""Aside: rows that enter no window, with the reason, in the same stream as the results; and tables of both.

    reason       what it is
    late         its time lies under the watermark
    untimed      its time is null, NaN, infinite, or further ahead than `ahead=` allows
    malformed    its record could not be read: `_corrupt_record` of a json or csv source is not null

One streaming query has one sink, and a second query would see other micro-batches and so other late rows. So both
travel together, and are parted where they are written:

    with_aside(query, stream) ──▶ results │ _reason  _given ──foreachBatch──▶ parted ─┬─▶ results
                                                                                      └─▶ rows put aside
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import functions as sf

from sash.plan.query import Query
from sash.spark.stream.stream_spec import GIVEN, REASON

BATCH = "_batch"
"""The column of a table that says in which micro-batch a row was written."""


def with_side_output(query: Query, stream: Any) -> Any:
    """The query on a streaming DataFrame, with the rows beside the results that enter no window.

    Two columns more: `_reason`, null for a result, else "late", "untimed" or "malformed"; and `_given`, the row as it
    came. Raises what `query.run(stream)` raises, and TypeError for a DataFrame that is no stream.
    """
    from sash.spark.stream.plan_stream import plan_stream

    if not getattr(stream, "isStreaming", False):
        raise TypeError("with_aside() takes a streaming DataFrame: in a batch nothing is late")
    return plan_stream(query, stream, aside=True)


def split_side_output(batch: Any) -> tuple[Any, Any]:
    """The results, and the rows put aside with their reason, of what `with_aside` gives, in a foreachBatch say."""
    missing = [name for name in (REASON, GIVEN) if name not in batch.columns]
    if missing:
        raise ValueError(f"parted() takes what with_aside() gives; there is no column {missing[0]!r}")
    results = batch.where(sf.col(REASON).isNull()).drop(REASON, GIVEN)
    aside = batch.where(sf.col(REASON).isNotNull()).select(REASON, f"{GIVEN}.*")
    return results, aside


def table_writer(results: Any, aside: Any, format: str = "parquet") -> Callable[[Any, int], None]:  # noqa: A002
    """A function for foreachBatch that writes results to one table and rows put aside to another.

    Both are directories, with one directory for each micro-batch, `_batch=7`, which is written anew if Spark repeats
    that micro-batch after a failure: no row is lost, none is there twice.
    """

    def write(batch: Any, number: int) -> None:
        batch.persist()  # else the second table would compute the micro-batch again
        try:
            for frame, path in zip(split_side_output(batch), (results, aside), strict=True):
                frame.write.format(format).mode("overwrite").save(f"{path}/{BATCH}={number}")
        finally:
            batch.unpersist()

    return write
