"""The functions that bind aggregates to columns."""

import inspect
import pickle
from typing import Any

import pytest

from sash.monoids import functions
from sash.monoids.algebra import Bound, Monoid
from sash.monoids.functions import AGGREGATES
from sash.monoids.order import ArgMax, Max
from sash.monoids.positions import Nth

NAMES = [
    *("count", "sum", "product", "mean", "geometric_mean", "min", "max", "range", "arg_min", "arg_max", "min_count"),
    *("max_count", "first", "last", "nth", "collect", "collect_distinct", "concat", "any", "all", "bit_and", "bit_or"),
    *("bit_xor", "sum_of_squares", "var", "std", "skewness", "kurtosis", "covariance", "correlation", "slope"),
    *("intercept", "m4", "longest_run", "approx_distinct", "approx_quantile", "frequent_items", "count_min", "bloom"),
]
NEEDED: dict[str, dict[str, Any]] = {"nth": {"n": 1}}
NEEDS_DATASKETCHES = {"approx_distinct", "approx_quantile", "frequent_items", "count_min"}


def function(name: str) -> Any:
    if name in NEEDS_DATASKETCHES:
        pytest.importorskip("datasketches")
    return getattr(functions, name)


def test_every_aggregate_of_the_design_is_there() -> None:
    assert list(AGGREGATES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_function_is_made_of_its_class(name: str) -> None:
    bind, aggregate = function(name), AGGREGATES[name]
    assert issubclass(aggregate, Monoid)
    assert bind.__name__ == bind.__qualname__ == aggregate.name == name
    assert aggregate.__name__.lower() == name.replace("_", "")
    assert bind.__doc__.splitlines()[0] == inspect.getdoc(aggregate).splitlines()[0]  # type: ignore[union-attr]
    assert ">>>" not in bind.__doc__
    assert pickle.loads(pickle.dumps(bind)) is bind


@pytest.mark.parametrize("name", NAMES)
def test_it_binds_as_many_columns_as_lift_takes(name: str) -> None:
    bind, parameters = function(name), NEEDED.get(name, {})
    least, most = AGGREGATES[name](**parameters).arity
    bound = bind(*"abc"[:least], **parameters)
    assert isinstance(bound, Bound)
    assert bound.columns == tuple("abc"[:least])
    assert bound.monoid == AGGREGATES[name](**parameters)
    assert name in repr(bound)
    inspect.signature(bind).bind(*"abc"[:least], **parameters)
    if most is not None:
        with pytest.raises(TypeError, match=rf"{name} takes .* got {most + 1}: 'c'"):
            bind(*"c" * (most + 1), **parameters)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_parameter_is_named(name: str) -> None:
    with pytest.raises(TypeError, match=rf"{name}\(\) got an unknown parameter 'wrong'; it takes "):
        function(name)("x", wrong=1)


@pytest.mark.parametrize("name", NAMES)
def test_what_the_typed_forms_use_is_not_public(name: str) -> None:
    assert "identity" not in inspect.signature(function(name)).parameters
    with pytest.raises(TypeError, match="unknown parameter 'identity'"):
        function(name)("x", identity=0)


def test_by_example() -> None:
    assert functions.max("price") == Bound(Max(), ("price",))
    assert functions.arg_max("price", "trader") == Bound(ArgMax(), ("price", "trader"))
    assert functions.nth("x", n=3) == Bound(Nth(3), ("x",))
    assert functions.count() == functions.count()
    assert functions.count("x").columns == ("x",)
    assert functions.var("x", ddof=0) != functions.var("x")


def test_signatures_are_those_a_reader_expects() -> None:
    assert str(inspect.signature(functions.max)) == "(x: 'str', /) -> 'Bound'"
    assert str(inspect.signature(functions.nth)) == "(x: 'str', /, *, n: 'int') -> 'Bound'"
    assert str(inspect.signature(functions.longest_run)) == "(value: 'str', at: 'str', /) -> 'Bound'"
    assert str(inspect.signature(functions.concat)) == "(x: 'str', /, *, separator: 'str' = '') -> 'Bound'"


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(TypeError, match=r"nth\(\) needs the parameter n="):
        functions.nth("x")


def test_parameters_are_keywords() -> None:
    with pytest.raises(TypeError, match="nth is bound to columns by name; got 3, a int"):
        functions.nth("x", 3, n=1)


def test_all_names_can_be_imported_at_once() -> None:
    scope: dict[str, Any] = {}
    exec("from sash.monoids.functions import *; found = max('a'), sum('b'), any('c'), range('d'), nth('e', n=2)", scope)
    assert [bound.columns for bound in scope["found"]] == [("a",), ("b",), ("c",), ("d",), ("e",)]
