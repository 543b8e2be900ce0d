"""Compare result columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.kernels.loops.array_types import Flags


def differ(one: pa.Array, other: pa.Array) -> Flags:
    """Where two columns of one type differ; null equals null, NaN equals NaN."""
    valid, others = (column.is_valid().to_numpy(zero_copy_only=False) for column in (one, other))
    if pa.types.is_null(one.type):
        return np.zeros(len(one), np.bool_)
    if pa.types.is_nested(one.type):
        pairs = zip(*(column.cast(_timeless(column.type)).to_pylist() for column in (one, other)), strict=True)
        return np.array([_like(a) != _like(b) for a, b in pairs], np.bool_)
    if pa.types.is_floating(one.type):
        a, b = (column.fill_null(0.0).to_numpy(zero_copy_only=False) for column in (one, other))
        return (valid != others) | ((a != b) & ~(np.isnan(a) & np.isnan(b)))
    same = pc.fill_null(pc.equal(one, other), False).to_numpy(zero_copy_only=False)
    return np.where(valid & others, ~same, valid != others)


def _timeless(kind: pa.DataType) -> pa.DataType:
    """A nested type with integers in place of times: Python's times have no nanoseconds."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_timeless(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _timeless(field.type)) for field in kind])
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return kind


def _like(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, dict):
        return tuple((name, _like(part)) for name, part in value.items())
    return tuple(map(_like, value)) if isinstance(value, list) else value
