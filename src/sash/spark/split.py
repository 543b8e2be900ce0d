"""Split: a key with very many rows, or all rows where there is no key, over several partitions.

    summaries of the rows ── one action ──▶ ranges of time ──▶ each row to the parts that read it
                                                                 its own, and those in whose tail it lies
    repartition by part ──▶ sort by key and time ──▶ operator ──▶ results without those of the tails

Only expressions of Spark's stand between the rows and the shuffle: a tree of comparisons that ends in the numbers of
parts. Two parts of one key never meet in a partition, so that the order within it is by key and time as ever.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from sash.query import checks
from sash.query.query import Query
from sash.query.resolved import Resolved
from sash.spark.columns import key, order, plainly_named, quoted
from sash.spark.literals import literal
from sash.spark.ranges import Part, Reach, Reading, parts_of, readings, why_whole
from sash.spark.summaries import Summary, buckets_of
from sash.spark.types import arrow_schema, spark_schema
from sash.spark.worker import PartWorker

ENOUGH = 100_000
"""Rows that are worth a part, where the user does not say how many: below, a second worker costs more than it saves."""

FIRST, EACH = 2048, 16
"""How many rows of each partition are looked at first, and of the others each how many-th."""


@dataclass(frozen=True)
class Split:
    """The parts of all keys that are split. A row of another key is of the part after the last."""

    keys: list[tuple[Any, ...]]
    """The keys that are split, a value for each column of `by`."""
    parts: list[list[Part]]
    """The parts of each of them."""
    partitions: int

    @property
    def flat(self) -> list[Part]:
        """All parts by number."""
        return [part for parts in self.parts for part in parts]


def split_of(data: Any, resolved: Resolved) -> Split | None:
    """How to split the rows; None if they stay whole. Takes one action, unless it is clear without a look at them."""
    asked = resolved.query.options.split
    if asked == 1 or (asked is None and resolved.by) or why_whole(resolved) is not None:
        return None
    if any(pa.types.is_nested(resolved.schema.field(name).type) for name in resolved.by):
        return None  # no literal names such a key
    wanted = asked or _partitions(data)
    if wanted == 1:
        return None
    assert resolved.time is not None
    reach = Reach.of(resolved)
    names = [*resolved.by, resolved.time.column]
    looked_at = data.select(*map(quoted, dict.fromkeys(names)))
    weight = "_".join(["weight", *names])  # longer than each of them
    looked_at = _some(looked_at, weight) if reach.gap is None else looked_at.withColumn(weight, sf.lit(1).cast("long"))
    summary = Summary(arrow_schema(looked_at.schema), resolved.by, resolved.time, wanted, reach.gap)
    runs = plainly_named(looked_at).mapInArrow(summary, spark_schema(summary.output())).toArrow()
    columns, buckets, total = buckets_of(runs, len(resolved.by))
    keys, parts = [], []
    for place, one in enumerate(buckets):
        most = -(-one.total * wanted // max(total, 1))
        if asked is None:
            most = min(most, one.total // ENOUGH)
        found = parts_of(one, reach, most)
        if len(found) > 1:
            keys.append(tuple(column[place] for column in columns))
            parts.append(found)
    if not parts:
        return None
    least = _partitions(data) if resolved.by else 1
    return Split(keys, parts, max(least, *map(len, parts)))


def _some(data: Any, weight: str) -> Any:
    """Of each partition the first rows, and then every so many-th, with how many it stands for.

    Bounds may lie anywhere, and rows that were seen are rows: a tail that holds enough of these holds enough of all. A
    gap is certain only if all rows were seen.
    """
    place = sf.monotonically_increasing_id().bitwiseAND(2**33 - 1)  # the lower bits count within a partition
    seen = (quoted(weight) < FIRST) | (quoted(weight) % EACH == 0)
    stands_for = sf.when(quoted(weight) < FIRST, sf.lit(1)).otherwise(sf.lit(EACH)).cast("long")
    return data.withColumn(weight, place).filter(seen).withColumn(weight, stands_for)


def _partitions(data: Any) -> int:
    return int(data.sparkSession.conf.get("spark.sql.shuffle.partitions"))


def in_parts(query: Query, data: Any, resolved: Resolved, split: Split, result: Any) -> Any:
    """The query on rows that are split."""
    part, own = _free(query, data.columns)
    keys = [key(data, name) for name in resolved.by]
    elsewhere = sf.pmod(sf.hash(*keys), sf.lit(split.partitions)) if keys else sf.lit(0)
    place = sf.when(quoted(part) < len(split.flat), quoted(part) % split.partitions).otherwise(elsewhere)
    spread = with_parts(data, resolved, split, own, part).repartitionById(split.partitions, place)
    ordered = spread.sortWithinPartitions(*keys, *order(resolved))
    # a row says by itself whether it is shown; a slide goes by the part that its key has here
    extra, by = (own, query.by) if resolved.per_row else (part, (part, *query.by))
    schema = pa.schema([(extra, pa.bool_() if resolved.per_row else pa.int32()), *resolved.schema])
    worker = PartWorker(_keyed(query, by), schema, time.time(), extra, split.flat)
    chosen = ordered.select(*map(quoted, schema.names))
    return plainly_named(chosen).mapInArrow(worker, result)


def _keyed(query: Query, by: tuple[str, ...]) -> Query:
    said = {name: getattr(query, name) for name in ("on", "forget", "ahead", "options")}
    return Query(query.windows.get("", query.windows), by=by, **said, **query.aggregates)


def with_parts(data: Any, resolved: Resolved, split: Split, own: str, part: str) -> Any:
    """Each row once for every part that reads it, and whether it is the part's own."""
    numbers = sf.posexplode(_parts(data, resolved, split)).alias(own, part)
    return data.select(numbers, "*").withColumn(own, quoted(own) == 0)


def _free(query: Query, names: list[str]) -> tuple[str, str]:
    """Names for the part and for whether a row is the part's own, which no column has."""
    taken = {*names, *checks.labels(query.windows, query.aggregates), *query.aggregates}
    part = "part"
    while part in taken or f"{part}_own" in taken:
        part += "_"
    return part, f"{part}_own"


def _parts(data: Any, resolved: Resolved, split: Split) -> Any:
    """The parts that read a row, as an array: its own first."""
    assert resolved.time is not None
    clock = quoted(resolved.time.column)
    kind = data.schema[resolved.time.column].dataType
    first, found = 0, []
    for parts in split.parts:
        found.append(_tree(readings(parts, first), clock, kind, resolved))
        first += len(parts)
    if not resolved.by:
        return found[0]
    kinds = [data.schema[name].dataType for name in resolved.by]
    chain: Any = sf
    for values, tree in zip(split.keys, found, strict=True):
        same = [key(data, n).eqNullSafe(literal(v, k)) for n, v, k in zip(resolved.by, values, kinds, strict=True)]
        condition = same[0]
        for one in same[1:]:
            condition = condition & one
        chain = chain.when(condition, tree)
    return chain.otherwise(sf.array(sf.lit(first)))


def _tree(read: list[Reading], clock: Any, kind: Any, resolved: Resolved) -> Any:
    """Comparisons of a time with the edges, as many as the logarithm of their number."""
    if len(read) == 1:
        return sf.array(*map(sf.lit, read[0].parts))
    assert resolved.time is not None
    middle = len(read) // 2
    edge = resolved.time.array(np.array([read[middle - 1].until]))[0]
    before = clock < literal(edge, kind)
    return sf.when(before, _tree(read[:middle], clock, kind, resolved)).otherwise(
        _tree(read[middle:], clock, kind, resolved)
    )
