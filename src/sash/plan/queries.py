"""Queries: several queries over one input, in one pass.

    Queries(fast=…, hourly=…)   ──groups──▶   CombinedQuery, …   ──▶   one state per group, results per query

Queries of equal keys, order, lateness, emission and options form a group, and share everything that they can.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

from sash.plan import dispatch, validation
from sash.plan.combined_query import CombinedQuery
from sash.plan.derived_columns import may_reject_rows
from sash.plan.query import Query

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from sash.engine.operator import QueriesOperator
    from sash.plan.api_types import ArrayT, ArrowStream, Frame, FrameT, Mode
    from sash.stores import Store


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
        object.__setattr__(self, "queries", MappingProxyType(dict(queries)))

    def groups(self, ordered: bool = False, one_state: bool = False) -> list[CombinedQuery]:
        """The queries that share state, as one query each, in the order of their first members.

        ordered: whether all rows are present and sorted, so that `lateness` and `late` do not matter.
        one_state: whether queries that set failed rows aside share state with others, too.
        """
        found: dict[Any, dict[str, Query]] = {}
        for name, query in self.queries.items():
            apart = not one_state and may_reject_rows(query)
            found.setdefault(query if apart else share_key(query, ordered), {})[name] = query
        return [CombinedQuery(members) for members in found.values()]

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
    ) -> QueriesOperator:
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
        object.__setattr__(self, "queries", MappingProxyType(state["queries"]))

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
