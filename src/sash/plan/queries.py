"""Queries: several queries over one input, in one pass, and the combined query of those that share a state.

    Queries(fast=…, day=…)   ──groups──▶   CombinedQuery, …   ──▶   one state per group, results per query

Queries of equal keys, order, lateness, emission and options form a group, and share everything that they can:

    fast   Query("1m", by="k", on="t", high=max("x"))                    windows     0 1m   1 1h
    day    Query("1h", by="k", on="t", high=max("x"), n=count())         aggregates  0 max(x)   1 count()
                                                                         fast reads  (0, 0)
                                                                         day reads   (1, 0) (1, 1)

Equal windows are bounded once, equal aggregates of equal inputs are lifted once. Each member keeps its own projection:
it reads its cells from those of the combined query, so that it computes its results as it would alone. A query that is
none of several is its own only member, with the name `ALONE`.

Results of several queries as rows of one table: a tag, and a struct column for each query.

_query   a                  b
"a"      {k: 1, high: 3.0}  null
"b"      null               {k: 1, n: 2}
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from sash.monoids.arithmetic import state_text
from sash.plan import dispatch, validation
from sash.plan.derived_columns import may_reject_rows
from sash.plan.projection import OutputSpec, Projection, ResultCell
from sash.plan.query import Query
from sash.plan.schema_cache import Prepared, SchemaCache

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    import sash.windows  # as in `query.py`
    from sash.plan.api_types import ArrayT, ArrowStream, Frame, FrameT, Mode
    from sash.plan.bound_query import AggregateSpec, BoundQuery, WindowSpec
    from sash.stores import Store
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


class QueryView(NamedTuple):
    """A query, and the numbers that its windows and its aggregates have in the combined query."""

    bound_query: BoundQuery
    windows: tuple[int, ...]
    aggregates: tuple[int, ...]

    def read(self, cells: Mapping[tuple[int, int], T]) -> dict[tuple[int, int], T]:
        """The member's cells, from those of the combined query."""
        asked = self.bound_query.projection.asked
        return {(w, a): cells[self.windows[w], self.aggregates[a]] for w, a in asked}


class Combination(NamedTuple):
    """The combined query bound to a schema, and its members by name."""

    bound_query: BoundQuery
    members: dict[str, QueryView]


ALONE = ""
"""The name of a query that is not one of several."""


def members_of(query: Query) -> Mapping[str, Query]:
    """The members of a combined query by name; of another query itself, alone."""
    return query.members if isinstance(query, CombinedQuery) else {ALONE: query}


def combination(query: Query, schema: pa.Schema) -> Combination:
    """A query bound to a schema, and its members: those of a combined query, else the query itself, alone."""
    return query.combination(schema) if isinstance(query, CombinedQuery) else alone(query.bind(schema))


def alone(one: BoundQuery) -> Combination:
    """A bound query as its own only member."""
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


# --- Queries ---


@dataclass(frozen=True, init=False, repr=False)
class Queries:
    """Several queries over one input, computed in one pass: a result for each, by name.

    Queries with the same `by`, `on`, `lateness`, `emit="final"`, `late`, `forget`, `ahead` and options share the order
    of the rows, their keys, equal windows, and the states of equal aggregates; some may be per row and others per
    slide. Others run beside them on the same input. Results are those of each query alone; so queries on whose rows
    an aggregate may fail with `Options(failed="side")` share no state.

    queries: the queries by name; names are identifiers.

    >>> import numpy as np, sash
    >>> both = sash.Queries(short=sash.Query(2, high=sash.max("x")), long=sash.Query(3, high=sash.max("x")))
    >>> found = both.run({"x": np.array([5, 1, 2, 3])})
    >>> found["short"]["high"].tolist(), found["long"]["high"].tolist()
    ([5, 5, 2, 3], [5, 5, 5, 3])

    Raises TypeError for a value that is no query and without queries, ValueError for a name that is no identifier and
    for a query that has a store of its own.
    """

    queries: Mapping[str, Query]
    _groups: Prepared

    def __init__(self, /, **queries: Query) -> None:
        if not queries:
            raise TypeError("Queries() needs at least one query, such as fast=sash.Query('1m', …)")
        for name, query in queries.items():
            if not name.isidentifier() or keyword.iskeyword(name):
                raise ValueError(f"the name of a query must be an identifier, such as 'hourly'; got {name!r}")
            if not isinstance(query, Query) or isinstance(query, CombinedQuery):
                raise TypeError(f"{name}= must be a sash.Query(…); got {query!r:.200}, a {type(query).__name__}")
            if query.options.store is not None:
                raise ValueError(
                    f"{name}= has a store in its options, and queries that run together have one store: leave it out, "
                    "and pass store= to operator()"
                )
        self.__setstate__({"queries": queries})

    def groups(self, ordered: bool = False, one_state: bool = False) -> list[CombinedQuery]:
        """The queries that share state, as one query each, in the order of their first members; made once.

        ordered: whether all rows are present and sorted, so that `lateness` and `late` do not matter.
        one_state: whether queries that set failed rows aside share state with others, too.
        """

        def made() -> list[CombinedQuery]:
            found: dict[Any, dict[str, Query]] = {}
            for name, query in self.queries.items():
                apart = not one_state and may_reject_rows(query)
                found.setdefault(query if apart else share_key(query, ordered), {})[name] = query
            return [CombinedQuery(members) for members in found.values()]

        return self._groups.get_or((ordered, one_state), made)

    def explain(self, schema: pa.Schema | None = None, *, sample: Frame | Mapping[str, Any] | None = None) -> str:
        """The plan as text: which queries share what, and the ⊕ that sharing saves, estimated.

        Without a schema it assumes types, and prints them.

        sample: rows in the order of their arrival, as `QueriesOperator.process` takes them. The queries run on the
            first 10,000 of them, interpreted, together and each alone, and their ⊕ are counted. The sample also sets
            the schema.
        """
        from sash.plan.explain_queries import explain_queries

        return explain_queries(self, schema, sample)

    def operator(
        self,
        schema: pa.Schema | None = None,
        *,
        mode: Mode = "rows",
        store: Store | None = None,
        clock: Callable[[], float] | None = None,
    ) -> sash.engine.QueriesOperator:
        """An operator for these queries: it takes record batches, and returns a dict of record batches.

        schema, mode, store, clock: as for `Query.operator`. All queries have one store, with one commit a call.
        """
        engine = dispatch.host("sash.engine", "an operator")
        return engine.QueriesOperator(self, schema, mode=mode, store=store, clock=clock)  # type: ignore[no-any-return]

    @overload
    def run(self, data: dict[str, ArrayT]) -> dict[str, dict[str, NDArray[Any]]]: ...
    @overload
    def run(self, data: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, list[Any]]]: ...
    @overload
    def run(self, data: FrameT) -> dict[str, FrameT]: ...
    @overload
    def run(self, data: Iterator[pa.RecordBatch]) -> Iterator[dict[str, pa.RecordBatch]]: ...
    @overload
    def run(self, data: ArrowStream) -> dict[str, pa.Table]: ...
    def run(self, data: Any) -> Any:
        """Compute the queries on a frame or a stream: a dict with a frame of the same kind for each.

        data: as for `Query.run`. An iterator of RecordBatches gives an iterator of dicts. A streaming DataFrame of
            Spark gives one stream with the results of all queries, and a column `_query` with their names.

        Raises what `Query.run` raises; a note names the query.
        """
        return dispatch.run(self, data)

    def __getstate__(self) -> dict[str, Any]:
        return {"queries": dict(self.queries)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        object.__setattr__(self, "queries", MappingProxyType(dict(state["queries"])))
        object.__setattr__(self, "_groups", Prepared())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Queries) and list(self.queries.items()) == list(other.queries.items())

    def __hash__(self) -> int:
        return hash(tuple(self.queries.items()))

    def __repr__(self) -> str:
        return f"Queries({', '.join(f'{name}={query!r}' for name, query in self.queries.items())})"


def share_key(query: Query, ordered: bool) -> Any:
    """The properties that queries must have in common to share state.

    With emit="changes" and "eager" a result is emitted if it differs from the one before, which depends on all results
    of its query: only equal queries share state. If windows end after their rows, the rows of all queries in the group
    wait until the last of them ends, so such queries share state only if their windows are moved by the same.
    """
    if query.emit != "final":
        return query
    late = None if ordered else (query.lateness, query.late)
    moved = frozenset(
        (type(window), window.shift, window.closed)
        for window in query.all_windows.values()
        if validation.looks_ahead(window)
    )
    return (query.by, query.on, query.forget, query.ahead, query.options, late, moved)


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
