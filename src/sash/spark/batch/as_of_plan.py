"""Plan a query as of the rows of a spine on batch DataFrames: one shuffle for spine and events together.

    events ─┐ union, with a    repartition(by) ──▶ sortWithinPartitions(by, on) ──▶ mapInArrow ──▶ spine's columns
    spine  ─┘ marker                                                                pieces        and aggregates

    marker   key and time   what the query reads of events   the spine's columns
    false    ·              ·                                null
    true     ·              null                             ·

A worker holds the events that windows still need and a few batches of rows. With `Options(split=)`, and without keys,
a large key is split into time ranges that are computed in parallel (`range_split.py`); only the events determine them.
"""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import functions as sf
from pyspark.sql.types import DoubleType, FloatType, IntegralType, LongType, StructType

from sash.engine.spine_rows import spine_axis
from sash.plan import validation
from sash.plan.as_of_query import AsOfQuery
from sash.plan.binder import known
from sash.spark.batch.as_of_task import AsOfRangeTask, AsOfTask, SpineLayout
from sash.spark.batch.plan_batch import in_order
from sash.spark.batch.range_split import packed_ranges, shuffled, split_of
from sash.spark.batch.time_ranges import has_lifetime
from sash.spark.column_exprs import plainly_named, quoted
from sash.spark.job_names import outline
from sash.spark.shipping import by_value
from sash.spark.spark_types import arrow_schema, spark_schema


def plan_as_of(query: AsOfQuery, spine: Any, events: Any) -> Any:
    """The query as of the rows of a spine, as a lazy DataFrame.

    Raises TypeError for a stream or columns that cannot be compared, and all that `Query.bind` raises.
    """
    for what, data in (("spine", spine), ("events", events)):
        if data.isStreaming:
            raise TypeError(
                f"as_of() joins two complete tables, and {what}= is a stream: for the features of a stream, look them "
                "up in an operator, operator.lookup(keys, at=…, closed='left')"
            )
    given, own = arrow_schema(events.schema), arrow_schema(spine.schema)
    query.require_free(own.names)
    query.query.bind(given)
    for what, names in (("by", query.spine_by), ("on", (query.spine_on,))):
        for name in names:
            known(own, name, f"{what}= (of the spine)")
    both = _union(query, spine, events)
    schema = arrow_schema(both.schema)
    bound_query = query.query.bind(schema)
    assert bound_query.time is not None
    spine_axis(query.spine_on, own.field(query.spine_on).type, bound_query.time)
    layout = SpineLayout(query, schema, schema.names[-len(own) :], tuple(own.names))
    result = StructType([*spine.schema.fields, *spark_schema(layout.result_fields()).fields])
    split = None if has_lifetime(bound_query) else split_of(_keyed(query, events), bound_query)
    name = f"sash: as of, {outline(bound_query.query)}"
    if split is not None:
        task = AsOfRangeTask(layout, time.time(), split.ranges)
        return shuffled(packed_ranges(both, bound_query, split), split).mapInArrow(by_value(task, name), result)
    rows = plainly_named(in_order(both, bound_query))
    return rows.mapInArrow(by_value(AsOfTask(layout, time.time()), name), result)


# ---- spine and events in one table ----


def _union(query: AsOfQuery, spine: Any, events: Any) -> Any:
    """Events and spine in one DataFrame: marker, the columns that the query reads, the columns of the spine."""
    asked = query.query
    names = list(dict.fromkeys(validation.named(asked)))
    marker = validation.free_name("is_spine", asked, [*names, *spine.columns])
    pairs = dict(zip((*asked.by, asked.on[0]), (*query.spine_by, query.spine_on), strict=True))
    keyed = _keyed(query, events, {mine: spine.schema[name].dataType for mine, name in pairs.items()})
    own = [validation.free_name(f"spine_{i}", asked, names) for i in range(len(spine.columns))]
    kinds = {field.name: field.dataType for field in keyed.schema.fields}
    theirs = [
        sf.lit(None).cast(field.dataType).alias(name) for name, field in zip(own, spine.schema.fields, strict=True)
    ]
    mine = [_of_spine(query, spine, name, pairs.get(name), kinds[name]) for name in names]
    kept = [quoted(column).alias(name) for name, column in zip(own, spine.columns, strict=True)]
    first = keyed.select(sf.lit(False).alias(marker), *map(quoted, names), *theirs)
    return first.unionAll(spine.select(sf.lit(True).alias(marker), *mine, *kept))


WIDE = ((IntegralType, LongType()), ((FloatType, DoubleType), DoubleType()))
"""Types whose values can be compared, and the type that holds all of them."""


def _keyed(query: AsOfQuery, events: Any, kinds: dict[str, Any] | None = None) -> Any:
    """The columns of the events that the query reads; numbers whose type differs in the spine (`kinds`) are widened."""
    columns = []
    for name in dict.fromkeys(validation.named(query.query)):
        own = events.schema[name].dataType
        other = (kinds or {}).get(name, own)
        wide = next((kind for types, kind in WIDE if isinstance(own, types) and isinstance(other, types)), own)
        columns.append(quoted(name) if own == other else quoted(name).cast(wide).alias(name))
    return events.select(*columns)


def _of_spine(query: AsOfQuery, spine: Any, name: str, own: str | None, kind: Any) -> Any:
    """A column of the events for rows of the spine: key or time, else null."""
    if own is None:
        return sf.lit(None).cast(kind).alias(name)
    found = spine.schema[own].dataType
    if found != kind and not any(isinstance(found, types) and isinstance(kind, types) for types, _ in WIDE):
        what = "time" if name == query.query.on[0] else "column"
        raise TypeError(
            f"the spine's {what} {own!r} is of type {found.simpleString()} and the events' {name!r} of type "
            f"{kind.simpleString()}, which do not compare: cast one to the type of the other"
        )
    return quoted(own).cast(kind).alias(name)
