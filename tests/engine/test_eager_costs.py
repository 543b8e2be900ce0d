"""The eager engine: calls of ⊕, state after a failure, and retained rows."""

import math
import sys
import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.engine.revise.eager_rows import OrderedRows
from sash.kernels.loops import eager_loops as eager_order
from sash.monoids.custom import monoid
from sash.testing import Reference, assert_same
from tests.engine.eager_operator import EagerOperator

SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.int64())])
PLAIN = pytest.mark.filterwarnings("ignore:.*runs interpreted")


def batch(times: Any, values: Any, key: str = "a") -> pa.RecordBatch:
    times = list(times)
    columns = [pa.array([key] * len(times)), pa.array(times, pa.int64()), pa.array(list(values), pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class Counter:
    """Addition that counts its calls and raises from a chosen one on."""

    def __init__(self) -> None:
        self.calls = 0
        self.fails: int | None = None

    def __call__(self, a: Any, b: Any) -> Any:
        self.calls += 1
        if self.fails is not None and self.calls >= self.fails:
            raise ArithmeticError("injected")
        return a + b

    def taken(self) -> int:
        calls, self.calls = self.calls, 0
        return calls


def counted(counter: Counter) -> Any:
    # a list that it looks at keeps it from compiling
    return monoid(identity=0, lift=lambda x: x, combine=counter, lower=lambda a: [a][0], exact=True, name="counted")


# ---- costs ----


@PLAIN
@pytest.mark.parametrize("waiting", [1_000, 16_000])
def test_a_row_costs_by_its_distance_and_by_the_results_it_changes(waiting: int) -> None:
    counter = Counter()
    query = sash.Query(sash.Time(8), by="k", on="t", lateness=10**9, emit="eager", a=counted(counter)("x"))
    engine = EagerOperator(query, SCHEMA)
    engine.process(batch(range(0, 2 * waiting, 2), range(waiting)))
    for distance in (1, 16, waiting // 2):
        counter.taken()
        found = engine.process(batch([2 * (waiting - distance) + 1], [5]))
        log = math.log2(waiting)
        assert counter.taken() <= 12 * math.log2(distance + 2) + 2 * found.num_rows * 4 * log
        assert found.num_rows <= 6


@PLAIN
def test_a_row_at_the_end_costs_the_same_however_many_wait() -> None:
    costs = []
    for waiting in (500, 8_000):
        counter = Counter()
        query = sash.Query(sash.Time(1), by="k", on="t", lateness=10**9, emit="eager", a=counted(counter)("x"))
        engine = EagerOperator(query, SCHEMA)
        engine.process(batch(range(0, 10 * waiting, 10), range(waiting)))
        counter.taken()
        for i in range(64):
            engine.process(batch([10 * (waiting + i)], [1]))
        costs.append(counter.taken() / 64)
    assert costs[1] < costs[0] + 4


def most_memory(operator: EagerOperator, rows: list[pa.RecordBatch]) -> int:
    """The most bytes that one of some calls has held beyond what was there before it."""
    most = 0
    tracemalloc.start()
    try:
        for row in rows:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            operator.process(row)
            most = max(most, tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    return most


@pytest.mark.compiled
@pytest.mark.parametrize("window", [sash.Time(20), sash.Count(5), sash.Session(1), sash.Time(20, every=5)])
def test_no_array_of_a_call_is_as_long_as_the_rows_that_wait(window: Any) -> None:
    query = sash.Query(window, by="k", on="t", lateness=10**9, emit="eager", high=sash.max("x"))
    engine = EagerOperator(query, SCHEMA)
    engine.process(batch(range(0, 80_000, 2), range(40_000)))
    engine.process(batch([1], [1]))  # it makes room for more
    rows = [batch([t], [5]) for t in (79_001, 60_001, 40_001, 20_001, 80_001, 30_001)]
    assert most_memory(engine, rows) < 20_000


# ---- all or nothing ----

QUERIES = {
    "rows": {"windows": {"w": sash.Time(9), "c": sash.Count(4), "l": sash.Lifetime(), "s": sash.Session(5)}},
    "slides": {"windows": {"w": sash.Time(9, every=4), "l": sash.Lifetime(every=sash.Time(4))}},
    "slides by rows": {"windows": {"c": sash.Count(5, every=2), "l": sash.Lifetime(every=3)}},
    "forget": {"windows": {"c": sash.Count(4), "l": sash.Lifetime()}, "forget": 6},
}


@PLAIN
@pytest.mark.parametrize("name", QUERIES)
def test_a_combine_that_raises_changes_nothing(name: str) -> None:
    counter = Counter()
    arguments = dict(QUERIES[name])
    query = sash.Query(
        arguments.pop("windows"), by="k", on="t", lateness=15, emit="eager", a=counted(counter)("x"), b=sash.max("x"),
        **arguments,
    )  # fmt: skip
    engine, reference = EagerOperator(query, SCHEMA), Reference(query, SCHEMA)
    random = np.random.default_rng(3)
    failed = 0
    for i in range(60):
        count = int(random.integers(1, 4))
        rows = batch(2 * i + random.integers(-14, 3, count), random.integers(0, 9, count), "ab"[i % 2])
        counter.taken()
        counter.fails = int(random.integers(1, 30))
        try:
            engine.process(rows)
        except ArithmeticError as error:
            failed += 1
            message = str(error)
            assert "'a' failed with ArithmeticError: injected" in message
            counter.fails = None
            expected_now = reference.process(rows)
            got = engine.process(rows)
        else:
            counter.fails = None
            reference.process(rows)
            continue
        by = ["k"] if query.bind(SCHEMA).per_row else ["k", "window"]
        assert_same(got, expected_now, by=by, without=[] if query.bind(SCHEMA).per_row else ["_row"])
    assert failed > 10


def is_below(frame: Any, *names: str) -> bool:
    while frame is not None:
        if frame.f_code.co_name in names:
            return True
        frame = frame.f_back
    return False


@pytest.mark.parametrize("name", QUERIES)
def test_an_interrupt_anywhere_changes_nothing(name: str) -> None:
    """At each of many lines that a call runs through, once."""
    arguments = dict(QUERIES[name])
    query = sash.Query(
        arguments.pop("windows"), by="k", on="t", lateness=15, emit="eager", b=sash.max("x"), **arguments
    )
    engine, reference = EagerOperator(query, SCHEMA), Reference(query, SCHEMA)
    first = batch([3, 9, 4, 20, 18], [1, 2, 3, 4, 5])
    assert_same(engine.process(first), reference.process(first), by=["k"], ordered=False, without=["_row"])
    rows = batch([17, 40, 19], [7, 8, 9])
    stop = 0

    def interrupt(frame: Any, event: str, _argument: Any) -> Any:
        nonlocal left
        if "sash/engine/revise" not in frame.f_code.co_filename:
            return None
        if is_below(frame, "commit", "compact", "rollback"):  # the call has succeeded, or failed
            return None
        left -= event == "line"
        if left == 0:
            raise KeyboardInterrupt
        return interrupt

    while True:
        stop, left = stop + 7, stop + 7
        sys.settrace(interrupt)
        try:
            found = engine.process(rows)
        except KeyboardInterrupt:
            continue
        finally:
            sys.settrace(None)
        break
    assert stop > 100
    assert_same(found, reference.process(rows), by=["k"], ordered=False, without=["_row"])
    last = batch([41, 39], [1, 9])
    assert_same(engine.process(last), reference.process(last), by=["k"], ordered=False, without=["_row"])


# ---- what is kept ----


def test_rows_that_no_window_needs_are_dropped() -> None:
    query = sash.Query(sash.Time(10), by="k", on="t", lateness=20, emit="eager", a=sash.max("x"))
    engine = EagerOperator(query, SCHEMA)
    for start in range(0, 20_000, 100):
        engine.process(batch(range(start, start + 100), range(100)))
    assert engine.engine.elements < 200
    assert len(engine.engine.state.rows.labels) < 2_000
    assert len(engine.engine.state.rows.columns.log) < 10_000


def test_a_lifetime_is_one_partial_and_the_rows_that_wait() -> None:
    query = sash.Query(sash.Lifetime(), by="k", on="t", lateness=20, emit="eager", a=sash.sum("x"))
    engine = EagerOperator(query, SCHEMA)
    for start in range(0, 5_000, 100):
        found = engine.process(batch(range(start, start + 100), [1] * 100))
    assert found["a"].to_pylist()[-1] == 5_000
    assert engine.engine.elements < 200


def test_keys_go_when_nothing_of_them_is_needed() -> None:
    query = sash.Query(sash.Time(10, every=5), by="k", on="t", lateness=0, emit="eager", a=sash.max("x"))
    engine = EagerOperator(query, SCHEMA)
    for i in range(50):
        engine.process(batch([i], [i], key=f"key {i}"))
    assert engine.engine.keys < 25
    assert engine.engine.due is not None
    engine.advance(engine.engine.due)
    before = engine.engine.keys
    engine.advance(10_000)
    assert before > 0
    assert (engine.engine.keys, engine.engine.due) == (0, None)


def test_finish_drops_everything() -> None:
    query = sash.Query(sash.Count(10), by="k", on="t", lateness=5, emit="eager", a=sash.max("x"))
    engine = EagerOperator(query, SCHEMA)
    engine.process(batch([1, 2, 3], [1, 2, 3]))
    engine.finish()
    assert (engine.engine.keys, engine.engine.elements) == (0, 0)


def test_a_gap_that_is_full_is_relabelled(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows_of(*rows: tuple[int, int]) -> pa.RecordBatch:
        times, values = zip(*rows, strict=True)
        return pa.record_batch([["a"] * len(rows), times, values], schema=SCHEMA)

    run = OrderedRows.run
    relabelled = []

    def counted(self: OrderedRows, kernel: Any, *arguments: Any) -> Any:
        relabelled.extend([kernel] if kernel is eager_order.relabel_rows else [])
        return run(self, kernel, *arguments)

    monkeypatch.setattr(OrderedRows, "run", counted)
    query = sash.Query(sash.Time(1000), by="k", on="t", lateness=10**9, emit="eager", a=sash.max("x"), n=sash.count())
    engine, reference = EagerOperator(query, SCHEMA), Reference(query, SCHEMA)
    first = rows_of((0, 1), (10**6, 2))
    assert_same(engine.process(first), reference.process(first))
    rids = engine.engine.state.rows.at(np.array([0]), np.array([1]))
    engine.engine.state.rows.labels[rids] = engine.engine.state.rows.labels[rids - 1] + 5
    engine.engine.state.reset_trees(np.array([0]))
    for i in range(30):
        more = rows_of((500 - i % 3, i))
        assert_same(engine.process(more), reference.process(more))
    assert relabelled
