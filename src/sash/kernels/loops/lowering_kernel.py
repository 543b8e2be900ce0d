"""A lowering kernel: one aggregate's results from states that another aggregate has computed.

states of ranges, one column a scalar ──▶ those that this aggregate's state consists of ──▶ lower ──▶ results
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.aggregators.running import Running
from sash.kernels.jit.code_fingerprint import NotKeyed
from sash.kernels.jit.compile import NotCompiled, machine_code
from sash.kernels.jit.state_layout import NotColumnar
from sash.kernels.loops.aggregate_kernel import AggregateError, Columnar
from sash.kernels.loops.live_loops import lower_states
from sash.kernels.loops.runner import specify
from sash.monoids.algebra import Kind, Monoid

Flags = NDArray[np.bool_]


class LoweringKernel(Columnar):
    """The `lower` of an aggregate on columns of states, compiled where it can be, else on Python objects."""

    def __init__(self, monoid: Monoid, kinds: tuple[Kind, ...] | None) -> None:
        self.why_interpreted = ""
        self.monoid = monoid
        try:
            if kinds is None:
                raise NotColumnar(monoid.interpreted_only or "its input is a column of Python objects")
            spec = specify(Running, monoid, kinds)
            self.monoid, self.layouts, self._meaning = spec.monoid, spec.layouts, (spec.compiled_as.state.monoid, kinds)
            self.lower(self.layouts.state.allocate(0), np.zeros(0, np.bool_))
        except (NotColumnar, NotKeyed, NotCompiled) as error:
            self.why_interpreted = str(error)
            self.monoid = monoid

    def lower(self, states: Any, there: Flags) -> tuple[Any, Flags]:
        """The results of the states that are there, and which are valid. Raises Failed, with the place."""
        progress, valid = np.zeros(1, np.int64), np.zeros(len(there), np.bool_)
        code: Any = lower_states
        if self.compiled:
            layouts: Sequence[Any] = (self.layouts.state, self.layouts.result)
            out: Any = self.layouts.result.allocate(len(there))
            arguments = (self.monoid, layouts, states, there, (out, valid), progress)
            code = machine_code(code, self._meaning, arguments)
        else:
            out = [None] * len(there)
            arguments = (self.monoid, (None, None), states, there, (out, valid), progress)
        try:
            code(*arguments)
        except Exception as error:
            raise AggregateError(int(progress[0]), error) from error
        return out, valid
