"""Results in pieces: the same as in one batch, with the memory of a few pieces, in one call that succeeds or not."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash import Count, Query, Time
from sash.engine import Operator, result_pieces
from sash.engine.result_pieces import advance_pieces
from sash.stores import MemoryStore
from tests.shared.small_state import small_buckets

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "x": pa.float64()})
LAST: dict[str, Any] = {"by": "k", "on": "t", "lateness": 5, "high": sash.max("x"), "n": sash.count()}
QUERIES = {
    "one window": Query(Time(20, every=5), **LAST),
    "two grids": Query({"a": Time(20, every=5), "b": Time(21, every=7)}, **LAST),
    "two sizes": Query({"a": Time(20, every=5), "b": Time(40, every=5)}, **LAST),
    "closed on the right": Query(Time(12, every=4, closed="right"), **LAST),
    "of rows": Query(Time(20), **LAST),
    "of rows, two kinds": Query({"a": Time(20), "b": Count(3)}, **LAST),
    "changes": Query(Time(20, every=5), emit="changes", **LAST),
    "forgetting": Query(Time(20, every=5), forget=30, **LAST),
}
WHOLE = ("changes", "forgetting")
"""Those that give all results at once."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(result_pieces, "PIECE", 40)
    monkeypatch.setattr(result_pieces, "FIRST", 3)
    monkeypatch.setattr(result_pieces, "ROWS", 40)
    monkeypatch.setattr(result_pieces, "A_KEY", 1)
    with small_buckets(1 << 14, 400, 30):
        yield


def rows(number: int, keys: int = 60, count: int = 300) -> pa.RecordBatch:
    draw = np.random.default_rng(number)
    times = np.sort(draw.integers(20 * number, 20 * number + 24, count))
    return pa.record_batch([draw.integers(0, keys, count), times, draw.random(count)], schema=SCHEMA)


def chain(batches: list[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


def sorted_rows(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    return sorted(chain(batches), key=repr)


@pytest.mark.parametrize("reopen", [False, True])
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.usefixtures("small")
def test_pieces_are_the_results_of_one_call(name: str, reopen: bool) -> None:
    query, stores, most = QUERIES[name], (MemoryStore(), MemoryStore()), 0
    whole, cut = (Operator(query, SCHEMA, mode="given", store=store) for store in stores)
    for number in range(8):
        if reopen:
            cut = Operator(query, SCHEMA, mode="given", store=stores[1])
        watermark = 20 * number - 5
        pieces = list(advance_pieces(cut, watermark))
        assert sorted_rows(pieces) == sorted_rows([whole.advance(watermark)])
        for key in range(5):
            ends = [row.get("window_end", row.get("t")) for row in chain(pieces) if row["k"] == key]
            assert ends == sorted(ends)
        most = max(most, len(pieces))
        for operator in (whole, cut):
            operator.process(rows(number))
        assert (cut.metrics.rows_out, cut.watermark, cut.due) == (whole.metrics.rows_out, whole.watermark, whole.due)
    assert (most > 3) == (name not in WHOLE)
    assert sorted_rows([cut.finish()]) == sorted_rows([whole.finish()])


@pytest.mark.usefixtures("small")
def test_a_call_of_which_not_all_pieces_are_taken_changes_nothing() -> None:
    store = MemoryStore()
    operator = Operator(QUERIES["one window"], SCHEMA, mode="given", store=store)
    operator.process(rows(0))
    before, progress = dict(store.items()), operator.state.progress
    pieces = advance_pieces(operator, 20)
    first = [next(pieces), next(pieces)]
    pieces.close()
    assert dict(store.items()) == before
    assert operator.state.progress == progress
    again = list(advance_pieces(operator, 20))
    assert [one.to_pydict() for one in again[:2]] == [one.to_pydict() for one in first]
    assert len(again) > 2


@pytest.mark.usefixtures("small")
def test_results_of_rows_may_be_taken_in_part() -> None:
    operator = Operator(QUERIES["of rows"], SCHEMA, mode="given", store=MemoryStore())
    operator.process(rows(0))
    pieces = advance_pieces(operator, 20)
    first = [next(pieces), next(pieces)]
    pieces.close()
    assert 0 < (operator.watermark or 0) < 20
    again = list(advance_pieces(operator, 20))
    whole = Operator(QUERIES["of rows"], SCHEMA, mode="given")
    whole.process(rows(0))
    assert list(chain(first + again)) == whole.advance(20).to_pylist()


@pytest.mark.usefixtures("small")
def test_rows_of_many_keys_are_settled_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_pieces, "A_KEY", 8)
    operator = Operator(QUERIES["of rows"], SCHEMA, mode="given", store=MemoryStore())
    counts = []
    for number in (0, 1):
        operator.process(rows(number))
        counts.append([piece.num_rows for piece in advance_pieces(operator, 20 * number + 20)])
    assert len(counts[0]) > 3  # the keys are not known yet
    assert counts[1][0] == sum(counts[1]) > 200  # fewer than 8 new rows of each of the 60 keys


def filled(keys: int) -> Operator:
    """An operator with a row of each key, and a window that all slides to come hold."""
    operator = Operator(Query(Time(1000, every=1), **LAST), SCHEMA, mode="given")
    operator.process(pa.record_batch([np.arange(keys), np.zeros(keys, np.int64), np.ones(keys)], schema=SCHEMA))
    return operator


def peak(batches: Iterator[pa.RecordBatch]) -> tuple[int, int]:
    """The peak of allocated bytes while batches were taken one by one, and the number of results."""
    tracemalloc.start()
    arrow, most, count = pa.total_allocated_bytes(), 0, 0
    for batch in batches:
        count += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - arrow)
        del batch
    most += tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most, count


@pytest.mark.compiled
def test_memory_is_that_of_a_few_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_pieces, "PIECE", 4000)
    list(advance_pieces(filled(100), 10))  # compiles
    memory = {}
    for slides in (50, 200):
        memory[slides], count = peak(advance_pieces(filled(3000), slides))
        assert count == 3000 * slides
    operator = filled(3000)
    whole, _ = peak(operator.advance(200) for _ in range(1))
    assert memory[200] < 2 * memory[50]  # four times the slides
    assert memory[200] < 600 * 8 * 4000  # a result takes some 100 bytes on its way, the first pieces may be larger
    assert 5 * memory[200] < whole
