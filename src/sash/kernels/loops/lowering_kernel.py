"""A lowering kernel: one aggregate's results from states that another aggregate has computed.

states of ranges, one column per scalar ──▶ the scalars of this aggregate's state ──▶ lower ──▶ results
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.aggregators.running import Running
from sash.kernels.jit.compile import machine_code
from sash.kernels.loops.array_types import NO_FLAGS, Flags
from sash.kernels.loops.columnar import AggregateError, Columnar
from sash.kernels.loops.live_loops import lower_states
from sash.monoids.algebra import Kind, Monoid


class LoweringKernel(Columnar):
    """The `lower` of an aggregate on columns of states, compiled if possible, else on Python objects."""

    def __init__(self, monoid: Monoid, kinds: tuple[Kind, ...] | None) -> None:
        super().__init__(monoid, kinds, (Running,), warn=False)

    def compile_loops(self) -> None:
        self.lower(self.layouts.state.allocate(0), NO_FLAGS)

    def lower(self, states: Any, exists: Flags) -> tuple[Any, Flags]:
        """The results of the existing states, and which are valid. Raises AggregateError, with the place."""
        progress, valid = np.zeros(1, np.int64), np.zeros(len(exists), np.bool_)
        code: Any = lower_states
        layouts: Any = (None, None)
        out: Any = [None] * len(exists)
        if self.compiled:
            layouts, out = (self.layouts.state, self.layouts.result), self.layouts.result.allocate(len(exists))
        arguments = (self.monoid, layouts, states, exists, (out, valid), progress)
        if self.compiled:
            code = machine_code(code, (self.monoid_type, self.kinds), arguments)
        try:
            code(*arguments)
        except Exception as error:
            raise AggregateError(int(progress[0]), error) from error
        return out, valid
