"""Group the rows of a batch by their destination in the shuffle, in slices of the size of a blob."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array, stable_order
from sash.kernels.loops.array_types import Ints
from sash.spark.arrow_ipc import blob_slices


def grouped(batch: pa.RecordBatch, numbers: Ints, count: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each number below `count`, in the order in which they came.

    >>> batch = pa.record_batch({"x": [1, 2, 3]})
    >>> [(number, rows.to_pydict()) for number, rows in grouped(batch, np.array([2, 0, 2]), 3)]
    [(0, {'x': [2]}), (2, {'x': [1, 3]})]
    """
    if (numbers[1:] < numbers[:-1]).any():
        order = stable_order(numbers, count)
        batch, numbers = batch.take(array(order)), numbers[order]
    edges = np.searchsorted(numbers, np.arange(count + 1)).tolist()
    for number in range(count):
        for rows in blob_slices(batch.slice(edges[number], edges[number + 1] - edges[number])):
            yield number, rows
