"""QueriesTask: runs several queries on the rows of one partition in a Spark worker.

    sorted batches ─┬─▶ SharedChunks: results at each row, of all queries that need no state, together
                    └─▶ QueriesOperator, mode "sorted": all others

Results leave as rows of sections. A section is a struct column, null in the rows of other sections. The queries that
are computed together share one, with the input columns once; each other query has its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from sash.engine import QueriesOperator
from sash.engine.sorted_batches import SharedChunks, is_chunkable
from sash.plan.combined_query import CombinedQuery, tagged_batch, tagged_schema
from sash.plan.queries import Queries
from sash.plan.query import Query
from sash.spark.batch.partition_task import ROWS, warn_of
from sash.spark.spark_types import casts, wire_schema
from sash.spark.worker_io import WorkerTask, rechunk

SECTION = "_section"
"""The column with the number of a row's section."""

TOGETHER = ""
"""The name of the section whose rows have the results of several queries."""


@dataclass(frozen=True)
class Sections:
    """Which queries are computed together, and which by an operator; and the columns of each section."""

    together: dict[str, Query]
    others: dict[str, Query]
    schema: pa.Schema
    """The columns of the rows."""

    @classmethod
    def of(cls, queries: Mapping[str, Query], schema: pa.Schema) -> Sections:
        """The sections of queries of equal keys and order. Those that are computed together have equal options, too."""
        chunkable = {name: query for name, query in queries.items() if is_chunkable(query.bind(schema))}
        first = next(iter(chunkable.values()), None)
        together = {
            name: query
            for name, query in chunkable.items()
            if first is not None and (query.options, query.ahead) == (first.options, first.ahead)
        }
        return cls(together, {name: query for name, query in queries.items() if name not in together}, schema)

    @cached_property
    def fields(self) -> dict[str, list[pa.Field]]:
        """By section: its columns, in types that Spark reads."""
        found = {}
        if self.together:
            rows = list(wire_schema(self.schema))
            results = [field for query in self.together.values() for field in self._results(query)]
            found[TOGETHER] = [*rows, *results]
        return found | {name: list(self._output(query)) for name, query in self.others.items()}

    def results(self, name: str) -> slice:
        """The results of a query among the columns of the queries that are computed together."""
        first = len(self.schema)
        for other, query in self.together.items():
            stop = first + len(self._results(query))
            if other == name:
                return slice(first, stop)
            first = stop
        raise KeyError(name)

    def _output(self, query: Query) -> pa.Schema:
        return wire_schema(query.bind(self.schema).output("sorted"))

    def _results(self, query: Query) -> list[pa.Field]:
        return list(self._output(query))[len(self.schema) :]

    @cached_property
    def output(self) -> pa.Schema:
        """The columns of a row: the number of its section, and a struct for each section."""
        structs = {struct_name(number): _numbered(fields) for number, fields in enumerate(self.fields.values())}
        return tagged_schema(pa.field(SECTION, pa.int32()), structs)


def struct_name(number: int) -> str:
    """The name of the column of a section."""
    return f"s{number}"


def _numbered(fields: list[pa.Field]) -> list[pa.Field]:
    """The fields of a section, named by number, because queries may have results of the same name."""
    return [pa.field(f"f{i}", field.type) for i, field in enumerate(fields)]


class QueriesTask(WorkerTask):
    """Runs several queries on the batches of a partition. `now` is the clock, the same for all workers."""

    def __init__(self, sections: Sections, now: float) -> None:
        self.sections, self.now = sections, now

    def _results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        executors: list[SharedChunks | QueriesOperator] = []
        for batch in rechunk(batches, self.sections.schema, ROWS):
            if not executors:  # many partitions may be empty
                executors = self._executors()
            for executor in executors:
                yield from self._rows(executor.process(batch))
                if isinstance(executor, QueriesOperator):
                    executor.failed_rows()  # drop them: their results are null
        for executor in executors:
            yield from self._rows(executor.finish())
            for group in executor.groups if isinstance(executor, QueriesOperator) else ():
                warn_of(group.operator)

    def _executors(self) -> list[SharedChunks | QueriesOperator]:
        sections, schema = self.sections, self.sections.schema
        made: list[SharedChunks | QueriesOperator] = []
        if sections.together:  # one thread: Spark runs as many workers as there are cores
            made.append(SharedChunks(CombinedQuery(sections.together), schema, lambda: self.now, 1))
        if sections.others:
            made.append(QueriesOperator(Queries(**sections.others), schema, mode="sorted", clock=lambda: self.now))
        return made

    def _rows(self, found: dict[str, pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Results as rows of their sections."""
        together = [found[name] for name in self.sections.together if name in found]
        if together:
            width = len(self.sections.schema)
            columns = [*together[0].columns[:width], *(column for one in together for column in one.columns[width:])]
            yield from self._section(TOGETHER, columns)
        for name in self.sections.others:
            if name in found:
                yield from self._section(name, found[name].columns)

    def _section(self, name: str, columns: list[pa.Array]) -> Iterator[pa.RecordBatch]:
        if not len(columns[0]):
            return
        number = [*self.sections.fields].index(name)
        fields = self.sections.fields[name]
        typed = casts(pa.RecordBatch.from_arrays(columns, names=[field.name for field in fields]), pa.schema(fields))
        yield tagged_batch(self.sections.output, number, struct_name(number), typed)
