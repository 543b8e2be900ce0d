"""A call that fails in compiled code, or for want of memory, changes nothing."""

from __future__ import annotations

import random
import sys
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import sash
from sash.kernels.loops import loop_cache
from sash.stores import MemoryStore
from tests.behaviour.test_interrupts import QUERIES, SCHEMA, Harness, drawn, query_of
from tests.shared.effort import in_turn, share


def unlucky(x: int) -> int:
    if x == 13:
        raise ArithmeticError("unlucky")
    return x


def unlucky_max(a: int, b: int) -> int:
    if a == 13 or b == 13:
        raise ArithmeticError("unlucky")
    return max(a, b)


def larger(a: int, b: int) -> int:
    return max(a, b)


COMPILED = {
    "lift": sash.monoid(identity=-1, lift=unlucky, combine=larger, lower=lambda a: a, exact=True),
    "combine": sash.monoid(identity=-1, lift=lambda x: x, combine=unlucky_max, lower=lambda a: a, exact=True),
    "lower": sash.monoid(identity=-1, lift=lambda x: x, combine=larger, lower=unlucky, exact=True),
}
FAILING = [f"{name}, {where}" for name in QUERIES if QUERIES[name].get("emit") != "eager" for where in COMPILED]
"""Which query, and which function of its monoid raises."""


@pytest.mark.compiled
@pytest.mark.parametrize(("failing", "stored"), in_turn(FAILING, [False, True]))
def test_a_compiled_monoid_that_raises_changes_nothing(failing: str, stored: bool) -> None:
    """A failing row is undone with its call, also if it waited for the watermark: that call fails again."""
    name, where = failing.split(", ")
    rng = random.Random(f"{name} {where} {stored}")
    query = query_of(name, a=sash.max("s"), b=COMPILED[where]("x"), c=sash.sum("x"))
    harness = Harness(query, MemoryStore() if stored else None)
    for i in range(share(50)):
        batch = drawn(rng, 2 * i)
        struck = rng.random() < 0.4
        if struck:  # the time passes, so that the row has its turn in this call
            unlucky_row = {"k": ["a", "a", "b"], "t": [2 * i, 2 * i + 1, 2 * i + 30], "x": [13, 12, 1], "s": ["w"] * 3}
            before = harness.snapshot()
            try:
                harness.operator.process(pa.RecordBatch.from_pydict(unlucky_row, schema=SCHEMA))
            except ArithmeticError:
                harness.failed += 1
                assert harness.snapshot() == before
            else:
                pytest.fail("a failing function went unnoticed")
        harness.plain("process", batch)
    assert harness.failed >= share(4)
    harness.plain("finish")


@pytest.mark.parametrize("emit", ["final", "changes", "eager"])
def test_a_first_call_without_memory_is_undone_without_loading_loops(emit: str) -> None:
    """If memory has run out, LLVM aborts the process when machine code is loaded."""
    query = sash.Query(sash.Time(4), by="k", on="t", lateness=0, emit=emit, total=sash.sum("x"))
    batch = pa.record_batch({"k": [f"key {i}" for i in range(100)], "t": [*range(100)], "x": [1] * 100})
    expected = query.operator(batch.schema).process(batch)
    loaded, at = set[Any](), 0

    def strike(frame: Any, _event: str, _argument: Any) -> None:
        nonlocal left
        left -= "sash/engine" in frame.f_code.co_filename
        if left <= 0:
            loaded.update(loop_cache._loops)
            raise MemoryError

    while True:
        at, left = at + 16, at + 16
        loaded.clear()
        operator = query.operator(batch.schema)
        with mock.patch.object(loop_cache, "_loops", {}):  # as in a new process
            sys.setprofile(strike)
            try:
                found = operator.process(batch)
            except MemoryError:
                assert {*loop_cache._loops} == loaded
            else:
                break
            finally:
                sys.setprofile(None)
        if operator.metrics.rows_in == 0:
            assert operator.metrics.keys == 0
            assert operator.process(batch).sort_by("t").equals(expected.sort_by("t"))
    assert at > 100
    assert found.sort_by("t").equals(expected.sort_by("t"))
