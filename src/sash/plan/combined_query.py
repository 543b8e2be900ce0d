"""Combine queries into one, so that they share windows, elements and states.

    fast   Query("1m", by="k", on="t", high=max("x"))                    windows     0 1m   1 1h
    day    Query("1h", by="k", on="t", high=max("x"), n=count())         aggregates  0 max(x)   1 count()
                                                                         fast reads  (0, 0)
                                                                         day reads   (1, 0) (1, 1)

Equal windows are bounded once, equal aggregates of equal inputs are lifted once. Each member keeps its own projection:
it reads its cells from those of the combined query, so that it computes its results as it would alone.

Results of several queries as rows of one table: a tag, and a struct column for each query.

_query   a                  b
"a"      {k: 1, high: 3.0}  null
"b"      null               {k: 1, n: 2}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from sash.monoids.arithmetic import state_text
from sash.plan.projection import OutputSpec, Projection, ResultCell
from sash.plan.query import Query
from sash.plan.schema_cache import SchemaCache

if TYPE_CHECKING:
    import pyarrow as pa

    from sash.plan.bound_query import AggregateSpec, BoundQuery, WindowSpec
    from sash.windows.specs import WindowKind


# --- Combined query ---

T = TypeVar("T")


class CombinedQuery(Query):
    """Several queries as one. It has the keys, the order and the options that all of them have."""

    members: dict[str, Query]
    _combinations: SchemaCache[Combination]

    def __init__(self, members: Mapping[str, Query]) -> None:
        given = dict(sorted(members.items()))  # the state does not depend on the order of keywords
        first = next(iter(given.values()))
        values = {name: getattr(first, name) for name in COMMON} | {"retract": None, "min_periods": 0}
        made = {f"{name}.{label}": one for name, query in given.items() for label, one in query.aggregates.items()}
        values |= {"members": given, "windows": {}, "aggregates": made, "_combinations": SchemaCache()}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def keeps_rows(self) -> bool:
        """Do results of a member have all columns of their rows?"""
        return any(query.per_row for query in self.members.values())

    @property
    def all_windows(self) -> dict[str, WindowKind]:
        """The windows of all members, each once, by their texts."""
        windows = distinct(window for query in self.members.values() for window in query.all_windows.values())
        return dict(zip(_names(windows), windows, strict=True))

    @property
    def is_plain(self) -> bool:
        """Never: results are labelled by their queries."""
        return False

    def bind(self, schema: pa.Schema) -> BoundQuery:
        """Bind all members to columns of these types. Raises as they do, naming the query."""
        return self.combination(schema).bound_query

    def combination(self, schema: pa.Schema) -> Combination:
        """The members bound to columns of these types, and what they read of the combined query."""
        return self._combinations.get(schema, self._combine)

    def _combine(self, schema: pa.Schema) -> Combination:
        return combine(self, {name: bind_member(name, query, schema) for name, query in self.members.items()})

    def _meaning(self) -> tuple[Any, ...]:
        return tuple(self.members.items())

    def differences(self, other: CombinedQuery) -> list[str]:
        """The arguments in which another combination differs."""
        return [name for name in COMMON if getattr(self, name) != getattr(other, name)]

    def __repr__(self) -> str:
        return f"Queries({', '.join(f'{name}={query!r}' for name, query in self.members.items())})"


COMMON = ("by", "on", "lateness", "emit", "late", "forget", "ahead", "options")
"""The arguments that queries of one state have in common."""


def bind_member(name: str, query: Query, schema: pa.Schema) -> BoundQuery:
    """A query bound to a schema; an error has a note with the query's name."""
    try:
        return query.bind(schema)
    except Exception as error:
        error.add_note(f"in the query {name!r}: {query!r}")
        raise


@dataclass(frozen=True)
class QueryView:
    """A query, and the numbers that its windows and its aggregates have in the combined query."""

    bound_query: BoundQuery
    windows: tuple[int, ...]
    aggregates: tuple[int, ...]

    def read(self, cells: Mapping[tuple[int, int], T]) -> dict[tuple[int, int], T]:
        """The member's cells, from those of the combined query."""
        asked = self.bound_query.projection.asked
        return {(w, a): cells[self.windows[w], self.aggregates[a]] for w, a in asked}


@dataclass(frozen=True)
class Combination:
    """The combined query bound to a schema, and its members by name."""

    bound_query: BoundQuery
    members: dict[str, QueryView]


ALONE = ""
"""The name of a query that is not one of several."""


def combination(query: Query, schema: pa.Schema) -> Combination:
    """A query bound to a schema, and its members: those of a combined query, else the query itself, alone."""
    if isinstance(query, CombinedQuery):
        return query.combination(schema)
    one = query.bind(schema)
    return Combination(one, {ALONE: QueryView(one, *(tuple(range(len(of))) for of in (one.windows, one.aggregates)))})


def combine(query: CombinedQuery, bound: Mapping[str, BoundQuery]) -> Combination:
    """Combine bound queries."""
    windows: list[WindowSpec] = []
    aggregates: list[AggregateSpec] = []
    members: dict[str, QueryView] = {}
    outputs: list[OutputSpec] = []
    asked: set[tuple[int, int]] = set()
    for name, one in bound.items():
        member = QueryView(
            one,
            tuple(_place(windows, spec, lambda spec: spec.window) for spec in one.windows),
            # equal names of derived columns have equal trees
            tuple(_place(aggregates, spec, lambda spec: (spec.columns, spec.monoid)) for spec in one.aggregates),
        )
        members[name] = member
        asked |= {(member.windows[w], member.aggregates[a]) for w, a in one.projection.asked}
        outputs += [_output(name, member, output) for output in one.projection.outputs]
    names = _names([spec.window for spec in windows])
    specs = tuple(replace(spec, name=name) for spec, name in zip(windows, names, strict=True))
    slides = tuple(
        tuple(output if output.cells[0].window == w else None for output in outputs) for w in range(len(windows))
    )
    results = tuple((output.label, output.result) for output in outputs)
    combined = replace(
        next(iter(bound.values())),
        query=query,
        windows=specs,
        aggregates=tuple(aggregates),
        per_row=all(one.per_row for one in bound.values()),
        projection=Projection(False, 0, frozenset(asked), tuple(outputs), slides, results),
    )
    return Combination(combined, members)


def _output(name: str, member: QueryView, output: OutputSpec) -> OutputSpec:
    cells = tuple(
        ResultCell(
            member.windows[cell.window],
            member.aggregates[cell.aggregate],
            None if cell.counter is None else member.aggregates[cell.counter],
        )
        for cell in output.cells
    )
    label = f"{name}.{output.label}"
    return replace(output, name=label, label=label, cells=cells)


def _place(known: list[T], spec: T, meaning: Callable[[T], object]) -> int:
    """The number of the spec of equal meaning among those that are known; a new one is added."""
    for place, other in enumerate(known):
        if meaning(other) == meaning(spec):
            return place
    known.append(spec)
    return len(known) - 1


def distinct(items: Iterable[T]) -> list[T]:
    """Each item once; they need not be hashable."""
    found: list[T] = []
    for item in items:
        if item not in found:
            found.append(item)
    return found


def _names(windows: Sequence[WindowKind]) -> list[str]:
    """The texts of windows; policies of equal text are numbered."""
    texts = list(map(state_text, windows))
    return [text if text not in texts[:i] else f"{text} {texts[:i].count(text) + 1}" for i, text in enumerate(texts)]


# --- Tagged results ---

QUERY = "_query"
"""The column with the name of the query that a result belongs to."""


def tagged_schema(tag: pa.Field, structs: Mapping[str, Iterable[pa.Field]]) -> pa.Schema:
    """The columns of the table: the tag, and a struct with the given fields for each name."""
    import pyarrow as pa

    return pa.schema([tag, *(pa.field(name, pa.struct(list(fields))) for name, fields in structs.items())])


def query_schema(results: Mapping[str, Iterable[pa.Field]]) -> pa.Schema:
    """The columns of results that are tagged with the names of their queries."""
    import pyarrow as pa

    return tagged_schema(pa.field(QUERY, pa.string()), results)


def tagged_batch(schema: pa.Schema, tag: str | int, struct: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of a tagged schema: each has the tag, and the columns of `batch` in one struct; the others are null.

    >>> import pyarrow as pa
    >>> a, b = pa.record_batch({"high": [3, 5]}), pa.record_batch({"n": [2]})
    >>> tagged_batch(query_schema({"a": a.schema, "b": b.schema}), "b", "b", b).to_pylist()
    [{'_query': 'b', 'a': None, 'b': {'n': 2}}]
    """
    import pyarrow as pa

    rows, (first, *fields) = batch.num_rows, schema
    columns = [pa.repeat(pa.scalar(tag, first.type), rows)]
    for field in fields:
        if field.name == struct:
            columns.append(pa.StructArray.from_arrays(batch.columns, fields=list(field.type)))
        else:
            columns.append(pa.nulls(rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
