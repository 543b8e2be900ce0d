"""Results of one aggregate over windows of many sizes, computed together in stateless execution.

inputs, in order ─┬▶ min, max of Count windows: sizes ascending, each joined from the one before ─┬▶ in the order of the
                  └▶ sums and means of floats: differences of prefix sums ────────────────────────┘  rows, a column each

The columns are rows of one block of memory: huge pages, which small arrays do not get, halve the time to write to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sash.columns.arrow_arrays import stacked
from sash.columns.column_inputs import Inputs, ResultColumn
from sash.kernels.column.column_kernels import ColumnKernel, CountBounds, RangeBounds, RowThreads, coded
from sash.kernels.column.exact_sum import PIECE
from sash.kernels.column.min_max import steps
from sash.kernels.loops.array_types import NO_INTS, Numbers

FEWEST = 3
"""The least number of windows to compute together."""

SHARE = 8
"""The least number of windows for a thread: each thread starts from size 1 or from its own prefix sums."""

LONGEST = 1 << 20
"""The longest window in rows for prefix sums: a thread needs some 50 bytes for each."""

Bounds = CountBounds | RangeBounds


def together(inputs: Inputs, given: Mapping[int, Bounds], threads: RowThreads) -> dict[int, ResultColumn]:
    """The results of the windows that can be computed together, by their numbers."""
    kernel = inputs.kernel
    if not isinstance(kernel, ColumnKernel) or inputs.places is not None or not len(inputs.x):
        return {}
    if inputs.results is not inputs.rows:  # those of a spine
        return {}
    counted = [w for w, one in given.items() if isinstance(one, CountBounds)]
    if kernel.joined is not None and len(counted) >= FEWEST:
        sizes = {w: given[w].longest for w in counted}
        ladder = SizeLadder(inputs, kernel, sorted(counted, key=lambda w: sizes[w]), sizes)
        threads.run(ladder.run, len(counted), SHARE)
        return {w: inputs.in_rows_order(ladder.out[i]) for i, w in enumerate(ladder.windows)}
    found: dict[int, ResultColumn] = {}
    if kernel.of_sizes is not None:
        for windows in _alike({w: one for w, one in given.items() if one.longest <= LONGEST}):
            if len(windows) >= FEWEST:
                sums = PrefixSums(inputs, kernel, [given[w] for w in windows])
                threads.run(sums.run, len(sums.distinct), SHARE)
                sums.finish()
                certain = [i for i in range(len(windows)) if not sums.uncertain[i]]
                found |= {windows[i]: inputs.in_rows_order(sums.out[i]) for i in certain}
    return found


def _alike(given: Mapping[int, Bounds]) -> list[list[int]]:
    """The windows in groups: Count windows, and ranges that have one array of ends."""
    groups: dict[int | None, list[int]] = {}
    for w, one in given.items():
        groups.setdefault(None if isinstance(one, CountBounds) else id(one.his), []).append(w)
    return list(groups.values())


class SizeLadder:
    """Windows in the order of their sizes, limited to the longest key, and their results."""

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


class PrefixSums:
    """Windows whose sums are differences of prefix sums, and their results."""

    def __init__(self, inputs: Inputs, kernel: ColumnKernel, bounds: Sequence[Bounds]) -> None:
        assert kernel.of_sizes is not None
        self.inputs = inputs
        self.kernel = kernel.of_sizes[isinstance(bounds[0], RangeBounds)]
        first: dict[int, int] = {}
        """Count windows that no key exceeds are equal."""
        self.same = [
            i if isinstance(one, RangeBounds) else first.setdefault(one.longest, i) for i, one in enumerate(bounds)
        ]
        self.distinct = [i for i, same in enumerate(self.same) if i == same]
        self.bounds = [bounds[i] for i in self.distinct]
        self.longest = max(one.longest for one in bounds)
        self.lows = self._lows(max(PIECE, self.longest))
        self.out = np.empty((len(bounds), inputs.rows.rows))
        self.uncertain = np.zeros(len(bounds), np.bool_)
        """By window: whether it has results that must be computed otherwise."""

    def _lows(self, piece: int) -> Numbers:
        """For ranges: the first row of any window at the first row of each piece."""
        starts = [one.los[::piece] for one in self.bounds if isinstance(one, RangeBounds)]
        return np.minimum.reduce(starts).astype(np.int64) if starts else NO_INTS

    def run(self, first: int, stop: int) -> None:
        """Compute the distinct windows [first, stop), SHARE at once."""
        rows = self.inputs.rows
        scratch_results = np.empty((SHARE, len(rows)))
        for at in range(first, stop, SHARE):
            windows = self.distinct[at : min(at + SHARE, stop)]
            found = scratch_results[: len(windows)]
            uncertain = self._compute(self.bounds[at : at + len(windows)], found)
            self.uncertain[windows] = uncertain > 0
            if uncertain.all():  # then the others are uncertain, too: values are not finite, or differ too much
                self.uncertain[self.distinct[at:stop]] = True
                return
            for w, column in zip(windows, found, strict=True):
                rows.gather_into(column, self.out[w])

    def finish(self) -> None:
        """Copy the results of equal windows: each has a column of its own."""
        for i, same in enumerate(self.same):
            if i != same:
                self.out[i], self.uncertain[i] = self.out[same], self.uncertain[same]

    def _compute(self, some: Sequence[Bounds], found: Numbers) -> Numbers:
        """The results of windows in the order of keys; returns how many pieces of each are uncertain."""
        uncertain = np.zeros(len(some), np.int64)
        scratch = np.empty((4, max(PIECE, self.longest) + 2 * self.longest + 2))
        given: tuple[object, ...]
        if isinstance(some[0], RangeBounds):
            given = stacked([one.los for one in some if isinstance(one, RangeBounds)]), some[0].his, self.lows
        else:
            given = np.array([one.longest for one in some]), some[0].edges
        arguments = (self.inputs.x, *given, self.longest, found, uncertain, scratch)
        coded(self.kernel, arguments)(*arguments)
        return uncertain
