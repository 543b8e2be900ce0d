"""Batch: rows of a key to one partition, in order, and one operator a partition that streams through them.

    DataFrame ──▶ repartition(by) ──▶ sortWithinPartitions(by, on) ──▶ mapInArrow ──▶ DataFrame
                                                                       operator, mode "sorted"

Nothing runs before an action of the user's: the schema of the results is known from the query and the columns. A
worker holds a window and a few batches of rows, not a key. A key with too many rows for one worker, or all rows where
there is no key, goes by `split.py`, which looks at the rows once, at the call.
"""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql.types import StructType

from sash.plan import validation
from sash.plan.bound_query import BoundQuery
from sash.plan.query import Query
from sash.spark.batch.partition_task import PartitionTask
from sash.spark.batch.range_split import in_parts, split_of
from sash.spark.column_exprs import key, order, plainly_named, quoted
from sash.spark.spark_types import arrow_schema, spark_schema


def plan_batch(query: Query, data: Any) -> Any:
    """The query on a DataFrame that is no stream.

    Raises ValueError without `on`, and for `emit="eager"`; all that `Query.resolve` raises.
    """
    require_order(query)
    bound_query = query.bind(arrow_schema(data.schema))
    if not query.per_row:
        # what is not named would be carried through the shuffle for nothing
        names = list(dict.fromkeys(validation.named(query)))
        data = data.select(*map(quoted, names))
        bound_query = query.bind(arrow_schema(data.schema))
    result = result_schema(bound_query, data.schema)
    split = split_of(data, bound_query)
    if split is not None:
        return in_parts(query, data, bound_query, split, result)
    worker = PartitionTask(query, bound_query.schema, time.time())
    return plainly_named(in_order(data, bound_query)).mapInArrow(worker, result)


def require_order(query: Query) -> None:
    """Raises ValueError for a query that has no meaning on rows without an order of arrival, or in a batch."""
    if not query.on:
        raise ValueError(
            "rows of a Spark DataFrame have no order: set on= to the column, or list of columns, that orders them"
        )
    if query.emit == "eager":
        raise ValueError("emit='eager' emits results before they are final, and in a batch all are: use 'final'")


def result_schema(bound_query: BoundQuery, given: StructType, mode: str = "sorted") -> StructType:
    """The schema of the results: columns that pass through keep their type to the letter."""
    kept = {field.name: field for field in given.fields}
    if not bound_query.per_row:
        kept = {name: kept[name] for name in bound_query.by}
    return StructType([kept.get(field.name, field) for field in spark_schema(bound_query.output(mode)).fields])


def in_order(data: Any, bound_query: BoundQuery) -> Any:
    """Rows of a key together, in order of time and tie-breakers."""
    keys = [key(data, name) for name in bound_query.by]
    together = data.repartition(*keys) if keys else data.repartition(1)
    return together.sortWithinPartitions(*keys, *order(bound_query))
