"""Fingerprints of classes, also in another process; and values that have no fingerprint."""

import functools
import logging
import os
import subprocess
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sash
from sash.aggregators import Recalc
from sash.aggregators.in_order import InOrder
from sash.kernels import InterpretedWarning, slide
from sash.kernels.jit.code_fingerprint import LARGEST_ARRAY, NotKeyed, fingerprint
from sash.monoids import DirectProduct, Max, Min, Monoid
from tests.kernels.fingerprint_cases import add, of, sums, times

log = logging.getLogger(__name__)


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


def test_our_monoids_are_distinguished_by_class_and_parameters() -> None:
    ours = [Max(), Min(), Max(1), Max(1.0), Max() * Min(), Min() * Max(), Max() * Max()]
    assert len({fingerprint(monoid) for monoid in ours}) == len(ours)


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
