"""Read the columns of a SELECT: with OVER, a result for each row; with GROUP BY, one for each key and window."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from sash.cli.sql_aggregates import UnsupportedSQL, aggregate_of, column_of, number_of
from sash.cli.sql_windows import ENDLESS, frame_of, length_of, spark_window, table_window
from sash.expressions.parsed_sql import Part
from sash.expressions.parser import expr_of
from sash.expressions.tree import ColumnNode, Expr, Node
from sash.monoids import functions as f
from sash.monoids.arithmetic import Aggregated
from sash.plan.api_types import Windows
from sash.windows import Count, Lifetime

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
    aggregates: dict[str, Aggregated] = field(default_factory=dict)

    @property
    def has_peers(self) -> bool:
        """Does a frame end at the last row that is equal in all of several ORDER BY columns?"""
        windows = [leaf.window for one in self.aggregates.values() for leaf in one.leaves()]
        return len(self.on) > 1 and any(isinstance(window, Lifetime) for window in windows)

    def add(self, name: str, made: Aggregated) -> None:
        """Add an aggregate."""
        self.aggregates[name] = made


class OverClause(NamedTuple):
    """An OVER clause: its partition, order and frame, and its text for messages."""

    by: tuple[str, ...]
    on: tuple[str, ...]
    frame: Part | None
    text: str


class Selected(NamedTuple):
    """The partitions, windows and columns of a SELECT."""

    partitions: tuple[Partition, ...]
    windows: Windows | None
    """With GROUP BY, the windows of all aggregates; else None: each aggregate has its own."""
    output: tuple[tuple[str, str], ...]
    """The columns of the result: each column of the query's output with its name in the SELECT."""
    named: tuple[tuple[str, Node], ...]
    """What names columns of the table outside of aggregates, each with its clause."""


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
        self.partitions: dict[tuple[tuple[str, ...], tuple[str, ...]], Partition] = {}
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
        return Selected(tuple(self.partitions.values()), None, tuple(self.output), tuple(self.named))

    def _place(self, e: Part, source: str) -> None:
        """Add an expression to the partition of its windows; one without windows to the first partition."""
        self.places = set()
        made = self.formula(e) if e.has("Window") else self._value(e)
        if len(self.places) > 1:
            raise UnsupportedSQL(f"{e.text} has two partitions or orders: compute each in a separate column")
        by, on = next(iter(self.places), next(iter(self.partitions), ((), ())))
        self.partitions.setdefault((by, on), Partition(by, on)).add(source, made)  # type: ignore[arg-type]

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
        return Selected((Partition(by, (time,), found),), window, tuple(self.output), tuple(self.named))

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
