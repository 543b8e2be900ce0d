"""Batch: rows of a key to one partition, in order, and one operator a partition that streams through them.

    DataFrame ──▶ repartition(by) ──▶ sortWithinPartitions(by, on) ──▶ mapInArrow ──▶ DataFrame
                                                                       operator, mode "sorted"

Nothing runs before an action of the user's: the schema of the results is known from the query and the columns. A
worker holds a window and a few batches of rows, not a key.
"""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import functions as sf
from pyspark.sql.types import DoubleType, FloatType, StructType

from sash.query import checks
from sash.query.query import Query
from sash.query.resolved import Resolved
from sash.spark.types import arrow_schema, spark_schema
from sash.spark.worker import Worker


def rolled(query: Query, data: Any) -> Any:
    """The query on a DataFrame that is no stream.

    Raises ValueError without `on`, and for `emit="eager"`; all that `Query.resolve` raises.
    """
    _require_order(query)
    resolved = query.resolve(arrow_schema(data.schema))
    if not query.per_row:
        # what is not named would be carried through the shuffle for nothing
        names = list(dict.fromkeys(checks.named(query)))
        data = data.select(*map(quoted, names))
        resolved = query.resolve(arrow_schema(data.schema))
    worker = Worker(query, resolved.schema, now=time.time())
    result = result_schema(resolved, data.schema)
    return plainly_named(in_order(data, resolved)).mapInArrow(worker, result)


def _require_order(query: Query) -> None:
    if not query.on:
        raise ValueError(
            "rows of a Spark DataFrame have no order of their own: say with on= which column, or list of columns, "
            "orders them"
        )
    if query.emit == "eager":
        raise ValueError("emit='eager' shows results before they are final; in a batch every result is: use 'final'")


def quoted(name: str) -> Any:
    """A column by its name, whatever characters that has."""
    return sf.col("`" + name.replace("`", "``") + "`")


def result_schema(resolved: Resolved, given: StructType) -> StructType:
    """The schema of the results: columns that pass through keep their type to the letter."""
    kept = {field.name: field for field in given.fields}
    if not resolved.per_row:
        kept = {name: kept[name] for name in resolved.by}
    return StructType([kept.get(field.name, field) for field in spark_schema(resolved.output("sorted")).fields])


def plainly_named(data: Any) -> Any:
    """The columns under names that mapInArrow can look up: it takes a dot for a struct's field.

    Workers go by the place of a column, and the results have the names of the schema.
    """
    odd = any("." in name or "`" in name for name in data.columns)
    return data.toDF(*(f"c{i}" for i in range(len(data.columns)))) if odd else data


def in_order(data: Any, resolved: Resolved) -> Any:
    """Rows of a key together, in order of time and tie-breakers."""
    keys = [key(data, name) for name in resolved.by]
    together = data.repartition(*keys) if keys else data.repartition(1)
    return together.sortWithinPartitions(*keys, *order(resolved))


def key(data: Any, name: str) -> Any:
    """A key's column as it is compared: -0.0 is 0.0, and the sum with 0.0 makes it so."""
    column = quoted(name)
    floating = isinstance(data.schema[name].dataType, DoubleType | FloatType)
    return column + sf.lit(0.0).cast(data.schema[name].dataType) if floating else column


def order(resolved: Resolved) -> list[Any]:
    """The order within a key: time, then tie-breakers, of which nulls come last as they do elsewhere."""
    assert resolved.time is not None
    return [quoted(resolved.time.column).asc(), *(quoted(name).asc_nulls_last() for name in resolved.ties)]
