"""A shard with slides of 100,000 keys gives its results in pieces: its memory does not grow with their number."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash import Query, Time
from sash.engine.result_pieces import PIECE
from sash.spark.stream.shard_task import BYTES, ShardProcessor
from tests.spark.stream.fake_spark import FakeStream

pytestmark = pytest.mark.compiled  # 100,000 keys

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "x": pa.float64()})
QUERY = Query(Time(60, every=1), by="k", on="t", lateness=0, high=sash.max("x"), n=sash.count())
KEYS = 100_000


def emitted(slides: int) -> tuple[int, int, int]:
    """Bytes in memory at once while all keys slide so many times, bytes of all results, and the number of blobs."""
    stream = FakeStream(QUERY, SCHEMA, shards=1)
    stream.batch([pa.record_batch([np.arange(KEYS), np.zeros(KEYS, np.int64), np.ones(KEYS)], schema=SCHEMA)])
    processor = ShardProcessor(stream.spec_now())
    processor.open(stream.timers[0], stream.state[0])
    now, fired = stream.spec_now().clock.timer(slides), next(iter(stream.timers[0].set))
    tracemalloc.start()
    arrow, most, nbytes, blobs = pa.total_allocated_bytes(), 0, 0, 0
    for frame in processor.handle_timer((0,), Moment(now), Moment(fired)):
        most = max(most, tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes() - arrow)
        tracemalloc.reset_peak()
        found = list(frame["results"].dropna())
        nbytes, blobs = nbytes + sum(map(len, found)), blobs + len(found)
        del frame, found
    tracemalloc.stop()
    return most, nbytes, blobs


@dataclass
class Moment:
    """The values that Spark gives for the watermark, or for a timer."""

    milliseconds: int

    def getCurrentWatermarkInMs(self) -> int:  # noqa: N802
        return self.milliseconds

    def getExpiryTimeInMs(self) -> int:  # noqa: N802
        return self.milliseconds


def test_memory_does_not_grow_with_the_results() -> None:
    few, many = emitted(3), emitted(15)
    assert many[1] > 15 * KEYS * 40  # two numbers, two times and the key
    assert many[2] > 300
    # a piece on its way, and a DataFrame that is taken while the next one is made
    assert many[0] < few[0] + PIECE * 200 + 2 * BYTES < few[0] + many[1]
