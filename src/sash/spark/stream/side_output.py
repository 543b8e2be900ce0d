"""The side output: rows that enter no window, with the reason, in the same stream as the results.

    reason       which rows
    late         below the watermark
    untimed      their time is null, NaN, infinite, or further ahead than `ahead=` allows
    malformed    they could not be parsed: `_corrupt_record` of a JSON or CSV source is not null

A streaming query has one sink, and a second query would have other micro-batches and so other late rows. So one stream
has both, and the sink splits them:

    with_side_output(query, stream) ──▶ results │ _reason  _given ──foreachBatch──▶ split_side_output ─┬─▶ results
                                                                                                       └─▶ side output
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import functions as sf

from sash.plan.query import Query
from sash.spark.stream.stream_spec import GIVEN, REASON

BATCH = "_batch"
"""The column of a table with the micro-batch that wrote a row."""


def with_side_output(query: Query, stream: Any) -> Any:
    """The query on a streaming DataFrame, with the rows that enter no window in addition to the results.

    Two more columns: `_reason`, null for a result, else "late", "untimed" or "malformed"; and `_given`, the row as it
    came. Raises what `query.run(stream)` raises, and TypeError for a DataFrame that is no stream.
    """
    from sash.spark.stream.plan_stream import plan_stream

    if not getattr(stream, "isStreaming", False):
        raise TypeError("with_side_output() takes a streaming DataFrame: in a batch no row is late")
    return plan_stream(query, stream, side_output=True)


def split_side_output(batch: Any) -> tuple[Any, Any]:
    """Split the output of `with_side_output` into results and side output with its reasons, as in a foreachBatch."""
    missing = [name for name in (REASON, GIVEN) if name not in batch.columns]
    if missing:
        raise ValueError(f"split_side_output() takes what with_side_output() gives; there is no column {missing[0]!r}")
    results = batch.where(sf.col(REASON).isNull()).drop(REASON, GIVEN)
    side_output = batch.where(sf.col(REASON).isNotNull()).select(REASON, f"{GIVEN}.*")
    return results, side_output


def table_writer(results: Any, side_output: Any, format: str = "parquet") -> Callable[[Any, int], None]:  # noqa: A002
    """A function for foreachBatch that writes results to one table and the side output to another.

    Both are directories with one directory for each micro-batch, `_batch=7`. If Spark repeats a micro-batch after a
    failure, its directory is overwritten: no row is lost, none is written twice.
    """

    def write(batch: Any, number: int) -> None:
        batch.persist()  # otherwise the second table would compute the micro-batch again
        try:
            for frame, path in zip(split_side_output(batch), (results, side_output), strict=True):
                frame.write.format(format).mode("overwrite").save(f"{path}/{BATCH}={number}")
        finally:
            batch.unpersist()

    return write
