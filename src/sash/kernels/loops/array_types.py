"""Array types that kernels and the engine share, empty arrays, and longer ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Numbers = NDArray[Any]
"""Times or other coordinates: 64-bit integers or floats."""

States = tuple[NDArray[Any], ...]
"""States as columns: an array for each scalar; for an interpreted aggregate one array of objects."""

NO_INTS: Ints = np.zeros(0, np.int64)
NO_FLAGS: Flags = np.zeros(0, np.bool_)
"""Empty flags, which kernels read as all true."""


def enlarged(new: Numbers, old: Numbers) -> Numbers:
    """The new array with the old values at its start; the old one if it is long enough."""
    if len(old) >= len(new):
        return old
    new[: len(old)] = old
    return new


def longer(values: Numbers, length: int) -> Numbers:
    """The values in an array of at least this length, padded with zeros."""
    return enlarged(np.zeros((length, *values.shape[1:]), values.dtype), values)
