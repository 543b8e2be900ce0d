"""Arrays of NumPy as columns of Arrow, in the same memory.

`pa.array` would do, but it imports pandas, where that is installed, to see whether it was given a Series: half a second
that a query on polars or Arrow need not pay.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Numbers = NDArray[Any]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def array(values: NDArray[Any], valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """Numbers, booleans or times as a column; null where they are not valid.

    >>> array(np.array([1, 2, 3]), np.array([True, False, True])).to_pylist()
    [1, None, 3]
    """
    kind = pa.from_numpy_dtype(values.dtype)
    data = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else np.ascontiguousarray(values)
    mask = None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [mask, pa.py_buffer(data)])


def integers(values: NDArray[np.int64]) -> pa.Array:
    """Integers, all valid and one after the other in memory, as a column: in half the time."""
    return pa.Array.from_buffers(_INT64, len(values), [None, pa.py_buffer(values)])


_INT64 = pa.int64()


def together(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Batches as one."""
    batches = [batch for batch in batches if batch.num_rows]
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
    columns = [pa.concat_arrays([batch.column(i) for batch in batches]) for i in range(len(schema))]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def stable_order(codes: Ints, count: int) -> Ints:
    """The order of codes below `count`, equal ones as they come, by radix: a million in 14 ms, compared in 67."""
    if count <= _DIGIT:
        return np.argsort(codes.astype(np.uint16), kind="stable")
    low = np.argsort((codes & (_DIGIT - 1)).astype(np.uint16), kind="stable")
    high = codes[low] // _DIGIT
    return low[stable_order(high, count // _DIGIT + 1)]


_DIGIT = 1 << 16
