"""A failed call changes nothing, wherever it fails: at Ctrl-C, in a policy, or in compiled code.

    call ──▶ ✗ at a random point ──▶ the same snapshot as before ──▶ the same call again ──▶ results of the reference

Interrupts come from a profile function, so that they hit any call of a function, in Python or in C, that the engine
makes; a second one may hit the undoing of the first. Functions in Python that raise, and stores that fail, are those
of `tests/behaviour/test_state.py`.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.engine import Operator
from sash.engine.live_backend import LiveBackend
from sash.stores import MemoryStore
from sash.testing import Reference, assert_same
from tests.engine.test_small_pages import small_pages
from tests.shared.effort import in_turn, share
from tests.shared.strikes import Strikes, Struck

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


def struck_monoid(strikes: Strikes, where: str) -> Any:
    """An interpreted sum of numbers as text; `strikes` makes one of its functions raise."""

    def at(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def function(*given: Any) -> Any:
            if name == where:
                strikes()
            return work(*given)

        return function

    return sash.monoid(
        identity="0",
        lift=at("lift", str),
        combine=at("combine", lambda a, b: str(int(a) + int(b))),
        lower=at("lower", int),
        returns="int64",
        exact=True,
        name=f"struck {where}",
    )


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
            self.operator = Operator(query, SCHEMA, store=store)
        self.reference = Reference(query, SCHEMA)
        self.by = ["k"] if query.bind(SCHEMA).per_row or "" in query.windows else ["k", "window"]
        self.failed = 0

    def snapshot(self) -> Any:
        """The whole state; None with a store, which may be ahead of memory until the next call that succeeds."""
        return self.operator.snapshot() if self.store is None else None

    def attempt(self, call: str, argument: Any, struck: Any, error: type[BaseException], again: bool = True) -> None:
        """A call within `struck`, where an error may come; after it nothing has changed, and the call is made again."""
        given = () if argument is None else (argument,)
        before, progress = self.snapshot(), self.progress()
        try:
            with struck:
                found = getattr(self.operator, call)(*given)
        except error:
            self.failed += 1
            if self.progress() != progress:
                getattr(self.reference, call)(*given)  # it has come when the call had succeeded
                return
            assert self.snapshot() == before
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
            self.operator = Operator(self.query, SCHEMA, store=self.store)


ROOMS = ("columns", "engine", "state")


@contextmanager
def interrupts(rng: random.Random, most: int, again: bool = False) -> Iterator[None]:
    """Raise KeyboardInterrupt at a random call of a function in the engine; `again`: also while that is undone."""
    left = rng.randint(1, most)

    def strike(frame: Any, _event: str, _argument: Any) -> None:
        nonlocal left
        if any(f"sash/{room}" in frame.f_code.co_filename for room in ROOMS) and frame.f_code.co_name != "<genexpr>":
            left -= 1
            if left <= 0:
                raise KeyboardInterrupt

    recover = LiveBackend.recover

    def struck_recover(self: LiveBackend) -> None:
        nonlocal left
        LiveBackend.recover = recover  # type: ignore[method-assign]
        left = rng.randint(1, 60)
        sys.setprofile(strike)
        recover(self)

    if again:
        LiveBackend.recover = struck_recover  # type: ignore[method-assign]
    sys.setprofile(strike)
    try:
        yield
    finally:
        sys.setprofile(None)
        LiveBackend.recover = recover  # type: ignore[method-assign]


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
    with small_pages(2):
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


# ---- a user's function that raises ----


@contextmanager
def raising_at(strikes: Strikes, left: int) -> Iterator[None]:
    strikes.left = left
    try:
        yield
    finally:
        strikes.left = -1


@stores
def test_a_policy_that_raises_changes_nothing(stored: bool) -> None:
    rng, strikes = random.Random(f"policy {stored}"), Strikes()

    def evict(total: Any, prefix: Any) -> bool:
        strikes()
        return bool(total - prefix >= 3)

    query = sash.Query(sash.Policy(evict, sash.count()), by="k", on="t", lateness=4, a=sash.max("s"), b=sash.sum("x"))
    harness = Harness(query, MemoryStore() if stored else None)
    for i in range(40):
        struck = raising_at(strikes, rng.randint(1, 20))
        harness.attempt("process", drawn(rng, 2 * i), struck, Struck, again=rng.random() < 0.7)
    assert harness.failed > 5
    harness.plain("finish")


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


@pytest.mark.compiled
def test_text_is_relabelled_in_a_call_that_fails() -> None:
    """Text is compared by labels between those of its neighbours; when there is no room all of them change."""
    strikes = Strikes()
    mine = struck_monoid(strikes, "lower")
    for window in (sash.Time(50), sash.Time(50, every=2), sash.Session(50, every="close"), sash.Lifetime()):
        query = sash.Query(window, by="k", on="t", lateness=0, a=sash.max("s"), b=sash.min("s"), c=mine("x"))
        harness = Harness(query, None)
        for i in range(80):  # each between the greatest and the one before: the room halves
            text = ["a", "z"] if i == 0 else ["z" * 2 + "y" * (90 - i)]
            rows = {"k": ["a"] * len(text), "t": [i] * len(text), "x": [i] * len(text), "s": text}
            struck = raising_at(strikes, 1)
            harness.attempt("process", pa.RecordBatch.from_pydict(rows, schema=SCHEMA), struck, Struck)
        labels = harness.operator.state.backend.engine.groups[0].aggregates[0].dictionaries[0]
        assert labels._generation > 0
        harness.plain("finish")
