"""A lift kernel: the `lift` of one aggregate on rows, to find the rows on which it fails."""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.aggregators.running import Running
from sash.kernels.jit.compile import machine_code
from sash.kernels.loops.array_types import NO_FLAGS, Flags
from sash.kernels.loops.columnar import AggregateError, Columnar
from sash.kernels.loops.live_kernel import NO_COUNTS
from sash.kernels.loops.live_loops import lift_elements
from sash.monoids.algebra import Kind, Monoid


class LiftKernel(Columnar):
    """The `lift` of an aggregate on rows, compiled if possible, else on Python objects."""

    def __init__(self, monoid: Monoid, kinds: tuple[Kind, ...] | None) -> None:
        super().__init__(monoid, kinds, (Running,), warn=False)

    def compile_loops(self) -> None:
        self.failures(self.layouts.inputs.allocate(0), NO_FLAGS)

    def failures(self, inputs: Any, non_null: Flags) -> list[AggregateError]:
        """The rows on which it fails. After a failure the loop continues behind it."""
        found: list[AggregateError] = []
        if not self.compiled:
            for i, (row, has_value) in enumerate(zip(inputs, non_null.tolist(), strict=True)):
                try:
                    if has_value:
                        self.monoid.lift(*row)
                except Exception as error:
                    found.append(AggregateError(i, error))
            return found
        code: Any = None
        out, progress, first, count = self.nothing(1), np.zeros(2, np.int64), 0, len(non_null)
        places, layouts = np.zeros(count, np.int64), (self.layouts.inputs, self.layouts.state)
        while first < count or code is None:
            place, given = (places[first:], places[first:], progress), tuple(leaf[first:] for leaf in inputs)
            arguments = (self.monoid, layouts, given, non_null[first:], place, NO_COUNTS, out)
            if code is None:
                loop: Any = lift_elements
                code = machine_code(loop, (self.monoid_type, self.kinds), arguments)
            try:
                code(*arguments)
            except Exception as error:
                first += int(progress[0])
                found.append(AggregateError(first, error))
                first += 1
            else:
                break
        return found
