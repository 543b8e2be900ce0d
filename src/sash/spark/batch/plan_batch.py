"""Plan a query on a batch DataFrame: repartition, sort, and one operator per partition.

    DataFrame ──▶ repartition(by) ──▶ sortWithinPartitions(by, on) ──▶ mapInArrow ──▶ DataFrame
                                                                       operator, mode "sorted"

The DataFrame is lazy: the query and the columns determine the schema of the results. A worker holds one window and a
few batches of rows, not a whole key. `range_split` splits a key with too many rows for one worker, or all rows of a
query without keys; for that it reads the times of the rows once, when the query is planned.
"""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql.types import StructType

from sash.plan import validation
from sash.plan.bound_query import BoundQuery
from sash.plan.query import Query
from sash.spark.batch.partition_task import PartitionTask
from sash.spark.batch.range_split import in_ranges, split_of
from sash.spark.batch.time_ranges import why_not_split
from sash.spark.column_exprs import key, order, plainly_named, quoted
from sash.spark.job_names import outline
from sash.spark.shipping import by_value
from sash.spark.spark_types import arrow_schema, spark_schema


def plan_batch(query: Query, data: Any) -> Any:
    """The query on a batch DataFrame.

    Raises ValueError without `on`, and for `emit="eager"`; all that `Query.bind` raises.
    """
    require_order(query)
    bound_query = query.bind(arrow_schema(data.schema))
    if not query.per_row:
        # no other column has to cross the shuffle
        names = list(dict.fromkeys(validation.named(query)))
        data = data.select(*map(quoted, names))
        bound_query = query.bind(arrow_schema(data.schema))
    result = result_schema(bound_query, data.schema)
    split = split_of(data, bound_query)
    if split is not None:
        return in_ranges(data, bound_query, split, result)
    task = PartitionTask(query, bound_query.schema, time.time())
    return plainly_named(sorted_by_key(data, bound_query)).mapInArrow(by_value(task, f"sash: {outline(query)}"), result)


def explain_batch(query: Query, data: Any) -> list[str]:
    """The plan of `plan_batch` as lines of text. Runs nothing; raises the same errors."""
    require_order(query)
    bound_query = query.bind(arrow_schema(data.schema))
    keys, asked, why = ", ".join(bound_query.by), query.options.split, why_not_split(bound_query)
    lines = [
        f"rows of a key to one partition, by {keys}" if keys else "no by=: all rows belong together",
        f"sorted within partitions by {', '.join((*bound_query.by, *query.on))}; one operator per partition",
    ]
    if why is not None:
        return [*lines, f"not split: {why}"]
    if asked == 1:
        return [*lines, "not split: split=1"]
    if asked is None and keys:
        return [*lines, "not split: options=sash.Options(split=n) would spread a hot key over n ranges"]
    most = "spark.sql.shuffle.partitions" if asked is None else str(asked)
    whose = "a key with a large share of the rows" if keys else "all rows"
    return [*lines, f"split: {whose}, by ranges of time, into up to {most} ranges; one action finds the bounds"]


def require_order(query: Query) -> None:
    """Raises ValueError for a query that needs an order of arrival, or a stream."""
    if not query.on:
        raise ValueError(
            "rows of a Spark DataFrame have no order: set on= to the column, or list of columns, that orders them"
        )
    if query.emit == "eager":
        raise ValueError(
            "emit='eager' emits results before they are final, but in a batch all results are final: use 'final'"
        )


def result_schema(bound_query: BoundQuery, given: StructType, mode: str = "sorted") -> StructType:
    """The schema of the results: columns that pass through keep their Spark type."""
    kept = {field.name: field for field in given.fields}
    if not bound_query.per_row:
        kept = {name: kept[name] for name in bound_query.by}
    return StructType([kept.get(field.name, field) for field in spark_schema(bound_query.output(mode)).fields])


def sorted_by_key(data: Any, bound_query: BoundQuery) -> Any:
    """Partition rows by key, and sort them by time and tie-breakers."""
    keys = [key(data, name) for name in bound_query.by]
    together = data.repartition(*keys) if keys else data.repartition(1)
    return together.sortWithinPartitions(*keys, *order(bound_query))
