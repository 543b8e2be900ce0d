"""Read a SELECT statement: its table, its condition, its windows, and the columns of the result.

text ──tokens──▶ sqlglot ──▶ Part ──▶ Statement: queries over one table, and the columns of the result

Flink's TABLE(TUMBLE(TABLE t PARTITION BY k, …)) and Spark's window(…) are given to sqlglot as plain functions, by
changing tokens. What no reader has read of the tree is refused at the end. With OVER there is a result for each row;
with GROUP BY, one for each key and window.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa

from sash.cli.sql_aggregates import UnsupportedSQL, aggregate_of, column_of, number_of
from sash.cli.sql_windows import ENDLESS, frame_of, length_of, spark_window, table_window
from sash.expressions.parsed_sql import Part, parsed, tokens_of
from sash.expressions.parser import expr_of
from sash.expressions.tree import ColumnNode, Expr, Node
from sash.monoids import functions as f
from sash.monoids.arithmetic import Aggregated
from sash.plan.api_types import Windows
from sash.plan.binder import known_columns
from sash.plan.derived_columns import inputs_of
from sash.plan.query import Query
from sash.plan.validation import OUTPUTS, PARAMETERS
from sash.windows import Count, Lifetime

# --- Sql select ---

ALL = "\0*"
"""Stands for the columns of the table in the result: no column has this name."""

COMPUTED = "\0{}"
"""The name of a computed column, until `Statement.with_output_names` gives it one: no column has it."""

TABLE_FUNCTIONS = {
    "tumble": ("data", "timecol", "size", "offset"),
    "hop": ("data", "timecol", "slide", "size", "offset"),
    "session": ("data", "timecol", "gap"),
    "cumulate": ("data", "timecol", "step", "size"),
}
"""The window functions of Flink, with the names of their arguments in order."""

MARK = "sash_"
"""A prefix of table functions and of their table, because the parser has other meanings for their names."""

WINDOW_CALLS = ("window", "session_window")
"""The windows of Spark in GROUP BY."""

EDGES = ("window_start", "window_end")

_ARITHMETIC = {"Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "Div": operator.truediv}


@dataclass(frozen=True)
class Partition:
    """The aggregates over one partition and order, each with its window."""

    by: tuple[str, ...]
    on: tuple[str, ...]
    aggregates: dict[str, Aggregated]

    @property
    def has_peers(self) -> bool:
        """Does a frame end at the last row that is equal in all of several ORDER BY columns?"""
        windows = [leaf.window for one in self.aggregates.values() for leaf in one.leaves()]
        return len(self.on) > 1 and any(isinstance(window, Lifetime) for window in windows)

    def query(self, windows: Windows | None, **arguments: Any) -> Query:
        """The query of these aggregates, over `windows` or each over its own."""
        aggregates: dict[str, Any] = dict(self.aggregates)
        return Query(windows, by=self.by, on=self.on or None, **arguments, **aggregates)


class OverClause(NamedTuple):
    """An OVER clause: its partition, order and frame, and its text for messages."""

    by: tuple[str, ...]
    on: tuple[str, ...]
    frame: Part | None
    text: str


Selected = tuple[tuple[Partition, ...], Windows | None]
"""The partitions of a SELECT, and with GROUP BY the windows of all aggregates; else None: each has its own."""


def table_arguments(name: str, call: Part) -> list[Part]:
    """The arguments of a table function in order, also if they are named (`SIZE => …`)."""
    names = TABLE_FUNCTIONS[name]
    found: dict[int, Part] = {}
    for i, one in enumerate(call.expressions):
        place, argument = i, one
        if one.kind in ("Kwarg", "PropertyEQ"):
            given = one.this.name.lower()
            if given not in names:
                raise UnsupportedSQL(
                    f"{given} is not an argument of {name.upper()}; the arguments are {', '.join(names)}"
                )
            place, argument = names.index(given), one.expression
        if place in found:
            raise UnsupportedSQL(f"{name.upper()} has the argument {names[place]} twice")
        found[place] = argument
    for place in range(max(3, *found, 0)):  # all have at least three
        if place not in found:
            raise UnsupportedSQL(f"{name.upper()} needs the argument {names[place]}")
    return [found[place] for place in sorted(found)]


def table_of(call: Part) -> tuple[str, list[str]]:
    """The table of a table function, and the columns of its PARTITION BY."""
    table, *keys = call.expressions if call.kind == "Anonymous" and call.name == f"{MARK}table" else (call,)
    if table.kind not in ("Column", "Identifier", "Table"):
        raise UnsupportedSQL(f"{table.text}: the first argument is the name of a table: TABLE trades")
    return table.name, [column_name(key, "PARTITION BY") for key in keys]


def column_name(part: Part, clause: str) -> str:
    """The name of a column. Raises UnsupportedSQL for anything else."""
    if part.kind != "Column" or part.this.kind != "Identifier":
        raise UnsupportedSQL(f"{clause} {part.text}: name a column; compute it before if it is an expression")
    if part.get("table") is not None:
        raise UnsupportedSQL(f"{clause} {part.text}: FROM has no table {part.get('table').name!r}")
    return part.name


class SelectReader:
    """Reads the columns of a SELECT."""

    def __init__(self, select: Part) -> None:
        self.select = select
        self.output: list[tuple[str, str]] = []
        self.named: list[tuple[str, Node]] = []

    def column(self, part: Part, clause: str) -> str:
        """The name of a column of the table."""
        name = column_name(part, clause)
        self.named.append((clause, ColumnNode(name)))
        return name

    def items(self) -> Iterator[tuple[Part, str]]:
        """The expressions of the SELECT, and their names."""
        for item in self.select.expressions:
            if item.kind == "Alias":
                yield item.this, item.get("alias").name
            else:
                yield item, ""

    def add(self, source: str, name: str) -> None:
        """Add a column to the result. Raises UnsupportedSQL for a second one of the same name."""
        if any(name == other for _, other in self.output) and name != ALL:
            raise UnsupportedSQL(f"two columns are named {name!r}: name them with AS")
        self.output.append((source, name))

    def formula(self, e: Part) -> Aggregated | float | int:
        """An aggregate, or arithmetic with aggregates."""
        if e.kind == "Paren":
            return self.formula(e.this)
        if e.kind == "Neg":
            return self.formula(e.this) * -1
        if e.kind == "Literal":
            return number_of(e, "a constant combined with aggregates")  # type: ignore[no-any-return]
        if e.kind in _ARITHMETIC:
            left, right = self.formula(e.this), self.formula(e.expression)
            try:
                return _ARITHMETIC[e.kind](left, right)  # type: ignore[no-any-return]
            except ArithmeticError:
                raise UnsupportedSQL(f"{e.text} is not a finite number") from None
        return self.leaf(e)

    def leaf(self, e: Part) -> Aggregated:
        """An aggregate, without arithmetic."""
        raise NotImplementedError


def _unfiltered(call: Part) -> tuple[Part, Expr | None]:
    """A call without its FILTER clause, and the condition of that."""
    return (call, None) if call.kind != "Filter" else (call.this, expr_of(call.expression.this))


class RowsReader(SelectReader):
    """Reads aggregates with OVER: a result for each row."""

    def __init__(self, select: Part) -> None:
        super().__init__(select)
        self.windows: dict[str, Part] = {}
        for one in select.get("windows") or ():
            name = one.this.name.lower()
            if name in self.windows:
                raise UnsupportedSQL(f"WINDOW has two windows {name}: rename one")
            self.windows[name] = one
        self.used: set[str] = set()
        self.partitions: dict[tuple[tuple[str, ...], tuple[str, ...]], dict[str, Any]] = {}
        self.places: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()

    def read(self) -> Selected:
        """Read the SELECT."""
        later = []
        for e, name in self.items():
            if e.kind == "Star" or (e.kind == "Column" and e.this.kind == "Star" and e.get("table") is None):
                self.add(ALL, ALL)
            elif e.kind == "Column":
                column = self.column(e, "SELECT")
                self.add(column, name or column)
            else:
                self.add(COMPUTED.format(len(self.output)), name or _name(e))
                later.append((e, self.output[-1][0]))
        for e, source in sorted(later, key=lambda pair: not pair[0].has("Window")):
            self._place(e, source)
        if not any(e.has("Window") for e, _ in later):
            raise UnsupportedSQL(
                "the statement has no window: add OVER (…), or GROUP BY a window; else use your own engine"
            )
        for name in [name for name in self.windows if name not in self.used]:  # it must be right, too
            over = self._over(self.windows[name], ())
            if over.frame is not None:
                over.frame.skip()
        return tuple(Partition(*place, found) for place, found in self.partitions.items()), None

    def _place(self, e: Part, source: str) -> None:
        """Add an expression to the partition of its windows; one without windows to the first partition."""
        self.places = set()
        made = self.formula(e) if e.has("Window") else self._value(e)
        if len(self.places) > 1:
            raise UnsupportedSQL(f"{e.text} has two partitions or orders: compute each in a separate column")
        place = next(iter(self.places), next(iter(self.partitions), ((), ())))
        self.partitions.setdefault(place, {})[source] = made

    def _value(self, e: Part) -> Aggregated:
        """The value of an expression at the row itself."""
        value = expr_of(e)
        self.named.append(("SELECT", value.tree))
        return f.last(column_of(e)).over(Count(1))

    def leaf(self, e: Part) -> Aggregated:
        """An aggregate with OVER, or a value of the row."""
        if e.kind != "Window":
            if e.has("Window"):
                raise UnsupportedSQL(f"{e.text}: only + - * / and parentheses are supported with windows")
            return self._value(e)
        over = self._over(e, ())
        self.places.add((tuple(dict.fromkeys(over.by)), tuple(dict.fromkeys(over.on))))
        call, where = _unfiltered(e.this)
        if call.kind in ("Lag", "RowNumber"):
            return self._by_row(call, where, over)
        return aggregate_of(call, where).over(frame_of(over.frame, over.on, over.text))

    def _by_row(self, call: Part, where: Expr | None, over: OverClause) -> Aggregated:
        """LAG and ROW_NUMBER: they have no frame, and as in SQL they ignore the one of their window if it is right."""
        if where is not None:
            raise UnsupportedSQL(f"{call.text}: FILTER is for aggregates: use CASE around it in your own engine")
        if over.frame is not None:
            frame_of(over.frame, over.on, over.text)
        if call.kind == "RowNumber":
            return f.count().over(Count(ENDLESS))
        offset = call.get("offset")
        n = number_of(offset, "the distance of LAG") if offset is not None else 1
        if call.get("default") is not None:
            raise UnsupportedSQL(f"{call.text}: LAG takes no default here: use COALESCE in your own engine")
        return f.lag(column_of(call.this), n=n).over(Count(n + 1))

    def _over(self, e: Part, seen: tuple[str, ...]) -> OverClause:
        """Read an OVER clause or a window of the WINDOW clause, which may refer to one."""
        keys, order, frame = e.get("partition_by"), e.get("order"), e.get("spec")
        by = tuple(self.column(key, "PARTITION BY") for key in keys or ())
        on = tuple(self._ordered(one) for one in (order.expressions if order is not None else ()))
        text = e.text.removeprefix(e.this.text).removeprefix(" AS" if e.this.kind == "Identifier" else " OVER").strip()
        alias = e.get("alias")
        if alias is None:
            return OverClause(by, on, frame, text)
        name = alias.name.lower()
        if name not in self.windows:
            raise UnsupportedSQL(f"OVER {name}: there is no such window; the WINDOW clause has {[*self.windows]}")
        if name in seen:
            raise UnsupportedSQL(f"WINDOW {name} refers to itself")
        self.used.add(name)
        base = self._over(self.windows[name], (*seen, name))
        for clause, mine, theirs in (
            ("PARTITION BY", by, True),
            ("ORDER BY", on, base.on),
            ("a frame", frame, base.frame),
        ):
            if mine and theirs:
                raise UnsupportedSQL(f"{text}: {clause} cannot replace that of the window {name}")
        is_name = not on and frame is None
        return OverClause(
            base.by, on or base.on, base.frame if frame is None else frame, base.text if is_name else text
        )

    def _ordered(self, one: Part) -> str:
        if one.get("desc"):
            raise UnsupportedSQL(f"ORDER BY {one.text}: windows follow ascending time; leave out DESC")
        return self.column(one.this, "ORDER BY")


class SlidesReader(SelectReader):
    """Reads GROUP BY with TUMBLE, HOP, SESSION, CUMULATE, or Spark's window(): a result for each key and window."""

    def __init__(self, select: Part) -> None:
        super().__init__(select)
        self.call = ""

    def read(self) -> Selected:
        """Read the SELECT."""
        call, by = self._window()
        self.call = call.text
        name = call.name.lower()
        if name.startswith(MARK):
            name = name.removeprefix(MARK)
            data, column, *rest = table_arguments(name, call)
            time = self._descriptor(column)
            table, keys = table_of(data)
            self.named += [("PARTITION BY", ColumnNode(key)) for key in keys]
            if name == "session" and {*keys} != {*by}:
                raise UnsupportedSQL(
                    f"the sessions have other keys than GROUP BY: write SESSION(TABLE {table}"
                    f"{' PARTITION BY ' * bool(by)}{', '.join(by)}, …), or GROUP BY "
                    f"{', '.join([*keys, *EDGES])}"
                )
            window = table_window(name, [length_of(one, f"a length of {name.upper()}") for one in rest])
        else:
            if not call.expressions:
                raise UnsupportedSQL(f"{name}() needs the column of the time, and a length: window(ts, '1 hour')")
            column, *rest = call.expressions
            time = self.column(column, name)
            window = spark_window(name, [length_of(one, f"a length of {name}()") for one in rest])
        found: dict[str, Aggregated] = {}
        for e, alias in self.items():
            if e.kind == "Star":
                raise UnsupportedSQL("* is not supported with GROUP BY: name its columns, and aggregates")
            source = self._edge(e)
            if source is None and e.kind == "Column":
                source = column_name(e, "SELECT")
                if source not in by:
                    raise UnsupportedSQL(f"the column {source!r} is neither aggregated nor in GROUP BY")
            if source is not None:
                self.add(source, alias or source)
                continue
            self.add(COMPUTED.format(len(self.output)), alias or _name(e))
            made = self.formula(e)
            if isinstance(made, int | float):
                raise UnsupportedSQL(f"SELECT {e.text}: a number is no aggregate: add it to the result")
            found[self.output[-1][0]] = made
        if not found:
            raise UnsupportedSQL("the statement has no aggregate: add one, such as COUNT(*)")
        return (Partition(by, (time,), found),), window

    def _descriptor(self, part: Part) -> str:
        """The column of DESCRIPTOR(ts)."""
        given = part.expressions if part.kind == "Anonymous" and part.name.lower() == "descriptor" else [part]
        if len(given) != 1:
            raise UnsupportedSQL(f"{part.text}: DESCRIPTOR takes the column of the time")
        return self.column(given[0], "DESCRIPTOR")

    def _edge(self, e: Part) -> str | None:
        """The name of the column for a window's start or end; None for any other expression."""
        if e.kind == "Column":
            table, name = e.get("table"), e.name.lower()
            if table is not None and table.name.lower() in WINDOW_CALLS and name in ("start", "end"):
                return f"window_{name}"
            if table is None and name in EDGES:
                return name
        if e.kind == "Dot" and e.expression.name.lower() in ("start", "end") and e.this.text == self.call:
            e.this.skip()
            return f"window_{e.expression.name.lower()}"
        if e.kind == "Anonymous" and e.name.lower() in WINDOW_CALLS:
            raise UnsupportedSQL("select window.start and window.end instead of the window itself")
        return None

    def _window(self) -> tuple[Part, tuple[str, ...]]:
        """The call that defines the windows, and the keys of GROUP BY."""
        source = self.select.get("from_").this.this
        call: Part | None = source if source.kind == "Anonymous" else None
        names, edges = [], set()
        for e in self.select.get("group").expressions:
            if e.kind == "Anonymous" and e.name.lower() in WINDOW_CALLS:
                if call is not None:
                    raise UnsupportedSQL("the statement has two windows: keep one")
                call = e
            elif (edge := self._edge(e)) is not None:
                edges.add(edge)
            else:
                names.append(self.column(e, "GROUP BY"))
        if call is None:
            raise UnsupportedSQL(
                "GROUP BY has no window: use your own engine, or GROUP BY window(ts, '1 hour'), or FROM "
                "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) with GROUP BY window_start, window_end"
            )
        if call is source and edges != {*EDGES}:
            raise UnsupportedSQL(
                "GROUP BY without window_start and window_end joins the rows of all windows: add both to GROUP BY"
            )
        return call, tuple(dict.fromkeys(names))

    def leaf(self, e: Part) -> Aggregated:
        """An aggregate, with FILTER or without."""
        if e.kind == "Window":
            raise UnsupportedSQL(f"{e.text}: OVER and GROUP BY cannot be combined: write two statements")
        return aggregate_of(*_unfiltered(e))


def _name(e: Part) -> str:
    """The name of a column without AS: the function and its arguments."""
    node = e.node
    for kind in ("Window", "Filter"):
        node = node.this if type(node).__name__ == kind else node
    words = re.findall(r"\w+", Part(node).text.lower())
    return "_".join(words) or "value"


# --- Sql statement ---

UNSUPPORTED = {
    "joins": "JOIN",
    "distinct": "DISTINCT",
    "having": "HAVING",
    "qualify": "QUALIFY",
    "order": "ORDER BY",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "with_": "WITH",
    "laterals": "LATERAL",
    "sample": "TABLESAMPLE",
}
"""Clauses that are not about windows, by sqlglot's name of each."""


FRAME_UNITS = ("ROWS", "RANGE", "GROUPS")
"""What a frame counts."""


@dataclass(frozen=True)
class Statement:
    """A SELECT over windows of one table."""

    table: str
    where: Expr | None
    condition: str
    """The text of `where`."""
    partitions: tuple[Partition, ...]
    windows: Windows | None
    """The windows of GROUP BY; None: each aggregate has its own window, and each row a result."""
    output: tuple[tuple[str, str], ...]
    """Columns of the result, each with its name."""
    named: tuple[tuple[str, Node], ...] = ()
    """What names columns of the table outside of aggregates, each with its clause."""

    def require_columns(self, columns: Sequence[str]) -> None:
        """Raises KeyError, also a ValueError, unless the table has all columns that are named, each once.

        No clause sees the results of another, whose columns are added to the table one partition after another.
        """
        schema = pa.schema([pa.field(name, pa.null()) for name in dict.fromkeys(columns)])
        counts = Counter(columns)
        where = () if self.where is None else (("WHERE", self.where.tree),)
        for clause, tree in (*where, *self.named):
            known_columns(tree, schema, clause)
            for name in tree.columns():
                if counts[name] > 1:
                    raise ValueError(f"the data has the column {name!r} twice: rename one")
        for result, made in (pair for partition in self.partitions for pair in partition.aggregates.items()):
            for tree in (tree for leaf in made.leaves() for tree in inputs_of(leaf)):
                known_columns(tree, schema, f"{result}={made!r}")

    @property
    def peers_refused(self) -> str | None:
        """Why a stream cannot compute it; None if it can."""
        for partition in self.partitions:
            if partition.has_peers:
                return (
                    f"ORDER BY {', '.join(partition.on)} with the default frame, RANGE UNBOUNDED PRECEDING, ends at "
                    "rows that are equal in all of these columns, which is not supported on a stream: write ROWS "
                    f"UNBOUNDED PRECEDING, or ORDER BY {partition.on[0]}"
                )
        return None

    def with_output_names(self, columns: Iterable[str]) -> Statement:
        """Name computed columns as in the result, so that errors have these names.

        A name that the table has, or that a query cannot have, is followed by `_`: both columns exist for a while.
        """
        computed = {source for partition in self.partitions for source in partition.aggregates}
        taken = {name.casefold() for name in (*columns, *PARAMETERS, *OUTPUTS)}  # in Spark, case is no difference
        names: dict[str, str] = {}
        for source, name in self.output:
            if source in computed:
                names[source] = free_name(name, taken)
                taken.add(names[source].casefold())
        partitions = tuple(
            replace(one, aggregates={names[source]: made for source, made in one.aggregates.items()})
            for one in self.partitions
        )
        output = tuple((names.get(source, source), name) for source, name in self.output)
        return replace(self, partitions=partitions, output=output)

    def output_columns(self, columns: Sequence[str]) -> list[tuple[str, str]]:
        """The columns of the result with their names, and `*` as the columns of the table.

        Raises UnsupportedSQL if two have the same name.
        """
        found: list[tuple[str, str]] = []
        for source, name in self.output:
            found += [(column, column) for column in columns] if source == ALL else [(source, name)]
        names = [name for _, name in found]
        for name in names:
            if names.count(name) > 1:
                raise UnsupportedSQL(f"two columns are named {name!r}: name them with AS")
        return found


def free_name(name: str, taken: Container[str]) -> str:
    """A name, with `_` after it until its case-folded form is not taken."""
    while name.casefold() in taken:
        name += "_"
    return name


def spark_name(name: str) -> str:
    """A column's name in Spark's SQL, whatever it contains.

    >>> spark_name("a`b")
    '`a``b`'
    """
    return f"`{name.replace('`', '``')}`"


def statement_of(text: str) -> Statement:
    """Read a statement. Raises UnsupportedSQL, naming the clause, for what is not supported."""
    try:
        return _statement(_parsed(text))
    except RecursionError:
        raise UnsupportedSQL("the statement is nested too deep: split it") from None


def _statement(select: Part) -> Statement:
    for clause, name in UNSUPPORTED.items():
        if select.get(clause):
            raise UnsupportedSQL(
                f"{name} is not about windows: use your own engine for it, before or after sash.sql; "
                "a statement has SELECT, FROM, WHERE, WINDOW, and GROUP BY with a window"
            )
    source = select.get("from_")
    if source is None:
        raise UnsupportedSQL("there is no FROM: name a table that is passed to sash.sql, such as trades=frame")
    table = _table(select, source.this)
    where = select.get("where")
    condition = None if where is None else expr_of(where.this)
    reader = SlidesReader(select) if select.get("group") is not None else RowsReader(select)
    selected = reader.read()
    _require_read(select)
    text = "" if where is None else where.this.text
    return Statement(table, condition, text, *selected, tuple(reader.output), tuple(reader.named))


def formula_of(text: str) -> Aggregated:
    """Read an aggregate, or arithmetic with aggregates, without OVER. Raises UnsupportedSQL for anything else.

    >>> formula_of("max(price) - min(price) FILTER (WHERE ok)")
    max('price') - min('price', where='ok')
    """
    select = _parsed(f"SELECT {text}")
    items = select.expressions
    more = [name for name, value in select.node.args.items() if value and name not in ("expressions", "kind")]
    if more or len(items) != 1 or items[0].kind == "Alias":
        raise UnsupportedSQL(f"{text!r} is not one aggregate: write one, such as 'max(price)'")
    try:
        made = SlidesReader(select).formula(items[0])
    except RecursionError:
        raise UnsupportedSQL(f"{text:.40!r} is nested too deep: split it") from None
    if isinstance(made, int | float):
        raise UnsupportedSQL(f"{text!r} is a number: write an aggregate, such as 'max(price)'")
    _require_read(select)
    return made


def _require_read(select: Part) -> None:
    """Raises UnsupportedSQL for the first part of a statement that was not read."""
    if (unread := select.unread()) is not None:
        of, what = unread
        raise UnsupportedSQL(f"{what} is not supported in {of}: leave it out, or use your own engine")


def _parsed(text: str) -> Part:
    from sqlglot.errors import SqlglotError

    try:
        found = [one for one in parsed(text, _changed(tokens_of(text))) if one is not None]
    except SqlglotError as error:
        (first, *_) = getattr(error, "errors", None) or [{}]
        place = f" at line {first['line']}, column {first['col']}" if "line" in first else ""
        said = str(first.get("description", error)).splitlines()[0].partition(" missing for")[0]
        raise UnsupportedSQL(f"this is not SQL{place}: {said}") from None
    except RecursionError:
        raise UnsupportedSQL("the statement is nested too deep: split it") from None
    if len(found) != 1:
        raise UnsupportedSQL(f"give one SELECT statement; there are {len(found)}")
    if type(found[0]).__name__ != "Select":
        raise UnsupportedSQL(f"give a SELECT statement; this is {type(found[0]).__name__.upper()}")
    return Part(found[0])


def _changed(tokens: list[Any]) -> list[Any]:
    """Tokens that sqlglot reads as functions, for the windows of Flink and Spark.

        TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), 3))    sash_session(sash_table(t, k), DESCRIPTOR(ts), 3)

    Raises UnsupportedSQL for NULLS FIRST and NULLS LAST, which the tree does not tell from their absence.
    """
    from sqlglot import Token, TokenType

    def made(kind: TokenType, text: str) -> Any:
        return Token(kind, text, token.line, token.col, token.start, token.end)

    found: list[Any] = []
    kinds = [token.token_type for token in tokens]
    _require_whole_lists(tokens, kinds)
    i = depth = inside = 0  # inside: the depth at which a table function is open
    while i < len(tokens):
        token = tokens[i]
        if token.text.upper() == "NULLS" and kinds[i] == TokenType.VAR:
            _require_no_order_of_nulls(tokens[i + 1 : i + 2])
        if token.text.upper() in FRAME_UNITS and kinds[i] not in (TokenType.IDENTIFIER, TokenType.STRING):
            _require_whole_frame(tokens, i)
        if kinds[i] == TokenType.TABLE and kinds[i + 1 : i + 4 : 2] == [TokenType.L_PAREN] * 2 and not inside:
            found.append(made(TokenType.VAR, MARK + tokens[i + 2].text))
            inside, i = depth + 1, i + 3  # the next is the parenthesis of the function
            continue
        if kinds[i] == TokenType.TABLE and inside:
            end = _end_of_table(tokens, i)
            keys = [one for one in tokens[i + 3 : end] if one.token_type not in (TokenType.L_PAREN, TokenType.R_PAREN)]
            comma = [made(TokenType.COMMA, ",")] * bool(keys)
            found += [made(TokenType.VAR, f"{MARK}table"), made(TokenType.L_PAREN, "("), *tokens[i + 1 : i + 2]]
            found += [*comma, *keys, made(TokenType.R_PAREN, ")")]
            i = end
            continue
        depth += (kinds[i] == TokenType.L_PAREN) - (kinds[i] == TokenType.R_PAREN)
        is_call = kinds[i : i + 2] == [TokenType.WINDOW, TokenType.L_PAREN]
        found.append(made(TokenType.VAR, token.text) if is_call else token)
        i += 1
        if inside and kinds[i - 1] == TokenType.R_PAREN and depth < inside:
            if kinds[i : i + 1] != [TokenType.R_PAREN]:
                raise UnsupportedSQL("TABLE( is not closed: write FROM TABLE(TUMBLE(TABLE t, …)), with two parentheses")
            inside, i = 0, i + 1
    if inside:
        raise UnsupportedSQL("TABLE( is not closed: write FROM TABLE(TUMBLE(TABLE t, …)), with two parentheses")
    return found


def _require_whole_lists(tokens: list[Any], kinds: list[Any]) -> None:
    """Raises UnsupportedSQL for a comma, or AS, without what belongs to it, which sqlglot drops."""
    from sqlglot import TokenType as T

    opening = (T.SELECT, T.COMMA, T.L_PAREN, T.PARTITION_BY, T.ORDER_BY, T.GROUP_BY)
    closing = (T.COMMA, T.R_PAREN, T.FROM, T.SEMICOLON)
    for i, kind in enumerate(kinds):
        before, after = kinds[i - 1] if i else None, kinds[i + 1] if i + 1 < len(kinds) else T.SEMICOLON
        if (kind == T.COMMA and (before in opening or after == T.R_PAREN)) or (kind == T.ALIAS and after in closing):
            token = tokens[i]
            raise UnsupportedSQL(f"this is not SQL at line {token.line}, column {token.col}: nothing at {token.text!r}")


def _require_whole_frame(tokens: list[Any], start: int) -> None:
    """Raises UnsupportedSQL for a frame with BETWEEN and no AND, or the reverse, of which sqlglot makes another."""
    words = [one.text.upper() for one in tokens[start + 1 : start + 12]]
    words = words[: words.index(")")] if ")" in words else words
    is_between = words[:1] == ["BETWEEN"]
    is_frame = is_between or any(one in ("PRECEDING", "FOLLOWING", "CURRENT", "UNBOUNDED") for one in words[:3])
    if is_frame and is_between != ("AND" in words):
        unit = tokens[start].text.upper()
        raise UnsupportedSQL(
            f"{unit} {' '.join(words)}: a frame is {unit} BETWEEN a start AND an end, or {unit} and a start alone"
        )


def _require_no_order_of_nulls(following: list[Any]) -> None:
    """Raises UnsupportedSQL if FIRST or LAST follows the word NULLS."""
    for word in (one.text.upper() for one in following):
        if word in ("FIRST", "LAST"):
            raise UnsupportedSQL(
                f"ORDER BY … NULLS {word} is not supported: rows whose order key is null are in no window. Leave NULLS "
                f"{word} out, or fill these keys before"
            )


def _end_of_table(tokens: list[Any], start: int) -> int:
    """The place after `TABLE t PARTITION BY k, …`: the comma before DESCRIPTOR or a named argument, or the end."""
    from sqlglot import TokenType

    if start + 2 >= len(tokens) or tokens[start + 2].token_type != TokenType.PARTITION_BY:
        return min(start + 2, len(tokens))
    depth = 0
    for i in range(start + 3, len(tokens)):
        kind = tokens[i].token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        after, second = ([*tokens[i + 1 : i + 3], None, None])[:2]
        is_next = after is not None and after.text.upper() == "DESCRIPTOR"
        is_next = is_next or (second is not None and second.token_type == TokenType.FARROW)
        if depth < 0 or (kind == TokenType.COMMA and is_next):
            return i
    raise UnsupportedSQL("PARTITION BY needs DESCRIPTOR(…) after it: TABLE t PARTITION BY k, DESCRIPTOR(ts)")


def _table(select: Part, source: Part) -> str:
    """The name of the table. Its columns may have its name, or its alias, before theirs."""
    if source.kind != "Table":
        raise UnsupportedSQL("FROM takes the name of a table; for a subquery use your own engine, and pass its result")
    call, alias = source.this, source.get("alias")
    name: str
    if call.kind == "Identifier":
        name = call.name
    elif call.kind == "Anonymous" and call.name.startswith(MARK):
        function = call.name.removeprefix(MARK).lower()
        if function not in TABLE_FUNCTIONS:
            raise UnsupportedSQL(f"FROM TABLE({function}(…)): there are {', '.join(TABLE_FUNCTIONS).upper()}")
        if not call.expressions:
            raise UnsupportedSQL(f"{function.upper()} needs the argument data: TABLE trades")
        name, _keys = table_of(table_arguments(function, call)[0])
    else:
        raise UnsupportedSQL(f"FROM {call.text}: name a table, or TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), …))")
    known = name if alias is None else alias.name
    for node in select.node.walk():
        if type(node).__name__ == "Column" and node.table == known and not node.args.get("db"):
            node.set("table", None)
    return name
