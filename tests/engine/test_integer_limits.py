"""Times and values at the limits of 64-bit integers: a difference that would leave them is never computed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sash
from sash.stores import MemoryStore
from sash.testing import Reference, assert_same
from tests.behaviour.differential import compare_with_reference
from tests.behaviour.test_operator import begin, resume
from tests.kernels.shadow import shadowed
from tests.shared.small_state import small_buckets
from tests.shared.streams import Case, StreamStep, sorted_by_key

pytestmark = pytest.mark.compiled

LEAST, GREATEST = -(2**63), 2**63 - 1
CLOSED = ("right", "left", "both", "neither")
SIZES = (1, 2, 5, 2**62, 2**63 - 2, 2**63 - 1)


def near_limits(chance: np.random.Generator, count: int, limits: tuple[int, int] = (LEAST, GREATEST)) -> list[int]:
    """Rising integers, most of them within a few of the limits and of zero."""
    least, greatest = limits
    around = (least, -(2**62), 0, 2**62, greatest)
    drawn = (int(chance.choice(len(around))) for _ in range(count))
    values = [around[place] + int(chance.integers(-3, 4)) for place in drawn]
    return sorted(min(max(value, least), greatest) for value in values)


def windows(size: int) -> list[sash.windows.Window]:
    """Every kind of window whose bounds are differences."""
    times = [sash.Time(size, closed=closed) for closed in CLOSED]
    return [*times, sash.Session(size), sash.Delta("d", size), sash.Count(3), sash.Lifetime()]


@pytest.mark.parametrize("size", SIZES)
def test_every_window_at_the_limits_is_as_defined(size: int) -> None:
    """Whole columns, and an operator row by row."""
    chance = np.random.default_rng(size % 1000)
    for window in windows(size):
        for _ in range(4):
            times, values = near_limits(chance, 12), near_limits(chance, 12)
            keys = np.sort(chance.integers(0, 2, 12)) if isinstance(window, sash.Delta) else chance.integers(0, 2, 12)
            table = pa.record_batch({"k": keys, "t": pa.array(times, pa.int64()), "d": pa.array(values, pa.int64())})
            query = sash.Query(window, by="k", on="t", n=sash.count(), high=sash.max("d"), first=sash.first("d"))
            reference = Reference(query, table.schema)
            expected = pa.Table.from_batches([reference.process(table), reference.finish()])
            operator = query.operator(table.schema)
            found = [operator.process(table.slice(i, 1)) for i in range(table.num_rows)]
            assert by_row(pa.Table.from_batches([*found, operator.finish()])) == by_row(expected), (window, times)
            assert by_row(query.run(pa.Table.from_batches([table]))) == by_row(expected), (window, times)


def by_row(found: pa.Table) -> list[tuple[int, ...]]:
    """The rows in an order of their own: keys with equal times may come in any."""
    return sorted(tuple(row.values()) for row in found.to_pylist())


@pytest.mark.parametrize("emit", ["final", "eager"])
def test_a_window_of_as_many_rows_as_64_bits_count_holds_all_of_them(emit: Any) -> None:
    query = sash.Query(sash.Count(2**63 - 1, every=sash.Time(10)), on="t", lateness=5, emit=emit, total=sash.sum("x"))
    operator = query.operator()
    found = operator.process(pa.record_batch({"t": [1, 12], "x": [3, 4]})).to_pylist()
    found += operator.finish().to_pylist()
    assert {row["window_end"]: row["total"] for row in found} == {10: 3, 20: 7}


def test_a_window_longer_than_the_calendar_holds_all_rows() -> None:
    """Nanoseconds before 1970, less 100,000 days, are below what 64 bits hold."""
    frame = pd.DataFrame({"t": pd.date_range("1930", periods=5, freq="1000D"), "d": range(5)})
    assert sash.rolling(frame, "100000d", on="t", n=sash.count()).n.tolist() == [1, 2, 3, 4, 5]
    far = pa.table({"t": range(5), "d": pa.array([LEAST + 10 + i for i in range(5)], pa.int64())})
    assert sash.rolling(far, sash.Delta("d", 2**62), on="t", n=sash.count())["n"].to_pylist() == [1, 2, 3, 4, 5]


# ---- every kernel, compared with itself interpreted ----

COMPARED = 60
"""So many loops without aggregates at least run in this test."""

SLIDING = (
    sash.Time(5, every=2),
    sash.Time(2**61, every=2**60, closed="right"),
    sash.Time(2**61, every=2**61, offset=7),
    sash.Time(4, every=sash.Count(2)),
    sash.Count(3, every=2),
    sash.Count(3, every=sash.Time(2**61)),
    sash.Lifetime(every=3),
    sash.Lifetime(every=sash.Time(2**61)),
)
SHIFTED = (sash.Count(3, shift=-1), sash.Count(2, shift=2), sash.Time(5, shift=-3), sash.Time(2**62, shift=2**62))
"""Windows that are moved against their rows."""
CLOSING = (sash.Session(5, every="close"), sash.Session(2**62, every="close"), sash.Punctuation("p", every="close"))
AGGREGATES = {
    "n": sash.count(),
    "high": sash.max("d"),
    "low": sash.min("d"),
    "who": sash.arg_max("d", "t"),
    "first": sash.first("d"),
    "text": sash.last("s"),
    "real": sash.sum("f"),
    "spread": sash.var("f"),
}


def nearest(window: Any) -> tuple[int, int]:
    """The limits of times that a window takes: one that slides in time has to have room for its ends."""
    slide = getattr(window, "every", None)
    if isinstance(slide, sash.Time):
        slide = slide.size
    elif not isinstance(window, sash.Time):
        slide = None
    if not isinstance(slide, int):
        return LEAST, GREATEST
    size = window.size if isinstance(window, sash.Time) else 0
    reach = size + getattr(window, "offset", 0) + 2 * slide
    return reach - GREATEST, GREATEST - reach


def batch_at_limits(chance: np.random.Generator, rows: int, window: Any) -> pa.RecordBatch:
    """Times and values near the limits, a few keys of integers and text, nulls among them."""
    times, values = near_limits(chance, rows, nearest(window)), near_limits(chance, rows)
    if not isinstance(window, sash.Delta):
        chance.shuffle(values)
    keys = [None if chance.random() < 0.2 else int(chance.choice([LEAST, -1, 0, GREATEST])) for _ in range(rows)]
    texts = [None if chance.random() < 0.2 else "abcdefgh"[: int(chance.integers(0, 8))] for _ in range(rows)]
    return pa.record_batch(
        {
            "k": pa.array(keys, pa.int64()),
            "s": pa.array(texts, pa.string()),
            "t": pa.array(times, pa.int64()),
            "d": pa.array(values, pa.int64()),
            "f": pa.array(chance.normal(size=rows) * 10.0 ** chance.integers(-3, 16, rows)),
            "p": pa.array(chance.random(rows) < 0.3),
        }
    )


def cases(chance: np.random.Generator) -> Iterator[Case]:
    """Every kind of window, emission and key, in calls of several sizes."""
    rowwise = [*windows(5), *windows(2**62), sash.Punctuation("p"), {"a": sash.Time(5), "b": sash.Count(2)}]
    emissions: list[tuple[str, list[Any]]] = [
        ("final", [*rowwise, *SLIDING, *CLOSING, *SHIFTED]),
        ("changes", [*rowwise, *SLIDING]),
        ("eager", [w for w in [*rowwise, *SLIDING] if not isinstance(w, sash.Punctuation)]),
    ]
    for emit, kinds in emissions:
        for number, window in enumerate(kinds):
            batch = batch_at_limits(chance, 24, window)
            keys: Any = [(), "k", ("k", "s")][number % 3] if not isinstance(window, sash.Delta) else ()
            lateness = [0, 3, 2**62, GREATEST][number % 4]
            more = {"forget": 2**62 + 5} if number % 5 == 4 else {}
            aggregates = AGGREGATES
            if emit == "eager":  # each compiles a tree; a sum of floats is compared by its inputs
                aggregates = {"real": sash.sum("f")} if number == 0 else {"high": sash.max("d")}
            query = sash.Query(window, by=keys, on="t", lateness=lateness, emit=emit, **more, **aggregates)
            order = chance.permutation(24) if number % 2 and not isinstance(window, sash.Delta) else np.arange(24)
            rows = batch.take(pa.array(order))
            cuts = [0, 1, 2, 9, 24]
            steps = [StreamStep("process", rows.slice(a, b - a)) for a, b in itertools.pairwise(cuts)]
            yield Case(query, batch.schema, "rows", (*steps, StreamStep("finish")))


@pytest.mark.usefixtures("interpreted_kernels")
def test_kernels_at_the_limits_are_as_interpreted() -> None:
    """Kernels without aggregates; `test_laws_on_columns` compares those of aggregates."""
    chance = np.random.default_rng(5)
    with shadowed() as seen:
        for case in cases(chance):
            compare_with_reference(case, begin, resume)
        for window in [*windows(5), *windows(2**62), sash.Punctuation("p"), sash.Count(2, full=True), *SHIFTED]:
            for by in ((), "k", ("k", "s")) if not isinstance(window, sash.Delta) else ((),):
                on_columns(sash.Query(window, by=by, on="t", **AGGREGATES), chance)
        many_keys_in_a_call()
        in_a_store(chance)
        rows_between_rows()
        taken_back()
    assert len(seen) >= COMPARED


def in_a_store(chance: np.random.Generator) -> None:
    """Elements are written to buckets and segments, and loaded from them."""
    window = sash.Count(50)
    query, store = sash.Query(window, by="k", on="t", lateness=0, **AGGREGATES), MemoryStore()
    batch = batch_at_limits(chance, 60, window)
    with small_buckets(400, 2):
        for start in range(0, 60, 10):
            query.operator(batch.schema, store=store).process(batch.slice(start, 10))


def many_keys_in_a_call() -> None:
    """Enough rows that they are processed key by key, and enough texts that their table grows."""
    texts = [f"key {i * 7919 % 3001}" for i in range(5000)]
    batch = pa.record_batch({"s": texts, "t": range(GREATEST - 5000, GREATEST)})
    query = sash.Query(sash.Time(4000), by="s", on="t", lateness=0, n=sash.count())
    compare_with_reference(
        Case(query, batch.schema, "rows", (StreamStep("process", batch), StreamStep("finish"))), begin, resume
    )


def rows_between_rows() -> None:
    """Each row lies between the two before it, so that the labels between them run out."""
    times, low, high = [0, GREATEST], 0, GREATEST
    for i in range(60):
        middle = (low + high) // 2
        times.append(middle)
        low, high = (middle, high) if i % 2 else (low, middle)
    query = sash.Query(sash.Count(3), on="t", lateness=GREATEST, emit="eager", high=sash.max("t"))
    schema = pa.schema({"t": pa.int64()})
    steps = [StreamStep("process", pa.record_batch([[t]], schema=schema)) for t in times]
    compare_with_reference(Case(query, schema, "rows", (*steps, StreamStep("finish"))), begin, resume)


class Failing(MemoryStore):
    """A store that refuses to write while it fails."""

    fails = False

    def put_many(self, pages: Any) -> None:
        if self.fails:
            raise OSError("no room")
        super().put_many(pages)


def taken_back() -> None:
    """Rows that are retracted, and a call that fails."""
    query = sash.Query(sash.Count(3), on="t", lateness=GREATEST, emit="eager", retract="r", high=sash.max("d"))
    store = Failing()
    operator, other = query.operator(store=store), query.operator()
    kept = [{"t": [0, 3, GREATEST], "d": [1, 2, 3], "r": [False] * 3}, {"t": [3], "d": [2], "r": [True]}]
    for number, rows in enumerate(kept):
        store.fails = number > 0
        if store.fails:
            with pytest.raises(OSError, match="no room"):
                operator.process({"t": [2, 3], "d": [LEAST, GREATEST], "r": [False, True]})
        store.fails = False
        assert operator.process(rows).equals(other.process(rows))
    assert operator.finish().equals(other.finish())


def on_columns(query: sash.Query, chance: np.random.Generator) -> None:
    """Run a query on whole columns, sorted and unsorted, and compare with the reference."""
    drawn = batch_at_limits(chance, 80, query.windows[""])
    orders = [drawn, sorted_by_key(drawn, query), drawn.take(pa.array(chance.permutation(drawn.num_rows)))]
    for rows in orders[:1] if isinstance(query.windows[""], sash.Delta) else orders:
        batch = rows.append_column("row", pa.array(range(rows.num_rows)))
        reference = Reference(query, batch.schema, mode="sorted")
        expected = [reference.process(sorted_by_key(batch, query)), reference.finish()]
        found = query.run(pa.Table.from_batches([batch]))
        ordered = pa.Table.from_batches(expected).sort_by("row")
        assert_same(found, ordered, loose={"real": 1e-12, "spread": 1e-9})
