"""One truth once more, with pages so small that every key is large: of runs and a tail, in buckets that are cut.

pages as they are     2,048 rows make a large key      the random streams of `test_truth.py` never do
pages as here         3 rows make a large key          of runs of 2, chapters of 4, buckets of a few rows
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash import Count, Delta, Lifetime, Policy, Session, Time
from sash.operator import buffer, chapters, large, shelf
from sash.testing.queries import FromHigh, KeepLast
from sash.testing.streams import Case, Step, sorted_by_key, split
from tests.operator.duel import duel
from tests.operator.test_truth import begin, plain_case, resume

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
    "counted": Count(11, every=2),
    "counted full": Count(11, every=3, full=True),
    "sessions": Session(4, every="close"),
    "lifetime by time": Lifetime(every=Time(4)),
}


@contextmanager
def small_pages(run: int) -> Iterator[None]:
    """Within, everything takes many pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large, "RUN", run)
        patch.setattr(large, "LARGE", run)
        patch.setattr(chapters, "CHAPTER", 2)
        patch.setattr(shelf, "PAGE", 64)
        patch.setattr(buffer, "PAGE", 3)
        yield


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
    shown = {"held": sash.collect("x"), "rows": sash.count(), "total": sash.sum("x"), "high": sash.max("x")}
    query = sash.Query(window, by="k", on="t", lateness=6, **arguments, **shown)
    batch = events(seed)
    if mode == "sorted":
        batch = sorted_by_key(batch, query)
    random = np.random.default_rng(seed + 1)
    steps: list[Step] = []
    for piece in split(batch, random.integers(0, batch.num_rows, 8).tolist()):
        steps.append(Step("process", piece))
        if mode == "given" and piece.num_rows:
            latest = max((time for time in piece["t"].to_pylist() if time is not None), default=0)
            steps.append(Step("advance", latest - 5))
        if random.random() < 0.3:
            steps.append(Step("snapshot"))
    return Case(query, batch.schema, mode, (*steps, Step("finish")))


@pytest.mark.parametrize("window", [Time(25), Time(25, every=2), Count(11, every=2)], ids=repr)
def test_there_are_many_pages(window: Any) -> None:
    """Runs, their sums, tails, buckets and the buffer: several of each kind, else nothing here is tested."""
    case = small_case(window, "rows", 0)
    most: Counter[str] = Counter()
    with small_pages(2):
        operator = begin(case.query, case.schema, case.mode)
        for step in case.steps:
            if step.call == "process":
                operator.process(step.argument)
                most |= Counter(name[0] for name in operator.store.pages)
    assert most["r"] >= 6
    assert min(most[kind] for kind in "stbq") >= 2


@pytest.mark.parametrize("mode", ["rows", "given", "sorted"])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_every_window(window: Any, mode: str) -> None:
    for seed, run in ((0, 2), (1, 3)):
        with small_pages(run):
            duel(small_case(window, mode, seed), begin, resume)


@pytest.mark.parametrize("emit", ["changes", "eager"])
@pytest.mark.parametrize("window", [Time(25), Time(25, every=2), {"a": Time(25), "b": Time(6)}], ids=repr)
def test_every_emission(window: Any, emit: str) -> None:
    for mode in ("rows", "given"):
        with small_pages(2):
            duel(small_case(window, mode, 3, emit=emit), begin, resume)


@pytest.mark.parametrize("window", [Time(25), Time(25, every=2), Count(11, every=2), Session(4), Lifetime()], ids=repr)
def test_keys_that_are_forgotten(window: Any) -> None:
    for mode in ("rows", "given", "sorted"):
        with small_pages(2):
            duel(small_case(window, mode, 5, forget=7), begin, resume)


@pytest.mark.parametrize("window", [Time(12), Time(12, every=2), Count(6, every=2)], ids=repr)
def test_the_states_of_every_aggregate_in_runs(window: Any) -> None:
    with small_pages(2):
        duel(plain_case(window, "rows", on="t", lateness=6), begin, resume)
