"""An operator used by two threads: a second one that changes it is refused, one that reads waits for the first."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.engine import single_user
from sash.engine.single_user import SingleUser

pytestmark = pytest.mark.filterwarnings("ignore:.*interpreted")

BATCH = pa.record_batch({"t": [1, 2, 3], "x": [3, 1, 2]})
CHANGES: dict[str, Callable[[Any], object]] = {
    "process": lambda operator: operator.process(BATCH),
    "advance": lambda operator: operator.advance(9),
    "finish": lambda operator: operator.finish(),
    "late_rows": lambda operator: operator.late_rows(),
}
READS: dict[str, Callable[[Any], object]] = {
    "lookup": lambda operator: operator.lookup({}).to_pylist(),
    "snapshot": lambda operator: operator.snapshot(),
    "metrics": lambda operator: operator.metrics,
    "due": lambda operator: operator.due,
    "structures": lambda operator: operator.structures,
}


def operator_with(lift: Callable[[Any], Any]) -> Any:
    """An operator that calls this function with each value."""
    largest = sash.monoid(identity=0, lift=lift, combine=max, lower=lambda state: state)
    return sash.Query(2, on="t", high=largest("x")).operator(BATCH.schema)


class Slow:
    """An operator with a call that runs in another thread, inside `during`, until the end of the block."""

    def __init__(self, several: bool = False) -> None:
        self.entered, self.leave, self.armed = threading.Event(), threading.Event(), False
        self.operator = operator_with(self.waits)
        if several:
            self.operator = sash.Queries(one=self.operator.query).operator(BATCH.schema)
        self.results: list[Any] = []

    def waits(self, x: int) -> int:
        if self.armed:  # a query tries its functions before it runs
            self.entered.set()
            assert self.leave.wait(30)
        return x

    @contextmanager
    def during(self, call: Callable[[Any], object] = CHANGES["process"]) -> Iterator[Any]:
        self.armed = True
        worker = threading.Thread(target=lambda: self.results.append(call(self.operator)))
        worker.start()
        assert self.entered.wait(30)
        try:
            yield self.operator
        finally:
            self.leave.set()
            worker.join()


@pytest.mark.parametrize("several", [False, True], ids=["one", "several"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_from_another_thread_is_refused(name: str, several: bool) -> None:
    """A call is refused while another one is running; that one returns its usual results."""
    slow = Slow(several)
    with slow.during() as operator:
        with pytest.raises(RuntimeError, match="already running, in another thread"):
            CHANGES[name](operator)
        assert several or operator.watermark is None
    found = [one["one"] if several else one for one in (*slow.results, operator.finish())]
    assert pa.Table.from_batches(found)["high"].to_pylist() == [3, 3, 2]


@pytest.mark.parametrize("name", READS)
def test_what_only_reads_waits(name: str) -> None:
    slow, answers = Slow(), list[object]()
    with slow.during() as operator:
        readers = [threading.Thread(target=lambda: answers.append(READS[name](operator))) for _ in range(3)]
        for reader in readers:
            reader.start()
        readers[0].join(0.15)
        assert not answers
    for reader in readers:
        reader.join(30)
    assert answers == [READS[name](operator)] * 3
    assert operator.metrics.rows_in == 3


def test_several_queries_are_read_while_a_call_runs() -> None:
    slow, answers = Slow(several=True), list[Any]()
    with slow.during() as operator:
        reader = threading.Thread(target=lambda: answers.extend([operator.lookup({}), operator.metrics]))
        reader.start()
        reader.join(0.1)
        assert not answers
    reader.join(30)
    assert answers[0]["one"]["high"].to_pylist() == [2]
    assert answers[1]["one"].rows_in == 3


def test_a_change_waits_for_what_only_reads() -> None:
    """A lookup is no reason to refuse `process`."""
    slow, done = Slow(), list[Any]()
    lowers = sash.monoid(identity=0, lift=lambda x: x, combine=max, lower=slow.waits)
    slow.operator = sash.Query(2, on="t", lateness=1, high=lowers("x")).operator(BATCH.schema)
    slow.operator.process(BATCH)
    with slow.during(READS["lookup"]) as operator:
        writer = threading.Thread(target=lambda: done.append(operator.process({"t": [4], "x": [9]})))
        writer.start()
        writer.join(0.15)
        assert not done
    writer.join(30)
    assert slow.results == [[{"high": 2}]]
    assert len(done) == 1
    assert operator.lookup({}).to_pylist() == [{"high": 9}]


@pytest.mark.parametrize("name", ["lookup", "metrics", "process"])
def test_a_function_that_calls_its_own_operator_from_a_lookup_is_refused(name: str) -> None:
    calls: list[Any] = []

    def nested(x: int) -> int:
        if calls:
            (CHANGES | READS)[name](calls[0])
        return x

    lowers = sash.monoid(identity=0, lift=lambda x: x, combine=max, lower=nested)
    operator = sash.Query(2, on="t", lateness=9, high=lowers("x")).operator(BATCH.schema)
    operator.process(BATCH)
    calls.append(operator)
    with pytest.raises(RuntimeError, match="in this thread: a function that it calls must not call it"):
        operator.lookup({})
    calls.clear()
    assert operator.lookup({}).to_pylist() == [{"high": 2}]


@pytest.mark.parametrize("name", CHANGES | READS)
def test_a_function_that_calls_its_own_operator_is_refused(name: str) -> None:
    calls: list[Any] = []

    def nested(x: int) -> int:
        if calls:
            (CHANGES | READS)[name](calls[0])
        return x

    calls.append(operator_with(nested))
    with pytest.raises(RuntimeError, match="in this thread: a function that it calls must not call it"):
        calls[0].process(BATCH)


def test_a_mark_that_an_interrupt_has_left_behind_is_taken_over() -> None:
    guard = SingleUser("it")

    def interrupted() -> None:
        guard.__enter__()

    def interrupted_while_it_reads() -> None:
        guard.reading.__enter__()

    for leave_behind in (interrupted, interrupted_while_it_reads, interrupted):
        leave_behind()
        with guard.reading:
            pass
        leave_behind()
        with guard:
            pass


def test_an_interrupt_of_one_that_waits_leaves_the_others_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    guard, order, inside = SingleUser("it"), list[str](), threading.Event()
    go = threading.Event()

    def stays() -> None:
        with guard:
            inside.set()
            assert go.wait(30)

    def reads(name: str) -> None:
        with suppress(SystemExit), guard.reading:
            order.append(name)

    monkeypatch.setattr(single_user, "PATIENCE", 30)  # a lost wake-up would take that long
    threads = [threading.Thread(target=stays)]
    threads[0].start()
    assert inside.wait(30)
    for name in "abc":
        threads.append(threading.Thread(target=reads, args=(name,)))
        threads[-1].start()
        while len(guard._queue) < len(threads) - 1:
            pass
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threads[1].ident or 0), ctypes.py_object(SystemExit))
    go.set()
    for thread in threads:
        thread.join(30)
    assert order[-2:] == ["b", "c"]
    reads("d")
    assert not guard._queue
    assert not guard._users
