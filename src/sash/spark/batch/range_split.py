"""Split: a key with very many rows, or all rows where there is no key, over several partitions.

    a look at the rows ── one action ──▶ ranges of time: parts, and pieces of them
    rows ──▶ pack: blobs by piece ──▶ repartition by part, sort by piece ──▶ operator ──▶ results without those of tails

Rows cross the shuffle as blobs of some thousand, and a worker puts those of a piece in order: to Spark a row costs
more in a shuffle, a sort and on its way to Python than the windows do.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as sf

from sash.plan import validation
from sash.plan.bound_query import BoundQuery
from sash.plan.query import Query
from sash.spark.batch.key_histogram import KeyHistogram, buckets_of
from sash.spark.batch.lookback_transfer import LookbackTransfer
from sash.spark.batch.pack_ranges import OWN, PACKED, PART, PIECE, PackRanges
from sash.spark.batch.partial_carry import MOST, PartialFold
from sash.spark.batch.range_task import RangeTask
from sash.spark.batch.shuffle_routing import LargeKey, ShuffleRouting
from sash.spark.batch.time_ranges import Lookback, TimeRange, edges_of, why_whole
from sash.spark.column_exprs import plainly_named, quoted
from sash.spark.spark_types import arrow_schema, bytes_of, spark_schema

ENOUGH = 1_000_000
"""Rows that are worth a part, where the user does not say how many: two parts of so many take about as long as one
partition, and of five times as many less (docs/performance.md)."""

FIRST, EACH = 2048, 16
"""How many rows of each partition are looked at first, and of the others each how many-th."""

HELD, ROWS = 2**25, 2**18
"""Bytes, and rows, of a piece: a worker holds one or two."""


@dataclass(frozen=True)
class RangeSplit:
    """The parts of all large keys, by number, and the pieces of all rows."""

    parts: list[TimeRange]
    lasts: list[int]
    """By part: the last one that needs its folds; itself, if none does."""
    pieces: ShuffleRouting
    partitions: int


def split_of(data: Any, bound_query: BoundQuery) -> RangeSplit | None:
    """How to split the rows; None if they stay whole. Takes one action, unless it is clear without a look at them."""
    asked = bound_query.query.options.split
    if asked == 1 or (asked is None and bound_query.by) or why_whole(bound_query) is not None:
        return None
    wanted = asked or _partitions(data)
    if wanted == 1:
        return None
    assert bound_query.time is not None
    reach = Lookback.of(bound_query)
    names = [*bound_query.by, bound_query.time.column]
    looked_at = data.select(*map(quoted, dict.fromkeys(names)))
    weight = "_".join(["weight", *names])  # longer than each of them
    looked_at = _some(looked_at, weight) if reach.gap is None else looked_at.withColumn(weight, sf.lit(1).cast("long"))
    summary = KeyHistogram(arrow_schema(looked_at.schema), bound_query.by, bound_query.time, wanted, reach.gap)
    runs = plainly_named(looked_at).mapInArrow(summary, spark_schema(summary.output())).toArrow()
    columns, buckets, total = buckets_of(runs, len(bound_query.by))
    size = max(1, min(ROWS, HELD // _width(bound_query.schema)))
    most = [min(-(-one.total * wanted // max(total, 1)), MOST) for one in buckets]
    if not asked:
        most = [min(parts, one.total // ENOUGH) for one, parts in zip(buckets, most, strict=True)]
    tails = LookbackTransfer(bound_query, reach, _width(bound_query.schema))
    # a key that stays whole comes in pieces, too, if it is large: no worker holds all of it
    large = {
        place: LargeKey(parts, edges_of(one, size))
        for place, (one, parts) in enumerate(zip(buckets, tails.parted(buckets, most), strict=True))
        if len(parts) > 1 or one.total > size
    }
    if all(len(one.parts) == 1 for one in large.values()):
        return None
    partitions = max(_partitions(data) if bound_query.by else 1, *(len(one.parts) for one in large.values()))
    others = total - sum(buckets[place].total for place in large)
    groups = max(partitions, -(-others // size)) if bound_query.by else 0
    keys = tuple(column.take(pa.array(large)) for column in columns)
    found: list[TimeRange] = []
    lasts: list[int] = []
    for one in large.values():
        lasts += [len(found) + last for last in tails.needed(one.parts)]
        found += one.parts
    return RangeSplit(found, lasts, ShuffleRouting.of(keys, [*large.values()], groups), partitions)


def _width(schema: pa.Schema) -> int:
    """About how many bytes a row has, as far as types tell; text, lists and the like are taken for 64."""
    return sum(bytes_of(field.type) or 64 for field in schema)


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


def in_parts(query: Query, data: Any, bound_query: BoundQuery, split: RangeSplit, result: Any) -> Any:
    """The query on rows that are split."""
    pack = PackRanges(query, bound_query.schema, split.pieces)
    packed = plainly_named(data).mapInArrow(pack, spark_schema(PACKED))
    folded = [place for place, last in enumerate(split.lasts) if place < last]
    if folded:
        rows = _shuffled(packed.filter(quoted(OWN) & quoted(PART).isin(folded)), split)
        fold = PartialFold(query, bound_query.schema, split.lasts)
        packed = packed.unionAll(rows.mapInArrow(fold, spark_schema(PACKED)))
    # a row says by itself whether it is shown; a slide goes by the part that its key has here
    extra = _free(query, data.columns)
    by = query.by if bound_query.per_row else (extra, *query.by)
    schema = pa.schema([(extra, pa.bool_() if bound_query.per_row else pa.int32()), *bound_query.schema])
    worker = RangeTask(_keyed(query, by), schema, time.time(), extra, split.parts)
    return _shuffled(packed, split).mapInArrow(worker, result)


def _shuffled(packed: Any, split: RangeSplit) -> Any:
    """Blobs to the partitions of their parts, in order."""
    spread = packed.repartitionById(split.partitions, quoted(PART) % split.partitions)
    return spread.sortWithinPartitions(PART, PIECE)


def _keyed(query: Query, by: tuple[str, ...]) -> Query:
    kept: dict[str, Any] = {name: getattr(query, name) for name in ("on", "forget", "ahead", "options")}
    return Query(query.windows.get("", query.windows), by=by, **kept | query.aggregates)


def _free(query: Query, names: list[str]) -> str:
    """A name for the column that says what is shown, which no column has."""
    taken = {*names, *validation.labels(query.windows, query.aggregates), *query.aggregates}
    extra = "extra"
    while extra in taken:
        extra += "_"
    return extra
