"""Fingerprints: what names a query's state, what does not, and that other processes give the same."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash import Options, Query
from sash.kernels.jit.code_fingerprint import release
from sash.monoids.algebra import itself
from sash.windows import Count, Delta, Lifetime, Policy, Punctuation, Session, Time

SCHEMA = pa.schema(
    [("k", pa.string()), ("ts", pa.timestamp("us")), ("i", pa.int64()), ("x", pa.float64()), ("end", pa.bool_())]
)
HIGH = sash.max("x")


def evicts(total: Any, prefix: Any) -> bool:
    return bool(total - prefix > 10)


def print_of(windows: Any = "1h", schema: pa.Schema = SCHEMA, **keywords: Any) -> str:
    said: dict[str, Any] = {"by": "k", "on": "ts", "high": HIGH} | keywords
    return Query(windows, **{name: value for name, value in said.items() if value is not None}).fingerprint(schema)


def test_it_is_32_hexadecimal_digits() -> None:
    assert len(print_of()) == 32
    assert int(print_of(), 16)


def test_it_never_changes() -> None:
    """State that was written once is read by later versions: a new value here needs a new VERSION."""
    assert print_of() == "67279518304a09a4d8f808aa9d1d9bb7"
    assert print_of({"a": Time("1h", every="1m"), "b": Session("5m", every="close")}, lateness="1s", forget="1d") == (
        "6a7f5f6da825cb017b10b359804fd79e"
    )


CHANGED: list[dict[str, Any]] = [
    {"windows": "2h"},
    {"windows": 5},
    {"windows": {"a": "1h"}},
    {"windows": {"a": "1h", "b": "2h"}},
    {"windows": Time("1h", closed="left")},
    {"windows": Time("1h", every="1m")},
    {"windows": Time("1h", every="1m", offset="1s")},
    {"windows": Time("1h", every="25m")},
    {"windows": Time("1h", every="25m", align="start")},
    {"windows": Time("1h", every=5)},
    {"windows": Session("1h")},
    {"windows": Session("1h", every="close")},
    {"windows": Lifetime()},
    {"windows": Delta("i", 5)},
    {"windows": Delta("x", 5)},
    {"windows": Punctuation("end")},
    {"windows": Count(5, full=True)},
    {"windows": Policy(evicts, sash.sum("x"))},
    {"windows": Policy(evicts, sash.sum("i"))},
    {"windows": Policy(evicts, (sash.sum("i"),))},
    {"windows": Policy(lambda _t, _p: True, sash.sum("i"))},
    {"by": None},
    {"by": ["k", "i"]},
    {"on": ["ts", "i"]},
    {"lateness": "1s"},
    {"lateness": "2s"},
    {"forget": "1d"},
    {"high": sash.max("i")},
    {"high": sash.min("x")},
    {"high": None, "low": HIGH},
    {"n": sash.count()},
    {"v": sash.var("x")},
    {"v": sash.var("x", ddof=0)},
    {"v": sash.monoids.DirectProduct(sash.monoids.Max(), sash.monoids.Sum())("x")},
    {"v": sash.monoids.DirectProduct(sash.monoids.Sum(), sash.monoids.Max())("x")},
    {"schema": SCHEMA.set(3, pa.field("x", pa.float32()))},
    {"schema": SCHEMA.set(1, pa.field("ts", pa.timestamp("ms")))},
    {"schema": SCHEMA.append(pa.field("more", pa.int8()))},
]


def test_what_is_part_of_it() -> None:
    found = {print_of(): "the plain query"}
    for changed in CHANGED:
        one = print_of(**changed)
        assert one not in found, f"{changed} has the fingerprint of {found[one]}"
        found[one] = str(changed)


@pytest.mark.parametrize(
    "changed",
    [
        {"options": Options(structure="DABA")},
        {"options": Options(prefer="latency", threads=2)},
        {"emit": "changes"},
        {"emit": "eager"},
        {"late": "flag"},
        {"late": "error"},
        {"ahead": "1m"},
        {"windows": "60m"},
        {"windows": Time("1h", closed="right")},
        {"schema": SCHEMA.with_metadata({"a": "b"})},
    ],
    ids=str,
)
def test_what_is_not(changed: dict[str, Any]) -> None:
    assert print_of(**changed) == print_of()


def total(**keywords: Any) -> Any:
    return sash.monoid(identity=0, combine=lambda a, b: a + b, **keywords)("x")


def test_a_user_s_aggregate_goes_by_its_name() -> None:
    named = sash.monoid(identity=0, combine=lambda a, b: b + a, lift=float, name="total")("x")
    assert print_of(high=total(name="total")) == print_of(high=named)
    assert print_of(high=total(name="total")) != print_of(high=total(name="sum"))


def test_a_user_s_aggregate_without_a_name_goes_by_its_code() -> None:
    def scaled(by: int) -> Any:
        return sash.monoid(identity=0, lift=lambda x: by * x, combine=lambda a, b: a + b)("x")

    assert print_of(high=total()) == print_of(high=total())
    assert print_of(high=scaled(2)) == print_of(high=scaled(2)) != print_of(high=scaled(3))


def test_what_has_no_key_goes_by_its_functions_names() -> None:
    def captured(thing: Any) -> Any:
        return sash.monoid(identity=0, lift=lambda x: thing and x, combine=lambda a, b: a + b)("x")

    assert print_of(high=captured(object())) == print_of(high=captured(object())) != print_of(high=total())


def test_a_class_of_a_user_s_own_goes_by_its_name_and_parameters() -> None:
    class Power(sash.monoids.Monoid):
        identity = 0.0
        combine = staticmethod(lambda a, b: a + b)
        lower = staticmethod(lambda a: a)

        def __init__(self, exponent: Any, read: Any = abs) -> None:
            self.exponent, self.read = exponent, read

        def lift(self, x: Any) -> Any:
            return self.read(x) ** 2

    prints = [print_of(high=Power(exponent)("x")) for exponent in (2, 3, (2, 3), b"2", sash.monoids.Max())]
    prints += [print_of(high=Power(2, float)("x"))]
    assert len({*prints}) == len(prints)
    assert print_of(high=Power(2)("x")) == prints[0]


PROGRAM = """
import sash, pyarrow as pa
schema = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us")), ("x", pa.float64())])
def evicts(total, prefix): return total[0] - prefix[0] > 10
windows = {"a": "1h", "b": 10, "p": sash.Policy(evicts, (sash.sum("x"),))}
free = sash.monoid(identity=frozenset(), lift=lambda x: frozenset({x}), combine=lambda a, b: a | b, lower=len)
print(sash.Query(windows, by="k", on="ts", d=sash.collect_distinct("k"), free=free("k")).fingerprint(schema))
"""


def test_other_processes_give_the_same() -> None:
    """Python's own hashes differ between them."""
    found = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONHASHSEED": seed},
        )
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1


def test_our_aggregates_need_no_numba() -> None:
    program = (
        "import sys, sash, pyarrow as pa; q = sash.Query(5, high=sash.max('x'));"
        "schema = pa.schema([('x', pa.int64())]); q.fingerprint(schema); q.explain(schema);"
        "assert 'numba' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def nameless() -> list[str]:
    """The fingerprints of queries that depend on code: of functions alone, of NumPy, and of a monoid of ours."""
    high = sash.monoids.Max()
    logs = sash.monoid(identity=0.0, lift=lambda x: np.log(x) + 1, combine=lambda a, b: a + b)
    highest = sash.monoid(identity=0.0, combine=lambda a, b: high.combine(b, a), empty=None)
    policy = Policy(evicts, sash.sum("i"))
    return [print_of(high=logs("x")), print_of(high=highest("x")), print_of(policy, on=None)]


def test_a_change_of_our_modules_leaves_the_state_of_nameless_monoids_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    before = nameless()
    assert len({*before}) == 3
    for ours in (sash.monoids.Max, sash.monoids.Monoid, type(sash.monoid(identity=0, combine=max)), itself):
        monkeypatch.setattr(ours, "__module__", f"sash.elsewhere.{ours.__name__.lower()}")
    monkeypatch.setattr(itself, "__qualname__", "_unchanged")
    assert nameless() == before


def test_another_release_of_numpy_leaves_the_state_of_nameless_monoids_readable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = nameless()

    def later(module: str) -> str | None:
        found = release(module)
        return f"{found} and later" if module.startswith("numpy") else found

    monkeypatch.setattr("sash.kernels.jit.code_fingerprint.release", later)
    assert nameless() == before
