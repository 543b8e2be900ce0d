"""Results of one aggregate over Count windows of many sizes, computed together in stateless execution.

inputs, in order ──▶ sizes ascending: each joined from the one before ──▶ in the order of the rows, a column a window

The columns are rows of one block of memory: huge pages, which small arrays do not get, halve the time to write to them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from sash.engine.column_inputs import Inputs, ResultColumn
from sash.kernels.column.column_kernels import ColumnKernel, CountBounds, RangeBounds, RowThreads, coded
from sash.kernels.column.shared_work import SharedWork
from sash.kernels.column.size_ladder import steps
from sash.kernels.loops.array_types import Numbers

FEWEST = 3
"""The least number of windows to compute together."""

SHARE = 8
"""The least number of windows for a thread: each thread doubles its way up to its smallest size."""


def together(
    inputs: Inputs, given: Mapping[int, CountBounds | RangeBounds], threads: RowThreads
) -> dict[int, ResultColumn]:
    """The results of the windows that can be computed together, by their numbers."""
    kernel = inputs.kernel
    if not isinstance(kernel, ColumnKernel) or kernel.joined is None or inputs.places is not None:
        return {}
    if inputs.results is not inputs.rows:  # those of a spine
        return {}
    sizes = {w: bounds.longest for w, bounds in given.items() if isinstance(bounds, CountBounds)}
    if len(sizes) < FEWEST or not len(inputs.x):
        return {}
    ladder = SizeLadder(inputs, kernel, sorted(sizes, key=lambda w: sizes[w]), sizes)
    shares = max(1, min(threads.threads, len(sizes) // SHARE))
    cuts = [len(sizes) * i // shares for i in range(shares + 1)]
    SharedWork(ladder.run, list(itertools.pairwise(cuts))).run(shares)
    return {w: inputs.in_rows_order(ladder.out[i]) for i, w in enumerate(ladder.windows)}


class SizeLadder:
    """Windows in the order of their sizes, which no window exceeds that the data fills, and their results."""

    def __init__(self, inputs: Inputs, kernel: ColumnKernel, windows: Sequence[int], sizes: Mapping[int, int]) -> None:
        self.inputs, self.kernel, self.windows = inputs, kernel, windows
        self.sizes = [sizes[w] for w in windows]
        self.out = np.empty((len(windows), inputs.rows.rows), inputs.x.dtype)

    def run(self, first: int, stop: int) -> None:
        """Compute the windows [first, stop)."""
        inputs, sizes = self.inputs, self.sizes[first:stop]
        edges, x = inputs.rows.edges, inputs.x
        spare = [np.empty_like(x), np.empty_like(x)]
        at = first
        code = coded(self.kernel.joined, (x, 1, edges, spare[0]))
        for by, size in [(0, 1), *steps(sizes)]:
            if by:
                code(x, by, edges, spare[0])
                x, spare = spare[0], [spare[1], spare[0]]
            at = self._write(x, size, at, stop)

    def _write(self, found: Numbers, size: int, at: int, stop: int) -> int:
        """Write results of a size to the columns of all windows that have it; returns the next window."""
        written = None
        while at < stop and self.sizes[at] == size:
            if written is None:
                self.inputs.rows.gather_into(found, self.out[at])
            else:
                self.out[at] = written
            written = self.out[at]
            at += 1
        return at
