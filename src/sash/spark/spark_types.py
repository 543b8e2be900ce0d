"""Convert types of DataFrame columns to Arrow, and types of results to Spark.

    Arrow, as a query gives it            Spark
    bool, int8 … int64, float32/64        boolean, tinyint … bigint, float, double
    uint8, uint16, uint32                 the next wider integer, because Spark has no unsigned integers
    uint64                                decimal(20, 0)
    float16                               float
    string, large, view                   string            binary likewise
    date32, date64                        date
    timestamp with a zone                 timestamp         in microseconds
    timestamp without                     timestamp_ntz
    duration, time                        interval day to second, time
    decimal up to 38 digits               decimal
    list, large or fixed                  array             collect, approx_quantile of several, count_min
    struct                                struct            m4, longest_run, products; frequent_items: array of them
    dictionary                            the type of its values

Every column of results may be null. A type that Spark lacks is an error that names the column.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.types as is_
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import StructField, StructType

ZONE = "UTC"
"""The time zone of timestamps between Spark and Python; an instant is the same in every zone."""

# Before Spark 4.2 the zone cannot be set, and is UTC.
_IN_UTC: dict[str, Any] = {"timezone": ZONE} if "timezone" in inspect.signature(to_arrow_type).parameters else {}


def arrow_schema(schema: StructType) -> pa.Schema:
    """The columns of a DataFrame as a worker gets them, with timestamps in UTC.

    >>> from pyspark.sql.types import ArrayType, IntegerType, StructType, TimestampType
    >>> arrow_schema(StructType().add("ts", TimestampType()).add("x", ArrayType(IntegerType()))).types
    [TimestampType(timestamp[us, tz=UTC]), ListType(list<element: int32>)]

    Raises TypeError, naming the column, if Spark cannot send it to Python.
    """
    fields = []
    for field in schema.fields:
        try:
            kind = to_arrow_type(field.dataType, **_IN_UTC)
        except PySparkException:
            raise TypeError(
                f"the column {field.name!r} of type {field.dataType.simpleString()} cannot be converted to Arrow: "
                "cast it, or drop it before the query"
            ) from None
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of results, known before any job runs.

    >>> import pyarrow as pa
    >>> spark_schema(pa.schema({"n": pa.int64(), "all": pa.list_(pa.float64())})).simpleString()
    'struct<n:bigint,all:array<double>>'

    Raises TypeError, naming the column, if Spark has no such type.
    """
    fields = []
    for field in schema:
        try:
            # True: without a zone it is timestamp_ntz, which is the default only since Spark 4.2
            fields.append(StructField(field.name, from_arrow_type(wire(field.type), True), nullable=True))
        except (PySparkException, TypeError, ValueError):
            raise TypeError(
                f"the result {field.name!r} is of type {field.type}, which Spark does not have: set another "
                "type with returns="
            ) from None
    return StructType(fields)


def wire(kind: pa.DataType) -> pa.DataType:
    """The Arrow type in which Spark reads values of a type."""
    if is_.is_dictionary(kind):
        return wire(kind.value_type)
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", wire(kind.value_type)))
    if is_.is_struct(kind):
        return pa.struct([field.with_type(wire(field.type)).with_nullable(True) for field in kind])
    if is_.is_map(kind):
        return pa.map_(wire(kind.key_type), wire(kind.item_type))
    return _flat(kind)


def wire_schema(fields: Iterable[pa.Field]) -> pa.Schema:
    """A schema in types that Spark reads."""
    return pa.schema([field.with_type(wire(field.type)) for field in fields])


_NARROW = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.float16(): pa.float32()}


def _flat(kind: pa.DataType) -> pa.DataType:
    if kind in _NARROW:
        return _NARROW[kind]
    if is_.is_uint64(kind):
        return pa.decimal128(20, 0)
    if is_.is_large_string(kind) or is_.is_string_view(kind):
        return pa.string()
    if is_.is_large_binary(kind) or is_.is_binary_view(kind) or is_.is_fixed_size_binary(kind):
        return pa.binary()
    if is_.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else ZONE)
    if is_.is_duration(kind):
        return pa.duration("us")
    if is_.is_time(kind):
        return pa.time64("ns")
    if is_.is_date64(kind):
        return pa.date32()
    if is_.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale)  # a ValueError beyond 38 digits
    return kind


def casts(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch to another schema with the same names. Free for columns that have their type already.

    Raises ValueError, naming the column, if a value does not fit.
    """
    if batch.schema.equals(schema):
        return batch
    columns = [_cast(column, field) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: Any, field: pa.Field) -> Any:
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"the column {field.name!r} of type {column.type} does not fit {field.type}: {error}"
        ) from None


def collected(data: Any) -> pa.Table:
    """Collect a DataFrame as an Arrow table; Spark 3.5 has no public method for it."""
    if hasattr(data, "toArrow"):
        return data.toArrow()
    return pa.Table.from_batches(data._collect_as_arrow(), arrow_schema(data.schema))


def bytes_of(kind: pa.DataType) -> int | None:
    """The size of a value in bytes; None for types of variable size.

    >>> bytes_of(pa.int64()), bytes_of(pa.bool_()), bytes_of(pa.string())
    (8, 1, None)
    """
    try:
        return -(-int(kind.bit_width) // 8)
    except ValueError:
        return None
