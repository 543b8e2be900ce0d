"""Run a monoid's compiled functions on columns, element by element; `check_laws` compares them with Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sash.kernels.jit.code_fingerprint import NotKeyed
from sash.kernels.jit.compile import NotCompiled, machine_code, type_of
from sash.kernels.jit.numba_arrays import column
from sash.kernels.jit.state_layout import DTYPES, Layout, NotColumnar, layouts, scalars
from sash.kernels.loops.structure_loops import emit
from sash.monoids.algebra import Kind, Monoid

__all__ = ["Compiled", "NotCompiled"]


class Compiled:
    """The compiled functions of a typed monoid on lists of Python values.

    If a function raises on an element, the result there is the exception's type.
    """

    def __init__(self, monoid: Monoid, kinds: tuple[Kind, ...]) -> None:
        self.monoid = monoid
        try:
            self.layouts = layouts(monoid, kinds)
        except NotColumnar as error:
            raise NotCompiled(str(error)) from error

    def lift(self, rows: Sequence[Any]) -> list[Any]:
        return self._each(lift_each, [(self.layouts.inputs, rows)], self.layouts.state)

    def combine(self, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        state = self.layouts.state
        return self._each(combine_each, [(state, left), (state, right)], state)

    def inverse(self, total: Sequence[Any], oldest: Sequence[Any]) -> list[Any]:
        state = self.layouts.state
        return self._each(inverse_each, [(state, total), (state, oldest)], state)

    def picks_right(self, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        state = self.layouts.state
        return self._each(picks_right_each, [(state, left), (state, right)], Layout("bool"))

    def lower(self, states: Sequence[Any]) -> list[Any]:
        return self._each(lower_each, [(self.layouts.state, states)], self.layouts.result)

    def _each(self, kernel: Any, given: Sequence[tuple[Layout, Sequence[Any]]], result: Layout) -> list[Any]:
        count = len(given[0][1])
        try:
            return self._call(kernel, given, result, count)
        except NotKeyed as error:
            raise NotCompiled(str(error)) from error
        except NotCompiled:
            raise
        except Exception as error:  # raised by the monoid on one of the elements: run them one by one
            if count == 1:
                return [type(error)]
            singles = ([(layout, [values[i]]) for layout, values in given] for i in range(count))
            return [self._each(kernel, single, result)[0] for single in singles]

    def _call(
        self, kernel: Any, given: Sequence[tuple[Layout, Sequence[Any]]], result: Layout, count: int
    ) -> list[Any]:
        columns = [part for layout, values in given for part in (layout, _arrays(layout, values))]
        out, valid = result.allocate(count), np.zeros(count, np.bool_)
        arguments = (self.monoid, *columns, result, out, valid)
        machine_code(kernel, tuple(map(type_of, arguments)), arguments)(*arguments)
        return [result.value(out, i) if valid[i] else None for i in range(count)]


def _arrays(layout: Layout, values: Sequence[Any]) -> tuple[Any, ...]:
    flat = [scalars(value) for value in values]
    return tuple(np.array([row[i] for row in flat], DTYPES[kind]) for i, kind in enumerate(layout.leaves))


def lift_each(monoid: Monoid, inputs: Layout, rows: Any, result: Layout, out: Any, valid: Any) -> None:
    x, y = column(inputs, rows), column(result, out)
    for i in range(len(valid)):
        emit(y, valid, i, monoid.lift(*x[i]))


def lower_each(monoid: Monoid, state: Layout, states: Any, result: Layout, out: Any, valid: Any) -> None:
    a, y = column(state, states), column(result, out)
    for i in range(len(valid)):
        emit(y, valid, i, monoid.lower(a[i]))


def combine_each(
    monoid: Monoid, ls: Layout, left: Any, rs: Layout, right: Any, result: Layout, out: Any, valid: Any
) -> None:
    a, b, y = column(ls, left), column(rs, right), column(result, out)
    for i in range(len(valid)):
        emit(y, valid, i, monoid.combine(a[i], b[i]))


def inverse_each(
    monoid: Any, ls: Layout, total: Any, rs: Layout, oldest: Any, result: Layout, out: Any, valid: Any
) -> None:
    a, b, y = column(ls, total), column(rs, oldest), column(result, out)
    for i in range(len(valid)):
        emit(y, valid, i, monoid.inverse(a[i], b[i]))


def picks_right_each(
    monoid: Monoid, ls: Layout, left: Any, rs: Layout, right: Any, result: Layout, out: Any, valid: Any
) -> None:
    a, b, y = column(ls, left), column(rs, right), column(result, out)
    for i in range(len(valid)):
        emit(y, valid, i, monoid.picks_right(a[i], b[i]))
