"""What a call costs, counted in ⊕, bytes written and memory: by what it changes, and not by what is held.

held     ████████████████████████████████      a row that comes costs the same beside 500 and beside 50,000 rows or keys
call                                   ▢
"""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.stores import MemoryStore

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("x", pa.int64())])
LONG = 10**9


def batch(times: Iterable[int], key: int | None = 0) -> pa.RecordBatch:
    """Rows of one key, or each of its own."""
    times = list(times)
    keys = times if key is None else [key] * len(times)
    return pa.record_batch([pa.array(keys), pa.array(times), pa.array([time % 97 for time in times])], schema=SCHEMA)


class Plus:
    """Addition that counts its calls."""

    calls = 0

    def __call__(self, a: Any, b: Any) -> Any:
        self.calls += 1
        return a + b

    def taken(self) -> int:
        calls, self.calls = self.calls, 0
        return calls

    def of(self, column: str) -> Any:
        return sash.monoid(identity=0, lift=lambda x: x, combine=self, lower=lambda a: a, exact=True, name="plus")(
            column
        )


# ---- ⊕ of eager operators ----


@pytest.mark.parametrize("waiting", [1_000, 16_000])
def test_an_eager_row_costs_by_its_distance_and_by_the_results_it_changes(waiting: int) -> None:
    plus = Plus()
    query = sash.Query(sash.Time(8), by="k", on="t", lateness=LONG, emit="eager", a=plus.of("x"))
    operator = query.operator(SCHEMA)
    operator.process(batch(range(0, 2 * waiting, 2)))
    for distance in (1, 16, waiting // 2):
        plus.taken()
        found = operator.process(batch([2 * (waiting - distance) + 1]))
        assert plus.taken() <= 12 * math.log2(distance + 2) + 2 * found.num_rows * 4 * math.log2(waiting)
        assert found.num_rows <= 6


def test_an_eager_row_at_the_end_costs_the_same_however_many_wait() -> None:
    costs = []
    for waiting in (500, 8_000):
        plus = Plus()
        query = sash.Query(sash.Time(1), by="k", on="t", lateness=LONG, emit="eager", a=plus.of("x"))
        operator = query.operator(SCHEMA)
        operator.process(batch(range(0, 10 * waiting, 10)))
        plus.taken()
        for i in range(64):
            operator.process(batch([10 * (waiting + i)]))
        costs.append(plus.taken() / 64)
    assert costs[1] < costs[0] + 4


# ---- memory of a call ----


def memory(operator: Any, calls: list[pa.RecordBatch]) -> float:
    """The bytes that a call holds at most beyond those before it, on average."""
    peaks = []
    tracemalloc.start()
    try:
        for one in calls:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            operator.process(one)
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    return sum(peaks) / len(peaks)


ROWS: dict[str, dict[str, Any]] = {
    "in the reorder buffer": {"windows": sash.Time(20)},
    "eager, time": {"windows": sash.Time(20), "emit": "eager"},
    "eager, count": {"windows": sash.Count(5), "emit": "eager"},
    "eager, session": {"windows": sash.Session(1), "emit": "eager"},
    "eager, slides": {"windows": sash.Time(20, every=5), "emit": "eager"},
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.compiled if "eager" in name else ()) for name in ROWS]
)
def test_no_array_of_a_call_is_as_long_as_the_rows_that_wait(name: str) -> None:
    operator = sash.Query(**ROWS[name], by="k", on="t", lateness=LONG, high=sash.max("x")).operator(SCHEMA)
    operator.process(batch(range(0, 20_000, 2)))
    operator.process(batch([1]))  # it makes room for more
    times = (19_001, 16_001, 10_001, 5_001, 20_001, 7_001) * 8
    memory(operator, [batch([time]) for time in times[:6]])  # modules are loaded
    assert memory(operator, [batch([time]) for time in times]) < 25_000


KEYS: dict[str, dict[str, Any]] = {
    "count": {"windows": sash.Count(3)},
    "time": {"windows": sash.Time(LONG)},
    "lifetime": {"windows": sash.Lifetime()},
    "changes": {"windows": sash.Count(3), "emit": "changes"},
    "eager": {"windows": sash.Count(3), "emit": "eager"},
}


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "store"])
@pytest.mark.parametrize("name", KEYS)
def test_no_array_of_a_call_is_as_long_as_the_keys_that_live(name: str, stored: bool) -> None:
    """Nor does it read or write pages of other keys, or ask all of them what is due."""
    query, found = sash.Query(**KEYS[name], by="k", on="t", lateness=1, high=sash.max("x")), []
    for keys in (2_000, 20_000):
        store = Written() if stored else None
        operator = query.operator(SCHEMA, store=store)
        operator.process(batch(range(keys), None))
        for i in range(12):  # buckets that were full of equal keys are cut
            operator.process(batch([keys + i], 11 * (i % 8)))
            assert operator.due is not None
        if store is not None:
            store.taken()
        calls = [batch([keys + 20 + i], 11 * (i % 8)) for i in range(16)]
        found.append(memory(operator, calls))
        assert operator.due is not None
        if store is not None:
            assert store.reads == 0
            assert len(store.taken()) <= 16 * 5
    # a page of keys that is written is full, or half full
    assert found[1] < (2 * found[0] if stored else found[0] + 30_000), "an array of each call is as long as the keys"


# ---- bytes that are written ----


class Written(MemoryStore):
    """Records the sizes of pages that are written, and how many are read."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.reads = 0

    def get_many(self, ids: Any) -> list[bytes | None]:
        self.reads += len(ids)
        return super().get_many(ids)

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self.sizes += map(len, pages.values())
        super().put_many(pages)

    def taken(self) -> list[int]:
        self.reads = 0
        sizes, self.sizes = self.sizes, []
        return sizes


WINDOWS = {"rows": sash.Time(20), "slides": sash.Time(20, every=5), "lifetime": sash.Lifetime(), "count": sash.Count(5)}


@pytest.mark.compiled
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_an_eager_call_writes_by_its_own_rows(window: Any) -> None:
    store = Written()
    query = sash.Query(window, by="k", on="t", lateness=LONG, emit="eager", a=sash.max("x"))
    operator = query.operator(SCHEMA, store=store)
    rows = 100_000
    operator.process(batch(range(0, 2 * rows, 2)))
    assert sum(store.taken()) > 10 * rows
    sizes = []
    for i in range(50):
        operator.process(batch([2 * rows - 2 * i - 1]))
        put = store.taken()
        assert len(put) <= 4  # the header, the call's own page, at times one that was merged
        sizes.append(sum(put))
    assert sum(sizes) / len(sizes) < 20_000
    assert max(sizes) < 60_000


# ---- what is held ----


def test_eager_lifetimes_are_partials_and_early_slides_leave_when_they_are_final() -> None:
    lifetime = sash.Query(sash.Lifetime(), by="k", on="t", lateness=20, emit="eager", n=sash.count())
    operator = lifetime.operator(SCHEMA)
    for start in range(0, 5_000, 100):
        found = operator.process(batch(range(start, start + 100)))
    assert found["n"].to_pylist()[-1] == 5_000
    assert operator.metrics.elements < 200
    slides = sash.Query(sash.Count(3, every=2), by="k", on="t", lateness=2, emit="eager", n=sash.count())
    operator = slides.operator(SCHEMA)
    operator.process(batch(range(2000)))
    operator.advance(10_000)
    assert operator.metrics.elements <= 3
    operator.finish()
    assert (operator.metrics.keys, operator.metrics.elements) == (0, 0)


def test_memory_of_rows_that_left_the_reorder_buffer_is_released() -> None:
    given = {"t": [*range(4000)], "s": ["x" * 100] * 4000}
    schema = pa.schema({"t": "int64", "s": "string"})
    query = sash.Query(sash.Time(1), on="t", lateness=0, n=sash.count())
    for first in (10, 3990):  # one call releases few of them, or most
        operator = query.operator(schema, mode="given")
        operator.advance(0)
        before = pa.total_allocated_bytes()
        operator.process(given)
        operator.advance(first)
        operator.advance(3990)
        assert operator.metrics.elements <= 12
        assert pa.total_allocated_bytes() - before < 100_000


def test_a_stream_keeps_no_late_rows() -> None:
    """They are counted: nobody who has only the results can ask for them."""
    held = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(200):
            yield pa.record_batch({"t": [1000 if number == 0 else 1], "s": ["x" * 10_000]})
            held.append(pa.total_allocated_bytes())

    for _ in sash.Query(2, on="t", lateness=1, n=sash.count()).run(batches()):
        pass
    assert held[-1] < held[5] + 200_000
