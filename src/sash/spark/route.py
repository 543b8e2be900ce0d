"""Run a query on a Spark DataFrame, by `batch` or `stream`.

The engine is imported lazily: workers that only unpack results import this package, too.
"""

from __future__ import annotations

from typing import Any

from sash.plan.as_of_query import AsOfQuery
from sash.plan.queries import Queries
from sash.plan.query import Query
from sash.spark.spark_types import arrow_schema


def run(query: Query | Queries, data: Any) -> Any:
    """The query on a Spark DataFrame, classic or Connect, as a lazy DataFrame.

    Several queries give a dict of lazy DataFrames for a batch, and one stream for a stream.

    Raises TypeError for other Spark objects, and all that `Query.bind` raises; a note names one of several queries.
    """
    _require_dataframe(
        data, f"{'a query runs' if isinstance(query, Query) else 'queries run'} on a Spark DataFrame; got"
    )
    if data.isStreaming:
        from sash.spark.stream.plan_stream import plan_stream

        return plan_stream(query, data)
    from sash.spark.batch.plan_batch import plan_batch

    return plan_batch(query, data)


def migrate(query: Query, data: Any, from_query: Query, to: Any) -> Any:
    """The query on a stream whose checkpoint has state of another query: see `Query.migrate`."""
    if not getattr(data, "isStreaming", False):
        raise TypeError("migrate() takes a stream of Spark: a query on other data of Spark has no state")
    if to is not None:
        raise TypeError("to= of migrate() is for state in a store: that of a stream stays in its checkpoint")
    from sash.spark.stream.plan_stream import plan_stream

    return plan_stream(query, data, from_query=from_query)


def as_of(query: AsOfQuery, spine: Any, events: Any) -> Any:
    """The query as of the rows of a spine, both Spark DataFrames, as a lazy DataFrame."""
    for what, data in (("spine", spine), ("events", events)):
        _require_dataframe(data, f"as_of() takes Spark DataFrames; {what}= is")
    from sash.spark.batch.as_of_task import plan_as_of

    return plan_as_of(query, spine, events)


def explain(query: Query | Queries, data: Any) -> str:
    """The plan of `query.run(data)` as text: that of the query, or of several, and how Spark runs it. Runs nothing.

    Raises as the query would.
    """
    section = "\n".join(["spark", *(f"  {line}" for line in _lines(query, data))])
    return f"{query.explain(arrow_schema(data.schema))}\n{section}\n"


def _require_dataframe(data: Any, text: str) -> None:
    """Raises TypeError, with a text before the type of the data, unless it is a DataFrame, classic or Connect."""
    if not hasattr(data, "mapInArrow"):
        raise TypeError(f"{text} a {type(data).__module__}.{type(data).__qualname__}")


def _lines(query: Query | Queries, data: Any) -> list[str]:
    if getattr(data, "isStreaming", False):
        from sash.spark.stream.plan_stream import explain_stream

        return explain_stream(query, data)
    from sash.spark.batch.plan_batch import explain_batch

    return explain_batch(query, data)
