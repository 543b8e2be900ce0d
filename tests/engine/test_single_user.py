"""An operator used by two threads: the second is refused, and the first continues undisturbed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.engine.single_user import SingleUser

pytestmark = pytest.mark.filterwarnings("ignore:.*interpreted")

BATCH = pa.record_batch({"t": [1, 2, 3], "x": [3, 1, 2]})
CALLS: dict[str, Callable[[Any], object]] = {
    "process": lambda operator: operator.process(BATCH),
    "advance": lambda operator: operator.advance(9),
    "finish": lambda operator: operator.finish(),
    "late_rows": lambda operator: operator.late_rows(),
    "lookup": lambda operator: operator.lookup({}),
    "snapshot": lambda operator: operator.snapshot(),
    "metrics": lambda operator: operator.metrics,
    "due": lambda operator: operator.due,
}


def operator_with(lift: Callable[[Any], Any]) -> Any:
    """An operator that calls this function with each value."""
    largest = sash.monoid(identity=0, lift=lift, combine=max, lower=lambda state: state)
    return sash.Query(2, on="t", high=largest("x")).operator(BATCH.schema)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_from_another_thread_is_refused(name: str) -> None:
    """A call is refused while another one is running; that one returns its usual results."""
    entered, leave, results = threading.Event(), threading.Event(), []
    armed: list[bool] = []  # a query tries its functions before it runs

    def waits(x: int) -> int:
        if armed:
            entered.set()
            assert leave.wait(30)
        return x

    operator = operator_with(waits)
    armed.append(True)
    worker = threading.Thread(target=lambda: results.append(operator.process(BATCH)))
    worker.start()
    assert entered.wait(30)
    try:
        with pytest.raises(RuntimeError, match="already running, in another thread"):
            CALLS[name](operator)
        assert operator.watermark is None
    finally:
        leave.set()
        worker.join()
    found = pa.Table.from_batches([*results, operator.finish()])
    assert found["high"].to_pylist() == [3, 3, 2]


def test_a_function_that_calls_its_own_operator_is_refused() -> None:
    calls: list[Any] = []

    def nested(x: int) -> int:
        if calls:
            calls[0].process(BATCH)
        return x

    calls.append(operator_with(nested))
    with pytest.raises(RuntimeError, match="in this thread: a function that it calls must not call it"):
        calls[0].process(BATCH)


def test_a_mark_that_an_interrupt_has_left_behind_is_taken_over() -> None:
    guard = SingleUser("it")

    def interrupted() -> None:
        guard.__enter__()

    interrupted()
    with guard:
        pass
