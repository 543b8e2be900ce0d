"""Spark column expressions for the columns of a query, and conditions that mean the same as on every other host.

Spark computes what it defines alike: comparisons of whole numbers, text and booleans, which it also pushes down to
files. Arrow computes all else, in the workers. For Spark NaN is equal to itself and above all numbers, a division by
zero is an error, seconds have fractions, and the quoted times are those of the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_
from pyspark.sql import functions as sf
from pyspark.sql.types import DoubleType, FloatType

from sash.expressions.arrow_evaluation import chosen_rows
from sash.expressions.parsed_sql import DIALECT
from sash.expressions.tree import CallNode, ColumnNode, LiteralNode, Node
from sash.plan.bound_query import BoundQuery
from sash.spark.shipping import by_value
from sash.spark.spark_types import arrow_schema, casts, wire_schema
from sash.spark.worker_io import WorkerTask, rechunk


def quoted(name: str) -> Any:
    """A column by its name, which may have any characters."""
    return sf.col("`" + name.replace("`", "``") + "`")


def key(data: Any, name: str) -> Any:
    """A column to partition by, with -0.0 turned into 0.0 by adding 0.0."""
    column = quoted(name)
    floating = isinstance(data.schema[name].dataType, DoubleType | FloatType)
    return column + sf.lit(0.0).cast(data.schema[name].dataType) if floating else column


def order(bound_query: BoundQuery) -> list[Any]:
    """The order within a key: time, then tie-breakers with nulls last, as on every host."""
    assert bound_query.time is not None
    return [quoted(bound_query.time.column).asc(), *(quoted(name).asc_nulls_last() for name in bound_query.ties)]


def plainly_named(data: Any) -> Any:
    """The data with names that mapInArrow can resolve: it reads a dot as access to a field of a struct.

    Workers use the positions of columns, and results have the names of the schema.
    """
    odd = any("." in name or "`" in name for name in data.columns)
    return data.toDF(*(f"c{i}" for i in range(len(data.columns)))) if odd else data


# --- Conditions ---


ALIKE = frozenset(("and", "or", "not", "=", "<>", "<", "<=", ">", ">="))
"""The operators that Spark defines as SQL does here, for operands of plain types."""

ROWS = 65536


def filtered(data: Any, where: Node, condition: str, label: str, besides: str | None = None) -> Any:
    """The rows for which a condition holds, and those in which the column `besides` is not null.

    where, condition: the condition as a tree, and as text in DuckDB's dialect; `label` names it in errors.

    Raises ValueError and TypeError for a condition that does not fit the columns, before Spark reads a row.
    """
    schema = arrow_schema(data.schema)
    chosen_rows(where, lambda name: pa.nulls(0, schema.field(name).type), 0, label)
    if _is_alike(where, schema):
        import sqlglot

        made = sqlglot.transpile(condition, read=DIALECT, write="spark")[0]
        return data.where(made if besides is None else f"{besides} IS NOT NULL OR ({made})")
    task = ConditionTask(where, label, besides, schema)
    return plainly_named(data).mapInArrow(by_value(task, f"sash: {label}"), data.schema)


def _is_alike(tree: Node, schema: pa.Schema) -> bool:
    """Does Spark give the same rows for a condition?"""
    if isinstance(tree, ColumnNode):
        kind = schema.field(tree.name).type
        return bool(is_.is_signed_integer(kind) or is_.is_string(kind) or is_.is_boolean(kind))
    if isinstance(tree, CallNode) and tree.function == "is null":
        return isinstance(tree.arguments[0], ColumnNode)
    if isinstance(tree, CallNode):
        return tree.function in ALIKE and all(_is_alike(operand, schema) for operand in tree.parts)
    return isinstance(tree, LiteralNode) and tree.kind in ("int", "text", "bool")


@dataclass
class ConditionTask(WorkerTask):
    """Filters the batches of a partition."""

    where: Node
    label: str
    besides: str | None
    schema: pa.Schema

    def _results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rechunk(batches, self.schema, ROWS):
            mask = chosen_rows(self.where, batch.column, batch.num_rows, self.label)
            if self.besides is not None:
                mask = pc.or_(mask, batch.column(self.besides).is_valid())
            found = batch.filter(mask)
            yield casts(found, wire_schema(found.schema))
