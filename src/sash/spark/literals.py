"""Literals: values of Arrow's as expressions of Spark's, to the last digit and in no time zone but their own."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DateType, TimestampNTZType, TimestampType


def literal(value: pa.Scalar, kind: DataType) -> Any:
    """A value as an expression of a type of Spark's.

    Times go by their numbers: as objects of Python they would be read in the zone of the session, and years that
    Python does not have could not be said.
    """
    if not value.is_valid:
        return sf.lit(None).cast(kind)
    if isinstance(kind, TimestampType | TimestampNTZType):
        micros = value.cast(pa.timestamp("us", value.type.tz)).value
        if isinstance(kind, TimestampType):
            return sf.timestamp_micros(sf.lit(micros))
        sign, seconds = ("-" if micros < 0 else ""), f"{abs(micros) // 10**6}.{abs(micros) % 10**6:06}"
        return sf.expr(f"timestamp_ntz'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, {sign}{seconds})")
    if isinstance(kind, DateType):
        return sf.date_from_unix_date(sf.lit(value.cast(pa.int32()).as_py()).cast("int"))
    return sf.lit(value.as_py()).cast(kind)
