"""Execute queries on batches sorted by key and time without state, a piece at a time.

    batches   ▢ ▢ ▢ ▢ ▢ ▢ ▢ …
    piece 1   ├──────────┼┤                 the last peers wait: more of them may follow
    piece 2          ├╌╌╌┼──────────┼┤      the lookback of its windows, then new rows
                     tail

    piece ──▶ cells of the combined query, each once ──▶ results of each member, row by row

A piece has at least as many new rows as its tail, so each row is computed at most twice. Memory depends on the size of
the windows, not on the number of rows of a key.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa

from sash.columns.arrow_arrays import no_rows, together
from sash.columns.keys import decoded_schema, plain_batch
from sash.columns.stateless import NeedsOperator, StatelessExecutor
from sash.engine.emit.output import ResultBatches, SharedOutput
from sash.engine.operator import Operator
from sash.plan.bound_query import BoundQuery
from sash.plan.derived_columns import may_fail
from sash.plan.queries import combination
from sash.plan.query import Query

PIECE = 1 << 16
"""The least number of new rows in a piece."""


def is_chunkable(bound_query: BoundQuery) -> bool:
    """Can a query be computed piece by piece without state? A piece in which something fails needs an operator."""
    if bound_query.query.options.failed == "side" and may_fail(bound_query):
        return False
    return bound_query.is_stateless and all(window.rule.measure in ("rows", "values") for window in bound_query.windows)


class ChunkedExecutor:
    """Executes a query, or a combined one, on sorted batches. A call returns a batch for each member, of the same rows.

    It has no snapshots: it starts and ends with its input. `threads` is the default where options do not set it.

    >>> import sash
    >>> query = sash.Query(2, by="k", on="t", s=sash.sum("x"))
    >>> executor = ChunkedExecutor(query, pa.schema({"k": "string", "t": "int64", "x": "int64"}))
    >>> first = pa.record_batch({"k": ["a", "a", "b"], "t": [1, 2, 1], "x": [1, 2, 4]})
    >>> executor.process(first).num_rows, executor.finish()[""]["s"].to_pylist()
    (0, [1, 3, 4])
    """

    def __init__(
        self, query: Query, schema: pa.Schema, clock: Callable[[], float] = time.time, threads: int | None = None
    ) -> None:
        self.query, self.clock = query, clock
        combined = combination(query, schema)
        self.bound_query = combined.bound_query
        self.schema = decoded_schema(schema)
        self.executor, self.output = StatelessExecutor(combined, clock, threads), SharedOutput(combined, "sorted")
        read = {name for spec in self.bound_query.aggregates for name in spec.reads()}
        read |= {*self.bound_query.by, *query.on}
        read |= {window.column for window in self.bound_query.windows if window.column}
        self.read = [name for name in self.schema.names if name in read]
        self.tail = no_rows(self.schema).select(self.read)
        self.waiting: list[pa.RecordBatch] = []
        self.count, self.enough = 0, PIECE

    def process(self, batch: pa.RecordBatch) -> ResultBatches:
        """Process a batch; returns the results of complete pieces. Raises the engine's errors for invalid rows."""
        self.waiting.append(plain_batch(batch, self.schema))
        self.count += batch.num_rows
        if self.count < self.enough:
            return self.output.empty()
        return self._piece(last=False)

    def finish(self) -> ResultBatches:
        """The results of all remaining rows."""
        return self._piece(last=True)

    def _piece(self, last: bool) -> ResultBatches:
        new = together(self.waiting, self.schema)
        known = self.tail.num_rows
        table = together([self.tail, new.select(self.read)], self.tail.schema)
        try:
            found = self.executor.found(table)
        except NeedsOperator as error:
            raise self._error_of(table) from error
        settled = table.num_rows if last else max(found.settled, known)
        rows, results = new.slice(0, settled - known), ResultBatches()
        for name, output in self.output.outputs.items():
            columns = [column.arrow().slice(known, settled - known) for column in found.columns[name]]
            results[name] = output.typed([*rows.columns, *columns])
        rest = new.slice(settled - known)
        self.tail = table.slice(found.reach, max(settled - found.reach, 0))
        self.waiting, self.count = [rest], rest.num_rows
        self.enough = max(PIECE, self.tail.num_rows, 2 * self.count)
        return results

    def _error_of(self, table: pa.RecordBatch) -> Exception:
        """The error that the engine raises for these rows."""
        operator = Operator(self.query, table.schema, mode="sorted", clock=self.clock)
        try:
            operator.process(table)
            operator.finish()
        except Exception as error:
            return error
        return AssertionError("the engine takes rows that the stateless executor does not")
