"""StreamSpec: the parameters of a query on a stream, which cloudpickle sends to the workers; and WatermarkCodec.

The codec converts times of a query to those of Spark's watermark, and back:

    time column      Spark's watermark, milliseconds since 1970         the operator's watermark
    timestamp, date  the instant itself, less lateness                  the same, in units of the column
    integer          2^52 + the number less lateness, if it is small    the number
    float            the upper 53 bits of the number less lateness      the number, rounded down

Spark's watermark is a timestamp in milliseconds that begins at 0 and never decreases, so 0 means "none yet". Numbers
are encoded in order, never as 0. Integers beyond 2^51, and floats, are rounded down by less than one part in 2^39: a
result is emitted that much later, and no row is late that should not be.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from sash.plan.bound_query import BoundQuery
from sash.plan.queries import ALONE, combination, query_schema, tagged_batch
from sash.plan.time_axis import Number, TimeAxis
from sash.spark.spark_types import casts, wire_schema

# --- Watermark codec ---


MILLI = 10**6
"""Nanoseconds in a millisecond."""

_MIDDLE = 1 << 52
_PLAIN = 1 << 51
_COARSE = 12
_INT64 = (1 << 63) - 1
_BITS = 11


@dataclass(frozen=True)
class WatermarkCodec:
    """Converts the event time of a query. `lateness` is in units of the axis.

    >>> import pyarrow as pa
    >>> codec = WatermarkCodec(TimeAxis.of("ts", pa.timestamp("us")), 1_500_000)
    >>> codec.delay, codec.ticks(10_000_999), codec.watermark(8_500), codec.timer(8_500_001)
    ('1500 milliseconds', 10000000, 8500000, 8501)
    """

    axis: TimeAxis
    lateness: Number

    @property
    def delay(self) -> str:
        """The delay that Spark subtracts from the latest time."""
        milliseconds = -(-self.lateness * self.axis.unit // MILLI) if self.axis.timed else 0
        return f"{milliseconds} milliseconds"

    def ticks(self, greatest: Number) -> int:
        """The latest time so far, as microseconds of a Spark timestamp."""
        if self.axis.timed:
            return int(greatest * self.axis.unit // MILLI * 1000)
        code = _of_int if self.axis.kind == "int" else _of_float
        return code(greatest - self.lateness) * 1000

    def watermark(self, milliseconds: int) -> Number | None:
        """Spark's watermark in units of the axis, rounded down; None if there is none yet."""
        if milliseconds <= 0:
            return None
        if self.axis.timed:
            return milliseconds * MILLI // self.axis.unit
        return _to_int(milliseconds) if self.axis.kind == "int" else _to_float(milliseconds)

    def timer(self, due: Number) -> int:
        """The smallest Spark watermark at which the operator's watermark has reached `due`."""
        if self.axis.timed:
            return max(1, -int(-due * self.axis.unit // MILLI))
        code, back = (_of_int, _to_int) if self.axis.kind == "int" else (_of_float, _to_float)
        found: int = code(due)
        return found if back(found) >= due else found + 1


def _of_int(number: Number) -> int:
    """A 64-bit integer as a 53-bit one, in order: small ones unchanged, others without their last 12 bits."""
    number = max(min(int(number), _INT64), -_INT64 - 1)
    if number >= _PLAIN:
        number = _PLAIN + ((number - _PLAIN) >> _COARSE)
    elif number < -_PLAIN:
        number = -_PLAIN + ((number + _PLAIN) >> _COARSE)
    return max(1, _MIDDLE + number)


def _to_int(code: int) -> int:
    number = code - _MIDDLE
    if number >= _PLAIN:
        return min(_PLAIN + ((number - _PLAIN) << _COARSE), _INT64)
    if number < -_PLAIN:
        return max(-_PLAIN + ((number + _PLAIN) << _COARSE), -_INT64 - 1)
    return number


def _of_float(number: Number) -> int:
    """The bits of a float as an integer in the same order, without the lowest 11."""
    bits = int.from_bytes(struct.pack("<d", float(number) + 0.0), "little", signed=True)
    ordered = bits if bits >= 0 else -_INT64 - 1 - bits
    return max(1, (ordered >> _BITS) + _MIDDLE)


def _to_float(code: int) -> float:
    ordered = (code - _MIDDLE) << _BITS
    bits = ordered if ordered >= 0 else -_INT64 - 1 - ordered
    (number,) = struct.unpack("<d", struct.pack("<q", bits))
    # codes beyond the largest float belong to timers that never fire
    return math.inf if number != number else float(number)


# --- Stream spec ---


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
