"""A shard with slides of 100,000 keys gives its results in pieces: its memory does not grow with their number.

PySpark collects what a processor of rows gives; that is not counted here.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash import Query, Time
from sash.engine.result_pieces import PIECE
from sash.spark.stream.shard_task import ShardTask
from tests.spark.stream.fake_spark import FakeStream

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "x": pa.float64()})
QUERY = Query(Time(60, every=1), by="k", on="t", lateness=0, high=sash.max("x"), n=sash.count())
KEYS = 100_000


def emitted(slides: int) -> tuple[int, int, int]:
    """Bytes in memory at once while all keys slide so many times, bytes of all results, and the number of blobs."""
    stream = FakeStream(QUERY, SCHEMA, shards=1)
    stream.batch([pa.record_batch([np.arange(KEYS), np.zeros(KEYS, np.int64), np.ones(KEYS)], schema=SCHEMA)])
    shard = ShardTask(stream.spec_now(), 0, stream.state[0], stream.timers[0])
    codec = stream.spec_now().clock
    tracemalloc.start()
    arrow, most, nbytes, blobs = pa.total_allocated_bytes(), 0, 0, 0
    for output in shard.run([], codec.timer(slides), next(iter(stream.timers[0].set))):
        most = max(most, tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes() - arrow)
        tracemalloc.reset_peak()
        if output.results is not None:
            nbytes += len(output.results)
            blobs += 1
    tracemalloc.stop()
    return most, nbytes, blobs


@pytest.mark.compiled
def test_memory_does_not_grow_with_the_results() -> None:
    few, many = emitted(3), emitted(15)
    assert many[1] > 15 * KEYS * 40  # two numbers, two times and the key
    assert many[2] > 300
    assert many[0] < few[0] + PIECE * 200  # the other 1.2 million results take more than 100 MB
