"""Options(failed="side"): what fails is set aside and counted, and everything else is as without it."""

import random
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.stores import MemoryStore
from sash.testing import assert_same

pytestmark = pytest.mark.usefixtures("interpreted_kernels", "interpreted_trees")

every_emit = pytest.mark.parametrize("emit", ["final", "changes", "eager"])
SIDE = sash.Options(failed="side")
SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.int64()), ("y", pa.int64())])
LIMIT = 2**62


def unlucky(x: int) -> int:
    if x == 13:
        raise ValueError("unlucky")
    return x


def fitting(total: int) -> int | None:
    return total if -(2**63) <= total < 2**63 else None


def even(total: int) -> int:
    if total % 2:
        raise ArithmeticError("odd")
    return total


def plus(a: int, b: int) -> int:
    return a + b


FAILING = {
    "lifted": sash.monoid(identity=0, lift=unlucky, combine=plus, lower=lambda a: a, returns="int64")("x"),
    "lowered": sash.monoid(identity=0, lift=lambda x: x, combine=plus, lower=even, returns="int64")("x"),
    "total": sash.sum("y"),
    "doubled": sash.max(sash.expr("y + y"), where="x <> 7"),
    "rows": sash.count(),
    "product": sash.max("y") * sash.max("x"),
}
RIGHT = {
    **FAILING,
    "lifted": sash.monoid(identity=0, lift=lambda x: x, combine=plus, lower=lambda a: a, returns="int64")("x"),
    "lowered": sash.monoid(
        identity=0, lift=lambda x: x, combine=plus, lower=lambda a: None if a % 2 else a, returns="int64"
    )("x"),
    "total": sash.monoid(identity=0, lift=lambda x: x, combine=plus, lower=fitting, returns="int64")("y"),
    "product": sash.monoid(
        identity=None,
        lift=lambda y, x: (y, x),
        combine=lambda a, b: b if a is None else a if b is None else (max(a[0], b[0]), max(a[1], b[1])),
        lower=lambda a: fitting(a[0] * a[1]),
        returns="int64",
    )("y", "x"),
}
WINDOWS: dict[str, Any] = {
    "count": sash.Count(3),
    "time": sash.Time(5),
    "session": sash.Session(2),
    "lifetime": sash.Lifetime(),
    "sliding": sash.Time(6, every=2),
    "counted": sash.Count(4, every=2),
}


def fails(row: dict[str, Any]) -> bool:
    return row["x"] == 13 or not -(2**63) <= 2 * row["y"] < 2**63


def drawn(seed: int, rows: int) -> list[pa.RecordBatch]:
    """Batches whose times rise from batch to batch, and are out of order within one."""
    draw, found, at = random.Random(seed), [], 0
    for _ in range(6):
        made = [
            {"k": draw.choice("ab"), "t": at + draw.randrange(8), "x": draw.choice([2, 3, 7, 13]), "y": draw.choice(
                [1, 5, LIMIT - 1, LIMIT, -LIMIT])}
            for _ in range(draw.randrange(rows))
        ]  # fmt: skip
        found.append(pa.RecordBatch.from_pylist(made, SCHEMA))
        at += 4
    return found


@pytest.mark.parametrize("window", WINDOWS)
@every_emit
@pytest.mark.parametrize("seed", range(3))
def test_all_other_rows_have_the_results_that_they_have_without_the_failed_ones(
    window: str, emit: Any, seed: int
) -> None:
    given: Any = {"by": "k", "on": "t", "lateness": 0, "emit": emit}
    store = MemoryStore()
    query = sash.Query(WINDOWS[window], **given, options=SIDE, **FAILING)
    right = sash.Query(WINDOWS[window], **given, **RIGHT).operator(SCHEMA, mode="given")
    operator = query.operator(SCHEMA, mode="given", store=store)
    failed: list[dict[str, Any]] = []
    late = 0
    results = nulls = 0
    for number, batch in enumerate(drawn(seed, 9)):
        if number == 3:
            operator = query.operator(mode="given", store=store)
        on_time = [row for row in batch.to_pylist() if right.watermark is None or row["t"] >= right.watermark]
        late += batch.num_rows - len(on_time)
        good = [row for row in batch.to_pylist() if row not in on_time or not fails(row)]
        failed += [row for row in on_time if fails(row)]
        found = [operator.process(batch), operator.advance(4 * number + 6)]
        expected = [right.process(pa.RecordBatch.from_pylist(good, SCHEMA)), right.advance(4 * number + 6)]
        if number == 5:
            found, expected = [*found, operator.finish()], [*expected, right.finish()]
        rejected = operator.failed_rows()
        assert rejected.drop_columns(["_error"]).to_pylist() == failed[len(failed) - rejected.num_rows :]
        assert rejected.column("_error").null_count == 0
        for one, other in zip(found, expected, strict=True):
            compared = [name for name in one.schema.names if name not in ("_row", "_id")]
            assert_same(one.select(compared), other.select(compared).cast(one.select(compared).schema))
            results += one.num_rows
            for name in ("lowered", "total", "product"):
                nulls += one.column(name).null_count
    metrics = operator.metrics
    assert (metrics.failed, metrics.late) == (len(failed), late)
    assert late > 0
    if emit == "final" and window not in ("session", "lifetime"):  # where rows of equal time share a result
        assert metrics.failed_results == nulls > 0
    assert metrics.failed_results > 0
    assert metrics.rows_out == results


def test_a_failed_row_is_given_once_with_its_message_and_moves_the_watermark() -> None:
    op = sash.Query(2, on="t", lateness=0, options=SIDE, n=FAILING["lifted"], e=FAILING["doubled"]).operator(SCHEMA)
    rows = pa.RecordBatch.from_pylist(
        [{"t": 9, "x": 13, "y": 1}, {"t": 4, "x": 13, "y": 2}, {"t": 9, "x": 1, "y": LIMIT}], SCHEMA
    )
    assert op.process(rows).num_rows == 0
    assert op.watermark == 9
    assert op.late_rows().to_pylist() == [{"k": None, "t": 4, "x": 13, "y": 2}]
    assert op.failed_rows().to_pylist() == [
        {"k": None, "t": 9, "x": 13, "y": 1, "_error": "the aggregate 'n' failed with ValueError: unlucky"},
        {"k": None, "t": 9, "x": 1, "y": LIMIT,
         "_error": "the expression '(y + y) where x <> 7' fails at y=4611686018427387904, x=1: overflow"},
    ]  # fmt: skip
    assert op.failed_rows().num_rows == 0
    assert (op.metrics.rows_in, op.metrics.late, op.metrics.failed) == (3, 1, 2)
    assert op.metrics.last_failure.endswith("overflow")


def test_a_result_that_fails_is_null_and_its_message_names_the_row() -> None:
    op = sash.Query(2, by="k", options=SIDE, s=sash.sum("y")).operator(SCHEMA)
    found = op.process(pa.RecordBatch.from_pylist([{"k": "a", "y": y} for y in (LIMIT, LIMIT, 1)], SCHEMA))
    assert found["s"].to_pylist() == [LIMIT, None, LIMIT + 1]
    assert (op.metrics.failed, op.metrics.failed_results) == (0, 1)
    assert "the aggregate 's' failed with OverflowError" in op.metrics.last_failure
    assert "at row {'k': 'a', 't': None, 'x': None, 'y': 4611686018427387904}" in op.metrics.last_failure
    assert op.lookup({"k": ["a"]})["s"].to_pylist() == [LIMIT + 1]
    assert op.metrics.failed_results == 1


@every_emit
def test_a_call_that_fails_later_has_rejected_nothing(emit: Any) -> None:
    store = MemoryStore()
    query = sash.Query(2, by="k", on="t", lateness=0, emit=emit, options=SIDE, **FAILING)
    op = query.operator(SCHEMA, store=store)
    op.process(pa.RecordBatch.from_pylist([{"k": "a", "t": 1, "x": x, "y": 1} for x in (13, 2)], SCHEMA))
    before, pages = op.metrics, dict(store.items())
    rows = pa.RecordBatch.from_pylist(
        [{"k": "a", "t": t, "x": x, "y": 1} for t, x in ((2, 13), (2, 3), (3, 3))], SCHEMA
    )

    def refuse(step: Any) -> None:
        assert step.failed_rows.num_rows == 1
        raise RuntimeError("the sink is full")

    with pytest.raises(RuntimeError, match="full"):
        op.process(rows, before_commit=refuse)
    assert op.metrics == before
    assert dict(store.items()) == pages
    assert op.failed_rows().num_rows == 1
    copy = MemoryStore()
    copy.put_many(pages)
    expected, again = op.process(rows), query.operator(store=copy)
    assert_same(again.process(rows), expected)
    assert again.metrics.failed == op.metrics.failed == 2
    assert again.failed_rows().num_rows == 1


def test_failed_rows_and_counters_are_in_a_snapshot() -> None:
    query = sash.Query(2, by="k", on="t", lateness=0, options=SIDE, **FAILING)
    op = query.operator(SCHEMA)
    op.process(pa.RecordBatch.from_pylist([{"k": "a", "t": 1, "x": 13, "y": 1}], SCHEMA))
    twin = sash.engine.Operator.restore(query, op.snapshot())
    assert twin.metrics.failed == 1
    assert twin.failed_rows().equals(op.failed_rows())


@pytest.mark.parametrize("mode", ["rows", "given"])
def test_a_row_that_waits_since_it_was_an_error_leaves_the_buffer_as_failed(mode: Any) -> None:
    store = MemoryStore()
    rows = [{"k": "a", "t": t, "x": x, "y": 1} for t, x in ((5, 2), (6, 13), (7, 4))]
    given: Any = {"by": "k", "on": "t", "lateness": 10}
    strict = sash.Query(sash.Lifetime(), **given, s=FAILING["lifted"]).operator(SCHEMA, mode=mode, store=store)
    strict.process(pa.RecordBatch.from_pylist(rows, SCHEMA))
    with pytest.raises(ValueError, match=r"unlucky; at row .*; options=sash.Options\(failed=\"side\"\) goes on"):
        strict.finish()
    op = sash.Query(sash.Lifetime(), **given, options=SIDE, s=FAILING["lifted"]).operator(mode=mode, store=store)
    assert op.finish()["s"].to_pylist() == [2, 6]
    assert op.failed_rows()["x"].to_pylist() == [13]
    assert op.metrics.failed == 1


def test_rows_that_all_fail_are_lifted_a_constant_number_of_times() -> None:
    calls = {"lift": 0, "lower": 0}

    def lift(x: int) -> int:
        calls["lift"] += 1
        raise ValueError(x)

    def lower(a: int) -> int:
        calls["lower"] += 1
        raise ValueError(a)

    table = pa.record_batch({"t": range(3000), "x": range(3000)})
    for emit, most in (("final", 1), ("eager", 2)):
        calls["lift"] = 0
        mine = sash.monoid(identity=0, lift=lift, combine=plus, lower=lambda a: a, returns="int64")
        op = sash.Query(3, on="t", emit=emit, lateness=0, options=SIDE, s=mine("x")).operator(table.schema)
        op.process(table)
        assert op.metrics.failed == 3000
        assert 3000 <= calls["lift"] <= most * 3000 + 100
    mine = sash.monoid(identity=0, lift=lambda x: x, combine=plus, lower=lower, returns="int64")
    op = sash.Query(3, on="t", options=SIDE, s=mine("x")).operator()
    assert op.process(table).column("s").null_count + op.finish().column("s").null_count == 3000
    assert op.metrics.failed_results == 3000
    assert calls["lower"] <= 3100


def test_without_a_failure_a_row_that_does_not_wait_is_lifted_once() -> None:
    calls = []
    counted = sash.monoid(
        identity=0, lift=lambda x: calls.append(x) or x, combine=plus, lower=lambda a: a, returns="int64"
    )
    op = sash.Query(3, by="k", options=SIDE, s=counted("x")).operator(SCHEMA)
    calls.clear()
    op.process(pa.RecordBatch.from_pylist([{"k": "a", "x": x} for x in range(50)], SCHEMA))
    assert len(calls) == 50


@every_emit
def test_combine_and_policies_that_fail_are_errors(emit: Any) -> None:
    def never(a: int, b: int) -> int:
        if a and b:
            raise ValueError("no sum")
        return a or b

    rows = pa.RecordBatch.from_pylist([{"k": "a", "t": t, "x": 2, "y": 1} for t in (1, 2, 3)], SCHEMA)
    mine = sash.monoid(identity=0, lift=lambda x: x, combine=never, lower=lambda a: a, returns="int64")
    op = sash.Query(2, by="k", on="t", lateness=0, emit=emit, options=SIDE, s=mine("x")).operator(SCHEMA)
    with pytest.raises(ValueError, match="no sum"):
        op.process(rows), op.finish()
    if emit == "eager":
        return
    policy = sash.Policy(lambda total, prefix: 1 // (total - total) > prefix, over=sash.sum("x"))
    op = sash.Query(policy, by="k", on="t", lateness=0, emit=emit, options=SIDE, s=sash.sum("x")).operator(SCHEMA)
    with pytest.raises(ZeroDivisionError, match="the policy failed"):
        op.process(rows), op.finish()


@every_emit
def test_the_option_is_named_where_it_helps(emit: Any) -> None:
    """Not for an error of `combine`, which the option does not change."""

    def add(a: int, b: int) -> int:
        if a == 2 and b == 2:
            raise ValueError("no sum")
        return a + b

    rows = pa.RecordBatch.from_pylist([{"k": "a", "t": t, "x": 2, "y": 1} for t in (1, 2, 3)], SCHEMA)
    failing = sash.monoid(identity=0, lift=lambda x: x, combine=add, lower=lambda a: a, returns="int64")
    odd = sash.monoid(identity=0, lift=lambda x: x + 1, combine=plus, lower=even, returns="int64")
    for mine, error, is_named in ((failing, ValueError, False), (odd, ArithmeticError, True)):
        op = sash.Query(2, by="k", on="t", lateness=0, emit=emit, s=mine("x")).operator(SCHEMA)
        with pytest.raises(error) as raised:
            op.process(rows), op.finish()
        assert ('sash.Options(failed="side")' in str(raised.value)) is is_named


def test_a_retraction_of_a_failed_row_retracts_none() -> None:
    schema = SCHEMA.append(pa.field("gone", pa.bool_()))
    query = sash.Query(sash.Lifetime(), by="k", on="t", lateness=9, emit="eager", retract="gone", options=SIDE,
                       s=FAILING["lifted"], e=FAILING["lowered"])  # fmt: skip
    op, right = query.operator(schema), query.operator(schema)
    rows = [{"k": "a", "t": 1, "x": x, "y": 1, "gone": gone} for x, gone in ((2, False), (13, False), (2, True))]
    op.process(pa.RecordBatch.from_pylist(rows, schema))
    right.process(pa.RecordBatch.from_pylist([rows[0], rows[2]], schema))
    assert op.lookup({"k": ["a"]}).equals(right.lookup({"k": ["a"]}))
    assert op.metrics.failed == 1


# ---- several queries ----


def test_queries_fail_alone() -> None:
    options: Any = {"by": "k", "on": "t", "lateness": 0, "options": SIDE}
    queries = sash.Queries(
        good=sash.Query(2, **options, n=sash.count()), bad=sash.Query(2, **options, n=sash.count(), s=FAILING["lifted"])
    )
    rows = pa.RecordBatch.from_pylist(
        [{"k": "a", "t": t, "x": x, "y": 1} for t, x in ((1, 13), (2, 2), (3, 13))], SCHEMA
    )
    op = queries.operator(SCHEMA)
    first, last = op.process(rows), op.finish()
    assert first["good"].num_rows + last["good"].num_rows == 3
    assert first["bad"].num_rows + last["bad"].num_rows == 1
    failed = op.failed_rows()
    assert {name: batch.num_rows for name, batch in failed.items()} == {"good": 0, "bad": 2}
    assert {name: one.failed for name, one in op.metrics.items()} == {"good": 0, "bad": 2}


def test_a_store_of_queries_that_share_state_is_continued_with_the_option() -> None:
    def queries(options: sash.Options) -> sash.Queries:
        given: Any = {"by": "k", "on": "t", "lateness": 0, "options": options}
        return sash.Queries(a=sash.Query(2, **given, n=sash.count()), b=sash.Query(2, **given, s=FAILING["lifted"]))

    store = MemoryStore()
    rows = pa.RecordBatch.from_pylist(
        [{"k": "a", "t": t, "x": x, "y": 1} for t, x in ((1, 2), (2, 13), (3, 4))], SCHEMA
    )
    strict = queries(sash.Options()).operator(SCHEMA, store=store)
    strict.process(rows.slice(0, 1))
    with pytest.raises(ValueError, match="unlucky"):
        strict.process(rows.slice(1))
    op = queries(SIDE).operator(store=store)
    assert op.process(rows.slice(1))["b"].num_rows == 1
    assert op.finish()["b"]["s"].to_pylist() == [6]
    assert op.failed_rows()["b"]["x"].to_pylist() == [13]


# ---- refusals ----


def test_the_option_and_the_added_column_are_checked() -> None:
    with pytest.raises(ValueError, match=r"failed= of Options must be 'error' or 'side'; got 'drop'"):
        sash.Options(failed="drop")  # type: ignore[arg-type]
    schema = pa.schema({"x": "int64", "_error": "string"})
    with pytest.raises(
        ValueError, match="adds a column '_error' to rows that fail, and they have one already: rename it"
    ):
        sash.Query(2, options=SIDE, s=sash.sum("x")).operator(schema)
    sash.Query(2, s=sash.sum("x")).operator(schema)
