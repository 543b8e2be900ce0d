"""The side output of a pipeline: rows that enter no window, with the reason.

columns of the source │ _reason    _error   _where   _given
the row               │ late                                   below the watermark
the row               │ untimed                                its time is null, NaN, infinite, or too far ahead
the row               │ failed     why                         an aggregate failed on it, with Options(failed="side")
nulls                 │ malformed  why      file, …  bytes     it could not be decoded
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sash.engine import Uncommitted
from sash.engine.arrow_arrays import together
from sash.engine.failed_rows import ERROR
from sash.pipeline.source import MalformedRecord
from sash.plan.bound_query import BoundQuery

ADDED = {"_reason": pa.string(), "_error": pa.string(), "_where": pa.string(), "_given": pa.binary()}


def side_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of the side output of a source. Raises ValueError if the source has one of the added names."""
    for name in ADDED:
        if name in schema.names:
            raise ValueError(f"the side output adds a column {name!r}, and the source has one already: rename it")
    return pa.schema([*(field.with_nullable(True) for field in schema), *(pa.field(*item) for item in ADDED.items())])


def side_rows(
    bound_query: BoundQuery, schema: pa.Schema, step: Uncommitted, malformed: Sequence[MalformedRecord]
) -> pa.RecordBatch:
    """The rows of a step that enter no window, of this `side_schema`."""
    late, failed, count = step.late_rows, step.failed_rows, step.late_rows.num_rows
    reasons, errors = _reasons(bound_query, late, step.watermark), [None] * count
    if failed is not None and failed.num_rows:
        reasons += ["failed"] * failed.num_rows
        errors += failed.column(ERROR).to_pylist()
        late = together([late, failed.drop_columns([ERROR])], late.schema)
        count = late.num_rows
    columns: dict[str, Any] = {
        "_reason": [*reasons, *["malformed"] * len(malformed)],
        "_error": [*errors, *(record.reason for record in malformed)],
        "_where": [*[None] * count, *(record.where for record in malformed)],
        "_given": [*[None] * count, *(record.given for record in malformed)],
    }
    nulls = [pa.nulls(len(malformed), field.type) for field in late.schema]
    rows = [pa.concat_arrays([column, empty]) for column, empty in zip(late.columns, nulls, strict=True)]
    more = [pa.array(columns[name], dtype) for name, dtype in ADDED.items()]
    return pa.RecordBatch.from_arrays([*rows, *more], schema=schema)


def _reasons(bound_query: BoundQuery, late: pa.RecordBatch, watermark: Any) -> list[str]:
    if not late.num_rows or bound_query.time is None:
        return []
    numbers, valid = bound_query.time.numbers(late.column(bound_query.time.column))
    if watermark is None:
        return ["untimed"] * late.num_rows
    late_times = valid & (numbers < watermark)  # a row too far ahead has a time at or above the watermark
    return ["late" if is_late else "untimed" for is_late in late_times.tolist()]
