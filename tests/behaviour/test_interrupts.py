"""A call that is interrupted changes nothing, at whatever call of a function in the engine Ctrl-C comes.

    call ──▶ ✗ at a random point ──▶ the same snapshot as before ──▶ the same call again ──▶ results of the reference

Interrupts come from a profile function, so that they hit any call of a function, in Python or in C, that the engine
makes; a second one may hit the undoing of the first. Functions in Python that raise, and stores that fail, are those
of `tests/behaviour/test_state.py`.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.stores import MemoryStore
from sash.testing import Reference, assert_same
from tests.shared.effort import share

SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.int64()), ("s", pa.string())])
AGGREGATES = {"high": sash.max("x"), "total": sash.sum("x"), "most": sash.max("s"), "newest": sash.last("s")}


def keep_three(total: Any, prefix: Any) -> bool:
    return bool(total - prefix >= 3)


QUERIES: dict[str, dict[str, Any]] = {
    "rows": {"windows": {"t": sash.Time(9), "c": sash.Count(4), "d": sash.Time(3)}},
    "forget": {"windows": {"c": sash.Count(4), "l": sash.Lifetime(), "s": sash.Session(3)}, "forget": 5},
    "slides": {"windows": {"t": sash.Time(9, every=4), "l": sash.Lifetime(every=sash.Time(4))}},
    "closed": {"windows": {"s": sash.Session(4, every="close"), "t": sash.Time(6, every=2)}},
    "counted": {"windows": sash.Count(5, every=2), "forget": 8},
    "policy": {"windows": sash.Policy(keep_three, sash.count())},
    "ahead": {"windows": {"t": sash.Time(6, shift=4), "c": sash.Count(3, shift=2), "s": sash.Session(4)}, "forget": 9},
    "eager": {"windows": {"t": sash.Time(9), "c": sash.Count(3)}, "emit": "eager"},
    "eager slides": {"windows": {"t": sash.Time(9, every=4)}, "emit": "eager"},
    "changes": {"windows": {"t": sash.Time(9), "c": sash.Count(3)}, "emit": "changes", "forget": 6},
}


def drawn(rng: random.Random, first: int) -> pa.RecordBatch:
    """A few rows around a time, or many, of a few keys; some are late."""
    count = rng.choice([1, 1, 2, 3, 8, 30])
    rows = [
        (rng.choice("abcdefgh"), first + rng.randint(-6, 2), rng.choice([None, *range(9)]), rng.choice("xyzuvw") * 3)
        for _ in range(count)
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), SCHEMA, strict=True)], schema=SCHEMA
    )


def query_of(name: str, **aggregates: Any) -> sash.Query:
    arguments = dict(QUERIES[name])
    return sash.Query(arguments.pop("windows"), by="k", on="t", lateness=4, **arguments, **(aggregates or AGGREGATES))


class Harness:
    """An operator and the reference: makes calls that may fail, and checks the state after them."""

    def __init__(self, query: sash.Query, store: MemoryStore | None) -> None:
        self.query, self.store = query, store
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.operator = query.operator(SCHEMA, store=store)
        self.reference = Reference(query, SCHEMA)
        self.by = ["k"] if query.bind(SCHEMA).per_row or "" in query.windows else ["k", "window"]
        self.failed = 0

    def snapshot(self) -> Any:
        """The whole state; None with a store, which may be ahead of memory until the next call that succeeds."""
        return self.operator.snapshot() if self.store is None else None

    def attempt(self, call: str, argument: Any, struck: Any, error: type[BaseException], again: bool = True) -> None:
        """A call within `struck`, where an error may come; after it nothing has changed, and the call is made again."""
        given = () if argument is None else (argument,)
        before, progress, keys = self.snapshot(), self.progress(), self.operator.metrics.keys
        try:
            with struck:
                found = getattr(self.operator, call)(*given)
        except error:
            self.failed += 1
            if self.progress() != progress:
                getattr(self.reference, call)(*given)  # it has come when the call had succeeded
                return
            assert self.snapshot() == before
            assert self.operator.metrics.keys == keys, "keys of a failed call stay"
            if again:
                self.plain(call, argument)
            return
        self.compare(found, getattr(self.reference, call)(*given))

    def progress(self) -> Any:
        return self.operator.metrics.rows_in, self.operator.watermark

    def plain(self, call: str, argument: Any = None) -> None:
        """A call that succeeds."""
        given = () if argument is None else (argument,)
        self.compare(getattr(self.operator, call)(*given), getattr(self.reference, call)(*given))

    def compare(self, found: pa.RecordBatch, expected: pa.RecordBatch) -> None:
        eager = self.query.emit == "eager"
        assert_same(found, expected, by=self.by, ordered=not eager, without=["_row"] if eager else [])

    def reopened(self) -> None:
        """Continue with another operator on the store after a call that has succeeded."""
        if self.store is not None:
            self.operator = self.query.operator(SCHEMA, store=self.store)


ROOMS = ("columns", "engine", "state")


@contextmanager
def interrupts(rng: random.Random, most: int, again: bool = False) -> Iterator[None]:
    """Raise KeyboardInterrupt at a random call of a function in the engine; `again`: also while that is undone."""
    left, more = rng.randint(1, most), rng.randint(1, 60)

    def is_ours(frame: Any) -> bool:
        code = frame.f_code
        return any(f"sash/{room}" in code.co_filename for room in ROOMS) and code.co_name != "<genexpr>"

    def strike(frame: Any, _event: str, _argument: Any) -> None:
        nonlocal left
        left -= is_ours(frame)
        if left <= 0:
            raise KeyboardInterrupt  # and Python takes the profile function away

    def strike_again(frame: Any, _event: str, _argument: Any) -> None:
        nonlocal more
        more -= left <= 0 and is_ours(frame)
        if more == 0:
            raise KeyboardInterrupt

    tracer = sys.gettrace()
    if again:
        sys.settrace(strike_again)
    sys.setprofile(strike)
    try:
        yield
    finally:
        sys.setprofile(None)
        sys.settrace(tracer)


stores = pytest.mark.parametrize("stored", [False, True], ids=["memory", "store"])


@stores
@pytest.mark.parametrize("name", QUERIES)
def test_an_interrupt_anywhere_changes_nothing(name: str, stored: bool) -> None:
    rng = random.Random(f"{name} {stored}")
    harness = Harness(query_of(name), MemoryStore() if stored else None)
    for i in range(share(60)):
        call, argument = ("process", drawn(rng, 2 * i)) if rng.random() < 0.85 else ("advance", 2 * i - 3)
        struck = interrupts(rng, rng.choice([50, 300, 900]), again=rng.random() < 0.3)
        harness.attempt(call, argument, struck, KeyboardInterrupt, again=rng.random() < 0.7)
        if rng.random() < 0.1:
            harness.plain("process", drawn(rng, 2 * i))
            harness.reopened()
    assert harness.failed > share(10)
    harness.plain("finish")


@pytest.mark.parametrize("name", ["rows", "slides"])
def test_an_interrupted_lookup_changes_nothing(name: str) -> None:
    """An operator that was opened again reads the keys of a lookup and the rows that wait: all of them or none."""
    rng, store = random.Random(name), MemoryStore()
    harness, failed = Harness(query_of(name), store), 0
    for i in range(share(40)):
        harness.plain("process", drawn(rng, 2 * i))
        harness.reopened()
        try:
            with interrupts(rng, 900):
                harness.operator.lookup({"k": rng.sample("abcdefgh", 3)})
        except KeyboardInterrupt:
            failed += 1
    harness.plain("finish")
    assert failed > share(5)


@pytest.mark.parametrize("emit", ["final", "changes", "eager"])
def test_a_call_that_fails_anywhere_leaves_no_key(emit: Any) -> None:
    """At every third call of a function in the engine."""
    query = sash.Query(sash.Time(4), by="k", on="t", lateness=0, emit=emit, total=sash.sum("x"))
    batch = pa.record_batch({"k": [f"key {i}" for i in range(20)], "t": [*range(20)], "x": [1] * 20})
    expected, at, left = query.operator(batch.schema).process(batch), 0, 0

    def strike(frame: Any, _event: str, _argument: Any) -> None:
        nonlocal left
        left -= "sash/engine" in frame.f_code.co_filename
        if left <= 0:
            raise MemoryError

    while True:
        at, left = at + 3, at + 3
        operator = query.operator(batch.schema)
        sys.setprofile(strike)
        try:
            operator.process(batch)
        except MemoryError:
            sys.setprofile(None)
            if operator.metrics.rows_in == 0:
                assert operator.metrics.keys == 0
                assert operator.process(batch).sort_by("t").equals(expected.sort_by("t"))
        else:
            break
        finally:
            sys.setprofile(None)
    assert at > 100
