"""Layouts: how states and results lie in columns, and what does not."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sash
from sash.kernels.jit.state_layout import DTYPES, Layout, NotColumnar, layouts, shape_of, unify
from sash.monoids import Max, Monoid
from sash.monoids.custom import SAMPLES
from tests.shared.discovery import kinds_of, monoids


def add(a: Any, b: Any) -> Any:
    return a + b


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (True, "bool"),
        (np.bool_(True), "bool"),
        (1, "int"),
        (-(2**63), "int"),
        (2**63 - 1, "int"),
        (np.int8(1), "int"),
        (1.5, "float"),
        (np.float32(1.5), "float"),
        (math.nan, "float"),
        ((), ()),
        ((1, (2.0, (True,)), ()), ("int", ("float", ("bool",)), ())),
    ],
)
def test_shapes(value: Any, shape: Any) -> None:
    assert shape_of(value) == shape


@pytest.mark.parametrize("value", [None, "a", [1], {1: 2}, (1, None), 1j, object(), np.array([1]), 2**63, -(2**63) - 1])
def test_what_has_no_shape(value: Any) -> None:
    with pytest.raises(NotColumnar):
        shape_of(value)


def test_an_int_with_a_float_is_a_float() -> None:
    assert unify(("int", ("float", "bool")), ("float", ("int", "bool"))) == ("float", ("float", "bool"))
    for a, b in (("bool", "int"), ("bool", "float"), ("int", ("int",)), (("int",), ("int", "int"))):
        with pytest.raises(NotColumnar, match="differ in shape"):
            unify(a, b)


def test_a_layout_holds_values_in_columns() -> None:
    layout = Layout(("int", ("float", "bool"), ()))
    assert layout.leaves == ("int", "float", "bool")
    arrays = layout.allocate(3)
    assert [array.dtype for array in arrays] == [DTYPES[kind] for kind in layout.leaves]
    for array, scalar in zip(arrays, (7, 0.5, True), strict=True):
        array[1] = scalar
    assert layout.value(arrays, 1) == (7, (0.5, True), ())
    assert list(map(type, layout.value(arrays, 1)[1])) == [float, bool]
    assert layout.value(arrays, 0) == (0, (0.0, False), ())


@pytest.mark.parametrize("name", sorted(monoids()))
def test_every_monoid_of_ours_has_layouts(name: str) -> None:
    """None runs interpreted because no sample happened to have a result: a slope, a kurtosis."""
    monoid = monoids()[name]
    for kinds in kinds_of(monoid):
        typed = monoid.typed(*kinds)
        found = layouts(typed, kinds)
        assert found.inputs.shape == kinds
        assert found.state.shape == shape_of(typed.identity)


def monoid(lift: Callable[..., Any], lower: Callable[[Any], Any] = lambda a: a, identity: Any = 0.0) -> Monoid:
    return sash.monoid(identity=identity, lift=lift, combine=add, lower=lower)


def test_samples_are_different_rows() -> None:
    assert len({len(values) for values in SAMPLES.values()}) == 1
    seen: list[tuple[Any, ...]] = []
    layouts(monoid(lambda *row: seen.append(row) or 0.0), ("float", "float", "float"))
    assert len({*seen}) == len(seen)
    for row in seen[:3]:
        assert len({*row}) == 3


def test_what_fails_on_one_sample_is_judged_by_the_others() -> None:
    first = SAMPLES["float"][0]
    found = layouts(monoid(lambda x: 1.0 / (x - first), lambda a: math.sqrt(a - 0.1)), ("float",))
    assert found.state.shape == found.result.shape == "float"


def test_a_result_that_is_null_at_first() -> None:
    counting = sash.monoid(identity=0, lift=lambda _x: 1, combine=add, lower=lambda n: n / 2 if n > 4 else None)
    assert layouts(counting, ("float",)).result.shape == "float"


def test_int_and_float_make_a_float() -> None:
    found = layouts(monoid(lambda x: x, lambda a: a if a > 3 else 0, identity=0), ("float",))
    assert (found.state.shape, found.result.shape) == ("float", "float")


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (monoid(lambda x: x, identity=None), "its identity None is a NoneType"),
        (monoid(lambda x: [x], identity=()), r"its state \[1\.5\] is a list"),
        (monoid(str, identity=""), "its identity '' is a str"),
        (monoid(lambda x: (x, "a"), identity=(0, "")), "its identity '' is a str"),
        (monoid(lambda x: (1, x), identity=0), "raised TypeError|differ in shape"),
        (monoid(lambda x: x, lambda _a: None), "lower gave no result on sample values"),
        (monoid(lambda x: x, lambda a: str(a)), "its result '1.5' is a str"),
        (monoid(lambda x: x, lambda a: (a, None)), "its result None is a NoneType"),
        (monoid(lambda _x: 1 / 0), "it raised ZeroDivisionError: division by zero on sample values"),
        (monoid(lambda x: x, identity=2**63), "beyond the range of 64-bit integers"),
    ],
)
def test_what_does_not_lie_in_columns(refused: Monoid, why: str) -> None:
    with pytest.raises(NotColumnar, match=why):
        layouts(refused, ("float",))


def test_what_is_declared_to_run_interpreted() -> None:
    class Declared(Max):
        interpreted_only = "its states are Python objects"

    with pytest.raises(NotColumnar, match="its states are Python objects"):
        layouts(Declared(), ("float",))
