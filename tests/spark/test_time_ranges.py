"""Parts of a key by time: with their tails they give what the whole gives, wherever they are cut. No Spark runs here.

rows  0 1 1 2 | 4 7      Time(3), cut at 4: the part that begins there reads from 1 on
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash import Count, Lifetime, Query, Session, Time
from sash.spark.batch import key_histogram
from sash.spark.batch.key_histogram import KeyHistogram, buckets_of
from sash.spark.batch.pack_ranges import PACKED, PackRanges
from sash.spark.batch.partial_carry import PartialFold
from sash.spark.batch.range_task import RangeTask
from sash.spark.batch.shuffle_routing import LargeKey, ShuffleRouting
from sash.spark.batch.time_ranges import (
    Buckets,
    Lookback,
    TimeRange,
    cut,
    edges_of,
    needs_rows,
    reached,
    time_ranges,
    why_whole,
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
    {"all": Lifetime(every=Time(3)), "long": Time(20, every=4), "gaps": Time(2, every=7, closed="right")},
    {
        "session": Session(2, every="close"),
        "three": Lifetime(every=Time(3)),
        "seven": Lifetime(every=Time(7)),
    },
]
SCHEMA = pa.schema({"t": pa.int64(), "row": pa.int64()})


def buckets(times: list[int], chunk: int, parts: int, gap: Any) -> Buckets:
    """What the workers that look at the rows find out, chunk by chunk."""
    bound_query = Query(Time(1), on="t", n=sash.count()).bind(SCHEMA)
    assert bound_query.time is not None
    summary = KeyHistogram(pa.schema({"t": pa.int64(), "weight": pa.int64()}), (), bound_query.time, parts, gap)
    pieces = [times[i : i + chunk] for i in range(0, len(times), chunk)]
    chunks = [pa.record_batch({"t": one, "weight": [1] * len(one)}) for one in pieces]
    _, found, total = buckets_of(pa.Table.from_batches(map(summary.runs, chunks), summary.output()), 0)
    assert total == len(times)
    return found[0] if found else Buckets(*[np.zeros(0, np.int64)] * 4)


def shuffled(packed: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(packed[::-1], PACKED).sort_by([("part", "ascending"), ("piece", "ascending")])


def in_parts(
    query: Query, times: list[int], parts: list[TimeRange], edges: list[Any], chunk: int, lasts: list[int]
) -> pa.Table:
    """The query on rows that are split, as Spark would do it: packed in two tasks, shuffled, a task for each part.

    `lasts`, where there are any, say which parts need the folds of each.
    """
    rows = pa.table({"t": times, "row": range(len(times))}, SCHEMA)
    pack = PackRanges(query, SCHEMA, ShuffleRouting.of((), [LargeKey(parts, edges)], 0))
    pack.rows = chunk
    halves = rows.slice(0, len(times) // 2), rows.slice(len(times) // 2)
    blobs = shuffled([blob for half in halves for blob in pack(half.to_batches(max_chunksize=3))])
    if lasts:
        fold = PartialFold(query, SCHEMA, lasts)
        folds = list(fold(blobs.filter(pc.less(blobs["part"], len(parts) - 1)).to_batches(max_chunksize=2)))
        blobs = shuffled([*blobs.to_batches(), *folds])
    extra, kind, by = ("own", pa.bool_(), ()) if query.per_row else ("part", pa.int32(), "part")
    keyed = Query(query.windows.get("", query.windows), by=by, on=query.on, forget=query.forget, **query.aggregates)
    worker = RangeTask(keyed, pa.schema([(extra, kind), *SCHEMA]), 0.0, extra, parts)
    worker.rows = 5
    tasks = [blobs.filter(pc.equal(blobs["part"], part)) for part in range(len(parts))]
    return pa.Table.from_batches([one for task in tasks for one in worker(task.to_batches(max_chunksize=2))])


def in_one_order(found: pa.Table, query: Query) -> pa.Table:
    names = ["row"] if query.per_row else ["window_end", *(["window"] if "window" in found.schema.names else [])]
    return found.sort_by([(name, "ascending") for name in names])


@given(
    times=st.lists(st.integers(0, 40) | st.sampled_from([5, 20]), min_size=1, max_size=40),
    window=st.sampled_from(WINDOWS),
    parts=st.integers(2, 5),
    chunk=st.integers(1, 40),
    forget=st.sampled_from([None, None, 3]),
    folds=st.booleans(),
)
def test_parts_with_tails_give_what_the_whole_gives(
    times: list[int], window: Any, parts: int, chunk: int, forget: Any, folds: bool
) -> None:
    query = Query(window, on=("t", "row"), **HELD)
    spans = query.bind(SCHEMA).windows
    endless = any(span.kind == "lifetime" for span in spans)
    folds = endless or (folds and any(span.kind == "time" for span in spans) and not any(map(needs_rows, spans)))
    if not folds:
        query = Query(window, on=("t", "row"), forget=forget, **HELD)
    bound_query = query.bind(SCHEMA)
    assert why_whole(bound_query) is None
    reach = Lookback.of(bound_query)
    known = buckets(times, chunk, parts, reach.gap)
    parted = cut(known, Lookback(0, 0, reach.gap) if folds else reach, parts)
    lasts = [len(parted) - 1] * len(parted) if endless else reached(parted, reach) if folds else []
    found = in_parts(query, times, parted, edges_of(known, 4), chunk, lasts)
    table = pa.table({"t": times, "row": range(len(times))}, SCHEMA)
    assert_same(in_one_order(found, query), in_one_order(query.run(table), query))


def test_parts_are_about_equal_and_their_tails_short() -> None:
    times = np.random.default_rng(1).permutation(10_000).tolist()
    reach = Lookback.of(Query({"t": Time(30), "n": Count(50)}, on="t", n=sash.count()).bind(SCHEMA))
    found = time_ranges(buckets(times, 2_500, 4, None), reach, 4)
    assert [part.begin is None for part in found] == [True, False, False, False]
    sizes = [(part.end or 10_000) - (part.begin or 0) for part in found]
    assert all(abs(size - 2_500) < 100 for size in sizes)
    assert all(50 <= part.begin - part.tail < 250 for part in found[1:])


def test_a_tail_as_long_as_the_rows_is_not_worth_it() -> None:
    times = list(range(1_000))
    reach = Lookback.of(Query(900, on="t", n=sash.count()).bind(SCHEMA))
    assert time_ranges(buckets(times, 1_000, 8, None), reach, 8) == [TimeRange(None, None, None)]


def test_sessions_are_cut_between_them_only() -> None:
    times = [day * 100 + i for day in range(8) for i in range(20)]
    reach = Lookback.of(Query(Session(50), on="t", n=sash.count()).bind(SCHEMA))
    found = time_ranges(buckets(times[::-1], 37, 4, reach.gap), reach, 4)
    assert len(found) == 4
    assert all(part.begin % 100 == 0 and part.tail == part.begin for part in found[1:])
    endless = Lookback.of(Query(Session(500), on="t", n=sash.count()).bind(SCHEMA))
    assert len(time_ranges(buckets(times, 37, 4, endless.gap), endless, 4)) == 1


def test_the_number_of_runs_follows_the_parts_not_the_rows() -> None:
    assert len(buckets(list(range(50_000)), 50_000, 4, None).rows) <= key_histogram.RUNS * 4 + 1


@pytest.mark.parametrize(
    ("window", "emit", "why"),
    [
        ({"a": Lifetime(), "b": Time(3)}, "final", "stands beside windows that need a tail"),
        (sash.Delta("row", 3), "final", "depends on all rows before"),
        (Count(3, every=2), "final", "counts all rows before"),
        (Time(3), "changes", "compares each result with the one before"),
    ],
)
def test_why_a_key_stays_whole(window: Any, emit: str, why: str) -> None:
    assert why in str(why_whole(Query(window, on="t", emit=emit, n=sash.count()).bind(SCHEMA)))
