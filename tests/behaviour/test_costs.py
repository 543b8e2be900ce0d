"""Costs of an operator's calls, counted: ⊕ after gaps, while windows grow and after errors; pages written.

    time ───▶   ▏▏▏▏▏▏▏▏▏▏▏▏▏▏            ▏▏
                └─ n rows ──┘     gap     two rows: all n rows, or a part of them, have left their window

A user's monoid counts its own ⊕, so it runs interpreted. Mode "given": rows are computed by the call of `advance`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.stores import MemoryStore

pytestmark = pytest.mark.filterwarnings("ignore:.*runs interpreted")

SCHEMA = pa.schema({"k": "int64", "t": "int64", "x": "int64"})
INVERSE = ("SubtractOnEvict", "SlickDequeInv")
SELECTIVE = ("SlickDequeNonInv",)
ANY = (
    "Recalc", "TwoStacks", "TwoStacksLite", "ABA", "DABA", "DABALite", "FlatFAT", "BInt", "FlatFIT", "LogMTA", "AMTA",
    "AugmentedBTree", "FiBA",
)  # fmt: skip
STRUCTURES = (*ANY, *INVERSE, *SELECTIVE)
ORDER_STATISTICS = ("CountedTree", "FrequencyTree")
"""Those need no ⊕."""

BULK = ("LogMTA", "AMTA", "AugmentedBTree", "FiBA")
"""The structures with an operation that evicts any number of elements in O(log n) ⊕."""

SIZES = (128, 512)


class Raised(Exception):
    """What ⊕ raises when it is told to."""


class Counted:
    """A maximum (a sum where an inverse is needed) that counts its ⊕, and may raise at one of them."""

    def __init__(self, structure: str) -> None:
        self.calls, self.raises_at = 0, math.inf
        given: dict[str, Any] = {"returns": "int64", "exact": True, "name": "counted"}
        if structure in INVERSE:
            given |= {"identity": 0, "combine": self.counting(lambda a, b: a + b)}
            given |= {"inverse": self.counting(lambda total, oldest: total - oldest)}
        else:
            given |= {"identity": -1, "combine": self.counting(max), "selective": structure in SELECTIVE}
        self.monoid = sash.monoid(**given)

    def counting(self, work: Any) -> Any:
        def function(a: Any, b: Any) -> Any:
            self.calls += 1
            if self.calls >= self.raises_at:
                raise Raised
            return work(a, b)

        return function


class Running:
    """An operator whose window has n rows of one key, at 0, 1, …"""

    def __init__(self, structure: str, n: int, prefer: str = "throughput") -> None:
        self.counted = Counted(structure)
        options = sash.Options(structure=structure) if structure else sash.Options(prefer=prefer)  # type: ignore[arg-type]
        query = sash.Query(sash.Time(n), by="k", on="t", lateness=0, options=options, out=self.counted.monoid("x"))
        self.operator = query.operator(SCHEMA, mode="given")

    def give(self, times: Iterable[int]) -> int:
        """Process rows at these times. Returns how many ⊕ that took."""
        times = list(times)
        self.operator.process({"k": [1] * len(times), "t": times, "x": [t * 7919 % 1009 for t in times]})
        return self.advance(times[-1] + 1)

    def advance(self, to: int) -> int:
        self.counted.calls = 0
        self.operator.advance(to)
        return self.counted.calls


def full(structure: str, n: int) -> Running:
    """A window of n rows, some of which have left it already one by one, so that it is in the middle of its work."""
    running = Running(structure, n)
    running.give(range(n + n // 4))
    return running


def test_each_structure_is_tested() -> None:
    interfaces = {"InOrder", "TimeOrdered"}
    assert {*STRUCTURES, *ORDER_STATISTICS, *interfaces} == {*sash.aggregators.__all__}


@pytest.mark.parametrize("structure", STRUCTURES)
def test_all_elements_leave_without_a_cost_that_grows(structure: str) -> None:
    for n in SIZES:
        running = full(structure, n)
        gap = running.give([4 * n, 4 * n + 1])
        later = [running.give([4 * n + 2 + i]) for i in range(10)]
        assert gap <= 8, (n, gap)
        # a window of at most twelve rows, even if it is folded at each of them
        assert max(later) <= 24, (n, later)


@pytest.mark.parametrize("structure", BULK)
def test_a_part_leaves_in_logarithmic_time(structure: str) -> None:
    for n in (256, 2048):
        for part in (1, n // 64, n // 2 + 1, n - n // 16, n - 3):
            running = full(structure, n)
            gap = running.give([n + n // 4 - 1 + part, n + n // 4 + part])
            later = [running.give([n + n // 4 + part + 1 + i]) for i in range(6)]
            # twice an insert, an eviction and a query of the tree that costs most
            bound = 24 * math.log2(n) + 32
            assert max(gap, *later) <= bound, (n, part, gap, later)


def test_rows_that_leave_one_by_one_are_counted() -> None:
    """So the test above would notice an eviction that goes element by element."""
    assert full("SubtractOnEvict", 1024).give([1024 + 255 + 512]) >= 512


@pytest.mark.parametrize("n", SIZES)
def test_no_row_costs_more_than_a_few_combines_with_prefer_latency(n: int) -> None:
    """Not while the window grows, not while it is full, and not while it shrinks: any number of rows may leave it."""
    running = Running("", n, "latency")
    steps = [*range(n + n // 2), *range(3 * n, 3 * n + n // 4)]
    assert max(running.give([at]) for at in steps) <= 3 * n.bit_length() + 6


@pytest.mark.parametrize("n", SIZES)
def test_no_row_of_a_count_window_costs_more_than_six_combines_with_prefer_latency(n: int) -> None:
    """One row enters and one leaves: the cost does not depend on the window's size."""
    counted = Counted("")
    query = sash.Query(n, options=sash.Options(prefer="latency"), out=counted.monoid("x"))  # type: ignore[arg-type]
    operator, most = query.operator(pa.schema([SCHEMA.field("x")])), 0
    for value in range(3 * n):
        counted.calls = 0
        operator.process({"x": [value * 7919 % 101]})
        most = max(most, counted.calls)
    assert 0 < most <= 6


@pytest.mark.parametrize("structure", ["TwoStacksLite", "DABALite", "AMTA", "FiBA"])
def test_other_keys_cost_nothing(structure: str) -> None:
    counted = Counted(structure)
    query = sash.Query(
        sash.Time(10**6),
        by="k",
        on="t",
        options=sash.Options(structure=structure),
        out=counted.monoid("x"),  # type: ignore[arg-type]
    )
    taken = []
    for keys in (1, 400):
        operator = query.operator(SCHEMA, mode="given")
        for turn in range(5):
            operator.process({"k": [*range(keys)], "t": [turn] * keys, "x": [turn] * keys})
        operator.advance(5)
        operator.process({"k": [0], "t": [5], "x": [9]})
        counted.calls = 0
        operator.advance(6)
        taken.append(counted.calls)
    assert taken[0] == taken[1] > 0


# ---- pages ----


class Written(MemoryStore):
    """Counts the pages and bytes that are written."""

    pages_written = bytes_written = 0

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self.pages_written += len(pages)
        self.bytes_written += sum(map(len, pages.values()))
        super().put_many(pages)


def written(structure: str, n: int) -> tuple[int, float]:
    """The most pages that a call of one row writes on a window of n rows, and the bytes of a call on average."""
    store = Written()
    options = sash.Options(structure=structure)  # type: ignore[arg-type]
    query = sash.Query(sash.Time(n), by="k", on="t", options=options, out=sash.max("x"), newest=sash.last("x"))
    operator = query.operator(SCHEMA, store=store)
    for first in range(0, n, 512):
        times = [*range(first, min(first + 512, n))]
        operator.process({"k": [1] * len(times), "t": times, "x": [t * 7919 % 1009 for t in times]})
    most = total = 0
    for i in range(40):
        store.pages_written = store.bytes_written = 0
        operator.process({"k": [1], "t": [n + i], "x": [i]})
        most, total = max(most, store.pages_written), total + store.bytes_written
    return most, total / 40


@pytest.mark.parametrize("structure", ["TwoStacksLite", "DABALite"])
def test_a_row_writes_as_many_pages_whatever_the_window(structure: str) -> None:
    (pages, size), (more_pages, more_size) = written(structure, 512), written(structure, 8192)
    assert more_pages <= pages + 3
    assert more_size <= size + 2 * 65_536, "more than a few chunks"
