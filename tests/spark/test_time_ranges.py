"""Time ranges of a key, with their lookback, give the results of one partition, wherever they begin. Spark is not run.

rows  0 1 1 2 | 4 7      Time(3), split at 4: the range that begins there reads from 1 on
"""

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash import Count, Lifetime, Query, Session, Time
from sash.plan.queries import ALONE
from sash.spark.batch import range_split as key_histogram
from sash.spark.batch.pack_ranges import PACKED, LargeKey, PackRanges, ShuffleRouting
from sash.spark.batch.partition_task import PartialFold, PartitionTask, PassLayout, QueryExecutor
from sash.spark.batch.range_split import KeyHistogram, buckets_of
from sash.spark.batch.time_ranges import (
    Buckets,
    Lookback,
    TimeRange,
    equal_ranges,
    piece_edges,
    time_ranges,
    why_not_split,
)
from sash.testing import assert_same

HELD: dict[str, Any] = {"held": sash.collect("row"), "n": sash.count()}
WINDOWS: list[Any] = [
    Time(3),
    Time(3, closed="left"),
    Time(3, closed="both"),
    Time(3, closed="neither"),
    Count(1),
    Count(3),
    Count(4, full=True),
    Count(3, shift=-2),
    Time(3, shift=-2, closed="both"),
    {"near": Time(2), "far": Time(2, shift=-4), "rows": Count(2, shift=-3)},
    Session(2),
    Session(4, every="close"),
    Time(6, every=2),
    Time(5, every=3, closed="right"),
    Time(2, every=5),
    Time(4, every=4, offset=1),
    Count(3, every=Time(4)),
    {"time": Time(2), "count": Count(3), "session": Session(3)},
    {"left": Time(4, every=2), "right": Time(3, every=1, closed="right"), "rows": Count(2, every=Time(3))},
    {"slides": Time(4, every=2), "sessions": Session(3, every="close")},
    Lifetime(),
    Lifetime(every=Time(3)),
    {"all": Lifetime(), "session": Session(2)},
    Time(15, every=3),
    Time(12, every=5, closed="right"),
    {"long": Time(20, every=4), "short": Time(3, every=2), "sessions": Session(3, every="close")},
    {
        "session": Session(2, every="close"),
        "three": Lifetime(every=Time(3)),
        "seven": Lifetime(every=Time(7)),
    },
]
SCHEMA = pa.schema({"t": pa.int64(), "row": pa.int64()})


def buckets(times: list[int], chunk: int, ranges: int, gap: Any) -> Buckets:
    """The histogram that workers make, chunk by chunk."""
    bound_query = Query(Time(1), on="t", n=sash.count()).bind(SCHEMA)
    assert bound_query.time is not None
    summary = KeyHistogram(pa.schema({"t": pa.int64(), "weight": pa.int64()}), (), bound_query.time, ranges, gap)
    pieces = [times[i : i + chunk] for i in range(0, len(times), chunk)]
    chunks = [pa.record_batch({"t": one, "weight": [1] * len(one)}) for one in pieces]
    _, found, total = buckets_of(pa.Table.from_batches(map(summary.runs, chunks), summary.output()), 0)
    assert total == len(times)
    return found[0] if found else Buckets(*[np.zeros(0, np.int64)] * 4)


def shuffled(packed: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(packed[::-1], PACKED).sort_by([("range", "ascending"), ("piece", "ascending")])


def in_ranges(query: Query, times: list[int], large: LargeKey, chunk: int) -> pa.Table:
    """The query on rows that are split, as Spark would do it: packed in two tasks, shuffled, a task for each range."""
    rows = pa.table({"t": times, "row": range(len(times))}, SCHEMA)
    pack = PackRanges(query, SCHEMA, ShuffleRouting.of((), [large], 0))
    pack.rows = chunk
    halves = rows.slice(0, len(times) // 2), rows.slice(len(times) // 2)
    blobs = shuffled([blob for half in halves for blob in pack(half.to_batches(max_chunksize=3))])
    last = len(large.ranges) - 1
    if any(isinstance(window, Lifetime) for window in query.windows.values()):
        partials_of = partial(PartialFold, query, SCHEMA, 0.0, [last] * len(large.ranges))
        fold = PartitionTask(partials_of, query.bind(SCHEMA), 0.0, 5, len(large.ranges))
        partials = list(fold(blobs.filter(pc.less(blobs["range"], last)).to_batches(max_chunksize=2)))
        blobs = shuffled([*blobs.to_batches(), *partials])
    results_of = partial(QueryExecutor, PassLayout({ALONE: query}, SCHEMA), 0.0, large.ranges)
    task = PartitionTask(results_of, query.bind(SCHEMA), 0.0, 5, len(large.ranges))
    inputs = [blobs.filter(pc.equal(blobs["range"], number)) for number in range(last + 1)]
    results = [one for rows in inputs for one in task(rows.to_batches(max_chunksize=2))]
    return pa.Table.from_batches(results, query.bind(SCHEMA).output("sorted"))


def in_one_order(found: pa.Table, query: Query) -> pa.Table:
    names = ["row"] if query.per_row else ["window_end", *(["window"] if "window" in found.schema.names else [])]
    return found.sort_by([(name, "ascending") for name in names])


@given(
    times=st.lists(st.integers(0, 40) | st.sampled_from([5, 20]), min_size=1, max_size=40),
    window=st.sampled_from(WINDOWS),
    ranges=st.integers(2, 5),
    chunk=st.integers(1, 40),
    forget=st.sampled_from([None, None, 3]),
)
def test_ranges_with_lookback_give_what_one_partition_gives(
    times: list[int], window: Any, ranges: int, chunk: int, forget: Any
) -> None:
    query = Query(window, on=("t", "row"), **HELD)
    if not any(isinstance(one, Lifetime) for one in query.windows.values()):
        query = Query(window, on=("t", "row"), forget=forget, **HELD)
    bound_query = query.bind(SCHEMA)
    assert why_not_split(bound_query) is None
    lookback = Lookback.of(bound_query)
    known = buckets(times, chunk, ranges, lookback.gap)
    large = LargeKey(equal_ranges(known, lookback, ranges), piece_edges(known, 4))
    found = in_ranges(query, times, large, chunk)
    table = pa.table({"t": times, "row": range(len(times))}, SCHEMA)
    assert_same(in_one_order(found, query), in_one_order(query.run(table), query))


def test_ranges_are_about_equal_and_their_lookback_short() -> None:
    times = np.random.default_rng(1).permutation(10_000).tolist()
    lookback = Lookback.of(Query({"t": Time(30), "n": Count(50)}, on="t", n=sash.count()).bind(SCHEMA))
    found = time_ranges(buckets(times, 2_500, 4, None), lookback, 4)
    assert [one.begin is None for one in found] == [True, False, False, False]
    sizes = [(one.end or 10_000) - (one.begin or 0) for one in found]
    assert all(abs(size - 2_500) < 100 for size in sizes)
    assert all(50 <= one.begin - one.lookback < 250 for one in found[1:])


def test_a_lookback_as_long_as_the_rows_is_not_worth_it() -> None:
    times = list(range(1_000))
    lookback = Lookback.of(Query(900, on="t", n=sash.count()).bind(SCHEMA))
    assert time_ranges(buckets(times, 1_000, 8, None), lookback, 8) == [TimeRange(None, None, None)]


def test_sessions_are_cut_between_them_only() -> None:
    times = [day * 100 + i for day in range(8) for i in range(20)]
    lookback = Lookback.of(Query(Session(50), on="t", n=sash.count()).bind(SCHEMA))
    found = time_ranges(buckets(times[::-1], 37, 4, lookback.gap), lookback, 4)
    assert len(found) == 4
    assert all(one.begin % 100 == 0 and one.lookback == one.begin for one in found[1:])
    endless = Lookback.of(Query(Session(500), on="t", n=sash.count()).bind(SCHEMA))
    assert len(time_ranges(buckets(times, 37, 4, endless.gap), endless, 4)) == 1


def test_runs_are_split_at_gaps_that_64_bits_cannot_hold() -> None:
    early, late = [-(2**62) - 200 + i for i in range(129)], [2**62 + i for i in range(131)]
    found = buckets(early + late, 260, 1, 10)
    assert any(low - high >= 2**63 for low, high in zip(found.low[1:].tolist(), found.high.tolist(), strict=False))
    assert not any(low in early and high in late for low, high in zip(found.low, found.high, strict=True))


def test_the_number_of_runs_follows_the_ranges_not_the_rows() -> None:
    assert len(buckets(list(range(50_000)), 50_000, 4, None).rows) <= key_histogram.RUNS * 4 + 1


@pytest.mark.parametrize(
    ("window", "emit", "why"),
    [
        (
            {"a": Lifetime(every=Time(2)), "b": Time(3, every=2)},
            "final",
            "is combined with windows that look back at rows",
        ),
        ({"a": Lifetime(), "b": Time(3)}, "final", "is combined with windows that look back at rows"),
        (sash.Delta("row", 3), "final", "depends on all rows before"),
        (Count(3, every=2), "final", "counts all rows before"),
        (Time(3), "changes", "compares each result with the one before"),
    ],
)
def test_why_a_key_is_not_split(window: Any, emit: str, why: str) -> None:
    assert why in str(why_not_split(Query(window, on="t", emit=emit, n=sash.count()).bind(SCHEMA)))
