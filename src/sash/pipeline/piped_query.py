"""The query of a pipeline, or several that share their work: their operator, and its results as the sinks get them.

         sinks               results in a sink
one      one                 those of the query
several  a dict by query     those of a query each
several  one                 _query, and a struct for each query, null in the rows of others
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sash.engine import Operator, QueriesOperator, Uncommitted
from sash.engine.emit.output import SharedOutput
from sash.engine.intake.progress import BeforeCommit, RowCounts
from sash.engine.query_state import QueryState
from sash.pipeline.selections import side_rows, side_schema
from sash.pipeline.source import MalformedRecord
from sash.plan.queries import ALONE, QUERY, Queries, query_schema, tagged_batch
from sash.plan.query import Query
from sash.state.root_page import stored_schema
from sash.stores import Store


class PipedQuery:
    """The operator of a pipeline, for a query or several. `separate`: does each have a sink of its own?"""

    def __init__(self, query: Query | Queries, store: Store | None, separate: bool = False) -> None:
        self.query, self.separate = query, separate
        self.store = query.options.store if isinstance(query, Query) and store is None else store
        self._opened: Operator | QueriesOperator | None = None

    @property
    def operator(self) -> Operator | QueriesOperator:
        """The operator, from `open` on."""
        assert self._opened is not None, "the queries of the pipeline are not open"
        return self._opened

    def open(self, schema: pa.Schema | None) -> None:
        """Open the operator for rows of a schema, or for those of the store."""
        self._opened = self.query.operator(schema, store=self.store)

    def stored_schema(self) -> pa.Schema | None:
        """The columns of the input rows, from the state in the store; None if it has none."""
        if self.store is None:
            return None
        if isinstance(self.query, Query):
            return stored_schema(self.query, self.store)
        return self.query.operator(store=self.store).schema

    def require_fit(self, schema: pa.Schema) -> None:
        """Raises what `Query.bind` raises for columns that do not fit, with the name of one of several queries."""
        if isinstance(self.query, Query):
            self.query.bind(schema)
            return
        for name, query in self.query.queries.items():
            try:
                query.bind(schema)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{name}: {error.args[0] if error.args else error}") from error

    @property
    def _states(self) -> list[QueryState]:
        """The states of the queries."""
        return self.operator.states

    @property
    def identity(self) -> tuple[str, str]:
        """The fingerprint and the text of the query, or of all queries."""
        found = [(state.names, state.bound_query.fingerprint) for state in self._states]
        if isinstance(self.query, Query):
            return found[0][1], repr(self.query)
        parts = [f"{names} {fingerprint}" for names, fingerprint in found]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32], repr(self.query)

    def schemas(self) -> dict[str, pa.Schema]:
        """The columns of the results, by the name of the sink task."""
        found: dict[str, pa.Schema] = {}
        for state in self._states:
            output = state.output
            outputs = output.outputs if isinstance(output, SharedOutput) else dict.fromkeys(state.names, output)
            found |= {name: one.schema for name, one in outputs.items()}
        if isinstance(self.query, Query):
            return {"results": found[ALONE]}
        found = {name: found[name] for name in self.query.queries}
        if self.separate:
            return {f"results-{name}": schema for name, schema in found.items()}
        return {"results": query_schema(found)}

    def results(self, step: Uncommitted) -> list[pa.RecordBatch]:
        """The results of a step, for each of `schemas`."""
        if isinstance(self.query, Query):
            return [step.results]
        batches: dict[str, pa.RecordBatch] = step.results
        if self.separate:
            return list(batches.values())
        (schema,) = self.schemas().values()
        tagged = [tagged_batch(schema, name, name, batch) for name, batch in batches.items() if batch.num_rows]
        return [pa.concat_batches(tagged) if tagged else pa.RecordBatch.from_pylist([], schema)]

    def side_schema(self) -> pa.Schema:
        """The columns of the side output."""
        assert self.operator.schema is not None
        found = side_schema(self.operator.schema)
        return found if isinstance(self.query, Query) else found.append(pa.field(QUERY, pa.string()))

    def side_rows(self, schema: pa.Schema, step: Uncommitted, malformed: Sequence[MalformedRecord]) -> pa.RecordBatch:
        """The rows of a step that enter no window, with the reason.

        Of several queries with the names of those whose windows a row does not enter; null for malformed rows.
        """
        if isinstance(self.query, Query):
            return side_rows(self._states[0].bound_query, schema, step, malformed)
        plain, last = pa.schema(list(schema)[:-1]), self._states[-1]
        found = []
        for state in self._states:
            first = state.names[0]
            failed = None if step.failed_rows is None else step.failed_rows[first]
            own = Uncommitted(step.results[first], step.late_rows[first], step.watermark[first], failed)
            records = malformed if state is last else ()
            rows = side_rows(state.bound_query, plain, own, records)
            names = [", ".join(state.names)] * (rows.num_rows - len(records)) + [None] * len(records)
            found.append(pa.RecordBatch.from_arrays([*rows.columns, pa.array(names, pa.string())], schema=schema))
        return pa.concat_batches(found)

    def counts(self) -> RowCounts:
        """The rows of all steps. All queries get all rows; one that is late or fails for several is counted once."""
        now = [state.progress for state in self._states]
        copies = [1 if isinstance(one.output, SharedOutput) else len(one.names) for one in self._states]
        results = sum(number * one.rows_out for number, one in zip(copies, now, strict=True))
        late, untimed = max(one.late for one in now), max(one.untimed for one in now)
        failed, failed_results = max(one.failed for one in now), sum(one.failed_results for one in now)
        return RowCounts(now[0].rows_in, results, late, untimed, failed, failed_results)

    @property
    def last_failure(self) -> str:
        """The message of the last row or result that failed; "" if none has."""
        messages = [state.progress.last_failure for state in self._states]
        return next(filter(None, messages), "")

    def take(self, batch: pa.RecordBatch | None, offset: Any, before_commit: BeforeCommit) -> None:
        """Process a batch, or finish."""
        if batch is None:
            self.operator.finish(offset=offset, before_commit=before_commit)
        else:
            self.operator.process(batch, offset=offset, before_commit=before_commit)


def piped(query: Any, sink: Any, store: Store | None) -> tuple[PipedQuery, dict[str, Any]]:
    """The queries of a pipeline, and its sinks by the names that error messages use.

    Raises TypeError if `query` is not a query, ValueError for sinks that do not fit the queries.
    """
    if isinstance(query, Query):
        if isinstance(sink, dict):
            raise TypeError("sink= takes a dict of sinks by query only with sash.Queries(…); this is one query")
        return PipedQuery(query, store), {"sink": sink}
    if not isinstance(query, Queries):
        raise TypeError(
            f"pipe(source, query, sink) takes a sash.Query or sash.Queries as query; got a {type(query).__name__}"
        )
    if not isinstance(sink, dict):
        if QUERY in query.queries:
            raise ValueError(f"a query cannot be named {QUERY!r}, which is a column of the results: rename it")
        return PipedQuery(query, store), {"sink": sink}
    missing, unknown = set(query.queries) - set(sink), set(sink) - set(query.queries)
    if missing or unknown:
        what = f"no sink for {_listed(missing)}" if missing else f"a sink for {_listed(unknown)}, which is not a query"
        raise ValueError(
            f"sink= has {what}: it takes a sink for each of the queries {', '.join(query.queries)}, or one sink for all"
        )
    return PipedQuery(query, store, separate=True), {f"sink[{name!r}]": sink[name] for name in query.queries}


def _listed(names: set[str]) -> str:
    return ", ".join(map(repr, sorted(map(str, names))))
