"""The queries of a pipeline: one query, or several that share their work, with a sink for each or one for all.

                        sinks                     results in a sink
    PipedQuery          one                       those of the query
    PipedQueries        a dict by query           those of a query each
    PipedQueries        one                       _query, and a struct for each query, null in the rows of others

Both run an operator, and convert its output to the batches that sinks get.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import pyarrow as pa

from sash.engine import Operator, QueriesOperator, Uncommitted
from sash.engine.intake.progress import BeforeCommit, RowCounts
from sash.engine.shared_output import SharedOutput
from sash.pipeline.selections import side_rows, side_schema
from sash.pipeline.source import MalformedRecord
from sash.plan.combined_query import QUERY, query_schema, tagged_batch
from sash.plan.queries import Queries
from sash.plan.query import Query
from sash.state.root_page import stored_schema
from sash.stores import Store

Running_co = TypeVar("Running_co", bound=Operator | QueriesOperator, covariant=True)


class PipedWork(ABC, Generic[Running_co]):
    """The operator of a pipeline, and its results as the sinks get them."""

    def __init__(self, store: Store | None) -> None:
        self.store = store
        self._opened: Running_co | None = None

    @property
    def operator(self) -> Running_co:
        """The operator, from `open` on."""
        assert self._opened is not None, "the queries of the pipeline are not open"
        return self._opened

    def open(self, schema: pa.Schema | None) -> None:
        """Open the operator for rows of a schema, or for those of the store."""
        self._opened = self._new_operator(schema)

    @abstractmethod
    def _new_operator(self, schema: pa.Schema | None) -> Running_co:
        """An operator for rows of a schema, or for those of the store."""

    @abstractmethod
    def stored_schema(self) -> pa.Schema | None:
        """The columns of the input rows, from the state in the store; None if it has none."""

    @abstractmethod
    def require_fit(self, schema: pa.Schema) -> None:
        """Raises what `Query.bind` raises for columns that do not fit the query."""

    @property
    @abstractmethod
    def identity(self) -> tuple[str, str]:
        """The fingerprint and the text of the query, or of all queries."""

    @abstractmethod
    def schemas(self) -> dict[str, pa.Schema]:
        """The columns of the results, by the name of the sink task."""

    @abstractmethod
    def results(self, step: Uncommitted) -> list[pa.RecordBatch]:
        """The results of a step, for each of `schemas`."""

    @abstractmethod
    def side_schema(self) -> pa.Schema:
        """The columns of the side output."""

    @abstractmethod
    def side_rows(self, schema: pa.Schema, step: Uncommitted, malformed: Sequence[MalformedRecord]) -> pa.RecordBatch:
        """The rows of a step that enter no window, with the reason."""

    @abstractmethod
    def counts(self) -> RowCounts:
        """The rows of all steps."""

    @property
    @abstractmethod
    def last_failure(self) -> str:
        """The message of the last row or result that failed; "" if none has."""

    def take(self, batch: pa.RecordBatch | None, offset: Any, before_commit: BeforeCommit) -> None:
        """Process a batch, or finish."""
        if batch is None:
            self.operator.finish(offset=offset, before_commit=before_commit)
        else:
            self.operator.process(batch, offset=offset, before_commit=before_commit)


AnyPipedWork = PipedWork[Operator | QueriesOperator]


class PipedQuery(PipedWork[Operator]):
    """One query of a pipeline."""

    def __init__(self, query: Query, store: Store | None) -> None:
        super().__init__(query.options.store if store is None else store)
        self.query = query

    def stored_schema(self) -> pa.Schema | None:
        return None if self.store is None else stored_schema(self.query, self.store)

    def require_fit(self, schema: pa.Schema) -> None:
        self.query.bind(schema)

    def _new_operator(self, schema: pa.Schema | None) -> Operator:
        return Operator(self.query, schema, store=self.store)

    @property
    def identity(self) -> tuple[str, str]:
        return self.operator.bound_query.fingerprint, repr(self.query)

    def schemas(self) -> dict[str, pa.Schema]:
        return {"results": self.operator.output.schema}

    def results(self, step: Uncommitted) -> list[pa.RecordBatch]:
        return [step.results]

    def side_schema(self) -> pa.Schema:
        return side_schema(self.operator.schema)

    def side_rows(self, schema: pa.Schema, step: Uncommitted, malformed: Sequence[MalformedRecord]) -> pa.RecordBatch:
        return side_rows(self.operator.bound_query, schema, step, malformed)

    def counts(self) -> RowCounts:
        return self.operator.progress.counts

    @property
    def last_failure(self) -> str:
        return self.operator.progress.last_failure


class PipedQueries(PipedWork[QueriesOperator]):
    """Several queries of a pipeline. `separate`: does each have a sink of its own?"""

    def __init__(self, queries: Queries, store: Store | None, separate: bool) -> None:
        super().__init__(store)
        self.queries, self.separate = queries, separate

    def stored_schema(self) -> pa.Schema | None:
        return None if self.store is None else QueriesOperator(self.queries, store=self.store).schema

    def require_fit(self, schema: pa.Schema) -> None:
        for name, query in self.queries.queries.items():
            try:
                query.bind(schema)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{name}: {error.args[0] if error.args else error}") from error

    def _new_operator(self, schema: pa.Schema | None) -> QueriesOperator:
        return QueriesOperator(self.queries, schema, store=self.store)

    @property
    def identity(self) -> tuple[str, str]:
        parts = [f"{group.names} {group.operator.bound_query.fingerprint}" for group in self.operator.groups]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32], repr(self.queries)

    def schemas(self) -> dict[str, pa.Schema]:
        found = self._query_schemas()
        if self.separate:
            return {f"results-{name}": schema for name, schema in found.items()}
        return {"results": query_schema(found)}

    def _query_schemas(self) -> dict[str, pa.Schema]:
        """The columns of the results of each query, in the order of the queries."""
        found: dict[str, pa.Schema] = {}
        for group in self.operator.groups:
            output = group.operator.output
            outputs = output.outputs if isinstance(output, SharedOutput) else dict.fromkeys(group.names, output)
            found |= {name: one.schema for name, one in outputs.items()}
        return {name: found[name] for name in self.queries.queries}

    def results(self, step: Uncommitted) -> list[pa.RecordBatch]:
        batches: dict[str, pa.RecordBatch] = step.results
        if self.separate:
            return list(batches.values())
        (schema,) = self.schemas().values()
        tagged = [tagged_batch(schema, name, name, batch) for name, batch in batches.items() if batch.num_rows]
        return [pa.concat_batches(tagged) if tagged else pa.RecordBatch.from_pylist([], schema)]

    def side_schema(self) -> pa.Schema:
        assert self.operator.schema is not None
        return side_schema(self.operator.schema).append(pa.field(QUERY, pa.string()))

    def side_rows(self, schema: pa.Schema, step: Uncommitted, malformed: Sequence[MalformedRecord]) -> pa.RecordBatch:
        """With the names of the queries whose windows a row does not enter; null for malformed rows."""
        plain = pa.schema(list(schema)[:-1])
        found: list[tuple[str | None, pa.RecordBatch]] = []
        for group in self.operator.groups:
            first = group.names[0]
            failed = None if step.failed_rows is None else step.failed_rows[first]
            own = Uncommitted(step.results[first], step.late_rows[first], step.watermark[first], failed)
            found.append((", ".join(group.names), side_rows(group.operator.bound_query, plain, own, ())))
        nothing = Uncommitted(found[0][1], pa.RecordBatch.from_pylist([], self.operator.schema), None)
        found.append((None, side_rows(self.operator.groups[0].operator.bound_query, plain, nothing, malformed)))
        return pa.concat_batches(
            pa.RecordBatch.from_arrays([*rows.columns, pa.array([names] * rows.num_rows, pa.string())], schema=schema)
            for names, rows in found
        )

    def counts(self) -> RowCounts:
        """All queries get all rows; a row that is late or fails for several of them is counted once."""
        groups = self.operator.groups
        now = [group.operator.progress for group in groups]
        copies = [1 if isinstance(one.operator.output, SharedOutput) else len(one.names) for one in groups]
        results = sum(number * one.rows_out for number, one in zip(copies, now, strict=True))
        late, untimed = max(one.late for one in now), max(one.untimed for one in now)
        failed, failed_results = max(one.failed for one in now), sum(one.failed_results for one in now)
        return RowCounts(now[0].rows_in, results, late, untimed, failed, failed_results)

    @property
    def last_failure(self) -> str:
        messages = [group.operator.progress.last_failure for group in self.operator.groups]
        return next(filter(None, messages), "")


def piped(query: Any, sink: Any, store: Store | None) -> tuple[AnyPipedWork, dict[str, Any]]:
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
        return PipedQueries(query, store, separate=False), {"sink": sink}
    missing, unknown = set(query.queries) - set(sink), set(sink) - set(query.queries)
    if missing or unknown:
        what = f"no sink for {_listed(missing)}" if missing else f"a sink for {_listed(unknown)}, which is not a query"
        raise ValueError(
            f"sink= has {what}: it takes a sink for each of the queries {', '.join(query.queries)}, or one sink for all"
        )
    return PipedQueries(query, store, separate=True), {f"sink[{name!r}]": sink[name] for name in query.queries}


def _listed(names: set[str]) -> str:
    return ", ".join(map(repr, sorted(map(str, names))))
