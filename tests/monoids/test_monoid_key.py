"""The key of a monoid: equal for equal meaning, in every process; different for different meaning."""

from __future__ import annotations

import math
import subprocess
import sys
from operator import add
from typing import Any

import pytest

import sash
from sash.monoids import Count, Max, Min, Monoid, Sum, Var
from sash.monoids.custom import code_key, monoid_key


def key(monoid: Monoid) -> Any:
    return monoid_key(monoid, code_key)


def own(**changes: Any) -> Monoid:
    given: dict[str, Any] = {"identity": 0, "lift": lambda x: x, "combine": lambda a, b: a + b}
    return sash.monoid(**(given | changes))


def scaled(by: Any) -> Any:
    return lambda x: x * by


def test_ours_are_named_with_their_parameters() -> None:
    assert key(Sum() * Var(ddof=0)) == ["product", ["ours", "sum", {}], ["ours", "var", {"ddof": 0}]]
    keys = [key(monoid) for monoid in (Sum(), Max(), Min(), Count(), Var(), Var(ddof=0), Sum() * Max(), Max() * Sum())]
    assert all(keys.count(one) == 1 for one in keys)


def test_a_name_stands_for_the_code() -> None:
    assert key(own(name="mine")) == key(own(name="mine", lift=lambda x: 2 * x)) == ["named", "mine"]
    assert key(own(name="mine")) != key(own(name="yours"))


@pytest.mark.parametrize(
    "changes",
    [
        {"lift": lambda x: x + 1},
        {"combine": lambda a, b: b + a},
        {"combine": max},
        {"combine": add},
        {"lower": lambda a: -a},
        {"identity": 1},
        {"lift": scaled(2)},
        {"lift": scaled(3)},
        {"lift": lambda x, by=2: x * by},
        {"lift": lambda x: math.sqrt(x)},  # noqa: PLW0108 - a function of its own
        {"lift": lambda x: [x + y for y in (1, 2)]},
        {"lift": lambda x: [x + y for y in (1, 3)]},
    ],
)
def test_code_that_differs_has_another_key(changes: dict[str, Any]) -> None:
    assert key(own(**changes)) != key(own())
    assert key(own(**changes)) == key(own(**changes))


def test_captured_values_and_constants_are_distinguished() -> None:
    assert key(own(lift=scaled(2))) == key(own(lift=scaled(2))) != key(own(lift=scaled(3)))


def test_globals_that_code_reads_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before: Any = key(own(lift=lambda x: helped(x) + FACTOR))
    monkeypatch.setitem(globals(), "FACTOR", 3)
    after: Any = key(own(lift=lambda x: helped(x) + FACTOR))
    monkeypatch.setitem(globals(), "helped", lambda x: x - 1)
    assert before != after
    assert key(own(lift=lambda x: helped(x) + FACTOR)) not in (before, after)


FACTOR = 2


def helped(x: int) -> int:
    return helped(x // 2) if x else FACTOR


PROGRAM = """
import sash
from sash.monoids.custom import code_key, monoid_key
thing = object()
words = {"alpha", "beta", "gamma", "delta"}
print(monoid_key(sash.monoid(
    identity=frozenset(), lift=lambda x: (x in {"a", "b", "c", "d"}, x in words, thing), combine=max), code_key))
"""


def test_the_key_is_the_same_in_every_process() -> None:
    keys = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in "123"
    }
    assert len(keys) == 1
