"""The side output: rows that enter no window, with the reason, in the same stream as the results.

    reason       which rows
    late         below the watermark
    untimed      their time is null, NaN, infinite, or further ahead than `ahead=` allows
    failed       an aggregate failed on them, and the query has `Options(failed="side")`
    malformed    they could not be parsed: `_corrupt_record` of a JSON or CSV source is not null

A streaming query has one sink, and a second query would have other micro-batches and thus other late rows. So one
stream has results and side output, and the sink splits them:

    with_side_output(query, stream) ──▶ results │ _reason  _given ──foreachBatch──▶ split_side_output ─┬─▶ results
                                                                                                       └─▶ side output
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql import functions as sf

from sash.plan.queries import QUERY, Queries
from sash.plan.query import Query
from sash.spark.job_names import job
from sash.spark.stream.stream_spec import ERROR, GIVEN, REASON

BATCH = "_batch"
"""The column of a table with the micro-batch that wrote a row."""


def with_side_output(query: Query | Queries, stream: Any) -> Any:
    """The query, or several, on a streaming DataFrame, with the rows that enter no window in addition to the results.

    Two more columns: `_reason`, null for a result, else "late", "untimed" or "malformed"; and `_given`, the input
    row. With `Options(failed="side")` the reason may be "failed", and a third column `_error` has the message. Raises
    what `query.run(stream)` raises, and TypeError for a DataFrame that is not a stream.
    """
    from sash.spark.stream.plan_stream import plan_stream

    if not getattr(stream, "isStreaming", False):
        raise TypeError("with_side_output() takes a streaming DataFrame: in a batch no row is late")
    return plan_stream(query, stream, side_output=True)


def split_side_output(batch: Any) -> tuple[Any, Any]:
    """Split the output of `with_side_output` into results and side output with its reasons, as in a foreachBatch."""
    missing = [name for name in (REASON, GIVEN) if name not in batch.columns]
    if missing:
        raise ValueError(
            f"split_side_output() takes the output of with_side_output(); there is no column {missing[0]!r}"
        )
    added = [REASON, *(name for name in batch.columns[-2:-1] if name == ERROR)]
    results = batch.where(sf.col(REASON).isNull()).drop(*added, GIVEN)
    side_output = batch.where(sf.col(REASON).isNotNull()).select(*added, f"{GIVEN}.*")
    return results, side_output


def split_queries(batch: Any) -> dict[str, Any]:
    """Split the results of several queries on a stream: a DataFrame for each, by name, as in a foreachBatch."""
    if QUERY not in batch.columns:
        raise ValueError(f"split_queries() takes the output of Queries.run(stream); there is no column {QUERY!r}")
    names = [name for name in batch.columns if name not in (QUERY, REASON, ERROR, GIVEN)]
    return {name: batch.where(sf.col(QUERY) == name).select(f"{name}.*") for name in names}


def table_writer(
    results: Any,
    side_output: Any = None,
    format: str = "parquet",  # noqa: A002
) -> Callable[[Any, int], None]:
    """A function for foreachBatch that writes results to one table and the side output to another.

    results: the directory of the table. For several queries a dict of directories by query; each gets its results.
    side_output: the directory of the side output of `with_side_output`; without it there is none.

    A table is a directory with one directory for each micro-batch, `_batch=7`. If Spark repeats a micro-batch after a
    failure, its directory is overwritten: no row is lost, and none is written twice.
    """

    def write(batch: Any, number: int) -> None:
        batch.persist()  # otherwise each further table would compute the micro-batch again
        try:
            for frame, path in _tables(batch, results, side_output):
                with job(batch.sparkSession, f"sash: micro-batch {number} to {path}"):
                    frame.write.format(format).mode("overwrite").save(f"{path}/{BATCH}={number}")
        finally:
            batch.unpersist()

    return write


def _tables(batch: Any, results: Any, side_output: Any) -> Iterator[tuple[Any, Any]]:
    """The tables of a micro-batch, and where they go. Raises ValueError if queries and directories differ."""
    found, rejected = (batch, None) if side_output is None else split_side_output(batch)
    if isinstance(results, Mapping):
        frames = split_queries(found)
        if set(frames) != set(results):
            raise ValueError(
                f"table_writer() needs a directory for each query: {', '.join(sorted(frames))}; got "
                f"{', '.join(sorted(results)) or 'none'}"
            )
        yield from ((frames[name], path) for name, path in results.items())
    else:
        yield found, results
    if rejected is not None:
        yield rejected, side_output
