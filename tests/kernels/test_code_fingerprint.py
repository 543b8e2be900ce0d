"""Fingerprints of functions: different meaning, different key; the same meaning, the same key."""

import collections
import enum
import functools
import logging
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit

from sash.kernels.jit.code_fingerprint import NotKeyed, fingerprint, reads, release
from sash.monoids import DirectProduct, Max, Min, Monoid
from tests.kernels.fingerprint_cases import key, of, sums, times

FACTOR = 2.0
OTHER = 2.0
log = logging.getLogger(__name__)
settings = types.ModuleType("settings")
settings.FACTOR = 2.0


# ---- captured values ----


def test_one_source_with_two_captured_values_is_two_monoids() -> None:
    three, five = times(3.0), times(5.0)
    assert three.lift.__code__ is five.lift.__code__
    assert fingerprint(three) != fingerprint(five)
    assert sums(three) == [3.0, 6.0]
    assert sums(five) == [5.0, 10.0]
    assert sums(times(3.0)) == [3.0, 6.0]
    assert fingerprint(times(3.0)) == fingerprint(three)


class Point(collections.namedtuple("Point", "x y")):
    pass


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


VALUES = [
    0, 0.0, -0.0, False, None, "", b"", math.nan, math.inf, 1, 1.0, True, "1", b"1", 1j, complex(0.0, -0.0), ...,
    10**5000, range(3), range(4), slice(1, 2), (), ((1, 2), 3), (1, (2, 3)), (1, 2, 3), [1, 2, 3], (1,), ((1,),),
    (1, 2), [1, 2], {1, 2}, frozenset({1, 2}), {(1, 2)}, {1: 2}, {2: 1}, {1: (2, 3)}, {1: 2, 3: None}, ("ab", "c"),
    ("a", "bc"), {"ab", "c"}, {"a", "bc"}, np.int64(1), np.int32(1), np.float32(1), np.float64(1), np.bool_(True),
    np.array([1, 2]), np.array([[1, 2]]), np.array([1.0, 2.0]), np.array([1, 2], np.int32), np.array([1, 2], ">i4"),
    np.zeros(2, [("a", "i4"), ("b", "i4")]), np.zeros(2, [("b", "i4"), ("a", "i4")]), np.dtype("i4"), np.dtype("i8"),
    np.datetime64(1, "s"), np.datetime64(1, "ms"), Point(1, 2), Colour.RED, Colour.BLUE, Colour, Point,
    math, np, math.log, math.log2, np.log, np.sum, np.float64, float, int, max, min, operator.add, Max(), Min(), Max,
    Max(1), Max(1.0), Max().combine, Max(1).combine, Min().combine, "abc".find, "abd".find,
]  # fmt: skip


def test_captured_values_of_every_kind_are_distinguished() -> None:
    keys = [fingerprint(times(value)) for value in VALUES]
    assert len({*keys}) == len(keys)
    assert [fingerprint(times(value)) for value in VALUES] == keys


def test_equal_values_are_one() -> None:
    for a, b in [
        ((1, 2), tuple([1, 2])),
        ({"a", "b", "c"}, {"c", "b", "a"}),
        (np.arange(6), np.arange(6)),
        (np.asfortranarray(np.ones((2, 3))), np.ones((2, 3))),
        (Max(3), Max(3)),
        (Max() * Min(), DirectProduct(Max(), Min())),
        (10**5000, 10**5000),
    ]:
        assert fingerprint(times(a)) == fingerprint(times(b))


def test_which_of_two_functions_is_captured_twice() -> None:
    def f(x: float) -> float:
        return x + 1

    def g(x: float) -> float:
        return x + 2

    def three(a: Any, b: Any, c: Any) -> str:
        return key(lambda x: a(x) + b(x) * c(x))

    assert len({three(f, g, f), three(f, g, g), three(f, f, g), three(g, f, g)}) == 4


def test_a_changed_array_is_another_constant() -> None:
    weights = np.array([3.0, 5.0])
    monoid = of(lambda x: x * weights[0])
    assert sums(monoid) == [3.0, 6.0]
    weights[0] = 4.0
    assert sums(monoid) == [4.0, 8.0]
    weights[0] = 3.0
    assert sums(monoid) == [3.0, 6.0]


def test_a_variable_without_a_value_is_no_error_of_ours() -> None:
    def unfinished() -> Monoid:
        monoid = of(lambda x: later(x))
        fingerprint(monoid)
        return monoid
        later = abs  # type: ignore[unreachable]

    unfinished()


# ---- functions ----


def test_defaults_and_constants() -> None:
    def keyword(k: float) -> Callable[..., Any]:
        def lift(x: float, *, k: float = k) -> float:
            return x * k

        return lift

    keys = [
        key(lambda x, k=2.0: x * k),
        key(lambda x, k=3.0: x * k),
        key(lambda x: x * 2.0),
        key(lambda x: x * 3.0),
        key(lambda x: x * -0.0),
        key(lambda x: x * 0.0),
        key(lambda x: x * 2),
        key(lambda x: x in {1.0, 2.0}),
        key(lambda x: x in {1.0, 3.0}),
        key(keyword(2.0)),
        key(keyword(3.0)),
    ]
    assert len({*keys}) == len(keys)


def test_how_parameters_are_taken() -> None:
    def plain(x, _y=1):
        return x

    def by_keyword(x, *, _y=1):
        return x

    def by_position(x, _y=1, /):
        return x

    by_keyword.__defaults__, by_keyword.__kwdefaults__ = (1,), None
    assert len({key(plain), key(by_keyword), key(by_position)}) == 3


def test_lines_and_files_do_not_count() -> None:
    source = "lambda x: [x * y for y in (1, 2)]"
    one = eval(compile(source, "one.py", "eval"))
    two = eval(compile("\n\n(\n" + source + ")", "two.py", "eval"))
    assert one.__code__.co_firstlineno != two.__code__.co_firstlineno
    assert key(one) == key(two)


def test_inner_functions() -> None:
    assert key(lambda x: (lambda y: y + 1)(x)) != key(lambda x: (lambda y: y + 2)(x))


def test_the_handler_of_an_exception() -> None:
    def one(x):
        try:
            return 1 / x
        except ZeroDivisionError:
            return 0.0

    def two(x):
        try:
            return 1 / x
        except ZeroDivisionError:
            return 1.0

    assert key(one) != key(two)


def test_a_wrapped_function_does_not_pass_for_what_it_wraps() -> None:
    """`functools.wraps` copies the name and the module; the fingerprint is that of the wrapper."""

    @functools.wraps(Max.lift)
    def lift(_self, x):
        return x * FACTOR

    assert lift.__module__.startswith("sash.")
    assert key(lift) != key(Max.lift)


# ---- globals ----


def scaled(x: float) -> float:
    return x * FACTOR


def scaled_again(x: float) -> float:
    return scaled(x)


def nested(x: float) -> float:
    return (lambda y: y * FACTOR)(x)


def recursive(x: float) -> float:
    return x * FACTOR if x < 100.0 else recursive(x - 1.0)


def ping(x: float) -> float:
    return x * FACTOR if x < 100.0 else pong(x - 1.0)


def pong(x: float) -> float:
    return x if x < 100.0 else ping(x - 1.0)


compiled_already = njit(scaled)


@pytest.mark.parametrize(
    "lift",
    [
        lambda x: x * FACTOR,
        lambda x: x * (FACTOR if x else FACTOR),
        lambda x: scaled(x),
        lambda x: scaled_again(x),
        lambda x: settings.FACTOR * x,
        lambda x: compiled_already(x),
        lambda x, scale=scaled: scale(x),
        nested,
        recursive,
        ping,
        compiled_already,
    ],
)
def test_a_global_that_is_read_on_the_way(lift: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(lift)
    monkeypatch.setitem(globals(), "OTHER", 3.0)
    assert key(lift) == before
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    monkeypatch.setattr(settings, "FACTOR", 3.0)
    assert key(lift) != before
    monkeypatch.undo()
    assert key(lift) == before


@pytest.mark.parametrize("lift", [recursive, lambda x: settings.FACTOR * x], ids=["function", "module"])
def test_a_changed_global_changes_the_answer(lift: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monoid = of(lift)
    assert sums(monoid) == [2.0, 4.0]
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    monkeypatch.setattr(settings, "FACTOR", 3.0)
    assert sums(monoid) == [3.0, 6.0]
    monkeypatch.undo()
    assert sums(monoid) == [2.0, 4.0]


def test_a_replaced_helper_changes_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monoid = of(lambda x: scaled(x))
    assert sums(monoid) == [2.0, 4.0]
    monkeypatch.setitem(globals(), "scaled", lambda x: x + 1.0)
    assert sums(monoid) == [2.0, 3.0]


def test_modules_within_modules() -> None:
    package, inner = types.ModuleType("package"), types.ModuleType("package.inner")
    package.inner, inner.K, inner.unread = inner, 1.0, 1.0

    def lift(x: float) -> float:
        return x * package.inner.K

    before = key(lift)
    inner.unread = 2.0
    assert key(lift) == before
    inner.K = 2.0
    assert key(lift) != before


def test_a_module_as_a_value_has_no_key() -> None:
    def lift(x: float) -> float:
        module = settings
        return x * module.FACTOR

    with pytest.raises(NotKeyed, match="settings, a module"):
        key(lift)


def test_installed_software_goes_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    assert release("math") == release("collections.abc") == "python"
    assert str(release("numpy.linalg")).startswith(f"numpy {np.__version__} ")
    assert release("sash.monoids.extremes") == "sash"
    assert release(__name__) is release("__main__") is release("settings") is None
    before = key(lambda x: np.sqrt(x))
    release.cache_clear()
    monkeypatch.setattr(np, "__version__", "0")
    assert key(lambda x: np.sqrt(x)) != before
    monkeypatch.undo()
    release.cache_clear()


def test_an_attribute_of_the_same_name_as_a_global_is_not_the_global() -> None:
    """`log` is a logger here, which has no key; `math.log` has."""
    assert key(lambda x: math.log(x)) == key(lambda x: math.log(x))


def test_what_code_reads() -> None:
    k = 1

    def outer(x):
        return [math.log(y, k).real + FACTOR for y in map(lambda z: z + OTHER, [x])]

    found = reads(outer.__code__)
    assert {("global", "math", "log"), ("captured", "k"), ("global", "FACTOR"), ("global", "OTHER")} <= found
    assert not any("real" in chain and chain[1] != "math" for chain in found)


def test_many_names() -> None:
    """Beyond 256 names an instruction needs a prefix."""
    reading = " + ".join(f"module_{i}.K" for i in range(300))
    scope = {f"module_{i}": types.SimpleNamespace(K=i) for i in range(300)}
    code = compile(f"lambda: {reading}", "many", "eval")
    assert {("global", name, "K") for name in scope} == reads(eval(code, scope).__code__)


# ---- functions that Numba compiled already ----


def test_options_of_compiled_functions_count() -> None:
    options: list[dict[str, Any]] = [{}, {"fastmath": True}, {"error_model": "numpy"}, {"fastmath": {"nnan", "ninf"}}]
    keys = [key(njit(**chosen)(scaled)) for chosen in options]
    assert len({*keys}) == len(keys)
    assert key(njit(fastmath={"ninf", "nnan"})(scaled)) == keys[-1]
    assert key(njit("float64(float64)")(scaled)) != key(njit("float32(float32)")(scaled)) != keys[0]


def test_a_compiled_function_reads_the_current_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    helper = njit(scaled)
    assert helper(1.0) == 2.0
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert sums(of(lambda x: helper(x))) == [3.0, 6.0]
