"""A fake Spark: micro-batches, a watermark, a late filter, state and timers by Spark's rules, in plain code.

It runs what workers run (pack, shard, unpack), and is as unkind as Spark: a new object for each call, from pickle,
no order among the rows of a group, a timer lost that is set where one has just fired.
"""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from sash import Query
from sash.spark.stream.pack_shards import PackShards
from sash.spark.stream.plan_stream import output_schema, spec_of
from sash.spark.stream.shard_progress import FLOWS, LEVELS, TIMES
from sash.spark.stream.shard_task import ShardTask
from sash.spark.stream.stream_spec import PackedRow, StreamSpec
from sash.spark.worker_io import UnpackShards, blob_column


class MapState:
    """State of one shard. `calls` counts round trips."""

    def __init__(self) -> None:
        self.pages: dict[Any, Any] = {}
        self.calls = 0

    def getValue(self, key: Any) -> Any:  # noqa: N802
        self.calls += 1
        return self.pages.get(key)

    def containsKey(self, key: Any) -> bool:  # noqa: N802
        self.calls += 1
        return key in self.pages

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        self.calls += 1
        self.pages[key] = (bytearray(value[0]),)

    def removeKey(self, key: Any) -> None:  # noqa: N802
        self.calls += 1
        self.pages.pop(key, None)


class Timers:
    def __init__(self) -> None:
        self.set: set[int] = set()

    def registerTimer(self, at: int) -> None:  # noqa: N802
        self.set.add(at)

    def deleteTimer(self, at: int) -> None:  # noqa: N802
        self.set.remove(at)  # one that is not set: Spark ignores it, but sash must not do it


class FakeStream:
    """A running query: give it micro-batches, each a list of partitions."""

    def __init__(
        self, query: Query, schema: pa.Schema, *, shards: int = 3, side_output: bool = False, seed: int = 0
    ) -> None:
        self.query, self.draw = query, random.Random(seed)
        corrupt = "_corrupt_record" if "_corrupt_record" in schema.names else None
        spec = spec_of(query, schema, shards, corrupt, side_output)
        self.spec = cloudpickle.dumps(spec)
        self.unpack = UnpackShards(output_schema(spec), len(spec.results))
        self.delay = int(spec.clock.delay.split()[0])
        self.watermark = self.greatest = 0
        self.state: dict[int, MapState] = {}
        self.timers: dict[int, Timers] = {}
        self.counts: list[dict[str, Any]] = []
        self.results: list[pa.RecordBatch] = []
        self.schema = output_schema(spec)

    def table(self) -> pa.Table:
        """All results so far."""
        return pa.Table.from_batches(self.results, self.schema)

    def run(self, batches: list[list[pa.RecordBatch]]) -> pa.Table:
        """Micro-batches, and at the end one without data if the watermark has moved; all results so far."""
        for partitions in batches:
            self.batch(partitions)
        self.batch([])
        return self.table()

    def batch(self, partitions: list[pa.RecordBatch]) -> pa.Table:
        """One micro-batch; its results."""
        before = len(self.results)
        groups: dict[int, list[PackedRow]] = {}
        watermark, greatest = self.watermark, self.greatest
        for rows in partitions:
            for packed in PackShards(self.spec_now())([rows]):
                times = packed.column("max_ts").cast(pa.int64()).to_pylist()  # beyond Python's years, some of them
                for time, row in zip(times, packed.drop_columns("max_ts").to_pylist(), strict=True):
                    if time is not None:
                        greatest = max(greatest, time // 1000)
                        continue
                    groups.setdefault(row["shard"], []).append(PackedRow(**row))
        counts: dict[str, Any] = dict.fromkeys((*FLOWS, *TIMES, *LEVELS), 0) | {"calls": 0}
        for label in sorted(groups, key=lambda _: self.draw.random()):
            self.draw.shuffle(groups[label])
            self._call(label, groups[label], watermark, None, counts)
        for label, timers in self.timers.items():
            for at in sorted(timers.set):
                if at <= watermark:
                    self._call(label, [], watermark, at, counts)
                    timers.set.discard(at)
        self.greatest = greatest
        self.watermark = max(watermark, greatest - self.delay)
        self.counts.append(counts)
        return pa.Table.from_batches(self.results[before:], self.schema)

    def _call(
        self, label: int, packed: list[PackedRow], watermark: int, fired: int | None, counts: dict[str, Any]
    ) -> None:
        state = self.state.setdefault(label, MapState())
        timers = self.timers.setdefault(label, Timers())
        counts["calls"] += 1
        shard = ShardTask(self.spec_now(), label, state, timers)
        for output in shard.run(packed, watermark, fired):
            batch = pa.record_batch({"results": blob_column([output.results]), "side": blob_column([output.side])})
            self.results += self.unpack([batch])
            if output.progress is not None:
                for name in (*FLOWS, *TIMES, *LEVELS):
                    number = getattr(output.progress, name)
                    counts[name] = max(counts[name], number or 0) if name in TIMES else counts[name] + (number or 0)

    def spec_now(self) -> StreamSpec:
        """The specification as a worker receives it."""
        spec: StreamSpec = cloudpickle.loads(self.spec)
        return spec
