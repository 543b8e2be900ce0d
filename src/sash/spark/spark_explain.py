"""The plan of a query on a DataFrame as text: that of the query, and how Spark comes by its rows.

What brings the engine is imported where it is needed: workers that only unpack results import this package, too.
"""

from __future__ import annotations

from typing import Any

from sash.plan.bound_query import BoundQuery
from sash.plan.query import Query
from sash.spark.spark_types import arrow_schema


def explain(query: Query, data: Any) -> str:
    """What `query.run(data)` would do. Runs nothing.

    Raises as the query would.
    """
    schema = arrow_schema(data.schema)
    if getattr(data, "isStreaming", False):
        from sash.spark.stream.plan_stream import explain_stream

        lines = explain_stream(query, data)
    else:
        from sash.spark.batch.plan_batch import require_order

        require_order(query)
        lines = _lines(query.bind(schema))
    lines = ["spark", *(f"  {line}" for line in lines)]
    return query.explain(schema) + "\n" + "\n".join(lines) + "\n"


def _lines(bound_query: BoundQuery) -> list[str]:
    from sash.spark.batch.time_ranges import why_whole

    query, why = bound_query.query, why_whole(bound_query)
    keys, asked = ", ".join(bound_query.by), query.options.split
    lines = [
        f"rows of a key to one partition, by {keys}" if keys else "no by=: all rows belong together",
        f"sorted within partitions by {', '.join((*bound_query.by, *query.on))}; one operator a partition",
    ]
    if why is not None:
        return [*lines, f"not split: {why}"]
    if asked == 1:
        return [*lines, "not split: split=1"]
    if asked is None and keys:
        return [*lines, "not split: options=sash.Options(split=n) would spread a hot key over n parts"]
    parts = "spark.sql.shuffle.partitions" if asked is None else str(asked)
    whose = "a key with a large share of the rows" if keys else "all rows"
    return [*lines, f"split: {whose}, by ranges of time, into up to {parts} parts; one action finds the bounds"]
