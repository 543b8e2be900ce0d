"""Several queries as one operator: each has its own results, calls are atomic, and a store has one commit per call."""

from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.engine import QueriesOperator
from sash.monoids.op_counter import OpCounter
from sash.stores import MemoryStore, PageError
from sash.testing import assert_same
from tests.engine.counting import CountingStore
from tests.testing.stream_text import SCHEMA, rows

pytestmark = pytest.mark.usefixtures("interpreted_kernels", "interpreted_trees")


def test_queries_with_windows_that_end_at_different_rows_after_theirs() -> None:
    """Each result leaves when it is final for its query, not when the longest window of all queries has ended."""
    given: dict[str, Any] = {"by": "k", "on": "t", "lateness": 0, "n": sash.count()}
    queries = sash.Queries(
        one=sash.Query(sash.Count(2, shift=1), **given), two=sash.Query(sash.Count(2, shift=2), **given)
    )
    each, together, batch = alone(queries), queries.operator(), pa.record_batch({"k": ["a"] * 3, "t": [1, 2, 3]})
    agree(together.process(batch), each, "process", batch)
    agree(together.finish(), each, "finish")


# ---- one state ----


def some(**more: sash.Query) -> sash.Queries:
    """Per row and per slide, with windows and aggregates in common."""
    given: dict[str, Any] = {"by": "k", "on": "t", "lateness": 2}
    found = {
        "row": sash.Query(sash.Time(3), **given, high=sash.max("x"), mean=sash.mean("v")),
        "both": sash.Query({"s": sash.Time(3), "c": sash.Count(2)}, **given, min_periods=2, high=sash.max("x")),
        "slide": sash.Query(sash.Time(4, every=2), **given, high=sash.max("x"), n=sash.count()),
    }
    return sash.Queries(**found, **more)


STREAM = [rows("a1/1 b2/2 a5/3"), rows("a4/4 b5 a9/5 a9/1", 3), rows("a2/1 b12", 7), rows("a14/2 b13/7", 9)]


def agree(found: dict[str, pa.RecordBatch], each: dict[str, Any], call: str, *arguments: Any) -> None:
    """Compare with the results of each operator for the same call; slides of several keys may come in any order."""
    for name, one in each.items():
        right = getattr(one, call)(*arguments)
        assert found[name].schema == right.schema
        assert_same(found[name], right, by=one.query.by)


def alone(queries: sash.Queries) -> dict[str, Any]:
    return {name: query.operator() for name, query in queries.queries.items()}


@pytest.mark.parametrize("key", ["lateness", "late", "forget", "by", "on", "emit", "options"])
def test_queries_that_differ_run_together(key: str) -> None:
    changes: dict[str, Any] = {
        "lateness": 3, "late": "flag", "forget": 9, "by": (), "on": ["t", "x"], "emit": "changes",
        "options": sash.Options(prefer="latency"),
    }  # fmt: skip
    queries = some()
    other = queries.queries["row"].rewritten(**{key: changes[key]})
    queries = sash.Queries(**queries.queries, other=other)
    operator, each = queries.operator(), alone(queries)
    assert len(operator.states) == 2
    for batch in STREAM:
        found = operator.process(batch)
        agree(found, each, "process", batch)
    agree(operator.finish(), each, "finish")


def test_equal_queries_that_emit_changes_share_an_operator() -> None:
    query = sash.Query(2, by="k", on="t", emit="changes", high=sash.max("x"))
    operator = sash.Queries(one=query, same=query).operator()
    assert len(operator.states) == 1
    found = operator.process(rows("a1/1 a2/1 a3/2"))
    assert found["one"] is found["same"]


def counted(windows: int, together: bool) -> int:
    """The ⊕ of a maximum over windows of several sizes."""
    counter = OpCounter(sash.monoids.Max())
    queries = {f"q{n}": sash.Query(10 + n, by="k", high=counter("x")) for n in range(windows)}
    batch = pa.record_batch({"k": ["a", "b"] * 200, "x": [float(i * 7919 % 101) for i in range(400)]})
    operators: list[Any] = (
        [sash.Queries(**queries).operator()] if together else [q.operator() for q in queries.values()]
    )
    for operator in operators:
        operator.process(batch)
    return counter.calls


def test_many_windows_of_one_aggregate_cost_about_one_ingest() -> None:
    one, apart, together = counted(1, True), counted(50, False), counted(50, True)
    assert apart == pytest.approx(50 * one, rel=0.1)
    assert together < 2 * one


def test_equal_queries_cost_one() -> None:
    counter = OpCounter(sash.monoids.Sum())
    queries = {f"q{n}": sash.Query(sash.Time(4, every=2), by="k", on="t", s=counter("x")) for n in range(5)}
    found = []
    for operator in (sash.Queries(**queries).operator(SCHEMA), queries["q0"].operator(SCHEMA)):
        counter.taken()  # to bind an aggregate computes samples
        operator.process(STREAM[0])
        found.append(counter.taken())
    assert found[0] == found[1] > 0


# ---- stores ----


def test_a_store_has_one_commit_for_all_queries() -> None:
    store = CountingStore()
    queries = some(other=sash.Query(2, on="t", lateness=2, n=sash.count()))
    operator, each = queries.operator(store=store), alone(queries)
    puts: list[int] = []
    put_many = store.put_many
    store.put_many = lambda pages: (puts.append(len(pages)), put_many(pages))[1]  # type: ignore[method-assign]
    for number, batch in enumerate(STREAM):
        found = operator.process(batch, offset={"at": number})
        assert len(puts) == number + 1
        agree(found, each, "process", batch)
        operator = queries.operator(store=store)
        assert operator.offset == {"at": number}
    assert {name.partition(".")[0] for name in store.pages} == {"root", "g0", "g1"}
    agree(operator.finish(), each, "finish")


def test_an_older_operator_on_the_store_is_refused() -> None:
    store, queries = MemoryStore(), some()
    old = queries.operator(store=store)
    queries.operator(store=store)
    with pytest.raises(RuntimeError, match="another operator was opened on the store"):
        old.process(STREAM[0])


def test_state_of_other_queries_is_refused() -> None:
    store, queries = MemoryStore(), some()
    queries.operator(store=store).process(STREAM[0])
    single = queries.queries["row"]
    with pytest.raises(PageError, match="it has both, row, slide; expected row"):
        sash.Queries(row=single).operator(store=store)
    with pytest.raises(PageError, match="queries page; expected a root page"):
        single.operator(store=store)
    changed = sash.Queries(**{**queries.queries, "row": single.rewritten(windows=sash.Time(5))})
    with pytest.raises(PageError, match="another query"):
        changed.operator(store=store)
    alone_store = MemoryStore()
    single.operator(store=alone_store).process(STREAM[0])
    with pytest.raises(PageError, match="state of a single query"):
        queries.operator(store=alone_store)


def test_the_order_of_keywords_does_not_matter_to_the_state() -> None:
    store, queries = MemoryStore(), some()
    queries.operator(store=store).process(STREAM[0])
    turned = sash.Queries(**dict(reversed(queries.queries.items())))
    assert list(turned.operator(store=store).finish()) == ["slide", "both", "row"]


# ---- all or nothing ----


def test_a_query_that_fails_leaves_all_unchanged() -> None:
    def refuse(x: float) -> float:
        if x == 13:
            raise ArithmeticError("thirteen")
        return x

    fails = sash.monoid(identity=0.0, lift=refuse, combine=lambda a, b: a + b, lower=lambda a: a, name="fails")
    # by itself, so that the others have succeeded when it fails
    queries = some(fails=sash.Query(2, on="t", lateness=2, f=fails("v")))
    store = MemoryStore()
    operator, each = queries.operator(store=store), alone(queries)
    operator.process(STREAM[0], offset=1)
    for one in each.values():
        one.process(STREAM[0])
    pages = dict(store.pages)
    bad = pa.RecordBatch.from_pydict({**rows("a20/1 a30/1", 3).to_pydict(), "v": [1.0, 13.0]}, SCHEMA)
    with pytest.raises(ArithmeticError, match="thirteen") as raised:
        operator.process(pa.concat_batches([bad, rows("a90/1", 5)]), offset=2)
    assert "in the queries fails" in raised.value.__notes__
    assert store.pages == pages
    assert operator.offset == 1
    for batch in STREAM[1:]:
        found = operator.process(batch)
        agree(found, each, "process", batch)


def test_before_commit_sees_all_results_and_can_refuse_them() -> None:
    seen: list[Any] = []

    def refuse(uncommitted: Any) -> None:
        seen.append(uncommitted)
        raise RuntimeError("not now")

    operator = some().operator()
    with pytest.raises(RuntimeError, match="not now"):
        operator.process(rows("a1/1 a9/2 a2/3"), before_commit=refuse)
    assert operator.metrics["row"].rows_in == 0
    (uncommitted,) = seen
    found = operator.process(rows("a1/1 a9/2 a2/3"))
    assert {name: batch.to_pylist() for name, batch in found.items()} == {
        name: batch.to_pylist() for name, batch in uncommitted.results.items()
    }
    assert uncommitted.watermark == {"row": 7, "both": 7, "slide": 7}
    assert [batch.num_rows for batch in uncommitted.late_rows.values()] == [1, 1, 1]


# ---- lookups, watermarks, errors ----


def test_lookups_are_those_of_each_query() -> None:
    queries = some(other=sash.Query(2, on="t", lateness=2, n=sash.count()))
    operator, each = queries.operator(), alone(queries)
    operator.process(STREAM[0])
    for one in each.values():
        one.process(STREAM[0])
    found = operator.lookup({"k": ["a", "b", "z"]})
    assert list(found) == ["row", "both", "slide"]
    for name, batch in found.items():
        assert batch.equals(each[name].lookup({"k": ["a", "b", "z"]}))
    assert operator.lookup({})["other"].equals(each["other"].lookup({}))
    with pytest.raises(ValueError, match="lookup\\(\\) takes the columns of by="):
        operator.lookup({"nothing": [1]})


def test_advance_moves_every_watermark_and_leaves_queries_without_a_time() -> None:
    queries = some(other=sash.Query(2, by="k", n=sash.count()))
    operator = queries.operator()
    operator.process(STREAM[0])
    found = operator.advance(6, offset="six")
    assert operator.offset == "six"
    assert found["row"].num_rows == 1
    assert found["other"].num_rows == 0
    assert operator.watermark == {"row": 6, "both": 6, "slide": 6, "other": None}
    with pytest.raises(ValueError, match="has no on="):
        sash.Queries(other=queries.queries["other"]).operator(SCHEMA).advance(6)


def test_a_schema_that_does_not_fit_names_the_query() -> None:
    queries = sash.Queries(fits=sash.Query(2, n=sash.count()), other=sash.Query(2, high=sash.max("nothing")))
    operator = queries.operator()
    with pytest.raises(KeyError, match="nothing") as raised:
        operator.process(STREAM[0])
    assert any("other" in note for note in raised.value.__notes__)
    assert operator.schema is None


def test_a_snapshot_of_other_queries_is_refused() -> None:
    operator = some().operator()
    operator.process(STREAM[0])
    data = operator.snapshot()
    with pytest.raises(PageError, match="the snapshot has the state of other queries"):
        QueriesOperator.restore(sash.Queries(row=some().queries["row"]), data)
    with pytest.raises(PageError, match="is truncated"):
        QueriesOperator.restore(some(), data[:-3])
    with pytest.raises(TypeError, match="in the store"):
        some().operator(store=MemoryStore()).snapshot()


def test_an_iterator_of_batches_gives_an_iterator_of_dicts() -> None:
    found = list(some().run(iter(STREAM)))
    each = alone(some())
    for name, one in each.items():
        right = [*(one.process(batch) for batch in STREAM), one.finish()]
        assert_same([batches[name] for batches in found], right, by="k")
