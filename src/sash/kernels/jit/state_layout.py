"""Layouts: the columns of a state or a result.

A state that compiles is a scalar or a (nested) tuple of scalars; a column of states is one array per scalar:

    state (2, (0.5, True))     layout ("int", ("float", "bool"))     arrays int64, float64, bool

A layout is found by running the monoid on a value of each kind, in plain Python, so that a process with cached machine
code compiles nothing to find it. The compiler checks it: it refuses to store a float in an int column.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.monoids.algebra import Kind, Monoid
from sash.monoids.custom import SAMPLES, outcomes, sample_rows

Shape = Any
"""A Kind, or a tuple of Shapes."""

DTYPES: dict[Kind, Any] = {"bool": np.bool_, "int": np.int64, "float": np.float64}


class NotColumnar(TypeError):
    """The monoid cannot run on columns; the message has the reason."""


@dataclass(frozen=True)
class Layout:
    """The shape of one value in columns."""

    shape: Shape

    @functools.cached_property
    def leaves(self) -> tuple[Kind, ...]:
        return _leaves(self.shape)

    def allocate(self, length: int) -> tuple[NDArray[Any], ...]:
        """One array per scalar."""
        return tuple(np.zeros(length, DTYPES[kind]) for kind in self.leaves)

    def value(self, arrays: tuple[NDArray[Any], ...], i: int) -> Any:
        """The value at index i, as Python objects."""
        return _build(self.shape, iter([array[i].item() for array in arrays]))

    def store(self, arrays: tuple[NDArray[Any], ...], i: int, value: Any) -> None:
        """Write a value at index i."""
        for array, scalar in zip(arrays, scalars(value), strict=True):
            array[i] = scalar


def _leaves(shape: Shape) -> tuple[Kind, ...]:
    return tuple(leaf for part in shape for leaf in _leaves(part)) if isinstance(shape, tuple) else (shape,)


def scalars(value: Any) -> list[Any]:
    """The scalars of a state or result, in the order of their arrays.

    >>> scalars((1, (2.5, True)))
    [1, 2.5, True]
    """
    return [scalar for part in value for scalar in scalars(part)] if isinstance(value, tuple) else [value]


def _build(shape: Shape, leaves: Any) -> Any:
    return tuple(_build(part, leaves) for part in shape) if isinstance(shape, tuple) else next(leaves)


def shape_of(value: Any) -> Shape:
    """The shape of a Python value. Raises NotColumnar if it is no scalar or tuple of scalars."""
    if isinstance(value, tuple):
        return tuple(shape_of(part) for part in value)
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, int | np.integer):
        if not -(2**63) <= value < 2**63:
            raise NotColumnar(f"{value} is beyond the range of 64-bit integers")
        return "int"
    if isinstance(value, float | np.floating):
        return "float"
    raise NotColumnar(f"{value!r} is a {type(value).__name__}, not a number or a tuple of numbers")


def unify(a: Shape, b: Shape) -> Shape:
    """The common shape of both: int and float become float."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(unify(x, y) for x, y in zip(a, b, strict=True))
    if a == b:
        return a
    if {a, b} == {"int", "float"}:
        return "float"
    raise NotColumnar(f"states differ in shape: {a} and {b}")


@dataclass(frozen=True)
class Layouts:
    """The layouts of a monoid's inputs, states and results."""

    inputs: Layout
    state: Layout
    result: Layout


def layouts(monoid: Monoid, kinds: tuple[Kind, ...]) -> Layouts:
    """The layouts of a typed monoid on inputs of these kinds.

    Raises NotColumnar, naming the function and its value, if a state or a result does not fit in columns.
    """
    if monoid.interpreted_only:
        raise NotColumnar(monoid.interpreted_only)
    identity = _shape("identity", monoid.identity)
    states, results = _tried(monoid, kinds)
    state = functools.reduce(unify, (_shape("state", state) for state in states), identity)
    result = functools.reduce(unify, (_shape("result", result) for result in results))
    return Layouts(Layout(tuple(kinds)), Layout(state), Layout(result))


def _shape(what: str, value: Any) -> Shape:
    try:
        return shape_of(value)
    except NotColumnar as error:
        raise NotColumnar(f"its {what} {error}") from None


def _tried(monoid: Monoid, kinds: tuple[Kind, ...]) -> tuple[list[Any], list[Any]]:
    """States and results of sample rows."""
    states, results, failed = outcomes(monoid, sample_rows([SAMPLES[kind] for kind in kinds]))
    if not results:
        raise NotColumnar(f"{failed or 'lower gave no result'} on sample values")
    return states, results
