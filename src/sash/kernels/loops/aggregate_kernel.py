"""A kernel of one aggregate on whole columns, compiled if possible, else interpreted on Python objects.

    columns ──lift──▶ states ──slide──▶ results of ranges

States are a tuple of arrays, one per scalar of the layout; interpreted, one array of objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sash.aggregators.base import Aggregator
from sash.kernels.jit.code_fingerprint import NotKeyed
from sash.kernels.jit.compile import NotCompiled, machine_code
from sash.kernels.jit.numba_struct import StructSpec
from sash.kernels.loops import structure_loops as range_loops
from sash.kernels.loops.array_types import NO_FLAGS, NO_INTS, Flags, States
from sash.kernels.loops.columnar import AggregateError, Columnar

Share = Callable[[Callable[[int, int], None], int], Any]
"""Runs a task for ranges of rows: `RowThreads.run`, or `all_rows`."""


def all_rows(task: Callable[[int, int], None], rows: int) -> None:
    """Run a task for all rows at once."""
    task(0, rows)


class AggregateKernel(Columnar):
    """The loops of an aggregate over whole columns, for the structures it will run on.

    >>> import numpy as np
    >>> from sash.aggregators import TwoStacksLite
    >>> from sash.monoids import Max
    >>> kernel = AggregateKernel(Max(), ("float",), (TwoStacksLite,))
    >>> states = kernel.lift((np.array([3.0, 1.0, 2.0]),), np.array([True, True, True]))
    >>> kernel.slide(TwoStacksLite, states, (np.array([0, 0, 1]), np.array([1, 2, 3])), np.array([True] * 3))[0]
    (array([3., 3., 2.]),)
    """

    def compile_loops(self) -> None:
        states = self.lift(self.layouts.inputs.allocate(0), NO_FLAGS)
        for structure in self.specs:
            self.slide(structure, states, (NO_INTS, NO_INTS), NO_FLAGS)

    def lift(self, columns: Sequence[Any], non_null: Flags, share: Share = all_rows) -> States:
        """Lift rows to states; null rows become the identity. Raises AggregateError."""
        out = self.nothing(len(non_null))
        if not self.compiled:
            found: list[Any] = [None] * len(non_null)
            rows = list(zip(*map(_python_values, columns), strict=True)) if columns else [()] * len(non_null)
            flags = non_null.tolist()
            _located(lambda n: range_loops.lift_rows(self.monoid, None, rows, flags[:n], None, found), len(flags))
            for i, value in enumerate(found):  # one by one: NumPy would read a list of tuples as a table
                out[0][i] = value
            return out
        kernel: Any = range_loops.lift_rows
        inputs = self.typed(columns)

        def task(first: int, stop: int) -> None:
            rows = slice(first, stop)
            given, flags = tuple(column[rows] for column in inputs), non_null[rows]
            target = tuple(leaf[rows] for leaf in out)

            def call(n: int) -> None:
                arguments = (self.monoid, self.layouts.inputs, given, flags[:n], self.layouts.state, target)
                machine_code(kernel, (self.monoid_type, self.kinds), arguments)(*arguments)

            _located(call, stop - first)

        share(task, len(non_null))
        return out

    def slide(
        self,
        structure: type[Aggregator],
        states: States,
        bounds: tuple[Any, Any],
        wanted: Flags,
        share: Share = all_rows,
    ) -> tuple[Any, Flags]:
        """The results over the states [lo, hi) of wanted ranges, and which are valid. Raises AggregateError.

        Interpreted loops run in one thread, because of the GIL.
        """
        spec, (los, his) = self.specs[structure], bounds
        kernel: Any = range_loops.slide_ranges
        if not isinstance(spec, StructSpec):
            found: list[Any] = [None] * len(wanted)
            flags: list[Any] = [False] * len(wanted)
            given, lists = states[0].tolist(), (los.tolist(), his.tolist(), wanted.tolist())
            _located(lambda n: kernel(spec, None, given, _first(lists, n), found, flags), len(wanted))
            return found, np.array(flags, np.bool_)
        out, valid = spec.layouts.result.allocate(len(wanted)), np.zeros(len(wanted), np.bool_)

        def task(first: int, stop: int) -> None:
            rows = slice(first, stop)
            ranges = los[rows].astype(np.int64, copy=False), his[rows].astype(np.int64, copy=False), wanted[rows]
            target = tuple(leaf[rows] for leaf in out), valid[rows]
            storage = spec.allocate(max(int((ranges[1] - ranges[0]).max(initial=0)), 1))

            def call(n: int) -> None:
                arguments = (spec, storage, states, _first(ranges, n), *target)
                machine_code(kernel, spec.compiled_as, arguments)(*arguments)

            _located(call, stop - first)

        share(task, len(wanted))
        return out, valid


def _python_values(column: Any) -> Any:
    """A column as Python's numbers: those of NumPy wrap around, and warn of infinity minus infinity."""
    return column.tolist() if isinstance(column, np.ndarray) and column.dtype.kind in "biuf" else column


def _first(columns: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    return tuple(column[:n] for column in columns)


def _located(call: Callable[[int], Any], length: int) -> None:
    """Run a loop over all places. If it raises, find the place by bisection, and raise AggregateError."""
    try:
        call(length)
    except (NotCompiled, NotKeyed):
        raise
    except Exception as error:
        good, bad = 0, length
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                call(middle)
            except Exception:
                bad = middle
            else:
                good = middle
        raise AggregateError(max(bad - 1, 0), error) from error
