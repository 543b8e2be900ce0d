"""StreamSpec: the parameters of a query on a stream, which cloudpickle sends to the workers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from sash.plan.bound_query import BoundQuery
from sash.plan.combined_query import ALONE, combination, query_schema, tagged_batch
from sash.spark.spark_types import casts, wire_schema
from sash.spark.stream.watermark_codec import WatermarkCodec

REASON, ERROR, GIVEN = "_reason", "_error", "_given"
"""The columns of the side output: the reason, the message if an aggregate failed, and the input row."""

LOCAL_LIMIT = 1 << 30
"""The default limit of local state in files of an executor: 1 GiB."""


class PackedRow(NamedTuple):
    """What Spark shuffles to the shards: a row of `PACKED`; Spark's own rows have the same attributes."""

    shard: int
    max_ts: int | None = None
    rows: bytes | pa.Buffer | None = None
    now: float | None = None
    """The time of the clock when the rows were packed."""
    side: bytes | pa.Buffer | None = None
    """Malformed rows, for the side output."""
    malformed: int = 0
    greatest: float | None = None
    """The latest time of the partition, and the key and the shard of its row."""
    latest_key: str | None = None
    latest_shard: int | None = None


_TYPES = (
    *(pa.int32(), pa.timestamp("us", "UTC"), pa.binary(), pa.float64(), pa.binary()),
    *(pa.int64(), pa.float64(), pa.string(), pa.int32()),
)
PACKED = pa.schema([*zip(PackedRow._fields, _TYPES, strict=True)])


@dataclass(frozen=True)
class StreamSpec:
    """A query on a stream: its columns, the number of shards, and what happens to rows that enter no window."""

    bound_query: BoundQuery
    given: pa.Schema
    """The columns of the stream."""
    shards: int
    corrupt: str | None
    """The column of records that could not be parsed, null for all others."""
    side_output: bool
    """Are late, untimed, failed and malformed rows emitted to the side output?"""
    before: BoundQuery | None = None
    """The query whose state a shard migrates when it is first opened."""
    local_limit: int = LOCAL_LIMIT
    """The maximum bytes of local state in files of an executor; 0: there are no files."""

    @cached_property
    def clock(self) -> WatermarkCodec:
        assert self.bound_query.time is not None
        return WatermarkCodec(self.bound_query.time, self.bound_query.lateness or 0)

    @cached_property
    def packed(self) -> pa.Schema:
        """The columns that are sent to the shards: all of them, if there is a side output."""
        return self.given if self.side_output else self.bound_query.schema

    @cached_property
    def results(self) -> pa.Schema:
        """The results, in types that Spark reads; those of several queries are a struct for each."""
        found = {name: one.output("given") for name, one in self.members.items()}
        return wire_schema(found[ALONE] if ALONE in found else query_schema(found))

    @cached_property
    def members(self) -> dict[str, BoundQuery]:
        """The queries by name."""
        found = combination(self.bound_query.query, self.bound_query.schema).members
        return {name: view.bound_query for name, view in found.items()}

    def sent(self, name: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Results of a query, in types that Spark reads; those of one of several are tagged."""
        if name == ALONE:
            return casts(batch, self.results)
        typed = casts(batch, pa.schema(list(self.results.field(name).type)))
        return tagged_batch(self.results, name, name, typed)

    @cached_property
    def side_schema(self) -> pa.Schema:
        """A row of the side output, and the reason; with rows that failed also the message."""
        return pa.schema([*wire_schema(self.given), *self.side_fields])

    @property
    def side_fields(self) -> list[pa.Field]:
        """The columns that the side output adds to a row."""
        names = (REASON, ERROR) if self.bound_query.query.options.failed == "side" else (REASON,)
        return [pa.field(name, pa.string()) for name in names]
