"""Plan queries on a batch DataFrame: repartition, sort, and one executor per partition.

    DataFrame ──▶ repartition(by) ──▶ sortWithinPartitions(by, on) ──▶ mapInArrow ──▶ DataFrame
                                                                       queries

The DataFrame is lazy: the query and the columns determine the schema of the results. A worker holds one window and a
few batches of rows, not a whole key. `range_split` splits a key with too many rows for one worker, or all rows of a
query without keys; for that it reads the times of the rows once, when the query is planned.

Several queries of equal keys and order share a pass:

    … ──▶ mapInArrow ──▶ persist ─┬─▶ DataFrame a
                                  └─▶ DataFrame b

Spark computes a plan again for each action. So the results of all queries are persisted, in memory or on disk: the
first action on any of the DataFrames computes them, and later ones read them. `unpersist()` of the dict frees them.

A query whose rows are split by time ranges (`Options(split=…)`, or no `by`) has a pass of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyspark.sql.types import StructField, StructType

from sash.plan import validation
from sash.plan.bound_query import BoundQuery
from sash.plan.queries import ALONE, Queries, bind_member
from sash.plan.query import Query
from sash.spark.batch import partition_task
from sash.spark.batch.pack_ranges import OWN, PACKED, RANGE
from sash.spark.batch.partition_task import SECTION, PartialFold, PartitionTask, PassLayout, QueryExecutor
from sash.spark.batch.range_split import RangeSplit, may_split, packed_ranges, shuffled, split_of
from sash.spark.batch.time_ranges import why_not_split
from sash.spark.column_exprs import key, order, plainly_named, quoted
from sash.spark.job_names import outline
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


def plan_batch(query: Query | Queries, data: Any) -> Any:
    """The query on a batch DataFrame, or a dict of DataFrames for several.

    Raises ValueError without `on`, and for `emit="eager"`; all that `Query.bind` raises, with a note that names one of
    several queries.
    """
    if isinstance(query, Query):
        return _one_pass({ALONE: query}, data)[1][ALONE]
    persisted: list[Any] = []
    frames: dict[str, Any] = {}
    for members in _passes(query, data):
        rows, found = _one_pass(members, data)
        frames |= found
        if rows is not None:
            persisted.append(rows)
    return QueryFrames({name: frames[name] for name in query.queries}, persisted)


def _passes(queries: Queries, data: Any) -> list[dict[str, Query]]:
    """The queries that share a pass; one whose rows may be split has its own. Raises as `plan_batch`."""
    schema = arrow_schema(data.schema)
    found: dict[Any, dict[str, Query]] = {}
    for name, query in queries.queries.items():
        bound_query = bind_member(name, query, schema)
        require_order(query)
        is_apart = may_split(query) and why_not_split(bound_query) is None
        found.setdefault((query.by, query.on, name if is_apart else None), {})[name] = query
    ordered = sorted(found.items(), key=lambda item: (len(item[1]) == 1, item[0][-1] is None))
    return [members for _, members in ordered]


def _one_pass(members: dict[str, Query], data: Any) -> tuple[Any, dict[str, Any]]:
    """The persisted rows of queries of equal keys and order, and the DataFrame of each; of one alone no such rows."""
    if len(members) == 1:
        ((label, query),) = members.items()
        members = {ALONE: query}
    for query in members.values():
        require_order(query)
        query.bind(arrow_schema(data.schema))
    if not any(query.per_row for query in members.values()):
        # no other column has to cross the shuffle
        names = dict.fromkeys(name for query in members.values() for name in validation.named(query))
        data = data.select(*map(quoted, names))
    layout, now = PassLayout(members, arrow_schema(data.schema)), time.time()
    bound = {name: query.bind(layout.schema) for name, query in members.items()}
    results = {name: result_schema(one, data.schema).fields for name, one in bound.items()}
    first = next(iter(bound.values()))
    make = partial(QueryExecutor, layout, now)
    if layout.is_alone:
        split = split_of(data, first)
        if split is not None:
            make = partial(make, split.ranges)
        name, output = f"sash: {outline(query)}", StructType(results[ALONE])
        return None, {label: executed(data, first, make, output, name, partition_task.ROWS, now, split)}
    sections = [layout.joined(section, results) for section in layout.sections]
    output = StructType([StructField(SECTION, spark_schema(layout.output).fields[0].dataType)])
    for number, fields in enumerate(sections):
        inner = StructType([StructField(f"f{i}", field.dataType) for i, field in enumerate(fields)])
        output.add(StructField(f"s{number}", inner))
    name = f"sash: queries {', '.join(members)}"
    rows = executed(data, first, make, output, name, partition_task.ROWS, now).persist()
    found = {}
    for number, section in enumerate(layout.sections):
        kept = layout.joined(section, {name: [(name, i) for i in range(len(results[name]))] for name in section})
        place = {of: i for i, of in enumerate(kept)}
        for name in section:
            chosen = [  # the input columns are those of the section's first query
                rows[f"s{number}"][f"f{place.get((name, i), i)}"].alias(field.name, metadata=field.metadata)
                for i, field in enumerate(results[name])
            ]
            found[name] = rows.where(rows[SECTION] == number).select(*chosen)
    return rows, found


def executed(
    data: Any,
    bound_query: BoundQuery,
    make: Callable[..., Any],
    output: StructType,
    name: str,
    rows: int,
    now: float,
    split: RangeSplit | None = None,
) -> Any:
    """The results of executors on rows that are partitioned by key and sorted, or split into time ranges."""
    ranges = None if split is None else len(split.ranges)
    task = by_value(PartitionTask(make, bound_query, now, rows, ranges), name)
    if split is None:
        keys = [key(data, name) for name in bound_query.by]
        together = data.repartition(*keys) if keys else data.repartition(1)
        return plainly_named(together.sortWithinPartitions(*keys, *order(bound_query))).mapInArrow(task, output)
    packed = packed_ranges(data, bound_query, split)
    carried = [number for number, last in enumerate(split.lasts) if number < last]
    if carried:
        of_ranges = shuffled(packed.filter(quoted(OWN) & quoted(RANGE).isin(carried)), split)
        make = partial(PartialFold, bound_query.query, bound_query.schema, now, split.lasts)
        fold = by_value(PartitionTask(make, bound_query, now, rows, ranges), "sash: sum up time ranges")
        packed = packed.unionAll(of_ranges.mapInArrow(fold, spark_schema(PACKED)))
    return shuffled(packed, split).mapInArrow(task, output)


def explain_batch(query: Query | Queries, data: Any) -> list[str]:
    """The plan of `plan_batch` as lines of text. Runs nothing; raises the same errors."""
    if isinstance(query, Queries):
        return _explain_passes(query, data)
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


def _explain_passes(queries: Queries, data: Any) -> list[str]:
    lines = []
    for members in _passes(queries, data):
        if len(members) == 1:
            lines.append(f"{next(iter(members))}: a plan of its own")
            continue
        by = ", ".join(next(iter(members.values())).by) or "nothing"
        lines.append(f"{', '.join(members)}: one shuffle by {by}, one pass, persisted")
        together = PassLayout(members, arrow_schema(data.schema)).together
        if together:
            lines.append(f"  computed together, with the input columns stored once: {', '.join(together)}")
    return lines


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
