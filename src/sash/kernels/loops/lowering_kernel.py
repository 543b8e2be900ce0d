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
from sash.kernels.loops.structure_loops import emit
from sash.monoids.algebra import Kind, Monoid


class LoweringKernel(Columnar):
    """The `lower` of an aggregate on columns of states, compiled if possible, else on Python objects."""

    def __init__(self, monoid: Monoid, kinds: tuple[Kind, ...] | None, warn: bool = False) -> None:
        super().__init__(monoid, kinds, (Running,), warn)

    def compile_loops(self) -> None:
        self.lower(self.layouts.state.allocate(0), NO_FLAGS)

    def lower(self, states: Any, exists: Flags) -> tuple[Any, Flags]:
        """The results of the existing states, and which are valid. Raises AggregateError, with the place."""
        out, valid, failed = self.lower_each(states, exists, 1)
        if failed:
            raise failed[0] from failed[0].error
        return out, valid

    def lower_each(
        self, states: Any, exists: Flags, most: int | None = None
    ) -> tuple[Any, Flags, list[AggregateError]]:
        """As `lower`; a result that fails is not valid, and its error is returned. `most`: errors after which to end.

        After an error the loop continues behind it, so that the cost does not depend on how many fail.
        """
        valid, count = np.zeros(len(exists), np.bool_), len(exists)
        failed: list[AggregateError] = []
        if not self.compiled:
            out: Any = [None] * count
            for i in np.flatnonzero(exists).tolist():
                try:
                    emit(out, valid, i, self.monoid.lower(states[i]))
                except Exception as error:
                    failed.append(AggregateError(i, error))
                    if len(failed) == most:
                        break
            return out, valid, failed
        code: Any = None
        out, progress, first = self.layouts.result.allocate(count), np.zeros(1, np.int64), 0
        layouts = self.layouts.state, self.layouts.result
        while first < count or code is None:
            given, results = (tuple(leaf[first:] for leaf in of) for of in (states, out))
            arguments = (self.monoid, layouts, given, exists[first:], (results, valid[first:]), progress)
            if code is None:
                loop: Any = lower_states
                code = machine_code(loop, (self.monoid_type, self.kinds), arguments)
            try:
                code(*arguments)
            except Exception as error:
                at = first + int(progress[0])
                failed.append(AggregateError(at, error))
                valid[at], first = False, at + 1
                if len(failed) == most:
                    break
            else:
                break
        return out, valid, failed
