"""Regression tests over many calls: no state is lost in an outage or kept forever, no result is emitted twice."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.engine import Operator
from sash.engine.emit.output import Output
from sash.engine.keyed import step_data
from sash.engine.keyed.arena import Arena
from sash.engine.keyed.key_table import KeyTable
from sash.engine.keyed.slot_table import SlotTable
from sash.engine.revise.eager_rows import OrderedRows
from sash.engine.revise.eager_state import EagerState
from sash.kernels.loops import bound_kernel, loop_cache
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


class Flaky(MemoryStore):
    """A store that cannot be reached while `away` is set."""

    away = False

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        if self.away:
            raise ConnectionError("out of reach")
        return super().get_many(ids)

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        if self.away:
            raise ConnectionError("out of reach")
        super().put_many(pages)

    def delete_many(self, ids: Iterable[str]) -> None:
        if self.away:
            raise ConnectionError("out of reach")
        super().delete_many(ids)


def test_an_outage_loses_nothing() -> None:
    """While the store cannot be read, nothing may be written, which would replace state that was not read."""
    store = Flaky()
    query = sash.Query(sash.Lifetime(), on="t", lateness=0, total=sash.sum("x"))
    operator = Operator(query, rows([1]).schema, store=store)
    operator.process(rows([1, 2, 3]))
    store.away = True
    for _ in range(2):
        with pytest.raises(ConnectionError):
            operator.process(rows([4]))
    store.away = False
    operator.process(rows([4]))
    assert operator.finish()["total"].to_pylist()[-1] == 4
    assert operator.metrics.rows_in == 4


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


def test_changes_of_windows_without_a_value() -> None:
    """Two empty windows have equal results, wherever they lie, so no change is emitted."""
    query = sash.Query(sash.Time(3, closed="left"), on="t", emit="changes", lateness=0, m=sash.mean("x"))
    batch = rows([0, 10, 20, 30, 40])
    operator, reference = query.operator(batch.schema), Reference(query, batch.schema)
    got = [operator.process(batch), operator.finish()]
    expected = [reference.process(batch), reference.finish()]
    assert [b.num_rows for b in got] == [b.num_rows for b in expected]


@pytest.mark.parametrize(
    "aggregates", [{"a": sash.max("x")}, {"m": sash.mean("x")}, {"a": sash.max("x"), "m": sash.mean("x")}]
)
def test_changes_of_windows_that_become_full(aggregates: dict[str, Any]) -> None:
    """A null of an exact aggregate is a null, full or not; an inexact one also differs by being full, each window's."""
    windows = {"2": sash.Count(2, full=True), "4": sash.Count(4, full=True)}
    query = sash.Query(windows, on="t", emit="changes", lateness=0, **aggregates)
    batches = [rows([t], values=[x]) for t, x in enumerate([None, None, None, None, None, 3, None, None, None, None])]
    operator, reference = query.operator(batches[0].schema), Reference(query, batches[0].schema)
    for batch in batches:
        assert operator.process(batch).to_pylist() == reference.process(batch).to_pylist()
        operator = Operator.restore(query, operator.snapshot())
    assert operator.finish().to_pylist() == reference.finish().to_pylist()


def test_emitted_results_are_kept_once() -> None:
    query = sash.Query(sash.Time(5), by="k", on="t", emit="changes", lateness=0, high=sash.max("x"))
    operator = query.operator(rows([1]).schema)
    operator.process(rows([1, 1], ["a", "b"]))
    sizes = []
    for w in range(10, 40):
        operator.advance(w)
        sizes.append(operator.metrics.state_bytes)
    assert max(sizes) < 2 * min(sizes)


@pytest.mark.parametrize("forget", [None, 10])
def test_keys_that_have_expired_go_though_others_of_their_bucket_stay(forget: int | None) -> None:
    window = sash.Time(10) if forget is None else sash.Lifetime()
    query = sash.Query(window, by="k", on="t", lateness=0, forget=forget, n=sash.count())
    operator = query.operator(rows([1]).schema)
    for tick in range(60):
        operator.process(rows([tick] * 20, [f"{tick}.{i}" for i in range(20)]))
    assert operator.metrics.keys <= 20 * 14


@pytest.mark.parametrize("window", [sash.Time(5), sash.Session(3, every="close"), sash.Time(4, every=2)])
def test_expired_keys_go_with_their_emitted_results(window: Any) -> None:
    query = sash.Query(window, by="k", on="t", emit="changes", lateness=0, forget=10, n=sash.count())
    operator = query.operator(rows([1]).schema)
    operator.process(rows([1, 2, 3], ["a", "b", "c"]))
    operator.advance(100)
    operator.advance(101)
    assert operator.metrics.keys == 0


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


def test_an_eager_call_that_failed_has_emitted_nothing() -> None:
    store = Flaky()
    query = sash.Query(sash.Time(5), by="k", on="t", lateness=5, emit="eager", n=sash.count())
    operator = Operator(query, rows([1]).schema, store=store)
    operator.process(rows([1]))
    put, store.put_many = store.put_many, None  # type: ignore[assignment, method-assign]
    with pytest.raises(TypeError):
        operator.process(rows([2], ["b"]))
    store.put_many = put  # type: ignore[method-assign]
    operator.advance(3)
    emitted = operator.process(rows([4], ["b"]))
    assert emitted.select(["t", "_row", "_revision"]).to_pydict() == {"t": [4], "_row": [1], "_revision": [0]}


def test_early_slides_in_rows_are_kept_until_they_are_final() -> None:
    query = sash.Query(sash.Count(3, every=2), by="k", on="t", lateness=2, emit="eager", n=sash.count())
    operator = query.operator(rows([1]).schema)
    operator.process(rows(range(2000)))
    operator.advance(10_000)
    assert operator.metrics.elements <= 3


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
def test_the_last_key_of_many_sorted_rows_stays_open(window: sash.Window, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rows are processed in the order of slots, which are reused: the last row may not be of the last slot."""
    monkeypatch.setattr(step_data, "ORDERED", 4)
    query = sash.Query(window, by="k", on="t", total=sash.sum("x"))
    given = rows([t for _ in "abcdefghijkl" for t in range(6)], [k for k in "abcdefghijkl" for _ in range(6)])
    found = []
    for size in (given.num_rows, 20, 13, 7):
        operator = query.operator(given.schema, mode="sorted")
        batches = [operator.process(given.slice(at, size)) for at in range(0, given.num_rows, size)]
        found.append(pa.Table.from_batches([*batches, operator.finish()]).sort_by([("k", "ascending")]).to_pylist())
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("mode", ["rows", "sorted"])
def test_rows_after_the_end_are_refused_where_nothing_is_late(mode: str) -> None:
    query = sash.Query(3, by="k", n=sash.count())
    operator = query.operator(rows([1]).schema, mode=mode)
    operator.process(rows([1]))
    operator.finish()
    with pytest.raises(ValueError, match=r"finish\(\)"):
        operator.process(rows([2]))


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


@pytest.mark.parametrize("emit", ["final", "changes", "eager"])
def test_a_call_that_has_succeeded_does_not_fail_for_want_of_memory(emit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are moved into smaller arrays, which takes memory, when the call can no longer be undone."""
    query = sash.Query(sash.Time(4), by="k", on="t", lateness=0, emit=emit, total=sash.sum("x"))
    given = [rows([3 * i, 3 * i + 1], ["a", "b"]) for i in range(4)]
    operator, free = query.operator(given[0].schema), query.operator(given[0].schema)
    engine: Any = operator.state.backend.engine
    release, refused = getattr(engine, "release", None), 0

    def no_memory() -> None:
        nonlocal refused
        if (
            operator.state.progress.rows_in <= seen
        ):  # it belongs to the step, which releases what the last call has left
            release()
            return
        refused += 1
        raise MemoryError

    for batch in given:
        seen = operator.state.progress.rows_in
        with monkeypatch.context() as patch:
            patch.setattr(engine, "compact" if emit == "eager" else "release", no_memory)
            assert operator.process(batch).equals(free.process(batch))
    assert refused == len(given)
    assert operator.finish().equals(free.finish())


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("emit", ["final", "changes", "eager"])
def test_an_interrupt_when_a_call_has_succeeded_takes_nothing_back(
    emit: Any, stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results are lost, but the rows are in the state and are counted."""
    query = sash.Query(sash.Time(4), by="k", on="t", lateness=2, emit=emit, total=sash.sum("x"))
    given = [rows([3 * i, 3 * i + 1], ["a", "b"]) for i in range(4)]
    schema = given[0].schema
    operator, free = query.operator(schema, store=MemoryStore() if stored else None), query.operator(schema)

    def interrupt() -> None:
        raise KeyboardInterrupt

    for batch in given[:-1]:
        with monkeypatch.context() as patch:
            patch.setattr(operator.state.backend, "committed", interrupt)
            with pytest.raises(KeyboardInterrupt):
                operator.process(batch)
        free.process(batch)
        assert operator.metrics.rows_in == free.metrics.rows_in
    assert operator.process(given[-1]).equals(free.process(given[-1]))
    assert operator.finish().equals(free.finish())


FAILING = {
    "keys": ((KeyTable, "_resize"),),
    "journal": ((SlotTable, "save"), (EagerState, "save")),
    "space": ((Arena, "_grow"), (OrderedRows, "reserve")),
    "results": ((Output, "final"), (Output, "typed")),
}
"""Where memory runs out, in the order of a call: in the live engine, and in the eager one."""


@pytest.mark.parametrize("emit", ["final", "changes", "eager"])
@pytest.mark.parametrize("place", FAILING)
def test_a_first_call_that_fails_is_undone_without_new_kernels(
    emit: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If memory has run out, LLVM aborts the process when a kernel is loaded."""
    query = sash.Query(sash.Time(4), by="k", on="t", lateness=0, emit=emit, total=sash.sum("x"))
    batch, loaded = rows(list(range(100)), [f"key {i}" for i in range(100)]), list[str]()
    expected = query.operator(batch.schema).process(batch)
    monkeypatch.setattr(loop_cache, "_loops", {})  # as in a new process
    operator = query.operator(batch.schema)
    load = bound_kernel.machine_code

    def recorded(kernel: Any, *arguments: Any) -> Any:
        loaded.append(kernel.__name__)
        return load(kernel, *arguments)

    with monkeypatch.context() as patch:

        def no_memory(*_: Any) -> None:
            patch.setattr(loop_cache, "machine_code", recorded)
            patch.setattr(bound_kernel, "machine_code", recorded)
            raise MemoryError

        for owner, name in FAILING[place]:
            patch.setattr(owner, name, no_memory)
        with pytest.raises(MemoryError):
            operator.process(batch)
        assert operator.metrics.keys == 0
    assert loaded == []
    assert operator.process(batch).sort_by("t").equals(expected.sort_by("t"))
