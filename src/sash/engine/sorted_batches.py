"""Execute a query on batches sorted by key and time without state, a piece at a time.

    batches   ▢ ▢ ▢ ▢ ▢ ▢ ▢ …
    piece 1   ├──────────┼┤                 the last peers wait: more of them may follow
    piece 2          ├╌╌╌┼──────────┼┤      the lookback of its windows, then new rows
                     tail

A piece has at least as many new rows as its tail, so each row is computed at most twice. Memory depends on the size
of
the windows, not on the number of rows of a key.

Several queries on batches sorted by key and time, computed together piece by piece, without state.

piece ──▶ cells of the combined query, each once ──▶ results of each member, row by row
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa

from sash.columns.arrow_arrays import no_rows, together
from sash.columns.column_inputs import ResultColumn
from sash.columns.keys import decoded_schema, plain_batch
from sash.columns.projected_results import Projector
from sash.columns.stateless import NeedsOperator, ResultCells, StatelessExecutor, projected
from sash.engine.emit.output import Output
from sash.engine.operator import Operator
from sash.engine.shared_output import ResultBatches, SharedOutput
from sash.plan.bound_query import BoundQuery
from sash.plan.combined_query import Combination, CombinedQuery
from sash.plan.derived_columns import may_fail
from sash.plan.planner import is_stateless
from sash.plan.query import Query

# --- Chunked ---

PIECE = 1 << 16
"""The least number of new rows in a piece."""


def is_chunkable(bound_query: BoundQuery) -> bool:
    """Can a query be computed piece by piece without state? A piece in which something fails needs an operator."""
    if bound_query.query.options.failed == "side" and may_fail(bound_query):
        return False
    return is_stateless(bound_query) and all(
        window.rule.measure in ("rows", "values") for window in bound_query.windows
    )


def over_sorted(
    query: Query, schema: pa.Schema, clock: Callable[[], float], threads: int | None
) -> ChunkedExecutor | Operator:
    """An executor for batches sorted by key and time: a ChunkedExecutor if the query allows it, else an operator.

    `threads` is the default where the query's options do not set it.
    """
    if is_chunkable(query.bind(schema)):
        return ChunkedExecutor(query, schema, clock, threads)
    return Operator(query, schema, mode="sorted", clock=clock)


class ChunkedExecutor:
    """Executes a query on sorted batches. It has no snapshots: it starts and ends with its input.

    >>> import sash
    >>> query = sash.Query(2, by="k", on="t", s=sash.sum("x"))
    >>> executor = ChunkedExecutor(query, pa.schema({"k": "string", "t": "int64", "x": "int64"}))
    >>> first = pa.record_batch({"k": ["a", "a", "b"], "t": [1, 2, 1], "x": [1, 2, 4]})
    >>> executor.process(first).num_rows, executor.finish()["s"].to_pylist()
    (0, [1, 3, 4])
    """

    def __init__(
        self, query: Query, schema: pa.Schema, clock: Callable[[], float] = time.time, threads: int | None = None
    ) -> None:
        self.query, self.clock = query, clock
        self.bound_query = query.bind(schema)
        self.schema = decoded_schema(schema)
        self.executor, self.output = self._executor(schema, threads)
        read = {name for spec in self.bound_query.aggregates for name in spec.reads()}
        read |= {*self.bound_query.by, *query.on}
        read |= {window.column for window in self.bound_query.windows if window.column}
        self.read = [name for name in self.schema.names if name in read]
        self.tail = no_rows(self.schema).select(self.read)
        self.waiting: list[pa.RecordBatch] = []
        self.count, self.enough = 0, PIECE

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Process a batch; returns the results of complete pieces. Raises the engine's errors for invalid rows."""
        self.waiting.append(plain_batch(batch, self.schema))
        self.count += batch.num_rows
        if self.count < self.enough:
            return self.output.empty()
        return self._piece(last=False)

    def finish(self) -> pa.RecordBatch:
        """The results of all remaining rows."""
        return self._piece(last=True)

    def _piece(self, last: bool) -> pa.RecordBatch:
        new = together(self.waiting, self.schema)
        known = self.tail.num_rows
        table = together([self.tail, new.select(self.read)], self.tail.schema)
        try:
            found = self.executor.found(table)
        except NeedsOperator as error:
            raise self._error_of(table) from error
        settled = table.num_rows if last else max(found.settled, known)
        columns = [column.arrow().slice(known, settled - known) for column in found.columns]
        results = self._results(new.slice(0, settled - known), columns)
        rest = new.slice(settled - known)
        self.tail = table.slice(found.reach, max(settled - found.reach, 0))
        self.waiting, self.count = [rest], rest.num_rows
        self.enough = max(PIECE, self.tail.num_rows, 2 * self.count)
        return results

    def _executor(self, _schema: pa.Schema, threads: int | None) -> tuple[StatelessExecutor, Output]:
        """The executor of a query, and the builder of its output."""
        return StatelessExecutor(self.bound_query.plan, self.clock, threads), Output(self.bound_query, "sorted")

    def _results(self, rows: pa.RecordBatch, columns: list[pa.Array]) -> pa.RecordBatch:
        return self.output.typed([*rows.columns, *columns])

    def _error_of(self, table: pa.RecordBatch) -> Exception:
        """The error that the engine raises for these rows."""
        operator = Operator(self.query, table.schema, mode="sorted", clock=self.clock)
        try:
            operator.process(table)
            operator.finish()
        except Exception as error:
            return error
        return AssertionError("the engine takes rows that the stateless executor does not")


# --- Shared chunks ---


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
