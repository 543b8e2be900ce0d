"""Plan several queries on a batch DataFrame: one shuffle and one sort for those of equal keys and order.

    DataFrame ──▶ repartition(by) ──▶ sortWithinPartitions(by, on) ──▶ mapInArrow ──▶ persist ─┬─▶ DataFrame a
                                                                       all queries             └─▶ DataFrame b

Spark computes a plan again for each action. So the results of all queries are persisted, in memory or on disk: the
first action on any of the DataFrames computes them, and later ones read them. `unpersist()` of the dict frees them.

A query whose rows are split by time ranges (`Options(split=…)`, or no `by`) has a plan of its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import StructField, StructType

from sash.plan import validation
from sash.plan.combined_query import bind_member
from sash.plan.queries import Queries
from sash.plan.query import Query
from sash.spark.batch.plan_batch import plan_batch, require_order, result_schema, sorted_by_key
from sash.spark.batch.queries_task import SECTION, TOGETHER, QueriesTask, Sections, struct_name
from sash.spark.batch.range_split import may_split
from sash.spark.batch.time_ranges import why_not_split
from sash.spark.column_exprs import plainly_named, quoted
from sash.spark.shipping import by_value
from sash.spark.spark_types import arrow_schema, spark_schema


class QueryFrames(dict[str, Any]):
    """The DataFrames of several queries by name. They read results that are persisted; `unpersist()` frees them."""

    def __init__(self, frames: Mapping[str, Any], persisted: list[Any]) -> None:
        super().__init__(frames)
        self.persisted = persisted
        """The rows of all queries of equal keys and order."""

    def unpersist(self) -> None:
        """Free the persisted rows. The DataFrames can still be used, and compute their rows again."""
        for frame in self.persisted:
            frame.unpersist()


def plan_queries(queries: Queries, data: Any) -> QueryFrames:
    """The queries on a batch DataFrame. Raises as `plan_batch` does; a note names the query."""
    separate, passes = shared_passes(queries, data)
    frames = {name: plan_batch(query, data) for name, query in separate.items()}
    persisted = []
    for members in passes:
        rows, found = _one_pass(members, data)
        persisted.append(rows)
        frames |= found
    return QueryFrames({name: frames[name] for name in queries.queries}, persisted)


def shared_passes(queries: Queries, data: Any) -> tuple[dict[str, Query], list[dict[str, Query]]]:
    """The queries with plans of their own, and those that share a pass. Raises as `plan_batch` does."""
    schema = arrow_schema(data.schema)
    separate: dict[str, Query] = {}
    passes: dict[tuple[tuple[str, ...], tuple[str, ...]], dict[str, Query]] = {}
    for name, query in queries.queries.items():
        bound_query = bind_member(name, query, schema)
        require_order(query)
        if may_split(query) and why_not_split(bound_query) is None:
            separate[name] = query
        else:
            passes.setdefault((query.by, query.on), {})[name] = query
    separate |= {name: query for members in passes.values() if len(members) == 1 for name, query in members.items()}
    return separate, [members for members in passes.values() if len(members) > 1]


def explain_queries_batch(queries: Queries, data: Any) -> list[str]:
    """The plan of `plan_queries` as lines of text. Runs nothing; raises the same errors."""
    separate, passes = shared_passes(queries, data)
    lines = []
    for members in passes:
        first = next(iter(members.values()))
        sections = Sections.of(members, arrow_schema(data.schema))
        lines.append(f"{', '.join(members)}: one shuffle by {', '.join(first.by) or 'nothing'}, one pass, persisted")
        if sections.together:
            lines.append(f"  computed together, with the input columns stored once: {', '.join(sections.together)}")
    return [*lines, *(f"{name}: a plan of its own" for name in separate)]


def _one_pass(members: dict[str, Query], data: Any) -> tuple[Any, dict[str, Any]]:
    """The rows of queries of equal keys and order, persisted, and the DataFrame of each query."""
    if not any(query.per_row for query in members.values()):
        # no other column has to cross the shuffle
        names = dict.fromkeys(name for query in members.values() for name in validation.named(query))
        data = data.select(*map(quoted, names))
    schema = arrow_schema(data.schema)
    sections = Sections.of(members, schema)
    bound = {name: bind_member(name, query, schema) for name, query in members.items()}
    results = {name: result_schema(one, data.schema).fields for name, one in bound.items()}
    structs = {name: results[name] for name in sections.others}
    if sections.together:
        width = len(schema)
        first = results[next(iter(sections.together))][:width]
        structs = {
            TOGETHER: [*first, *(field for name in sections.together for field in results[name][width:])]
        } | structs
    output = StructType([StructField(SECTION, spark_schema(sections.output).fields[0].dataType)])
    for number, fields in enumerate(structs.values()):
        inner = StructType([StructField(f"f{i}", field.dataType) for i, field in enumerate(fields)])
        output.add(StructField(struct_name(number), inner))
    ordered = plainly_named(sorted_by_key(data, next(iter(bound.values()))))
    task = by_value(QueriesTask(sections, time.time()), f"sash: queries {', '.join(members)}")
    rows = ordered.mapInArrow(task, output).persist()
    found = {}
    for name in members:
        section = TOGETHER if name in sections.together else name
        number = [*structs].index(section)
        places = list(range(len(structs[section])))
        if section == TOGETHER:
            places = [*places[: len(schema)], *places[sections.results(name)]]
        struct = rows[struct_name(number)]
        chosen = [
            struct[f"f{place}"].alias(field.name, metadata=field.metadata)
            for place, field in zip(places, results[name], strict=True)
        ]
        found[name] = rows.where(rows[SECTION] == number).select(*chosen)
    return rows, found
