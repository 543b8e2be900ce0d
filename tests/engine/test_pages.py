"""State in pages: how many a batch touches, how many are held, and a failed call changes nothing.

window        10K rows     1M rows
pages         ▢▢▢▢         ▢▢▢▢▢▢▢▢▢▢▢▢▢▢▢▢▢▢▢▢
a batch of 1,000 rows touches a few at the old end, a few at the young end, and the sums in between
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from tests.engine.counting import CountingStore
from tests.shared.small_state import small_buckets

pytestmark = pytest.mark.compiled  # many rows

SMALL, LARGE, BATCH = 10_000, 1_000_000, 1000

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("x", pa.int64())])


def rows(keys: Any, times: Any, values: Any) -> pa.RecordBatch:
    columns = np.broadcast_arrays(np.asarray(keys), np.asarray(times), np.asarray(values))
    return pa.RecordBatch.from_arrays([pa.array(np.ascontiguousarray(c), pa.int64()) for c in columns], schema=SCHEMA)


class Stream:
    """Rows without end: one of each key for each unit of time, with values that jump about."""

    def __init__(self, keys: int) -> None:
        self.keys, self.count = keys, 0

    def take(self, number: int) -> pa.RecordBatch:
        place = np.arange(self.count, self.count + number)
        self.count += number
        return rows(place % self.keys, place // self.keys, self.values(place))

    def values(self, place: Any) -> Any:
        return place * 7919 % 1_000_003

    def total(self, key: int, low: int, high: int) -> int:
        """The sum of a key's values at times from `low` to `high`."""
        return int(self.values(np.arange(max(low, 0), high + 1) * self.keys + key).sum())


# ---- what a batch touches ----

WINDOWS: dict[str, Callable[[int], Any]] = {
    "time": sash.Time,
    "rows": sash.Count,
    "slides in time": lambda size: sash.Time(size, every=1),
    "slides in rows": lambda size: sash.Count(size, every=1),
}


def steady(window: Callable[[int], Any], size: int, keys: int) -> tuple[list[int], CountingStore]:
    """How many pages each of many batches touches, once windows hold `size` rows in all; results are looked at."""
    store, stream = CountingStore(), Stream(keys)
    query = sash.Query(window(size // keys), by="k", on="t", total=sash.sum("x"))
    operator = query.operator(SCHEMA, store=store)
    for share in range(0, size + 4 * BATCH, 250_000):
        operator.process(stream.take(min(250_000, size + 4 * BATCH - share)))
    touched = []
    for _ in range(24):
        store.forget()
        found = operator.process(stream.take(BATCH))
        touched.append(len(store.touched))
        last = found.slice(found.num_rows - 1).to_pylist()[0]
        end = last["t"] if "t" in last else last["window_end"] - 1
        if "t" not in last and isinstance(query.windows[""], sash.Count):
            end += 1  # reported as the time of its last row
        assert last["total"] == stream.total(last["k"], end - size // keys + 1, end)
    assert operator.metrics.elements > 0.99 * size
    return touched, store


@pytest.mark.parametrize("keys", [1, 3])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_a_large_window_touches_hardly_more_pages_than_a_small_one(window: Any, keys: int) -> None:
    small, _ = steady(window, SMALL, keys)
    large, store = steady(window, LARGE, keys)
    assert max(large) <= 2 * max(small)
    assert max(large) < len(store) / 10, "a batch went through the whole state"
    assert store.largest <= 1 << 18


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_rows_that_wait_cost_what_comes_and_what_leaves(size: int) -> None:
    """The reorder buffer: a batch writes its own rows, however many wait; small pages are merged from time to time."""
    store, stream = CountingStore(), Stream(1)
    operator = sash.Query(sash.Time(5), by="k", on="t", lateness=size, high=sash.max("x")).operator(SCHEMA, store=store)
    for _ in range(0, size, SMALL):
        operator.process(stream.take(SMALL))
    assert operator.metrics.elements == size
    touched, left = [], 0
    for _ in range(24):
        store.forget()
        left += operator.process(stream.take(BATCH)).num_rows
        touched.append(len(store.touched))
    assert sorted(touched)[len(touched) // 2] <= 4
    assert sum(touched) <= 8 * len(touched)
    assert left == 24 * BATCH - 1, "one at the watermark itself is not final"
    assert store.largest <= 1 << 19


# ---- many keys ----

KEYS = 100_000


@pytest.fixture(scope="module")
def many() -> CountingStore:
    """100,000 keys with 10 rows each, all silent since the time 10."""
    store = CountingStore()
    operator = many_query().operator(SCHEMA, store=store)
    for start in (0, 5):
        times = np.repeat(np.arange(start, start + 5), KEYS)
        operator.process(rows(np.tile(np.arange(KEYS), 5), times, times))
    operator.advance(10)
    assert (operator.metrics.keys, operator.metrics.elements) == (KEYS, 10 * KEYS)
    return store


def many_query() -> sash.Query:
    return sash.Query(sash.Time(1000), by="k", on="t", high=sash.max("x"))


def test_small_keys_share_pages(many: CountingStore) -> None:
    assert len(many) <= 600
    assert many.largest <= 1 << 18


def test_a_batch_for_few_keys_reads_few_pages(many: CountingStore) -> None:
    store = CountingStore(many.pages)
    operator = many_query().operator(SCHEMA, store=store)
    store.forget()
    found = operator.process(rows([5, 77_777, 99_999, 5, 1], [11, 11, 11, 12, 13], 3))
    assert found.column("high").to_pylist() == [9, 9, 9, 9]
    assert len({name for name in store.read if name.startswith("b")}) <= 4
    store.forget()  # their buckets had been full of equal keys, and were cut
    operator.process(rows([5, 77_777, 99_999, 1], [14, 14, 14, 14], 3))
    assert len(store.touched) <= 10, "buckets of four keys and their segments, the header, pages of the buffer"


@pytest.fixture
def _small_buckets() -> Iterator[None]:
    with small_buckets(1 << 14, 400):
        yield


@pytest.mark.usefixtures("_small_buckets")
def test_silent_keys_are_not_read_until_something_of_theirs_is_due() -> None:
    """Sessions of five keys end after 149, those of 20,000 others after 179; the clock is a key that continues.

    time      100        130        149 150        180
    five      ·───────────────────────────┤
    others               ·───────────────────────────┤

    Every call is made by a reopened operator: it knows only what it reads.
    """
    store = CountingStore()
    query = sash.Query(sash.Session(49, every="close"), by="k", on="t", high=sash.max("x"))

    def opened() -> Any:
        operator = query.operator(SCHEMA, store=store, mode="given")
        store.forget()
        return operator

    five, others = np.arange(5) * 1000, np.setdiff1d(np.arange(20_000), np.arange(5) * 1000)
    opened().process(rows(five, 100, five))
    opened().process(rows(others, 130, others))
    opened().advance(131)
    all_buckets = {name for name in store.pages if name.startswith("b")}
    for time in (140, 145, 148):
        opened().process(rows([100_000], [time], [1]))
        assert opened().advance(time + 1).num_rows == 0
        read = {name for name in store.read if name.startswith("b")}
        assert len(read) <= 1, "the bucket of the key that continues"
    found = opened().advance(150)
    assert sorted(found.column("k").to_pylist()) == five.tolist()
    theirs = {name for name in store.read if name.startswith("b")}
    assert 1 <= len(theirs) <= 5 < len(all_buckets)
    assert opened().advance(179).num_rows == 0
    assert [name for name in store.read if name.startswith("b")] == []
    assert opened().advance(180).num_rows == len(others)
    assert opened().metrics.keys == 1


def test_keys_that_live_are_not_read_again() -> None:
    store = CountingStore()
    operator = sash.Query(sash.Time(100, every=100), by="k", on="t", high=sash.max("x")).operator(SCHEMA, store=store)
    operator.process(rows(np.arange(20_000), 10, 1))
    operator.process(rows([-1], [11], [2]))
    for time in range(12, 99):
        store.forget()
        operator.process(rows([-1], [time], [2]))
        assert store.read == []
        assert len(store.touched) <= 5
    found = operator.process(rows([-1], [100], [2]))
    assert found.num_rows == 20_001
    assert store.read == []
    assert operator.metrics.keys <= 1


# ---- panes ----


def test_a_day_every_second_holds_one_partial_per_second() -> None:
    """1M events in 2.3 days, five per second: the 86,400 panes of a day, not its 432,000 events."""
    query = sash.Query(sash.Time("1d", every="1s"), by="k", on="t", high=sash.max("x"))
    schema = SCHEMA.set(1, pa.field("t", pa.timestamp("ms")))
    operator, most, given = query.operator(schema), 0, 0
    for start in range(0, 1_000_000, 100_000):
        place = np.arange(start, start + 100_000)
        found = operator.process(
            pa.record_batch(
                [
                    pa.array(np.zeros(100_000, np.int64)),
                    pa.array(place * 200, pa.timestamp("ms")),
                    pa.array(place * 7919 % 1_000_003),
                ],
                schema=schema,
            )
        )
        given += found.num_rows
        most = max(most, operator.metrics.elements)
    assert given == 199_999, "one a second but the last"
    last = found.slice(found.num_rows - 1).to_pylist()[0]
    inside = np.arange(199_999 * 5 - 86_400 * 5, 199_999 * 5)
    assert last["high"] == int((inside * 7919 % 1_000_003).max())
    assert most <= 86_400 + 2


# ---- what is over takes no room ----


@pytest.mark.parametrize(
    "window",
    [sash.Time(50_000), sash.Time(50_000, every=5000), sash.Session(50_000), sash.Session(50_000, every="close")],
    ids=repr,
)
def test_state_shrinks_when_windows_empty(window: Any) -> None:
    """One large key and a thousand small ones expire; only one other key remains."""
    store = CountingStore()
    operator = sash.Query(window, by="k", on="t", high=sash.max("x")).operator(SCHEMA, store=store)
    place = np.arange(20_000)
    operator.process(rows(np.where(place % 2, 0, place % 2000), place, place))
    full = operator.metrics
    assert full.keys == 1000
    operator.process(rows([-1], [60_000], [1]))
    assert operator.metrics.keys > 10, "windows may still hold their last rows"
    operator.process(rows([-1], [200_000], [1]))
    operator.process(rows([-1], [200_001], [1]))
    empty = operator.metrics
    assert (empty.keys, empty.elements) == (1, 2), "a row or partial that is kept, a row that waits"
    assert empty.state_bytes < 8000
    assert len(store) <= 5
    operator.finish()
    assert (operator.metrics.keys, operator.metrics.elements) == (0, 0)
    assert set(store.pages) == {"header", "root"}


@pytest.mark.parametrize("mode", ["rows", "given"])
def test_count_windows_keep_their_rows_until_the_key_is_forgotten(mode: str) -> None:
    for forget, keys in ((None, 101), (500, 1)):
        query = sash.Query(10, by="k", on="t", lateness=0, forget=forget, high=sash.max("x"))
        operator = query.operator(SCHEMA, mode=mode)
        operator.process(rows(np.arange(3000) % 100, np.arange(3000), 1))
        operator.advance(3000)
        assert (operator.metrics.keys, operator.metrics.elements) == (100, 1000), "ten of each: the last window"
        operator.process(rows([-1], [9000], [1]))
        operator.advance(9001)
        assert operator.metrics.keys == keys
