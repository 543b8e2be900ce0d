"""Spark column expressions for the columns of a query."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as sf
from pyspark.sql.types import DoubleType, FloatType

from sash.plan.bound_query import BoundQuery


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
