"""A shard from one micro-batch to the next: lateness, silence, emission, refusals, and what it reads and writes."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest
from pyspark import cloudpickle

import sash
from sash import Options, Query, Session, Time
from sash.spark.stream.checkpoint import StateMismatch
from sash.spark.stream.pack_shards import labels, shard_of, spark_hash
from sash.spark.stream.plan_stream import migrating
from tests.spark.stream.fake_spark import FakeStream

SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64(), "x": pa.float64()})
LAST: dict[str, Any] = {"by": "k", "on": "t", "lateness": 2, "high": sash.max("x"), "n": sash.count()}


def batch(*rows: tuple[Any, ...], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def given(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    found = zip(*(table.column(name).to_pylist() for name in names), strict=True)
    return sorted(found, key=repr)


# ---- shards ----


@pytest.mark.parametrize("shards", [1, 2, 3, 4, 8, 10, 200])
def test_labels_are_spread_evenly(shards: int) -> None:
    found = labels(shards)
    assert len(set(found)) == shards
    assert found[0] == 0
    for partitions in (p for p in range(1, 2 * shards + 1) if shards % p == 0 or p % shards == 0):
        counts = np.bincount([spark_hash(label) % partitions for label in found], minlength=partitions)
        assert counts.max() - counts.min() <= (0 if partitions <= shards else 1), partitions


def test_a_key_has_one_shard_in_every_batch_and_process() -> None:
    table = batch(("a", 1, 1.0), (None, 1, 1.0), ("é", 1, 1.0), ("b", 1, 1.0), ("a", 2, 1.0))
    found = shard_of(table, ("k",), 5).tolist()
    assert found[0] == found[4]
    assert len(set(found)) > 1
    assert shard_of(table.slice(1, 1), ("k",), 5).tolist() == found[1:2]
    assert shard_of(table, (), 5).tolist() == [0] * 5


# ---- event time ----


def test_the_watermark_is_that_of_the_micro_batch_before() -> None:
    stream = FakeStream(Query(Time(5), **LAST), SCHEMA)
    assert stream.batch([batch(("a", 1, 1.0), ("a", 9, 2.0), ("b", 3, 3.0))]).num_rows == 0
    # W is 7 now: 1 and 3 are final, 6 is late, 7 is not
    got = stream.batch([batch(("a", 6, 9.0), ("a", 7, 5.0))])
    assert given(got, "k", "t", "high", "n") == [("a", 1, 1.0, 1), ("b", 3, 3.0, 1)]
    assert stream.counts[-1]["late"] == 1
    assert stream.batch([batch(("c", 12, 0.0))]).num_rows == 0
    got = stream.batch([])
    assert given(got, "k", "t", "high", "n") == [("a", 7, 5.0, 1), ("a", 9, 5.0, 2)]


def test_a_batch_that_is_late_as_a_whole_is_counted_row_by_row() -> None:
    stream = FakeStream(Query(Time(5), **LAST), SCHEMA, side_output=True)
    stream.batch([batch(("a", 100, 1.0))])
    late = [(key, time, 1.0) for key in "abcde" for time in range(20)]
    got = stream.batch([batch(*late[:37]), batch(*late[37:])])
    assert stream.counts[-1]["late"] == 100
    assert got.column("_reason").to_pylist() == ["late"] * 100
    assert sorted((row["k"], row["t"], row["x"]) for row in got.column("_given").to_pylist()) == sorted(late)
    assert got.column("high").null_count == 100


def test_silent_keys_and_shards_are_done_when_the_watermark_passes() -> None:
    stream = FakeStream(Query(Session(5, every="close"), **LAST), SCHEMA, shards=4)
    keys = [f"key {i}" for i in range(20)]
    stream.batch([batch(*((key, 10 + i, 1.0) for i, key in enumerate(keys)))])
    ends = []
    for time in range(40, 44):
        got = stream.batch([batch(("only", time, 1.0))])
        ends += got.column("window_end").to_pylist()
    assert sorted(ends) == [15 + i for i in range(20)]
    assert all(len(timers.set) <= 1 for timers in stream.timers.values())
    calls = [counts["calls"] for counts in stream.counts]
    stream.batch([batch(("only", 45, 1.0))])
    assert stream.counts[-1]["calls"] <= 2 < max(calls)  # those with rows, and the first


def test_times_may_be_negative_and_none() -> None:
    stream = FakeStream(Query(Time(5), **LAST), SCHEMA, side_output=True)
    stream.batch([batch(("a", -50, 1.0), ("a", None, 2.0), ("a", -40, 3.0))])
    got = stream.batch([batch(("a", -60, 1.0))])
    assert given(got, "t", "_reason") == [(-50, None), (None, "late")]
    assert sum(counts["untimed"] for counts in stream.counts) == 1
    assert sum(counts["late"] for counts in stream.counts) == 1


def test_a_time_too_far_ahead_moves_nothing() -> None:
    schema = pa.schema({"k": pa.string(), "t": pa.timestamp("us", "UTC"), "x": pa.float64()})
    query = Query("1h", by="k", on="t", lateness="1m", ahead="1d", n=sash.count())
    stream = FakeStream(query, schema, side_output=True)
    year = 365 * 86400 * 10**6
    now = 1_700_000_000 * 10**6
    stream.batch([batch(("a", now, 1.0), ("a", now + 900 * year, 1.0), schema=schema)])
    assert stream.watermark == now // 1000 - 60_000
    assert stream.table().column("_reason").to_pylist() == ["untimed"]
    assert stream.counts[-1]["untimed"] == 1


# ---- what leaves ----


def test_late_rows_are_flagged_or_refused() -> None:
    stream = FakeStream(Query(Time(5), late="flag", **LAST), SCHEMA)
    stream.batch([batch(("a", 9, 2.0))])
    got = stream.batch([batch(("a", 1, 4.0), ("a", None, 1.0))])
    assert given(got, "t", "high", "_late") == [(1, None, True), (None, None, True)]
    strict = FakeStream(Query(Time(5), late="error", **LAST), SCHEMA)
    strict.batch([batch(("a", 9, 2.0))])
    with pytest.raises(ValueError, match=r"'t': 1.*is late, and late='error' refuses it"):
        strict.batch([batch(("a", 1, 4.0))])


@pytest.mark.parametrize("shards", [1, 4])
def test_eager_shows_each_result_and_its_revisions(shards: int) -> None:
    query = Query(Time(5), emit="eager", **LAST)
    stream = FakeStream(query, SCHEMA, shards=shards)
    keys = "abcdefg"
    parts = [
        batch(*((key, 10, 1.0) for key in keys)),
        batch(*((key, 12, 2.0) for key in keys), ("a", 9, 7.0)),  # a row before one that was emitted
        batch(*((key, 30, 3.0) for key in keys)),
    ]
    got = stream.run([[part] for part in parts])
    last: dict[int, Any] = {}
    for row in sorted(got.to_pylist(), key=lambda row: row["_revision"]):
        last[row["_row"]] = (row["k"], row["t"], row["high"], row["n"])
    expected = query_of_all(query, parts)
    assert sorted(last.values()) == sorted(expected)
    revised = [row for row in got.to_pylist() if row["_revision"]]
    assert [(row["k"], row["t"], row["high"]) for row in revised] == [("a", 10, 7.0)]


def query_of_all(query: Query, parts: list[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    whole = Query(query.windows[""], by=query.by, on=query.on, **query.aggregates).run(pa.Table.from_batches(parts))
    return given(whole, "k", "t", "high", "n")


def test_slides_emitted_eagerly_have_one_id_each() -> None:
    stream = FakeStream(Query(Time(4, every=2), emit="eager", **LAST), SCHEMA, shards=3)
    got = stream.run([[batch(("a", 10, 1.0), ("b", 11, 1.0))], [batch(("a", 9, 5.0), ("b", 40, 2.0))]])
    last = {}
    for row in sorted(got.to_pylist(), key=lambda row: row["_revision"]):
        last[row["_row"]] = (row["k"], row["window_end"], row["high"])
    assert sorted(last.values()) == [
        ("a", 10, 5.0), ("a", 12, 5.0), ("a", 14, 1.0), ("b", 12, 1.0), ("b", 14, 1.0), ("b", 42, 2.0), ("b", 44, 2.0),
    ]  # fmt: skip


def test_malformed_rows_go_to_the_side_output_and_enter_no_window() -> None:
    schema = pa.schema([*SCHEMA, pa.field("_corrupt_record", pa.string())])
    rows = [("a", 1, 1.0, None), (None, None, None, "{oops"), ("a", 900, None, '{"k": "a", "t": 900, "x": "much"}')]
    stream = FakeStream(Query(Time(5), **LAST), schema, side_output=True)
    got = stream.run([[batch(*rows, schema=schema)], [batch(("a", 20, 1.0, None), schema=schema)]])
    assert given(got, "t", "high", "_reason") == [(1, 1.0, None), (None, None, "malformed"), (None, None, "malformed")]
    records = [row["_corrupt_record"] for row in got.column("_given").to_pylist() if row]
    assert records == ["{oops", '{"k": "a", "t": 900, "x": "much"}']
    assert "_corrupt_record" not in got.schema.names
    plain = FakeStream(Query(Time(5), **LAST), schema)
    plain.batch([batch(*rows, schema=schema)])
    assert plain.counts[0]["malformed"] == 2
    assert plain.counts[0]["rows_in"] == 1


# ---- state ----


def test_another_query_or_number_of_shards_is_refused() -> None:
    first = Query(Time(5), **LAST)
    stream = FakeStream(first, SCHEMA, shards=2)
    stream.batch([batch(("a", 1, 1.0), ("b", 2, 1.0))])
    other = Query(Time(6), **LAST)
    for changed, shards in ((other, 2), (first, 3)):
        again = FakeStream(changed, SCHEMA, shards=shards)
        again.state = stream.state
        said = "another query: window 5 → 6. Go back" if shards == 2 else "2 shards.*now has 3"
        with pytest.raises(StateMismatch, match=said):
            again.batch([batch(("nobody yet", 3, 1.0))])


@pytest.mark.compiled
def test_a_shard_migrates_its_state_when_it_is_first_opened() -> None:
    old = Query(Time(5), **LAST)
    new = Query({"short": Time(3), "long": Time(5)}, **(LAST | {"low": sash.min("x")}))
    rows = [("a", 1, 1.0), ("b", 2, 4.0), ("a", 3, 7.0), ("c", 4, None), ("b", 6, 2.0), ("a", 6, 5.0), ("a", 8, 0.5)]
    rows += [("b", 9, 3.0), ("c", 9, 1.0), ("a", 30, 1.0), ("b", 30, 1.0)]
    batches = [[batch(*rows[i : i + 2])] for i in range(0, len(rows), 2)]
    before, reference = FakeStream(old, SCHEMA), FakeStream(new, SCHEMA)
    for partitions in batches[:3]:
        before.batch(partitions)
        reference.batch(partitions)
    after = FakeStream(new, SCHEMA)
    after.spec = cloudpickle.dumps(migrating(after.spec_now(), old, SCHEMA))
    after.state, after.timers = before.state, before.timers
    after.watermark, after.greatest = before.watermark, before.greatest
    for partitions in [*batches[3:], [], []]:
        got, expected = after.batch(partitions), reference.batch(partitions)
        assert given(got, *got.column_names) == given(expected, *expected.column_names)
    again = FakeStream(new, SCHEMA)  # all shards with rows are migrated: the old query is not needed any more
    again.state = after.state
    again.batch([batch(("a", 31, 1.0), ("b", 31, 1.0))])


def test_a_migration_is_refused_before_the_stream_begins() -> None:
    spec = FakeStream(Query(Time(6), **LAST), SCHEMA).spec_now()
    with pytest.raises(ValueError, match=r"window 5 → 6\): window Time\(6\) needs elements that the state does not"):
        migrating(spec, Query(Time(5), **LAST), SCHEMA)


def test_options_and_emission_are_free_to_change() -> None:
    stream = FakeStream(Query(Time(5), **LAST), SCHEMA, shards=2)
    stream.batch([batch(("a", 1, 1.0))])
    again = FakeStream(Query(Time(5), emit="changes", options=Options(prefer="latency"), **LAST), SCHEMA, shards=2)
    again.state, again.timers, again.watermark, again.greatest = stream.state, stream.timers, 1, 1
    got = again.run([[batch(("b", 90, 2.0))]])
    assert given(got, "k", "t") == [("a", 1)]


def ticking(rows: int, width: int, keys: int) -> dict[str, int]:
    """A window of so many rows, then micro-batches of 1,000: the most that one of them read and wrote."""
    schema = pa.schema({"k": pa.int64(), "t": pa.int64(), "x": pa.float64()})
    query = Query(Time(width), by="k", on="t", lateness=0, high=sash.max("x"), total=sash.sum("x"))
    stream = FakeStream(query, schema, shards=1)

    def some(start: int, count: int) -> pa.RecordBatch:
        times = np.arange(start, start + count)
        return pa.record_batch([times % keys, times, np.sin(times)], schema=schema)

    for start in range(0, rows, 100_000):
        stream.batch([some(start, min(100_000, rows - start))])
    stream.counts.clear()
    for i in range(8):
        stream.batch([some(rows + 1000 * i, 1000)])
    names = ("pages_read", "pages_written", "bytes_read", "bytes_written")
    # the first two have to do with the last of what filled the window
    return {name: max(counts[name] for counts in stream.counts[2:]) for name in names}


@pytest.mark.compiled
def test_what_a_micro_batch_reads_and_writes_follows_the_change_not_the_window() -> None:
    """Pages and bytes of a window of 300,000 rows of one key, compared with one of 10,000.

    The tail of a long log may have as many bytes as a segment before it becomes one.
    """
    small, large = ticking(20_000, 10_000, 1), ticking(320_000, 300_000, 1)
    assert large["pages_read"] <= 1.5 * small["pages_read"]
    assert large["pages_written"] <= 1.5 * small["pages_written"]
    moved = 1.5 * (small["bytes_read"] + small["bytes_written"])
    assert large["bytes_read"] + large["bytes_written"] <= moved + (1 << 17)  # a page of rows


@pytest.mark.compiled
def test_a_micro_batch_that_touches_all_of_a_thousand_keys_moves_less_than_40_mb() -> None:
    """A thousand rows of each key, then one new row of each: the micro-batch touches every page."""
    moved = ticking(1_050_000, 1_000_000, 1000)
    assert moved["bytes_read"] + moved["bytes_written"] <= 40e6


def test_a_shard_without_rows_reads_no_page_and_the_first_only_its_own() -> None:
    stream = FakeStream(Query(Time(5), **LAST), SCHEMA, shards=4)
    stream.batch([batch(*((f"k{i}", 50, 1.0) for i in range(40)))])
    stream.batch([batch(("one", 50, 1.0))])
    stream.batch([batch(("one", 51, 1.0))])
    assert stream.counts[-1]["calls"] == 2
    assert stream.counts[-1]["pages_read"] <= 3 + 3  # host, header and buffer of the one; host, header of the first


def test_a_page_is_asked_for_once_and_written_once() -> None:
    stream = FakeStream(Query(Time(50), **LAST), SCHEMA, shards=1)
    for time in range(0, 60, 10):
        state = stream.state.get(0)
        before = 0 if state is None else state.calls
        stream.batch([batch(("a", time, 1.0), ("b", time + 1, 2.0))])
    # host, header, bucket, buffer: read and written; the buffer's previous page is dropped
    assert stream.state[0].calls - before <= 9


# ---- rows that fail ----


def unlucky(x: float) -> float:
    if x == 13:
        raise ValueError("unlucky")
    return x


@pytest.mark.parametrize("side_output", [False, True])
def test_rows_that_fail_go_to_the_side_output_with_the_message(side_output: bool) -> None:
    total = sash.monoid(
        identity=0.0, lift=unlucky, combine=lambda a, b: a + b, lower=lambda a: 1 // (a - 5), returns="float64"
    )
    schema = SCHEMA.append(pa.field("note", pa.string()))
    query = Query(Time(5), by="k", on="t", lateness=0, options=Options(failed="side"), s=total("x"))
    stream = FakeStream(query, schema, side_output=side_output)
    rows = batch(("a", 1, 13.0, "p"), ("a", 2, 5.0, "q"), ("b", 3, 7.0, "r"), schema=schema)
    with pytest.warns(UserWarning, match="1 rows failed"):
        stream.batch([rows])
    with pytest.warns(UserWarning, match="1 results failed"):
        stream.batch([batch(("c", 9, 1.0, "s"), schema=schema)])
    stream.batch([])
    found = stream.table().filter(pa.compute.is_valid(stream.table()["k"]))
    assert given(found, "k", "t", "s") == [("a", 2, None), ("b", 3, 0.0)]
    assert (sum(one["failed"] for one in stream.counts), sum(one["failed_results"] for one in stream.counts)) == (1, 1)
    if side_output:
        rejected = stream.table().filter(pa.compute.is_valid(stream.table()["_reason"]))
        assert rejected.select(["_reason", "_error", "_given"]).to_pylist() == [{
            "_reason": "failed",
            "_error": "the aggregate 's' failed with ValueError: unlucky",
            "_given": {"k": "a", "t": 1, "x": 13.0, "note": "p"},
        }]  # fmt: skip
