"""Chunked execution of sorted batches: the same results, with memory that depends on the windows only."""

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings

import sash
from sash.engine import sorted_batches as module
from sash.engine.sorted_batches import ChunkedExecutor, is_chunkable
from sash.plan.queries import ALONE
from tests.behaviour.differential import compare_with_reference
from tests.shared.streams import Case, cases


class Engine(ChunkedExecutor):
    """Chunked execution as an engine for `compare_with_reference`."""

    metrics: ClassVar[Any] = {"late": 0, "untimed": 0}

    def process(self, batch: pa.RecordBatch) -> Any:
        return super().process(batch)[ALONE]

    def finish(self) -> Any:
        return super().finish()[ALONE]

    def snapshot(self) -> Any:
        return self

    def late_rows(self) -> Any:
        return pa.RecordBatch.from_pylist([], schema=self.bound_query.schema)


@pytest.mark.parametrize("piece", [1, 4, 1000])
def test_chunked_results_are_those_of_the_reference(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", piece)

    @settings(suppress_health_check=[HealthCheck.filter_too_much])
    @given(cases(modes=("sorted",), emits=("final",), lates=("drop",)))
    def agrees(case: Case) -> None:
        assume(is_chunkable(case.query.bind(case.schema)))
        compare_with_reference(case, lambda query, schema, _mode: Engine(query, schema), lambda _query, engine: engine)

    agrees()


def batches(rows: int, size: int) -> list[pa.RecordBatch]:
    x = np.arange(rows) % 97
    whole = pa.record_batch({"k": pa.array(np.zeros(rows, np.int64)), "t": pa.array(np.arange(rows)), "x": pa.array(x)})
    return [whole.slice(start, size) for start in range(0, rows, size)]


@pytest.mark.parametrize("window", [sash.Count(50), sash.Time(50)])
def test_chunked_execution_holds_a_window_and_computes_rows_twice_at_most(
    window: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE", 8)
    one = ChunkedExecutor(sash.Query(window, by="k", on="t", s=sash.sum("x")), batches(1, 1)[0].schema)
    computed: list[int] = []
    found = one.executor.found
    monkeypatch.setattr(one.executor, "found", lambda table: computed.append(table.num_rows) or found(table))
    given_back = 0
    for batch in batches(4000, 8):
        given_back += one.process(batch).num_rows
        assert one.tail.num_rows <= 50
        assert one.count <= 2 * 50 + 8
    assert given_back + one.finish().num_rows == 4000
    assert sum(computed) <= 2 * 4000 + 4 * len(computed)  # the last peers, which wait, are computed once more


def test_errors_are_reported_by_the_engine() -> None:
    query = sash.Query(sash.Delta("x", 2), by="k", on="t", n=sash.count())
    one = ChunkedExecutor(query, pa.schema({"k": "string", "t": "int64", "x": "int64"}))
    one.process(pa.record_batch({"k": ["a", "a"], "t": [1, 2], "x": [5, 4]}))
    with pytest.raises(ValueError, match="'x' of a Delta window must not decrease, but goes from 5 to 4"):
        one.finish()


@pytest.mark.parametrize("window", [sash.Lifetime(), sash.Session("1h"), sash.Time("1h", every="1h")])
def test_what_is_not_chunkable(window: Any) -> None:
    schema = pa.schema({"t": pa.timestamp("us"), "x": pa.float64()})
    assert not is_chunkable(sash.Query(window, on="t", s=sash.sum("x")).bind(schema))
