"""`sash.sql`: SQL with windows on a frame, a Spark DataFrame or a Spark stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa

from sash.cli.sql_aggregates import UnsupportedSQL
from sash.cli.sql_statement import free_name, spark_name, statement_of
from sash.columns.keys import decode
from sash.expressions.arrow_evaluation import chosen_rows
from sash.expressions.tree import Expr
from sash.frames import adapter_of
from sash.frames.adapter import Adapter
from sash.frames.dict_adapter import SequenceAdapter
from sash.frames.execute import FrameTable, compute, is_lazy, peer_ranks
from sash.plan.dispatch import package_of
from sash.plan.query import Query

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sash.plan.api_types import ArrayT, ArrowReader, ArrowStream, EagerT_co, EventFrame, FrameT, LazyFrame
    from sash.plan.options import Options
    from sash.windows.arguments import Length


@overload
def sql(  # type: ignore[overload-overlap]  # a LazyFrame has a schema, too
    statement: str, /, *, lateness: Length | None = None, options: Options | None = None, **tables: LazyFrame[EagerT_co]
) -> EagerT_co: ...
@overload
def sql(
    statement: str, /, *, lateness: Length | None = None, options: Options | None = None, **tables: ArrowReader
) -> pa.Table: ...
@overload
def sql(
    statement: str, /, *, lateness: Length | None = None, options: Options | None = None, **tables: FrameT
) -> FrameT: ...
@overload
def sql(
    statement: str, /, *, lateness: Length | None = None, options: Options | None = None, **tables: dict[str, ArrayT]
) -> dict[str, NDArray[Any]]: ...
@overload
def sql(
    statement: str,
    /,
    *,
    lateness: Length | None = None,
    options: Options | None = None,
    **tables: Mapping[str, Sequence[Any]],
) -> dict[str, list[Any]]: ...
@overload
def sql(
    statement: str, /, *, lateness: Length | None = None, options: Options | None = None, **tables: ArrowStream
) -> pa.Table: ...
@overload
def sql(
    statement: str, /, *, lateness: Length | None = None, options: Options | None = None, **tables: EventFrame
) -> Any: ...
def sql(
    statement: str, /, *, lateness: Length | None = None, options: Options | None = None, **tables: EventFrame
) -> Any:
    """Compute a SELECT statement with windows; the result is the same kind of frame as the table.

    A LazyFrame gives a DataFrame, and a RecordBatchReader or another Arrow stream a Table.

    statement: SQL in DuckDB's dialect: aggregates with OVER, for a result at each row, or GROUP BY with a window, as
        Flink writes it (`FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' HOUR))`) or Spark
        (`GROUP BY window(ts, '1 hour')`). Names of columns are case-sensitive.
    lateness, options: as for `sash.rolling`; a stream needs `lateness`.
    tables: the table of the FROM clause, by its name: a frame of pandas, polars, Arrow, DuckDB or Spark, or a dict of
        arrays or lists.

    >>> import pyarrow as pa, sash
    >>> trades = pa.table({"t": [1, 2, 3, 9], "price": [3, 5, 4, 1]})
    >>> last = "ORDER BY t RANGE BETWEEN 2 PRECEDING AND CURRENT ROW"
    >>> sash.sql(f"SELECT t, max(price) OVER ({last}) AS high FROM trades", trades=trades).to_pydict()
    {'t': [1, 2, 3, 9], 'high': [3, 5, 5, 1]}

    Raises ValueError, naming the clause, for what is not supported: use your own SQL engine for all that is not about
    windows. Nothing but the parsed statement is executed.
    """
    if not isinstance(statement, str):
        raise TypeError(f"sash.sql() takes a statement as text; got {statement!r}")
    read = statement_of(statement)
    if read.table not in tables:
        given = ", ".join(tables) or "none"
        raise UnsupportedSQL(
            f"FROM {read.table}: no such table was passed; there are {given}: sash.sql(…, {read.table}=frame)"
        )
    host = _Spark() if package_of(tables[read.table]) == "pyspark" else _Frame()
    data = host.opened(tables[read.table])
    if len(read.partitions) > 1 and getattr(data, "isStreaming", False):
        raise UnsupportedSQL(
            "on a stream all windows must have the same PARTITION BY and ORDER BY: start a stream for each"
        )
    if getattr(data, "isStreaming", False) and (refused := read.peers_refused) is not None:
        raise UnsupportedSQL(refused)
    columns = host.columns(data)
    read = read.with_output_names(columns)
    read.require_columns(host.names(data))
    output = read.output_columns(columns)
    queries = [one.query(read.windows, lateness=lateness, options=options) for one in read.partitions]
    data = data if read.where is None else host.filtered(data, read.where, read.condition)
    taken = {
        name.casefold() for name in (*host.names(data), *(one for each in read.partitions for one in each.aggregates))
    }
    for query, partition in zip(queries, read.partitions, strict=True):
        if partition.has_peers:
            name = free_name("peers", taken)
            taken.add(name)
            data = host.ranked(data, query, name)
            query = query.rewritten(on=name, lateness=None)  # noqa: PLW2901
        data = host.result(data, query)
    return host.selected(data, output)


class _TypedFrame:
    """A frame in which WHERE has left some rows. Their columns keep the types that the values of all rows have.

    A dict of lists has no other types: without this, a result would depend on which values are left.
    """

    def __init__(self, frame: Adapter, whole: Adapter, mask: pa.Array | None, ranks: dict[str, pa.Array]) -> None:
        self.frame, self.whole, self.mask, self.ranks = frame, whole, mask, ranks
        self.names, self.rows = [*frame.names, *ranks], frame.rows
        self.with_results, self.of_slides = frame.with_results, frame.of_slides

    def column(self, name: str) -> Any:
        """A column, or the ranks of peers."""
        if name in self.ranks:
            return self.ranks[name]
        chosen = self.mask is not None and name in self.whole.names
        return self.whole.column(name).filter(self.mask) if chosen else self.frame.column(name)


class _Frame:
    """A table in memory."""

    def __init__(self) -> None:
        self._whole: Adapter | None = None
        """The table before WHERE."""
        self._mask: pa.Array | None = None
        """The rows that WHERE has left."""
        self._ranks: dict[str, pa.Array] = {}

    def _typed(self, data: Any) -> Adapter:
        frame = adapter_of(data)
        return _TypedFrame(frame, self._whole or frame, self._mask, self._ranks)

    def result(self, data: Any, query: Query) -> Any:
        """The table with the results of a query, or those alone."""
        return compute(query, self._typed(data))

    def opened(self, data: Any) -> Any:
        """The table; lazy frames and Arrow streams are read."""
        if is_lazy(data):
            return data.collect()
        is_table = isinstance(data, dict | pa.Table | pa.RecordBatch) or package_of(data) in ("pandas", "polars")
        return data if is_table else pa.table(data)

    def columns(self, data: Any) -> list[str]:
        """The names of its columns."""
        if isinstance(data, dict):
            return list(data)
        names = data.schema.names if isinstance(data, pa.Table | pa.RecordBatch) else data.columns
        return [name for name in names if isinstance(name, str)]

    def names(self, data: Any) -> list[str]:
        """The names that clauses may use: its columns, and the levels of an index of pandas."""
        return adapter_of(data).names

    def ranked(self, data: Any, query: Query, name: str) -> Any:
        """Rows get ranks in the order of a query's `on`, as a column that the table does not show: equal ones if all
        columns of it are equal.
        """
        table = FrameTable.of(query, self._typed(data)).table
        self._ranks[name] = peer_ranks(table, query.bind(table.schema))
        return data

    def filtered(self, data: Any, where: Expr, condition: str) -> Any:
        """The rows for which the condition holds."""
        frame = adapter_of(data)
        mask = chosen_rows(where.tree, lambda name: decode(frame.column(name)), frame.rows, f"WHERE {condition}")
        self._whole, self._mask = frame, mask
        if isinstance(frame, SequenceAdapter):  # rows that are left would not show the types of their columns
            return {name: frame.column(name).filter(mask) for name in frame.names}
        return frame.with_results([], np.flatnonzero(mask.to_numpy(zero_copy_only=False)))

    def selected(self, data: Any, output: list[tuple[str, str]]) -> Any:
        """Some columns, with new names."""
        sources, names = [source for source, _ in output], [name for _, name in output]
        if isinstance(data, dict):
            found = {name: data[source] for source, name in output}
            return {name: one.to_pylist() if isinstance(one, pa.Array) else one for name, one in found.items()}
        if package_of(data) == "pandas":
            frame = adapter_of(data)
            levels = {name: frame.series(name).to_numpy() for name in sources if name not in data.columns}  # type: ignore[attr-defined]
            return data.assign(**levels)[sources].set_axis(names, axis=1)
        if package_of(data) == "polars":
            return data.select(data[source].alias(name) for source, name in output)
        return data.select(sources).rename_columns(names)


class _Spark:
    """A Spark DataFrame: Spark renames its columns."""

    def opened(self, data: Any) -> Any:
        """The DataFrame."""
        return data

    def columns(self, data: Any) -> list[str]:
        """The names of its columns."""
        return list(data.columns)

    names = columns

    def result(self, data: Any, query: Query) -> Any:
        """The DataFrame with the results of a query, or those alone."""
        return query.run(data)

    def ranked(self, data: Any, query: Query, name: str) -> Any:
        """The DataFrame with one more column, in the order of a query's `on`: equal where all columns are equal."""
        from sash.spark.spark_types import arrow_schema

        bound_query = query.bind(arrow_schema(data.schema))
        keys = ", ".join(map(spark_name, query.by))
        order = ", ".join(f"{spark_name(one)} ASC NULLS LAST" for one in query.on)
        first = spark_name(query.on[0])
        untimed = f"{first} IS NULL"
        if bound_query.time is not None and bound_query.time.kind == "float":
            untimed += f" OR isnan({first}) OR abs({first}) = double('infinity')"
        rank = f"dense_rank() OVER ({'PARTITION BY ' * bool(keys)}{keys} ORDER BY {order})"
        return data.selectExpr("*", f"CASE WHEN NOT ({untimed}) THEN {rank} END AS {spark_name(name)}")

    def filtered(self, data: Any, where: Expr, condition: str) -> Any:
        """The rows for which the condition holds."""
        from sash.spark.column_exprs import filtered

        return filtered(data, where.tree, condition, f"WHERE {condition}")

    def selected(self, data: Any, output: list[tuple[str, str]]) -> Any:
        """Some columns, with new names."""
        return data.selectExpr(*(f"{spark_name(source)} as {spark_name(name)}" for source, name in output))
