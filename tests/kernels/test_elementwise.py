"""A monoid's functions on columns, element by element, as `check_laws` asks for them."""

import logging
import math
from typing import Any

import pytest

import sash
from sash.kernels.jit.compile import NotCompiled
from sash.kernels.loops.bound_kernel import BoundKernel
from sash.monoids import Max

log = logging.getLogger(__name__)


def lower(a: Any) -> Any:
    if a[0] > 100:
        raise OverflowError("too many")
    return None if a[0] == 0 else a[1] / (a[0] - 3)


counted = sash.monoid(
    identity=(0, 0.0),
    lift=lambda x: (1, x),
    combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
    inverse=lambda total, a: (total[0] - a[0], total[1] - a[1]),
    lower=lower,
)


def test_every_function() -> None:
    machine = BoundKernel(counted, ("float",))
    assert machine.each("lift", [(1.5,), (math.inf,)]) == [(1, 1.5), (1, math.inf)]
    assert machine.each("combine", [(1, 1.5), (2, 0.5)], [(0, 0.0), (3, 4.0)]) == [(1, 1.5), (5, 4.5)]
    assert machine.each("inverse", [(5, 4.5)], [(2, 0.5)]) == [(3, 4.0)]
    assert machine.each("lower", [(1, 4.0), (0, 0.0), (5, 4.0)]) == [-2.0, None, 2.0]
    largest = BoundKernel(Max().typed("int"), ("int",))
    assert largest.each("picks_right", [1, 2, 3], [3, 2, 1]) == [True, False, False]


def test_an_error_is_an_answer_for_its_element() -> None:
    machine = BoundKernel(counted, ("float",))
    assert machine.each("lower", [(1, 4.0), (3, 1.0), (101, 1.0), (5, 4.0)]) == [
        -2.0,
        ZeroDivisionError,
        OverflowError,
        2.0,
    ]
    assert machine.each("combine", [(2**64, 1.0), (1, 1.0)], [(1, 1.0), (1, 1.0)]) == [OverflowError, (2, 2.0)]


def test_nothing_gives_nothing() -> None:
    assert BoundKernel(counted, ("float",)).each("lower", []) == []


def test_what_does_not_compile() -> None:
    with pytest.raises(NotCompiled, match="its identity '' is a str"):
        BoundKernel(sash.monoid(identity="", combine=lambda a, b: a + b), ("float",), warn=False).each("lower", [])
    reading = sash.monoid(identity=0.0, lift=lambda x: x if log else 0.0, combine=max)
    with pytest.raises(NotCompiled, match="it reads log, a Logger"):
        BoundKernel(reading, ("float",), warn=False).each("lift", [(1.0,)])
    formatting = sash.monoid(identity=0.0, lift=lambda x: float("%f" % x), combine=max)  # noqa: UP031
    with pytest.raises(NotCompiled, match="Numba does not compile mod"):
        BoundKernel(formatting, ("float",), warn=False).each("lift", [(1.0,)])
