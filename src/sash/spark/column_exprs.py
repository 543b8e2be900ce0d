"""Columns: expressions of Spark's for the columns of a query: by name, as keys, in order."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as sf
from pyspark.sql.types import DoubleType, FloatType

from sash.plan.bound_query import BoundQuery


def quoted(name: str) -> Any:
    """A column by its name, whatever characters that has."""
    return sf.col("`" + name.replace("`", "``") + "`")


def key(data: Any, name: str) -> Any:
    """A key's column as it is compared: -0.0 is 0.0, and the sum with 0.0 makes it so."""
    column = quoted(name)
    floating = isinstance(data.schema[name].dataType, DoubleType | FloatType)
    return column + sf.lit(0.0).cast(data.schema[name].dataType) if floating else column


def order(bound_query: BoundQuery) -> list[Any]:
    """The order within a key: time, then tie-breakers, of which nulls come last as they do elsewhere."""
    assert bound_query.time is not None
    return [quoted(bound_query.time.column).asc(), *(quoted(name).asc_nulls_last() for name in bound_query.ties)]


def plainly_named(data: Any) -> Any:
    """The columns under names that mapInArrow can look up: it takes a dot for a struct's field.

    Workers go by the place of a column, and the results have the names of the schema.
    """
    odd = any("." in name or "`" in name for name in data.columns)
    return data.toDF(*(f"c{i}" for i in range(len(data.columns)))) if odd else data
