"""Query: windows and aggregates, partitioned and ordered by columns. Frozen data.

Query ──bind(schema)──▶ BoundQuery ──plan──▶ Plan ──explain──▶ text
  │    columns, types, units       structures, sharing
  └──operator(schema) / run(data): found by name in the layers above
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

from sash.monoids.algebra import Bound
from sash.monoids.arithmetic import Aggregated
from sash.plan import dispatch, validation
from sash.plan.options import Options
from sash.plan.projection import all_windows
from sash.plan.schema_cache import Prepared, SchemaCache
from sash.plan.validation import aggregates_named
from sash.windows.specs import WindowKind

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    import sash.windows  # hosts are above this package: what they return has its public name, `sash.engine.Operator`
    from sash.plan.api_types import (
        ArrayT,
        ArrowStream,
        Columns,
        Emit,
        EventFrame,
        FrameT,
        Late,
        Mode,
        SpineArguments,
        Windows,
    )
    from sash.plan.bound_query import BoundQuery
    from sash.plan.planner import Plan
    from sash.stores import Store
    from sash.windows.arguments import Length
    from sash.windows.duration import Duration
    from sash.windows.specs import Closed


_DEFAULTS = {"emit": "final", "late": "drop", "min_periods": 0}
"""The defaults of optional arguments, if not None: `repr` omits them."""


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Query:
    """What to compute: aggregates over sliding, hopping, tumbling or session windows, partitioned and ordered.

    A query is immutable and has no data. `run(data)` computes it on a frame or a stream of record batches,
    `operator()` returns an operator with live state, `explain()` the plan.

    windows: a window such as `sash.Time("24h", every="1h")`, a number of rows, a duration such as "1h", or a dict of
        several by name. Names are appended to the columns of results: `high_1h`. It may be left out if each aggregate
        has a window of its own: `sash.max("price").over("1h")`.
    by: columns to partition by (the key); each key has windows of its own.
    on: the column to order by, with the event time; further columns break ties. Without it rows are in order of
        arrival.
    lateness: how far a row may be behind the latest time seen; the watermark is that far behind. Without it a
        stream must be in order, and a row with an earlier time raises an error; frames are sorted first.
    emit: when results are emitted. "final": once, when the watermark has passed. "changes": as "final", but only
        results that differ from the key's previous one. "eager": at once, revised by later rows.
    late: what to do with a row behind the watermark. "drop" it, "flag" it in a column `_late`, or raise an "error".
    forget: expire a key without rows for this long; it starts again with empty windows.
    ahead: how far a row's time may be ahead of the clock; a row further ahead is treated as one without a time.
    retract: a boolean column; with emit="eager" a row where it is true removes the last row of equal key and `on`.
    min_periods: a result is null unless its aggregate has seen this many non-null inputs in the window. In a formula
        that holds for each aggregate, and a count below it is null, too.
    options: how to compute, see `sash.Options`; results do not depend on it.
    aggregates: the result columns by name, each an aggregate of columns such as `high=sash.max("price")`, one of your
        own (a UDAF), made with `sash.monoid`, or a formula such as `sash.sum("x") / sash.sum("y")`. Type checkers take
        a dict for `**` if it is a `dict[str, Any]`.

    >>> import sash
    >>> q = sash.Query("1h", by="symbol", on="ts", high=sash.max("price"))
    >>> q
    Query(Time('1h'), by='symbol', on='ts', high=max('price'))
    >>> q.windows, q.by, q.on, q.lateness
    ({'': Time('1h')}, ('symbol',), ('ts',), None)

    Raises TypeError or ValueError, naming the argument. What depends on column types is checked by `bind`, which
    the first batch or frame calls.
    """

    windows: dict[str, WindowKind]
    by: tuple[str, ...]
    on: tuple[str, ...]
    lateness: Duration | int | float | None
    emit: Emit
    late: Late
    forget: Duration | int | float | None
    ahead: Duration | int | float | None
    retract: str | None
    min_periods: int
    options: Options
    aggregates: dict[str, Aggregated]

    @aggregates_named
    def __init__(
        self,
        /,
        windows: Windows | None = None,
        *,
        by: Columns | None = (),
        on: Columns | None = None,
        lateness: Length | None = None,
        emit: Emit = "final",
        late: Late = "drop",
        forget: Length | None = None,
        ahead: Length | None = None,
        retract: str | None = None,
        min_periods: int = 0,
        options: Options | None = None,
        **aggregates: Aggregated,
    ) -> None:
        given = (by, on, lateness, emit, late, forget, ahead, retract, min_periods, options)
        for name, value in zip(validation.ARGUMENTS[1:], given, strict=True):
            validation.not_an_aggregate(name, value)
        values: dict[str, Any] = {
            "windows": {} if windows is None else validation.windows(windows),
            "by": validation.columns("by", by),
            "on": validation.columns("on", on),
            "lateness": validation.optional_length("lateness", lateness, zero=True),
            "emit": validation.one_of("emit", emit, validation.EMIT),
            "late": validation.one_of("late", late, validation.LATE),
            "forget": validation.optional_length("forget", forget),
            "ahead": validation.optional_length("ahead", ahead, zero=True),
            "retract": validation.retract(retract, emit),
            "min_periods": validation.min_periods(min_periods),
            "options": validation.options(options),
            "aggregates": validation.aggregates(aggregates),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        validation.require_compatible(self)

    @cached_property
    def _bound(self) -> SchemaCache[BoundQuery]:
        return SchemaCache()

    @cached_property
    def prepared(self) -> Prepared:
        """What hosts have computed for this query."""
        return Prepared()

    @cached_property
    def named(self) -> frozenset[str]:
        """The columns that the query names, which the data must have."""
        return frozenset(validation.named(self))

    @cached_property
    def per_row(self) -> bool:
        """Is there a result for each row, not for each slide?"""
        return all(window.slide == "row" for window in self.all_windows.values())

    @property
    def keeps_rows(self) -> bool:
        """Do results have all columns of their rows?"""
        return self.per_row

    @cached_property
    def all_windows(self) -> dict[str, WindowKind]:
        """The windows of the query and those of its aggregates, by name."""
        return all_windows(self)

    @property
    def is_plain(self) -> bool:
        """Is each result an aggregate over a window of the query: no formula, no `over`, no `min_periods`?"""
        made = self.aggregates.values()
        return not self.min_periods and all(isinstance(one, Bound) and one.window is None for one in made)

    def rewritten(self, **changes: Any) -> Self:
        """The query with some of its arguments changed."""
        return type(self)(**self.arguments(**changes))

    def arguments(self, **changes: Any) -> dict[str, Any]:
        """The arguments that make this query, some of them changed."""
        given = {name: getattr(self, name) for name in validation.ARGUMENTS}
        given["windows"] = self.windows.get("", self.windows) or None
        return {**given, **self.aggregates, **changes}

    def bind(self, schema: pa.Schema) -> BoundQuery:
        """Bind the query to columns of these types: sizes in units, aggregates with types.

        Raises KeyError (here also a ValueError) for an unknown column, TypeError or ValueError for a column that does
        not fit; all name the column. TypeError also if it is no schema, but a frame, for example.
        """
        from sash.plan.binder import bind, require_schema

        return self._bound.get(require_schema(schema), lambda plain: bind(self, plain))

    def plan(self, schema: pa.Schema) -> Plan:
        """The plan: structures and shared state. Raises as `bind`, and TypeError for an unfit `Options(structure=)`."""
        return self.bind(schema).plan

    def _repr_html_(self) -> str:
        from sash.plan.explain import query_html

        return query_html(self)

    def explain(self, schema: pa.Schema | None = None) -> str:
        """The plan as text: windows, structures with reasons, shared state, the effect of ties, costs and state.

        Without a schema it assumes types, and prints them.
        """
        from sash.plan.explain import explain

        return explain(self, schema)

    def fingerprint(self, schema: pa.Schema) -> str:
        """32 hexadecimal digits that identify the state of this query: equal for equal queries, in every process."""
        return self.bind(schema).fingerprint

    def operator(
        self,
        schema: pa.Schema | None = None,
        *,
        mode: Mode = "rows",
        store: Store | None = None,
        clock: Callable[[], float] | None = None,
    ) -> sash.engine.Operator:
        """An operator for this query: it takes and returns record batches, with live state between calls.

        schema: the columns of the batches; without it, those of the state in the store, else those of the first batch.
        mode: how the watermark moves. "rows": it follows the times of the rows, `lateness` behind. "given": only
            `advance` moves it. "sorted": rows are sorted by key and time, and none is late.
        store: where the state is saved at the end of each call, and opened from; without it, and without
            `Options(store=)`, it is in memory only.
        clock: gives the current time in seconds since the epoch, for queries with `ahead`; `time.time` by default.

        Raises ValueError for an unknown mode, and what `bind` raises for a schema that does not fit.
        """
        engine = dispatch.host("sash.engine", "an operator")
        return engine.Operator(self, schema, mode=mode, store=store, clock=clock)  # type: ignore[no-any-return]

    def reader(self, store: Store, schema: pa.Schema | None = None) -> sash.engine.StateReader:
        """A reader of the state that an operator of this query commits to a store, for lookups while it runs.

        store: a store that can be read while the operator writes, such as `RocksDBStore(path, read_only=True)`.
        schema: the columns of the operator's batches; only for state of versions that did not save it.
        """
        return dispatch.host("sash.engine", "a reader").StateReader(self, store, schema)  # type: ignore[no-any-return]

    @overload
    def migrate(self, state: bytes, *, from_query: Query, to: None = None) -> bytes: ...
    @overload
    def migrate(self, state: Store, *, from_query: Query, to: Store | None = None) -> Store: ...
    @overload
    def migrate(self, state: FrameT, *, from_query: Query, to: None = None) -> FrameT: ...
    def migrate(self, state: Any, *, from_query: Query, to: Any = None) -> Any:
        """Migrate the state of another query to this one, as far as its elements allow.

        Results are then those of this query on the same rows from the beginning; results that were emitted before are
        not emitted again. Aggregates and windows can be removed, windows of the same kind shortened or added within
        those that the state holds, and aggregates added that can be computed from the states that it has.

        state: the bytes of a snapshot, a store, or a stream of Spark whose checkpoint has state of the old query.
        from_query: the query that wrote the state.
        to: an empty store for the migrated state; by default a store is migrated in place, all or nothing.

        Returns a snapshot for a snapshot, for a store the one that has the migrated state, and for a stream its
        results, as `run` does.

        >>> import sash
        >>> old = sash.Query(3, high=sash.max("x"))
        >>> op = old.operator()
        >>> _ = op.process({"x": [5.0, 1.0, 2.0]})
        >>> new = sash.Query(2, high=sash.max("x"), low=sash.min("x"))
        >>> again = sash.engine.Operator.restore(new, new.migrate(op.snapshot(), from_query=old))
        >>> again.process({"x": [4.0]}).to_pydict()
        {'x': [4.0], 'high': [4.0], 'low': [2.0]}

        Raises ValueError, with the change and the reason, if this query needs more than the state has; PageError for
        state of another query than `from_query`.
        """
        return dispatch.migrate(self, state, from_query, to)

    @overload
    def run(self, data: dict[str, ArrayT]) -> dict[str, NDArray[Any]]: ...
    @overload
    def run(self, data: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]: ...
    @overload
    def run(self, data: FrameT) -> FrameT: ...
    @overload
    def run(self, data: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]: ...
    @overload
    def run(self, data: ArrowStream) -> pa.Table: ...
    def run(self, data: Any) -> Any:
        """Compute the query on a frame or a stream; the same kind of frame comes back.

        data: a DataFrame of pandas, polars (or a LazyFrame) or Spark, a Table, RecordBatch or RecordBatchReader of
            pyarrow, a dict of arrays or lists, an iterator of RecordBatches (gives an iterator), or any other object
            that exports an Arrow stream (gives a Table).

        Raises TypeError for any other data, and what `bind` raises for columns that do not fit.
        """
        return dispatch.run(self, data)

    @overload
    def as_of(
        self, spine: dict[str, ArrayT], events: EventFrame, **how: Unpack[SpineArguments]
    ) -> dict[str, NDArray[Any]]: ...
    @overload
    def as_of(
        self, spine: Mapping[str, Sequence[Any]], events: EventFrame, **how: Unpack[SpineArguments]
    ) -> dict[str, list[Any]]: ...
    @overload
    def as_of(self, spine: FrameT, events: EventFrame, **how: Unpack[SpineArguments]) -> FrameT: ...
    @overload
    def as_of(self, spine: ArrowStream, events: EventFrame, **how: Unpack[SpineArguments]) -> pa.Table: ...
    def as_of(
        self,
        spine: Any,
        events: EventFrame,
        *,
        closed: Closed = "left",
        spine_by: Columns | None = None,
        spine_on: str | None = None,
    ) -> Any:
        """Compute the query as of the rows of a spine: point-in-time features for training, see `sash.as_of`.

        An operator of the same query serves the same features online: `operator.lookup(keys, at=t, closed="left")`.
        `lateness`, `late` and `emit` of the query are for streams, and have no effect here.

        spine: the rows to compute features for: a frame of any kind; the same kind comes back.
        events: the rows to aggregate: a frame of any kind, with Spark a DataFrame of Spark.
        closed: which ends belong to the windows. "left": events at the row's own time do not count, so that nothing
            leaks; "right", "both" and "neither" as in `sash.as_of`.
        spine_by, spine_on: the names of the columns of the key and the time in the spine, if they differ.

        Raises ValueError for windows that need a row to end at, and all that `sash.as_of` raises.
        """
        from sash.plan.as_of_query import AsOfQuery

        return dispatch.as_of(AsOfQuery.of(self, closed, spine_by, spine_on), spine, events)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Query) and self._meaning() == other._meaning()

    def __hash__(self) -> int:
        return hash(self._meaning())

    def _meaning(self) -> tuple[Any, ...]:
        # as tuples, because the order of windows and of aggregates is that of the result columns
        scalars = tuple(getattr(self, name) for name in validation.ARGUMENTS if name != "windows")
        return (*scalars, tuple(self.windows.items()), tuple(self.aggregates.items()))

    def __repr__(self) -> str:
        windows = repr(self.windows[""]) if "" in self.windows else repr(self.windows)
        arguments = [windows] if self.windows else []
        for name in ("by", "on"):
            value = getattr(self, name)
            if value:
                arguments.append(f"{name}={value[0]!r}" if len(value) == 1 else f"{name}={list(value)!r}")
        for name in (*validation.STREAMS, "min_periods"):
            value = getattr(self, name)
            if value != _DEFAULTS.get(name):
                arguments.append(f"{name}={validation.format_value(value)}")
        if self.options != Options():
            arguments.append(f"options={self.options!r}")
        arguments += [f"{name}={bound!r}" for name, bound in self.aggregates.items()]
        return f"Query({', '.join(arguments)})"
