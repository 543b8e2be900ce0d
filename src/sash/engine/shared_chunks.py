"""Several queries on batches sorted by key and time, computed together piece by piece, without state.

piece ──▶ cells of the combined query, each once ──▶ results of each member, row by row
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from sash.engine.chunked import ChunkedExecutor
from sash.engine.column_inputs import ResultColumn
from sash.engine.output import Output
from sash.engine.projected_results import Projector
from sash.engine.shared_output import ResultBatches, SharedOutput
from sash.engine.stateless import ResultCells, StatelessExecutor, projected
from sash.plan.combined_query import Combination, CombinedQuery


class SharedStateless(StatelessExecutor):
    """Executes the plan of a combined query: the columns of its results are those of its members, one by one."""

    def __init__(self, combination: Combination, clock: Callable[[], float], threads: int | None) -> None:
        super().__init__(combination.bound_query.plan, clock, threads)
        self.members = [(view, Projector(view.bound_query)) for view in combination.members.values()]

    def projected(self, cells: ResultCells) -> list[ResultColumn]:
        return [column for view, projector in self.members for column in projected(projector, view.read(cells))]


class SharedChunks(ChunkedExecutor):
    """Executes a combined query on sorted batches: its calls return a batch for each member, with the same rows."""

    query: CombinedQuery

    def _executor(self, schema: pa.Schema, threads: int | None) -> tuple[StatelessExecutor, Output]:
        combination = self.query.combination(schema)
        return SharedStateless(combination, self.clock, threads), SharedOutput(combination, "sorted")

    def _results(self, rows: pa.RecordBatch, columns: list[pa.Array]) -> pa.RecordBatch:
        assert isinstance(self.output, SharedOutput)
        found, first = ResultBatches(), 0
        for name, output in self.output.outputs.items():
            stop = first + len(output.results)
            found[name] = output.typed([*rows.columns, *columns[first:stop]])
            first = stop
        return found
