"""The host for Spark: a batch goes through `batch`, a stream through `stream`."""

from __future__ import annotations

from typing import Any

from sash.plan.query import Query


def run(query: Query, data: Any) -> Any:
    """The query on a DataFrame of Spark, classic or Connect: a DataFrame, lazy as all of Spark's.

    Raises TypeError for other things of Spark's, and all that `Query.resolve` raises.
    """
    if not hasattr(data, "mapInArrow"):
        raise TypeError(f"a query runs on a Spark DataFrame; got a {type(data).__module__}.{type(data).__qualname__}")
    if data.isStreaming:
        from sash.spark.stream.plan_stream import plan_stream as streamed

        return streamed(query, data)
    from sash.spark.batch.plan_batch import plan_batch

    return plan_batch(query, data)
