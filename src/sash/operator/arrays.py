"""Arrays of NumPy as columns of Arrow, in the same memory.

`pa.array` would do, but it imports pandas, where that is installed, to see whether it was given a Series: half a second
that a query on polars or Arrow need not pay.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def array(values: NDArray[Any], valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """Numbers, booleans or times as a column; null where they are not valid.

    >>> array(np.array([1, 2, 3]), np.array([True, False, True])).to_pylist()
    [1, None, 3]
    """
    kind = pa.from_numpy_dtype(values.dtype)
    data = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else np.ascontiguousarray(values)
    mask = None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [mask, pa.py_buffer(data)])
