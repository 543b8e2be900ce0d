"""Random queries on random streams: each micro-batch is compared with the reference on all rows so far.

The reference gets each watermark at once, for all keys; a shard gets it with its rows or by its timer. That both
give the same results in the same micro-batch shows that no timer is missing, and none is late.
"""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash import Query
from sash.spark.spark_types import casts
from sash.testing import Reference, assert_same
from tests.shared.queries import SCALES, loose, queries, rewritten
from tests.shared.streams import Case, calls
from tests.spark.stream.fake_spark import FakeStream


@st.composite
def streams(draw: st.DrawFn) -> Case:
    scale = draw(st.sampled_from(SCALES))
    query = draw(queries(scale, ("final", "changes"), ("drop", "flag")))
    if query.lateness is None:
        query = rewritten(query, lateness=scale.length(draw(st.integers(0, 5))))
    case: Case = draw(calls(query, scale, "given"))
    return case


@pytest.mark.usefixtures("kernels")
@given(streams(), st.integers(1, 4))
def test_a_stream_gives_what_the_reference_gives(case: Case, shards: int) -> None:
    stream = FakeStream(case.query, case.schema, shards=shards)
    schema = stream.spec_now().bound_query.schema
    names, reference = schema.names, Reference(case.query, schema, mode="given")
    batches = [step.argument for step in case.steps if step.call == "process" and step.argument.num_rows]
    for rows in [*batches, None]:
        watermark = stream.spec_now().clock.watermark(stream.watermark)
        got = stream.batch([] if rows is None else [rows])
        expected = [] if watermark is None else [reference.advance(watermark)]
        if rows is not None:
            expected.append(reference.process(rows.select(names)))
        if expected:
            whole = pa.Table.from_batches([casts(batch, stream.schema) for batch in expected])
            assert_same(got, whole, ordered=False, loose=loose(case.query))
    assert sum(counts["late"] for counts in stream.counts) == reference.late
    assert sum(counts["untimed"] for counts in stream.counts) == reference.untimed


@pytest.mark.all_compiled
def test_trips_stream_as_they_are() -> None:
    """The trips of a year, by their end, as they were reported; measured at their start, as far behind as they come."""
    from benchmarks.trips import trips

    _, starts, durations, stations = trips()
    schema = pa.schema({"ts": pa.timestamp("s"), "station": pa.string(), "seconds": pa.int64(), "row": pa.int64()})
    columns: list[Any] = [pa.array(starts).cast(pa.timestamp("s")), list(map(str, stations)), durations]
    table = pa.table([*columns, range(len(starts))], schema=schema)
    window = {"day": sash.Time("24h"), "100": sash.Count(100), "pause": sash.Session("2h")}
    numbers = {"longest": sash.max("seconds"), "total": sash.sum("seconds"), "n": sash.count()}
    query = Query(window, by="station", on=["ts", "row"], lateness="3h", **numbers)
    stream = FakeStream(query, schema, side_output=True)
    for start in range(0, table.num_rows, 5000):
        stream.batch(table.slice(start, 5000).combine_chunks().to_batches())
    stream.batch([])
    got = stream.table()
    late = [
        row["row"] for row, reason in zip(got["_given"].to_pylist(), got["_reason"].to_pylist(), strict=True) if reason
    ]
    final = pa.compute.invert(pa.compute.is_in(table["row"], pa.array(late, pa.int64())))
    whole = query.run(table.filter(final))
    young = pa.compute.less(whole["ts"].cast(pa.int64()), stream.watermark // 1000)
    results = got.filter(pa.compute.is_null(got["_reason"])).drop_columns(["_reason", "_given"])
    assert_same(results.sort_by("row"), whole.filter(young).sort_by("row"))
