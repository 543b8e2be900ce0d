"""Find the results of emit="eager" that a call has changed, for queries with formulas or `min_periods`.

Ranges come in pairs, those of a result after the call and before it. Results of plain queries are compared by
`EagerAggregate.compare` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sash.engine.compared_cells import ComparedCell
from sash.engine.eager_aggregate import EagerAggregate, MovedRows
from sash.engine.failed_results import FailedResults
from sash.engine.projected_results import Projector, flags
from sash.engine.value_compare import differ
from sash.kernels.loops.array_types import Flags, Ints
from sash.kernels.loops.eager_kernel import LabelRanges, RangeResults


class Answered(NamedTuple):
    """The answers of all aggregates to ranges, and the rows that a call has moved."""

    aggregates: Sequence[EagerAggregate]
    answers: Sequence[RangeResults]
    ranges: LabelRanges
    moved: MovedRows
    failures: FailedResults

    def column(self, number: int, places: Ints) -> pa.Array:
        """The results of an aggregate at some places."""
        return self.aggregates[number].column(self.answers[number], self.ranges, np.ascontiguousarray(places))

    def emitted(self, number: int, places: Ints) -> pa.Array:
        """As `column`, for results that are emitted: those that fail are counted."""
        places = np.ascontiguousarray(places)
        return self.aggregates[number].column(self.answers[number], self.ranges, places, self.failures)

    def compare(self, number: int, pairs: Ints, changed: Flags) -> None:
        """Mark the results of an aggregate that have changed."""
        aggregate = self.aggregates[number]
        aggregate.compare(self.answers[number], self.ranges, np.ascontiguousarray(pairs), changed, self.moved)


def mark_changed(
    cells: Sequence[ComparedCell],
    projector: Projector,
    found: Answered,
    pairs_of: Callable[[int], Ints],
    changed: Flags,
) -> None:
    """Mark the results that have changed; `pairs_of(window)` are the pairs of its ranges, with the result of each."""

    def side(number: int) -> Callable[[int, int], pa.Array]:
        return lambda window, aggregate: found.column(aggregate, pairs_of(window)[:, number])

    for one in cells:
        pairs = pairs_of(one.cell.window)
        if not len(pairs):
            continue
        if one.output is not None:
            new, old = (projector.output(one.output, side(number), counted=False) for number in range(2))
            changed[pairs[differ(new, old), 2]] = True
        elif one.cell.counter is None:
            found.compare(one.cell.aggregate, pairs, changed)
        elif one.exact:
            new, old = (projector.cell(one.cell, side(number)) for number in range(2))
            changed[pairs[differ(new, old), 2]] = True
        else:
            after, before = (projector.enough(one.cell, side(number)) for number in range(2))
            now, then = flags(after), flags(before)
            changed[pairs[now != then, 2]] = True
            found.compare(one.cell.aggregate, pairs[now & then], changed)
