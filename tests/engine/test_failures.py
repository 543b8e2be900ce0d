"""Monoids, policies and columns that fail: the row and the key are named."""

import math
import warnings
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import sash
from tests.engine.lookup_cases import SCHEMA, batch, every_mode, query, to_the_end

pytestmark = pytest.mark.compiled

# ---- monoids and policies that fail ----


def unlucky(x: int) -> int:
    if x == 13:
        raise ValueError("unlucky")
    return x


def unlucky_text(x: str) -> str:
    if x == "13":
        raise ValueError("unlucky")
    return x


LOWERS = {
    "compiled": (sash.monoid(identity=0, lift=lambda x: x, combine=lambda _, b: b, lower=unlucky), pa.int64(), int),
    "interpreted": (
        sash.monoid(identity="", lift=lambda x: x, combine=lambda _, b: b, lower=unlucky_text, returns="string"),
        pa.string(),
        str,
    ),
}


@pytest.mark.parametrize("how", LOWERS)
@every_mode
def test_a_failing_monoid_names_row_and_key(how: str, mode: str) -> None:
    monoid, kind, made = LOWERS[how]
    schema = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", kind)])
    first = batch(("a", 1, made(1)), ("a", 2, made(2)), schema=schema)
    second = batch(("b", 2, made(2)), ("b", 3, made(13)), ("b", 4, made(4)), schema=schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        operator = sash.Query(3, by="k", on="t", mine=monoid("x")).operator(schema, mode=mode)
    assert operator.state.backend.engine.groups[0].aggregates[0].kernel.compiled == (how == "compiled")
    operator.process(first)
    message = r"the aggregate 'mine' failed with ValueError: unlucky; at row \{'k': 'b', 't': 3, 'x': '?13'?\}"
    with pytest.raises(ValueError, match=message):
        to_the_end(operator, second)


GROWING = {
    "session": sash.Session(5),
    "lifetime": sash.Lifetime(),
    "punctuation": sash.Punctuation("p"),
}


@pytest.mark.parametrize("name", GROWING)
@pytest.mark.parametrize("how", ["frame", "operator"])
def test_a_result_that_fails_in_a_window_that_grows_names_its_row(name: str, how: str) -> None:
    """The row whose result fails, not the one after it: the sum of key a is 13 at its second row."""
    monoid = sash.monoid(identity=0, lift=lambda x: x, combine=lambda a, b: a + b, lower=unlucky)
    rows = {"k": [*"abababc"], "t": [1, 1, 2, 2, 3, 3, 4], "x": [6, 1, 7, 1, 1, 1, 1], "p": [False] * 7}
    query = sash.Query(GROWING[name], by="k", on="t", mine=monoid("x"))
    run = query.run if how == "frame" else partial(to_the_end, query.operator())
    with pytest.raises(ValueError, match=r"'mine' failed with ValueError: unlucky; at row \{'k': 'a', 't': 2"):
        run(pa.RecordBatch.from_pydict(rows))


@pytest.mark.parametrize("emit", ["final", "eager"])
def test_a_result_that_fails_in_a_lookup_names_the_key(emit: Any) -> None:
    monoid = sash.monoid(identity=0, lift=lambda x: x, combine=lambda a, b: a + b, lower=unlucky)
    operator = sash.Query(sash.Time(4), by="k", on="t", emit=emit, mine=monoid("x")).operator(SCHEMA)
    operator.process(batch(("a", 1, 1), ("b", 1, 20), ("b", 2, 6), ("b", 4, 7)))
    with pytest.raises(ValueError, match=r"'mine' failed with ValueError: unlucky; at the lookup of key k='b'"):
        operator.lookup({"k": ["a", "b", "a"]}, at=5)  # the sum over (1, 5] of key b is 13


def test_a_user_exception_is_reported_with_its_name() -> None:
    class Unlucky(Exception):
        def __init__(self, number: int, more: str) -> None:
            super().__init__(f"{number} {more}")

    def lower(_x: str) -> str:
        raise Unlucky(13, "again")

    monoid = sash.monoid(identity="", lift=lambda x: x, combine=lambda _, b: b, lower=lower, returns="string")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        operator = sash.Query(3, mine=monoid("k")).operator(SCHEMA)
    with pytest.raises(RuntimeError, match=r"'mine' failed with Unlucky: 13 again; at row \{'k': 'a'"):
        operator.process(batch(("a", 1, 1)))


def test_a_row_that_cannot_be_lifted_names_the_owner_of_a_shared_state() -> None:
    """`n` is read from the counts of `mine`: results of an earlier call do not change which of them is named."""
    monoid = sash.monoid(identity=0, lift=unlucky, combine=lambda a, b: a + b)
    operator = sash.Query(sash.Time(4, every=2), by="k", on="t", mine=monoid("x"), n=sash.count("x")).operator(SCHEMA)
    assert len(operator.state.backend.engine.groups[0].aggregates) == 1
    operator.process(batch(*(("a", t, 1) for t in range(4))))
    with pytest.raises(ValueError, match="the aggregate 'mine' failed with ValueError: unlucky"):
        to_the_end(operator, batch(("a", 4, 13)))


def test_a_failing_policy_names_row_and_key() -> None:
    def evict(total: Any, _prefix: Any) -> bool:
        if total == 13:
            raise ValueError("unlucky")
        return False

    operator = query(sash.Policy(evict, sash.last("x"))).operator(SCHEMA, mode="given")
    operator.process(batch(("a", 1, 1), ("b", 2, 13)))
    with pytest.raises(ValueError, match=r"the policy failed with ValueError: unlucky; at row \{'k': 'b', 't': 2"):
        operator.finish()


@pytest.mark.parametrize(("value", "says"), [(None, "is null, NaN or infinite"), (1, "must not decrease")])
def test_a_bad_delta_column_names_the_row(value: Any, says: str) -> None:
    operator = sash.Query(sash.Delta("x", 3), by="k", n=sash.count()).operator(SCHEMA)
    operator.process(batch(("a", 1, 5), ("b", 1, 9)))
    with pytest.raises(ValueError, match=rf"'x' of a Delta window {says}.* at row \{{'k': 'a', 't': 7"):
        operator.process(batch(("b", 6, 9), ("a", 7, value)))


# ---- what fails, set aside ----

TWO = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.int64()), ("y", pa.int64())])
LIMIT = 2**62


def large_even(total: int) -> int:
    if total > 2 and total % 2:  # the sample values are small
        raise ArithmeticError("odd")
    return total


SUMS = {
    "lifted": sash.monoid(identity=0, lift=unlucky, combine=lambda a, b: a + b, lower=lambda a: a)("x"),
    "lowered": sash.monoid(identity=0, lift=lambda x: x, combine=lambda a, b: a + b, lower=large_even)("x"),
}


@pytest.mark.parametrize("emit", ["final", "eager"])
def test_compiled_aggregates_fail_as_interpreted_ones(emit: Any) -> None:
    given: Any = {"by": "k", "on": "t", "lateness": 0, "emit": emit, "options": sash.Options(failed="side")}
    op = sash.Query(2, **given, **SUMS, total=sash.sum("y")).operator(TWO)
    assert all(op.state.backend.is_compiled(number) for number in range(3))
    values = ((1, 3, 1), (2, 13, 1), (3, 13, 1), (4, 5, LIMIT), (5, 4, LIMIT), (6, 13, 2))
    rows = pa.RecordBatch.from_pylist([{"k": "a", "t": t, "x": x, "y": y} for t, x, y in values], TWO)
    found = pa.concat_batches([op.process(rows), op.finish()])
    assert found.select(["lifted", "lowered", "total"]).to_pylist() == [
        {"lifted": 3, "lowered": None, "total": 1},
        {"lifted": 8, "lowered": 8, "total": LIMIT + 1},
        {"lifted": 9, "lowered": None, "total": None},
    ]
    assert op.failed_rows()["t"].to_pylist() == [2, 3, 6]
    assert (op.metrics.failed, op.metrics.failed_results) == (3, 3)


def test_a_lift_is_checked_as_it_runs() -> None:
    """Compiled, `1 / x` is an error and log(0) -inf; the aggregate below compiles, so log(0) does not fail."""
    mine = sash.monoid(identity=0.0, lift=lambda x: math.log(x) + 0.0, combine=lambda a, b: a + b, lower=lambda a: a)
    op = sash.Query(2, on="t", lateness=5, options=sash.Options(failed="side"), s=mine("x")).operator(
        pa.schema({"t": "int64", "x": "float64"})
    )
    op.process(pa.record_batch({"t": [1, 2], "x": [1.0, 0.0]}))
    assert op.finish()["s"].to_pylist() == [0.0, -math.inf]
    assert op.metrics.failed == 0
