"""The differential test on a store with very small pages, so that every key is large, reopened at every call.

normal pages     8 KiB of elements make segments   random streams of `test_operator.py` have none
pages here       2 elements make a segment         buckets of a few rows, pages of the reorder buffer of 3
"""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import sash
from sash import Count, Delta, Lifetime, Policy, Session, Time
from sash.engine import Operator
from sash.stores import MemoryStore
from tests.behaviour.differential import compare_with_reference
from tests.behaviour.test_operator import plain_case
from tests.shared.effort import in_turn, seldom
from tests.shared.queries import FromHigh, KeepLast
from tests.shared.small_state import small_pages
from tests.shared.streams import Case, StreamStep, cases, sorted_by_key, split

WINDOWS: dict[str, Any] = {
    "time": Time(25),
    "time left": Time(25, closed="left"),
    "time both": Time(25, closed="both"),
    "time neither": Time(25, closed="neither"),
    "time by rows": Time(25, every=Count(3)),
    "delta": Delta("g", 13),
    "session": Session(4),
    "lifetime": Lifetime(),
    "policy": Policy(KeepLast(9), sash.count()),
    "policy with a memory": Policy(FromHigh(6), (sash.last("n"), sash.count())),
    "slides": Time(25, every=2),
    "slides right": Time(25, every=4, closed="right"),
    "slides no multiple": Time(23, every=5),
    "count": Count(11),
    "count full": Count(11, full=True),
    "count by time": Count(11, every=Time(4)),
    "two": {"a": Count(11), "b": Time(25)},
    "counted": Count(11, every=2),
    "counted full": Count(11, every=3, full=True),
    "sessions": Session(4, every="close"),
    "lifetime by time": Lifetime(every=Time(4)),
}


class Reopened:
    """An operator that is reopened from its store for every call."""

    def __init__(self, query: sash.Query, schema: pa.Schema, mode: str) -> None:
        self.query, self.schema, self.mode, self.store = query, schema, mode, MemoryStore()
        self.metrics = self._open().metrics

    def _open(self) -> Operator:
        return Operator(self.query, self.schema, mode=self.mode, store=self.store)

    def _call(self, name: str, *arguments: Any) -> pa.RecordBatch:
        operator = self._open()
        found = getattr(operator, name)(*arguments)
        self.metrics, self.late = operator.metrics, operator.late_rows()
        if self.query.emit != "eager":  # whose page still has the keys that are over with this call
            assert self._open().metrics.keys == self.metrics.keys
        return found

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self._call("process", batch)

    def advance(self, watermark: Any) -> pa.RecordBatch:
        return self._call("advance", watermark)

    def finish(self) -> pa.RecordBatch:
        return self._call("finish")

    def late_rows(self) -> pa.RecordBatch:
        return self.late

    def snapshot(self) -> Any:
        return self


def begin(query: sash.Query, schema: pa.Schema, mode: str) -> Any:
    return Reopened(query, schema, mode)


def resume(_query: sash.Query, reopened: Any) -> Any:
    return reopened


def events(seed: int, count: int = 60) -> pa.RecordBatch:
    """Rows of one key that is there all the time and two that come and go, out of order, some late, some untimed."""
    random = np.random.default_rng(seed)
    clock = np.cumsum(random.choice([0, 0, 0, 1, 1, 1, 6], count))
    time = clock - random.choice([0, 0, 0, 1, 3, 12], count)
    untimed = random.random(count) < 0.03
    return pa.record_batch(
        {
            "k": pa.array(random.choice(["a", "a", "a", "b", None], count).tolist(), pa.string()),
            "t": pa.array(time, mask=untimed),
            "x": pa.array(random.integers(-9, 10, count), mask=random.random(count) < 0.1),
            "n": pa.array(random.integers(0, 10, count)),
            "g": pa.array(time // 2),
        }
    )


def small_case(window: Any, mode: str, seed: int, **arguments: Any) -> Case:
    aggregates = {"held": sash.collect("x"), "rows": sash.count(), "total": sash.sum("x"), "high": sash.max("x")}
    query = sash.Query(window, by="k", on="t", lateness=6, **arguments, **aggregates)
    batch = events(seed)
    if mode == "sorted":
        batch = sorted_by_key(batch, query)
    random = np.random.default_rng(seed + 1)
    steps: list[StreamStep] = []
    for piece in split(batch, random.integers(0, batch.num_rows, 8).tolist()):
        steps.append(StreamStep("process", piece))
        if mode == "given" and piece.num_rows:
            latest = max((time for time in piece["t"].to_pylist() if time is not None), default=0)
            steps.append(StreamStep("advance", latest - 5))
        if random.random() < 0.3:
            steps.append(StreamStep("snapshot"))
    return Case(query, batch.schema, mode, (*steps, StreamStep("finish")))


@pytest.mark.parametrize("window", [Time(25), Time(25, every=2), Count(11, every=2)], ids=repr)
def test_there_are_many_pages(window: Any) -> None:
    """There are several segments, buckets and pages of the reorder buffer, which the other tests here need."""
    case = small_case(window, "rows", 0)
    most: Counter[str] = Counter()
    with small_pages(2):
        operator = begin(case.query, case.schema, case.mode)
        for step in case.steps:
            if step.call == "process":
                operator.process(step.argument)
                most |= Counter(name[0] for name in operator.store.pages)
    assert most["s"] >= 6
    assert min(most[kind] for kind in "bq") >= 2


@pytest.mark.parametrize(("window", "mode"), in_turn(WINDOWS, ["rows", "given", "sorted"]))
def test_every_window(window: str, mode: str) -> None:
    for seed, elements in ((0, 2), (1, 3)):
        with small_pages(elements):
            compare_with_reference(small_case(WINDOWS[window], mode, seed), begin, resume)


@pytest.mark.parametrize("emit", ["changes", "eager"])
@pytest.mark.parametrize("window", [Time(25), Time(25, every=2), {"a": Time(25), "b": Time(6)}], ids=repr)
def test_every_emission(window: Any, emit: str) -> None:
    for mode in ("rows", "given"):
        with small_pages(2):
            compare_with_reference(small_case(window, mode, 3, emit=emit), begin, resume)


@pytest.mark.usefixtures("interpreted_trees")
@pytest.mark.parametrize("merged", [2, seldom(4)])
def test_eager_queries_reopened_before_each_call(merged: int) -> None:
    @given(cases(emits=("eager",), modes=("rows", "given")))
    def agrees(case: Case) -> None:
        with small_pages(2, merged):
            compare_with_reference(case, begin, resume)

    agrees()


@pytest.mark.parametrize("window", [Time(25), Time(25, every=2), Count(11, every=2), Session(4), Lifetime()], ids=repr)
def test_keys_that_are_forgotten(window: Any) -> None:
    for mode in ("rows", "given", "sorted"):
        with small_pages(2):
            compare_with_reference(small_case(window, mode, 5, forget=7), begin, resume)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("window", [Time(12), Time(12, every=2), Count(6, every=2)], ids=repr)
def test_the_states_of_every_aggregate_in_segments(window: Any) -> None:
    with small_pages(2):
        compare_with_reference(plain_case(window, "rows", on="t", lateness=6), begin, resume)
