"""A stream has the results of a batch: every window and aggregate, any split, any arrival within the lateness."""

import pytest

from sash.testing import assert_same
from tests.shared.queries import loose
from tests.spark.cases import SCHEMA, in_one_order
from tests.spark.stream.fake_spark import FakeStream
from tests.spark.stream.stream_rows import STREAMS, arriving, expected


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_gives_what_a_batch_gives(name: str) -> None:
    query = STREAMS[name]
    stream = FakeStream(query, SCHEMA, seed=len(name))
    got = stream.run(arriving(query, seed=len(name)))
    assert sum(counts["late"] for counts in stream.counts) == 0
    assert_same(in_one_order(got, query), in_one_order(expected(query), query), loose=loose(query))
