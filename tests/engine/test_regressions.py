"""Regression tests over many calls: what was emitted, what is held, and what is never overwritten."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.engine import Operator
from sash.stores import MemoryStore, PageError
from sash.testing import Reference


def rows(
    times: Sequence[int], keys: Sequence[Any] | None = None, values: Sequence[Any] | None = None
) -> pa.RecordBatch:
    count = len(times)
    return pa.record_batch(
        {
            "t": pa.array(times, pa.int64()),
            "k": pa.array(keys if keys is not None else ["a"] * count, pa.string()),
            "x": pa.array(values if values is not None else [1] * count, pa.int64()),
        }
    )


def test_what_cannot_be_opened_is_not_overwritten() -> None:
    store = MemoryStore()
    schema = rows([1]).schema
    Operator(sash.Query(3, on="t", lateness=0, n=sash.count()), schema, store=store).process(rows([1, 2]))
    before = dict(store.pages)
    with pytest.raises(PageError, match="query"):
        Operator(sash.Query(4, on="t", lateness=0, n=sash.count()), store=store)
    empty = MemoryStore()
    other = Operator(sash.Query(4, on="t", lateness=0, n=sash.count()), store=empty)
    empty.put_many(before)  # written by another one before the first batch comes
    for _ in range(2):
        with pytest.raises(PageError, match="query"):
            other.process(rows([3]))
    assert empty.pages == store.pages == before
    assert other.metrics.rows_in == 0


def test_dictionaries_grow_beyond_what_one_batch_indexes() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    query = sash.Query(sash.Time(1000), by="k", on="t", lateness=1000, n=sash.count())
    operator = None
    for start in range(0, 300, 50):
        keys = pa.array([f"key {i}" for i in range(start, start + 50)]).dictionary_encode().cast(kind)
        batch = pa.record_batch({"t": pa.array(range(start, start + 50)), "k": keys})
        operator = operator or query.operator(batch.schema)
        operator.process(batch)
    assert operator is not None
    assert operator.finish().num_rows == 300


def test_another_emission_forgets_what_was_emitted() -> None:
    def query(emit: str) -> sash.Query:
        return sash.Query(sash.Time(5), by="k", on="t", lateness=5, emit=emit, n=sash.count())

    operator = query("changes").operator(rows([1]).schema)
    operator.process(rows([1, 2, 3], ["a", "a", "b"]))
    resumed = Operator.restore(query("final"), operator.snapshot())
    assert resumed.finish()["t"].to_pylist() == [1, 2, 3]
    assert resumed.metrics.keys == 0
    resumed = Operator.restore(query("changes"), query("final").operator(rows([1]).schema).snapshot())
    assert resumed.process(rows([1, 2, 30])).num_rows == 2


def test_nanoseconds_in_lists_change() -> None:
    times = pa.array([1, 2, 3]).cast(pa.timestamp("ns"))
    batch = pa.record_batch({"t": pa.array([1, 2, 3]), "ns": times})
    query = sash.Query(2, on="t", lateness=0, emit="changes", seen=sash.collect("ns"))
    operator = query.operator(batch.schema)
    assert operator.process(batch).num_rows + operator.finish().num_rows == 3


def test_elements_of_large_keys_are_counted_while_they_are_silent() -> None:
    query = sash.Query(5000, by="k", n=sash.count())
    operator = query.operator(rows([1]).schema)
    operator.process(rows(range(6000)))
    held = operator.metrics.elements
    operator.process(rows([6000], ["b"]))
    assert operator.metrics.elements == held + 1 == 5001


@pytest.mark.parametrize("window", [sash.Time(4), sash.Time(4, every=2)], ids=str)
def test_the_last_key_of_many_sorted_rows_stays_open(window: sash.Window) -> None:
    """Many rows are processed in the order of slots, which are reused: the last row may not be of the last slot."""
    query = sash.Query(window, by="k", on="t", total=sash.sum("x"))
    given = rows([t for _ in "abcdefghijkl" for t in range(500)], [k for k in "abcdefghijkl" for _ in range(500)])
    found = []
    for size in (given.num_rows, 4800, 1300):
        operator = query.operator(given.schema, mode="sorted")
        batches = [operator.process(given.slice(at, size)) for at in range(0, given.num_rows, size)]
        found.append(pa.Table.from_batches([*batches, operator.finish()]).sort_by([("k", "ascending")]).to_pylist())
    assert all(one == found[0] for one in found)


@pytest.mark.usefixtures("interpreted_kernels")
def test_changes_of_an_inexact_sum_do_not_depend_on_whether_it_compiles() -> None:
    """Interpreted, a sum of floats is exact, and was compared by value: results that stay NaN were not emitted."""
    data = pa.record_batch({"t": [1, 2, 3], "f": [1.0, float("nan"), 2.0]})
    query = sash.Query(sash.Lifetime(), on="t", emit="changes", total=sash.sum("f"))
    operator, reference = query.operator(data.schema), Reference(query, data.schema)
    found, expected = ([one.process(data), one.finish()] for one in (operator, reference))
    times = [batch.column("t").to_pylist() for batch in found]
    assert times == [batch.column("t").to_pylist() for batch in expected]
    assert [time for batch in times for time in batch] == [1, 2, 3]
