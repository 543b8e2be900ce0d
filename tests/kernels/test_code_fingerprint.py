"""Fingerprints: different meaning, different key; the same meaning, the same key, in every process."""

import collections
import enum
import functools
import logging
import math
import operator
import os
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

import sash
from sash.aggregators import Recalc
from sash.aggregators.in_order import InOrder
from sash.kernels import InterpretedWarning, slide
from sash.kernels.jit.code_fingerprint import LARGEST_ARRAY, NotKeyed, fingerprint, reads
from sash.kernels.jit.origin import release
from sash.monoids import DirectProduct, Max, Min, Monoid

FACTOR = 2.0
OTHER = 2.0
log = logging.getLogger(__name__)
settings = types.ModuleType("settings")
settings.FACTOR = 2.0


def add(a: Any, b: Any) -> Any:
    return a + b


def of(lift: Callable[..., Any], **keywords: Any) -> Monoid:
    """The sum of what `lift` gives."""
    return sash.monoid(identity=0.0, lift=lift, combine=add, **keywords)


def key(lift: Callable[..., Any]) -> str:
    return fingerprint(of(lift))


def sums(monoid: Monoid) -> list[Any]:
    """A compiled run, on windows of one row."""
    results = slide(Recalc, monoid, (np.array([1.0, 2.0]),), 1)
    assert results.why_interpreted == ""
    return results.to_list()


# ---- captured values ----


def times(k: Any) -> Monoid:
    return of(lambda x: x * k)


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


def test_captured_values_of_every_kind_are_told_apart() -> None:
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
    assert release("sash.monoids.order") == "sash"
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


def test_a_compiled_function_reads_the_globals_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    helper = njit(scaled)
    assert helper(1.0) == 2.0
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert sums(of(lambda x: helper(x))) == [3.0, 6.0]


# ---- classes ----


def class_with(body: str) -> type[Monoid]:
    """A user's class, always under the same name."""
    source = f"""
class Mine(Monoid):
    K = 2.0
    identity = 0.0
    def __init__(self, k=1.0): self.k = k
    def lift(self, x): return self.weigh(x)
    def combine(self, a, b): return a + b
    def lower(self, a): return a
    def weigh(self, x): return x * self.k
    {body}
"""
    scope: dict[str, Any] = {"Monoid": Monoid, "__name__": "users", "FACTOR": 2.0, "functools": functools}
    exec(textwrap.dedent(source), scope)
    return scope["Mine"]


def test_an_edited_method_is_another_monoid() -> None:
    one, two = class_with("")(), class_with("def weigh(self, x): return x * 3.0 * self.k")()
    assert type(one).__qualname__ == type(two).__qualname__
    assert fingerprint(one) != fingerprint(two)
    assert sums(one) == [1.0, 2.0]
    assert sums(two) == [3.0, 6.0]


@pytest.mark.parametrize(
    "body",
    [
        "def lower(self, a): return a + 1",
        "K = 3.0",
        "weigh = staticmethod(lambda x: x)",
        "weigh = classmethod(lambda cls, x: x)",
        "weigh = property(lambda self: abs)",
        "def weigh(self, x, k=1.0): return x",
        "extra = ((1, 2), 3)",
        "def _private(self): pass",
    ],
)
def test_members_of_a_class_count(body: str) -> None:
    assert fingerprint(class_with(body)()) != fingerprint(class_with("")())
    assert fingerprint(class_with(body)()) == fingerprint(class_with(body)())


def test_parameters_count() -> None:
    mine = class_with("")
    assert fingerprint(mine(1.0)) != fingerprint(mine(2.0))
    assert fingerprint(mine(1.0)) != fingerprint(mine(1))
    assert fingerprint(mine(1.0)) == fingerprint(mine(1.0))
    assert fingerprint(mine(Max())) != fingerprint(mine(Min()))


def test_a_slot_is_a_parameter() -> None:
    slotted = class_with("__slots__ = ('k',)")
    assert fingerprint(slotted(1.0)) != fingerprint(slotted(2.0))


def test_a_property_counts_by_its_value() -> None:
    """The compiler takes it as a constant, whatever it was made of."""
    mine = class_with("scale = property(lambda self: self.hidden[0])")
    one, two = mine(), mine()
    one.hidden, two.hidden = [1.0], [2.0]
    assert fingerprint(one) != fingerprint(two)


@pytest.mark.parametrize(
    "body",
    [
        "__doc__ = 'other'",
        "def __repr__(self): return str(unknown)",
        "def dump(self, a): return b''",
        "def typed(self, *kinds): return unknown",
        "name = 'other'",
    ],
)
def test_what_compiled_code_never_reads_does_not_count(body: str) -> None:
    assert fingerprint(class_with(body)()) == fingerprint(class_with("")())


def test_an_attribute_that_cannot_be_compiled_does_not_stop_the_rest() -> None:
    mine = class_with("")()
    mine.log, mine.cache, mine.lock = log, {}, object()
    assert sums(mine) == [1.0, 2.0]


def test_attributes_made_up_on_the_fly_have_no_key() -> None:
    with pytest.raises(NotKeyed, match="__getattr__"):
        fingerprint(class_with("def __getattr__(self, name): return 1.0")())


def test_a_property_that_fails_has_no_key() -> None:
    with pytest.raises(NotKeyed, match=r"self\.scale raised ZeroDivisionError"):
        fingerprint(class_with("scale = property(lambda self: 1 / 0)")())


def test_a_monoid_that_reads_itself() -> None:
    monoid = of(lambda x: x + monoid.identity)
    assert fingerprint(monoid) == fingerprint(monoid)


def test_a_product_of_equal_parts_is_one_product() -> None:
    one = times(3.0)
    assert fingerprint(DirectProduct(one, one)) == fingerprint(DirectProduct(times(3.0), times(3.0)))
    assert fingerprint(DirectProduct(one, times(4.0))) != fingerprint(DirectProduct(times(4.0), one))


def test_ours_are_told_apart_by_class_and_parameters() -> None:
    ours = [Max(), Min(), Max(1), Max(1.0), Max() * Min(), Min() * Max(), Max() * Max()]
    assert len({fingerprint(monoid) for monoid in ours}) == len(ours)


def test_a_wrapped_function_does_not_pass_for_what_it_wraps() -> None:
    """`functools.wraps` takes over the name and the module."""

    @functools.wraps(Max.lift)
    def lift(_self, x):
        return x * FACTOR

    assert lift.__module__.startswith("sash.")
    assert key(lift) != key(Max.lift)


def test_a_structure_of_a_users_own() -> None:
    def structure(step: str) -> type[InOrder]:
        source = f"""
            from __future__ import annotations
            class Own(Recalc):
                vals: Queue
                F: int
                E: int
                def aggregate(self): return {step}
        """
        scope: dict[str, Any] = {"Recalc": Recalc, "__name__": "users"}
        exec(textwrap.dedent(source), scope)
        return scope["Own"]

    column = (np.array([1.0, 2.0]),)
    first, second = structure("self.vals[self.F]"), structure("self.suffix(self.F)")
    assert fingerprint(first) != fingerprint(second)
    assert slide(first, Max(), column, 2).to_list() == [1.0, 1.0]
    assert slide(second, Max(), column, 2).to_list() == [1.0, 2.0]


# ---- without a key ----


def generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (log, "Logger"),
        (generator(), "generator"),
        (functools.partial(add, 1), "partial"),
        (object(), "object"),
        (types.SimpleNamespace(k=1), "SimpleNamespace"),
        (np.array([object()]), "ndarray"),
        (np.ma.masked_array([1.0], [True]), "MaskedArray"),
        (np.zeros(LARGEST_ARRAY // 8 + 1), "an array too large"),
        (np.zeros((4, 4))[:, ::2], "not contiguous"),
        ([log], "Logger"),
        ({1: log}, "Logger"),
    ],
)
def test_what_has_no_key(value: Any, named: str) -> None:
    with pytest.raises(NotKeyed, match=f"it reads k, .*{named}"):
        fingerprint(times(value))


def test_lists_that_hold_themselves() -> None:
    one, two = [1], [2]
    one.append(one)
    two.append(two)
    assert fingerprint(times(one)) != fingerprint(times(two))


def test_nested_too_deeply() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = (deep,)
    with pytest.raises(NotKeyed, match="too deeply"):
        fingerprint(times(deep))


def test_without_a_key_it_runs_interpreted(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        monoid = of(lambda x: x + 0 * file.fileno(), name="reads a file")
        with pytest.warns(InterpretedWarning, match="reads a file.*: it reads file, a TextIOWrapper"):
            results = slide(Recalc, monoid, (np.array([1.0, 2.0]),), 1)
    assert results.to_list() == [1.0, 2.0]


# ---- another process ----

PROGRAM = """
import math, sys
import numpy as np
import sash
from sash.kernels.jit.code_fingerprint import fingerprint
from sash.monoids import Max, Monoid

FACTOR = 2.0
TABLE = {"a": 1.0, "b": 2.0}
NAMES = {"x", "y", "z", "u", "v", "w"}
WEIGHTS = np.arange(5.0)

def helper(x): return math.log(x) * FACTOR + WEIGHTS[2] + (x in {1.0, 2.0, 3.0}) + len(NAMES) + len(TABLE)
def recursive(x): return recursive(x - 1) if x > 1 else helper(x)

class Mine(Monoid):
    identity = 0.0
    def __init__(self, k): self.k = k
    def lift(self, x): return recursive(x) * self.k
    def combine(self, a, b): return a + b
    def lower(self, a): return a

for monoid in (Max(), Max() * Max(1.0), Mine(2.0), sash.monoid(identity=0, lift=recursive, combine=lambda a, b: a + b)):
    print(fingerprint(monoid))
"""


def test_the_same_in_another_process(tmp_path: Path) -> None:
    found = []
    for seed, blank in (("1", ""), ("2", "\n# a comment\n\n")):
        program = tmp_path / f"program_{seed}.py"
        program.write_text(blank + PROGRAM)
        path = str(Path(sash.__file__).parents[1])
        done = subprocess.run(
            [sys.executable, str(program)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.split())
    assert found[0] == found[1]
    assert len({*found[0]}) == 4
    assert found[0][0] == fingerprint(Max())
