"""Queries on whole tables equal the reference, whatever the order of the rows and the number of threads."""

import math
import warnings
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings

import sash
from sash.columns.stateless import NeedsOperator, StatelessExecutor
from sash.kernels.column import column_kernels
from sash.plan.planner import plan
from sash.testing import Reference, assert_same
from sash.testing.compare import as_rows
from tests.behaviour.differential import split_side_output
from tests.interpreted import interpret_columns
from tests.shared.queries import loose
from tests.shared.streams import Case, cases, sorted_by_key


@pytest.fixture(autouse=True)
def _small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread for three rows each, so that every range begins inside of windows."""
    monkeypatch.setattr(column_kernels, "SHARE", 3)
    monkeypatch.setattr(column_kernels, "cores", lambda: 4)


def computed(query: sash.Query, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its results, computed on whole tables."""
    bound_query = query.bind(batch.schema)
    names = bound_query.output("sorted").names[batch.num_columns :]
    columns = [column.arrow() for column in StatelessExecutor(plan(bound_query)).found(batch).columns]
    return pa.RecordBatch.from_arrays([*batch.columns, *columns], names=[*batch.schema.names, *names])


def judged(case: Case, got: pa.RecordBatch, batch: pa.RecordBatch) -> None:
    """Compare with the reference, which takes rows in order."""
    reference = Reference(case.query, case.schema, mode="sorted")
    expected = [reference.process(sorted_by_key(batch, case.query)), reference.finish()]
    mine, my_side_output = split_side_output(case, as_rows([got]))
    theirs, their_side_output = split_side_output(case, as_rows(expected))
    assert_same(mine, theirs, by=case.query.by, loose=loose(case.query))
    assert_same(my_side_output, their_side_output, ordered=False)


def in_order(case: Case, found: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with their results in the order in which the reference gives them."""
    names = found.schema.names
    plain = [name if name in case.schema.names else f"result {name}" for name in names]
    return sorted_by_key(found.rename_columns(plain), case.query).rename_columns(names)


@pytest.mark.parametrize("mode", ["sorted", "rows"])
def test_whole_tables_give_what_the_reference_gives(mode: str) -> None:
    @settings(suppress_health_check=[HealthCheck.filter_too_much])
    @given(cases(modes=(mode,), emits=("final",), lates=("drop",)))
    def agrees(case: Case) -> None:
        assume(case.query.bind(case.schema).is_stateless)
        case = Case(case.query, case.schema, "sorted", case.steps)
        whole = case.data.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=case.schema)]
        try:
            found = computed(case.query, whole[0])
        except NeedsOperator:  # the operator reports invalid rows
            with pytest.raises((ValueError, OverflowError, TypeError, ArithmeticError)):
                judged(case, whole[0], whole[0])
            return
        judged(case, in_order(case, found), whole[0])

    agrees()


TABLE = pa.record_batch(
    {
        "k": pa.array(["a", "b", "a", None, "b", "a", "a"]),
        "t": pa.array([5, 1, 2, 2, 9, None, 2]),
        "x": pa.array([1.0, None, 4.0, 2.0, 8.0, 3.0, 16.0]),
        "w": pa.array(["u", "v", None, "w", "x", "y", "z"]),
    }
)

QUERIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "places of values": (sash.Time(4), {"who": sash.arg_max("x", "w"), "least": sash.arg_min("x", "k")}),
    "values at places": (
        {"a": sash.Time(4), "b": 2},
        {"f": sash.first("x"), "l": sash.last("w"), "n": sash.nth("x", n=2), "e": sash.nth("k", n=-2)},
    ),
    "text": (2, {"high": sash.max("k"), "low": sash.min("w")}),
    "ends": ({"a": sash.Count(2, full=True), "b": sash.Time(3, closed="neither")}, {"n": sash.count("x")}),
    "spread": (sash.Count(3), {"v": sash.var("x"), "s": sash.std("x", ddof=0)}),
    "one's own": (sash.Session(3), {"g": sash.monoid(identity=0.0, lift=abs, combine=lambda a, b: a + b)("x")}),
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("by", [(), "k", ("k", "w")])
def test_queries_on_rows_in_no_order(name: str, by: Any) -> None:
    windows, aggregates = QUERIES[name]
    query = sash.Query(windows, by=by, on="t", **aggregates)
    case = Case(query, TABLE.schema, "sorted", ())
    judged(case, in_order(case, computed(query, TABLE)), TABLE)


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_threads_change_nothing(threads: int) -> None:
    table = pa.record_batch({"k": [i % 3 for i in range(60)], "x": [float(i * 7919 % 61) for i in range(60)]})
    aggregates = {
        name: getattr(sash, name)("x") for name in ("sum", "mean", "max", "min", "var", "max_count", "sum_of_squares")
    }
    one = computed(sash.Query(9, by="k", options=sash.Options(threads=1), **aggregates), table)
    several = computed(sash.Query(9, by="k", options=sash.Options(threads=threads), **aggregates), table)
    assert_same(several, one)


def test_a_delta_that_falls_is_left_to_the_engine() -> None:
    query = sash.Query(sash.Delta("x", 2.0), by="k", n=sash.count())
    with pytest.raises(NeedsOperator):
        computed(query, pa.record_batch({"k": ["a", "a"], "x": [2.0, 1.0]}))
    with pytest.raises(ValueError, match="must not decrease"):
        query.run(pa.table({"k": ["a", "a"], "x": [2.0, 1.0]}))


def test_an_overflow_is_reported_by_the_engine() -> None:
    table = pa.table({"x": pa.array([2**62, 2**62, -(2**62)])})
    assert sash.rolling(table, 1, s=sash.sum("x"))["s"].to_pylist() == [2**62, 2**62, -(2**62)]
    with pytest.raises(OverflowError, match=r"the aggregate 's' failed with OverflowError: the sum left .* at row"):
        sash.rolling(table, 2, s=sash.sum("x"))


def test_results_that_a_column_kernel_is_uncertain_of_are_each_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the aggregate that computes them runs interpreted, all of them were the first one."""
    interpret_columns(monkeypatch)
    warnings.simplefilter("ignore")  # an error would be computed again, by an operator
    x = [1.0, math.inf, math.nan, -math.inf, 2.0, math.nan, 1e308, 1e308]
    found = sash.rolling(pa.table({"t": range(8), "x": x}), 2, on="t", total=sash.sum("x"))["total"].to_pylist()
    assert repr(found) == repr([1.0, math.inf, math.nan, math.nan, -math.inf, math.nan, math.nan, math.inf])
