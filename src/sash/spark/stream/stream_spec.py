"""Spec: what workers must know of a query on a stream. It travels to them by cloudpickle, with the query."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from sash.plan.bound_query import BoundQuery
from sash.spark.spark_types import wire_schema
from sash.spark.stream.watermark_codec import WatermarkCodec

REASON, GIVEN = "_reason", "_given"
"""The columns of a row that was put aside: why, and the row as it came."""


@dataclass(frozen=True)
class StreamSpec:
    """A query on a stream: its columns, how many shards there are, and what becomes of rows that cannot be used."""

    bound_query: BoundQuery
    given: pa.Schema
    """The columns of the stream."""
    shards: int
    corrupt: str | None
    """The column that a record is in which could not be read, null for all others."""
    aside: bool
    """Do late, untimed and malformed rows leave, beside the results?"""

    @cached_property
    def clock(self) -> WatermarkCodec:
        assert self.bound_query.time is not None
        return WatermarkCodec(self.bound_query.time, self.bound_query.lateness)

    @cached_property
    def packed(self) -> pa.Schema:
        """The columns that go to the shards: all, where a row may leave as it came."""
        return self.given if self.aside else self.bound_query.schema

    @cached_property
    def results(self) -> pa.Schema:
        """The results, in types that Spark reads."""
        return wire_schema(self.bound_query.output("given"))

    @cached_property
    def put_aside(self) -> pa.Schema:
        """A row put aside, and why."""
        return wire_schema(self.given).append(pa.field(REASON, pa.string()))
