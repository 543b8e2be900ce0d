"""FlatFAT: compiled results compared with Recalc, refused arguments, and `check_invariants`."""

import re
from typing import Any

import numpy as np
import pytest

from sash.aggregators import FlatFAT
from sash.kernels.jit.numba_arrays import column
from sash.kernels.jit.numba_intrinsics import rebuild, start, stop
from sash.kernels.jit.numba_methods import compiled
from sash.kernels.loops.bound_kernel import specify
from sash.kernels.loops.structure_loops import emit
from sash.monoids.collect import Collect
from sash.monoids.sums import Sum
from tests.aggregators.flat_fat_cases import leaves, window_of
from tests.aggregators.probes import AFFINE

# ---- compiled ----


COLUMN = np.random.default_rng(1).integers(-1000, 1000, 900)


def edited(spec: Any, storage: Any, rows: Any, argument: Any, out: Any, valid: Any) -> Any:
    """A kernel that takes elements out and replaces others, at places that depend on the step."""
    window = start(spec, storage)
    monoid = spec.monoid
    x = column(spec.inputs, rows)
    y = column(spec.result, out)
    for i in range(len(valid)):
        window.push(monoid.lift(*x[i]))
        size = window.size()
        if i % 3 == 1 and i * 7 % size > 0:
            window.remove(i * 7 % size)
        elif i % 5 == 1:
            window.replace(i * 11 % size, monoid.lift(*x[i - 1]))
        while window.size() > argument:
            window.pop()
        emit(y, valid, i, monoid.lower(window.aggregate()))
    return stop(window)


def test_compiled_with_holes() -> None:
    """No kernel of sash edits elements, but this compiles. It is not cached: a change would go unnoticed."""
    code = compiled(edited, entry=True)
    spec = specify(FlatFAT, AFFINE, ("int",))
    for width in (1, 5, 30, 100):
        storage = spec.allocate(width + 1)
        out, valid = spec.layouts.result.allocate(len(COLUMN)), np.zeros(len(COLUMN), np.bool_)
        left = rebuild(spec, storage, code(spec, storage, (COLUMN,), width, out, valid))
        left.check_invariants()
        window = FlatFAT(AFFINE)
        for i, x in enumerate(COLUMN.tolist()):
            window.insert(x)
            size = len(window)
            if i % 3 == 1 and i * 7 % size > 0:
                window.evict_at(i * 7 % size)
            elif i % 5 == 1:
                window.update(i * 11 % size, int(COLUMN[i - 1]))
            while len(window) > width:
                window.evict()
            assert spec.layouts.result.value(out, i) == window.query()
        assert list(left) == list(window)


# ---- errors ----


@pytest.mark.parametrize("i", [-1, 3, 100])
def test_a_number_that_is_not_there(i: int) -> None:
    window = window_of("abc")
    for method, call in (("evict_at", window.evict_at), ("update", lambda i: window.update(i, "x"))):
        with pytest.raises(IndexError, match=rf"{method}\({i}\): the window has 3 elements"):
            call(i)
    assert window.query() == "abc"


@pytest.mark.parametrize("i", [1.5, "1", None])
def test_what_is_no_number(i: Any) -> None:
    window = window_of("abc")
    with pytest.raises(TypeError, match=rf"evict_at\(i\) must be a whole number of elements; got {re.escape(repr(i))}"):
        window.evict_at(i)
    with pytest.raises(TypeError, match=r"update\(i\) must be a whole number of elements"):
        window.update(i, "x")


def test_prefixes_and_suffixes_that_are_not_there() -> None:
    window = window_of("abc")
    assert [window.prefix(i) for i in range(4)] == ["", "a", "ab", "abc"]
    assert [window.suffix(j) for j in range(4)] == ["abc", "bc", "c", ""]
    for call, said in (
        (lambda: window.prefix(4), "query_range(0, 4)"),
        (lambda: window.prefix(-1), "query_range(0, -1)"),
        (lambda: window.suffix(4), "query_range(4, 3)"),
        (lambda: window.suffix(-1), "query_range(-1, 3)"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"{said}: the window has 3 elements")):
            call()


def test_a_value_that_is_refused_changes_nothing() -> None:
    window = window_of([1, 2], Sum())
    with pytest.raises(TypeError):
        window.update(0, "three")
    window.check_invariants()
    assert window.query() == 3


# ---- its own check ----


def known(inverted: bool, marking: bool) -> FlatFAT:
    window = FlatFAT(Collect())
    for i in range(21 if inverted else 13):
        window.insert(i)
        if len(window) > 13:
            window.evict()
    if marking:
        for i in (4, 4, 8):
            window.evict_at(i)
    window.query()
    window.check_invariants()
    assert (window.inverted(), leaves(window)) == (inverted, 16)
    return window


def refused(window: FlatFAT, what: str = "") -> None:
    with pytest.raises(AssertionError, match=f"^FlatFAT: .*{re.escape(what)}"):
        window.check_invariants()


def test_what_is_not_yet_propagated_may_differ() -> None:
    """Nodes above a change are not checked until it is propagated; other nodes are."""
    window = known(inverted=False, marking=False)
    window.evict()
    window.insert("x")
    window.check_invariants()
    spoilt = window.copy()
    spoilt.nodes[spoilt.node(2, 1)] = ("wrong",)
    refused(spoilt, "nodes[5]")
    spoilt = window.copy()
    spoilt.nodes[spoilt.node(2, 0)] = ("wrong",)
    spoilt.check_invariants()
    assert spoilt.query() == window.query()
