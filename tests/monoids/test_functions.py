"""The functions that bind aggregates to columns."""

import inspect
import pickle
import pydoc
from typing import Any, get_type_hints

import pytest

import sash
from sash.monoids import functions
from sash.monoids.algebra import Bound, ColumnLike, Condition, Monoid
from sash.monoids.by_place import Nth
from sash.monoids.extremes import ArgMax, Max
from sash.monoids.functions import AGGREGATES

NAMES = [
    *("count", "sum", "product", "mean", "geometric_mean", "min", "max", "range", "arg_min", "arg_max", "min_count"),
    *("max_count", "first", "last", "nth", "collect", "collect_distinct", "concat", "any", "all", "bit_and", "bit_or"),
    *("bit_xor", "sum_of_squares", "var", "std", "skewness", "kurtosis", "covariance", "correlation", "slope"),
    *("intercept", "m4", "longest_run", "approx_distinct", "approx_quantile", "frequent_items", "count_min", "bloom"),
    *("median", "quantile", "rank", "percent_rank", "mode", "count_distinct"),
    *("weighted_mean", "ewm_mean", "ewm_var", "ewm_std", "lag", "delta", "pct_change"),
]
NEEDED: dict[str, dict[str, Any]] = {
    "nth": {"n": 1},
    "quantile": {"q": 0.5},
    **{key: {"halflife": 2} for key in ("ewm_mean", "ewm_var", "ewm_std")},
}
NEEDS_DATASKETCHES = {"approx_distinct", "approx_quantile", "frequent_items", "count_min"}


def function(name: str) -> Any:
    if name in NEEDS_DATASKETCHES:
        pytest.importorskip("datasketches")
    return getattr(functions, name)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: functions.lag("price", 2), r"lag\(\) takes its parameters by name: sash.lag\('price', n=2\)"),
        (lambda: functions.quantile("price", 0.9), r"takes its parameters by name: sash.quantile\('price', q=0.9\)"),
        (
            lambda: functions.covariance("x", "y", 0),
            r"takes its parameters by name: sash.covariance\('x', 'y', ddof=0\)",
        ),
    ],
)
def test_a_parameter_behind_the_columns_is_answered_with_its_name(call: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        call()


def test_every_aggregate_of_the_design_is_there() -> None:
    assert sorted(AGGREGATES) == sorted(NAMES)
    assert sorted(functions.__all__) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_function_is_named_as_its_class(name: str) -> None:
    bind, aggregate = function(name), AGGREGATES[name]
    assert issubclass(aggregate, Monoid)
    assert bind.__name__ == bind.__qualname__ == aggregate.name == name
    assert aggregate.__name__.lower() == name.replace("_", "")
    assert pickle.loads(pickle.dumps(bind)) is bind


def public_parameters(aggregate: type[Monoid]) -> dict[str, Any]:
    """The arguments of a constructor and their defaults, without those that only `typed` fills."""
    return {
        key: parameter.default
        for key, parameter in inspect.signature(aggregate).parameters.items()
        if key not in Monoid.__annotations__ and not key.startswith("_")
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_signature_is_that_of_lift_and_of_the_constructor(name: str) -> None:
    bind, aggregate = function(name), AGGREGATES[name]
    signature, hints = inspect.signature(bind), get_type_hints(bind)
    columns = [one for one in signature.parameters.values() if one.kind is not one.KEYWORD_ONLY]
    parameters = {one.name: one.default for one in signature.parameters.values() if one.kind is one.KEYWORD_ONLY}
    _, *inputs = inspect.signature(aggregate.lift).parameters.values()
    assert [one.name for one in columns] == [one.name for one in inputs]
    for one, wanted in zip(columns, inputs, strict=True):
        several = wanted.kind is wanted.VAR_POSITIONAL
        assert one.kind is (one.VAR_POSITIONAL if several else one.POSITIONAL_ONLY)
        assert hints[one.name] == (ColumnLike if several or len(inputs) > 1 else ColumnLike | None)
    assert parameters.pop("where") is None
    assert hints["where"] == Condition
    assert parameters == public_parameters(aggregate)
    wanted_hints = get_type_hints(aggregate.__init__)
    assert {key: hints[key] for key in parameters} == {key: wanted_hints[key] for key in parameters}
    assert hints["return"] is Bound


@pytest.mark.parametrize("name", NAMES)
def test_a_parameter_reaches_the_aggregate(name: str) -> None:
    other = {"n": 3, "separator": "-", "ddof": 0, "bias": False, "lg_k": 10, "q": 0.25, "k": 20, "lg_max_k": 12}
    other |= {"items": ("a",), "buckets": 2048, "hashes": 3, "bits": 128}
    other |= {"interpolation": "lower", "method": "min", "ascending": False}
    other |= {"halflife": 2.5, "alpha": None, "times": True, "ignore_nulls": True}  # one of the first two
    other |= {"span": None, "com": None}  # converted to alpha, so not kept
    bind, aggregate = function(name), AGGREGATES[name]
    given = {key: other[key] for key in public_parameters(aggregate)}
    bound = bind(*"abc"[: aggregate(**given).arity[0]], **given)
    assert {key: getattr(bound.monoid, key, None) for key in given} == given
    assert bind(*"abc"[: aggregate(**given).arity[0]], **given, where="d > 0").condition == sash.expr("d > 0")


@pytest.mark.parametrize("name", NAMES)
def test_help_says_what_it_computes_with_nulls_result_and_an_example(name: str) -> None:
    text = pydoc.render_doc(function(name), renderer=pydoc.plaintext)
    assert str(inspect.signature(function(name))) in text
    assert ">>> window = sash.Window(" in text
    assert f"sash.{name}(" in text
    assert "ull" in text
    assert "Result:" in text
    for key in public_parameters(AGGREGATES[name]):
        assert text.count(key) > 1, f"{key} is not explained"


@pytest.mark.parametrize("name", NAMES)
def test_help_of_a_class_names_its_function(name: str) -> None:
    assert f"see `sash.{name}`" in (AGGREGATES[name].__doc__ or "").replace("See", "see")


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
    where = "where: 'Condition' = None) -> 'Bound'"
    assert str(inspect.signature(functions.max)) == f"(x: 'ColumnLike | None' = None, /, *, {where}"
    assert str(inspect.signature(functions.nth)) == f"(x: 'ColumnLike | None' = None, /, *, n: 'int', {where}"
    run, text = inspect.signature(functions.longest_run), inspect.signature(functions.concat)
    assert str(run) == f"(value: 'ColumnLike', at: 'ColumnLike', /, *, {where}"
    assert str(text) == f"(x: 'ColumnLike | None' = None, /, *, separator: 'str' = '', {where}"


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(TypeError, match=r"nth\(\) needs the parameter n="):
        functions.nth("x")


def test_parameters_are_keywords() -> None:
    with pytest.raises(TypeError, match=r"nth\(\) takes its parameters by name: sash.nth\('x', n=3\)"):
        functions.nth("x", 3, n=1)


def test_all_names_can_be_imported_at_once() -> None:
    scope: dict[str, Any] = {}
    exec("from sash.monoids.functions import *; found = max('a'), sum('b'), any('c'), range('d'), nth('e', n=2)", scope)
    assert [bound.columns for bound in scope["found"]] == [("a",), ("b",), ("c",), ("d",), ("e",)]


@pytest.mark.parametrize(
    ("aggregate", "advice"),
    [
        (sash.sum("x"), r"where=, not a method of it: write sash\.sum\('x', where='y > 1'\)$"),
        (sash.arg_max("x", "y"), r"write sash\.arg_max\('x', 'y', where='y > 1'\)$"),
        (sash.sum("x") / sash.count(), r"write sash\.sum\('x', where='y > 1'\) and sash\.count\(where='y > 1'\)$"),
    ],
)
def test_a_condition_is_no_method(aggregate: Any, advice: str) -> None:
    with pytest.raises(TypeError, match=advice):
        aggregate.where("y > 1")
