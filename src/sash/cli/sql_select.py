"""Read the columns of a SELECT: with OVER, a result for each row; with GROUP BY, one for each key and window."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sash.cli.sql_aggregates import UnsupportedSQL, aggregate_of, column_of, number_of, text_of
from sash.cli.sql_windows import ENDLESS, frame_of, length_of, spark_window, table_window
from sash.expressions.parser import expr
from sash.expressions.tree import Expr
from sash.monoids import functions as f
from sash.monoids.arithmetic import Aggregated
from sash.plan.api_types import Windows
from sash.windows import Count, WindowKind

ALL = "*"
"""Stands for the columns of the table in the result."""

TABLE_FUNCTIONS = ("tumble", "hop", "session", "cumulate")
MARK = "sash_"
"""A prefix of table functions, because the parser has another meaning for `session`."""

_ARITHMETIC = {"Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "Div": operator.truediv}


@dataclass(frozen=True)
class Partition:
    """The aggregates over one partition and order, each with its window."""

    by: tuple[str, ...]
    on: tuple[str, ...]
    aggregates: dict[str, Aggregated] = field(default_factory=dict)

    def add(self, name: str, made: Aggregated) -> None:
        """Add an aggregate."""
        self.aggregates[name] = made


class OverClause(NamedTuple):
    """An OVER clause: its partition, order and window, and its text for messages."""

    by: tuple[str, ...]
    on: tuple[str, ...]
    window: WindowKind
    text: str


class Selected(NamedTuple):
    """The partitions, windows and columns of a SELECT."""

    partitions: tuple[Partition, ...]
    windows: Windows | None
    """With GROUP BY, the windows of all aggregates; else None: each aggregate has its own."""
    output: tuple[tuple[str, str], ...]
    """The columns of the result: each column of the query's output with its name in the SELECT."""


def arguments_of(call: Any) -> list[Any]:
    """The arguments of a table function in order, also if they are named (`SIZE => …`)."""
    order = {"data": 0, "timecol": 1, "slide": 2, "step": 2, "gap": 2, "size": 3, "offset": 4}
    found: list[tuple[int, Any]] = []
    for i, argument in enumerate(call.expressions):
        if type(argument).__name__ in ("Kwarg", "PropertyEQ"):
            name = str(argument.this.name).lower()
            if name not in order:
                raise UnsupportedSQL(f"{name} is not an argument of a window; the arguments are {', '.join(order)}")
            found.append((order[name], argument.expression))
        else:
            found.append((i, argument))
    return [argument for _, argument in sorted(found, key=lambda pair: pair[0])]


class SelectReader:
    """Reads the columns of a SELECT."""

    def __init__(self, select: Any) -> None:
        self.select = select
        self.output: list[tuple[str, str]] = []

    def items(self) -> Iterator[tuple[Any, str]]:
        """The expressions of the SELECT, and their names."""
        for item in self.select.expressions:
            inner = item.this if type(item).__name__ == "Alias" else item
            yield inner, str(item.alias) if type(item).__name__ == "Alias" else ""

    def add(self, source: str, name: str) -> None:
        """Add a column to the result. Raises UnsupportedSQL for a second one of the same name."""
        if any(name == other for _, other in self.output) and name != ALL:
            raise UnsupportedSQL(f"two columns are named {name!r}: name them with AS")
        self.output.append((source, name))

    def formula(self, e: Any) -> Aggregated | float | int:
        """An aggregate, or arithmetic with aggregates."""
        kind = type(e).__name__
        if kind == "Paren":
            return self.formula(e.this)
        if kind == "Neg":
            return self.formula(e.this) * -1
        if kind == "Literal":
            return number_of(e, "a constant combined with aggregates")  # type: ignore[no-any-return]
        if kind in _ARITHMETIC:
            return _ARITHMETIC[kind](self.formula(e.this), self.formula(e.expression))  # type: ignore[no-any-return]
        return self.leaf(e)

    def leaf(self, e: Any) -> Aggregated:
        """An aggregate, without arithmetic."""
        raise NotImplementedError


def _unfiltered(call: Any) -> tuple[Any, Expr | None]:
    """A call without its FILTER clause, and the condition of that."""
    if type(call).__name__ != "Filter":
        return call, None
    return call.this, expr(text_of(call.expression.this))


def _has(e: Any, *kinds: str) -> bool:
    return any(type(node).__name__ in kinds for node in e.walk())


class RowsReader(SelectReader):
    """Reads aggregates with OVER: a result for each row."""

    def __init__(self, select: Any) -> None:
        super().__init__(select)
        self.named = {str(one.this.name).lower(): one for one in select.args.get("windows") or ()}
        self.partitions: dict[tuple[tuple[str, ...], tuple[str, ...]], Partition] = {}
        self.places: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()

    def read(self) -> Selected:
        """Read the SELECT."""
        later = []
        for e, name in self.items():
            if type(e).__name__ == "Star":
                self.add(ALL, ALL)
            elif type(e).__name__ == "Column":
                self.add(str(e.name), name or str(e.name))
            else:
                self.add(f"sash_sql_{len(self.output)}", name or _name(e))
                later.append((e, self.output[-1][0]))
        for e, source in sorted(later, key=lambda pair: not _has(pair[0], "Window")):
            self._place(e, source)
        if not any(_has(e, "Window") for e, _ in later):
            raise UnsupportedSQL(
                "the statement has no window: add OVER (…), or GROUP BY a window; else use your own engine"
            )
        return Selected(tuple(self.partitions.values()), None, tuple(self.output))

    def _place(self, e: Any, source: str) -> None:
        """Add an expression to the partition of its windows; one without windows to the first partition."""
        self.places = set()
        made = self.formula(e) if _has(e, "Window") else self._value(e)
        if len(self.places) > 1:
            raise UnsupportedSQL(f"{text_of(e)} has two partitions or orders: compute each in a separate column")
        by, on = next(iter(self.places), next(iter(self.partitions), ((), ())))
        self.partitions.setdefault((by, on), Partition(by, on)).add(source, made)  # type: ignore[arg-type]

    def _value(self, e: Any) -> Aggregated:
        """The value of an expression at the row itself."""
        return f.last(column_of(e)).over(Count(1))

    def leaf(self, e: Any) -> Aggregated:
        """An aggregate with OVER, or a value of the row."""
        if type(e).__name__ != "Window":
            if _has(e, "Window"):
                raise UnsupportedSQL(f"{text_of(e)}: only + - * / and parentheses are supported with windows")
            return self._value(e)
        over = self._over(e)
        self.places.add((over.by, over.on))
        call, where = _unfiltered(e.this)
        kind = type(call).__name__
        if kind == "Lag":
            n = number_of(call.args["offset"], "the distance of LAG") if call.args.get("offset") else 1
            if call.args.get("default"):
                raise UnsupportedSQL(f"{over.text}: LAG takes no default here: use COALESCE in your own engine")
            return f.lag(column_of(call.this), n=n).over(Count(n + 1))
        if kind == "RowNumber":
            return f.count().over(Count(ENDLESS))
        return aggregate_of(call, where).over(over.window)

    def _over(self, e: Any) -> OverClause:
        """Read an OVER clause, which may refer to a named window."""
        spec, text = e, text_of(e).partition(" OVER ")[2]
        keys, order, frame = spec.args.get("partition_by"), spec.args.get("order"), spec.args.get("spec")
        name = str(e.args.get("alias") or "").lower()
        if name:
            if name not in self.named:
                raise UnsupportedSQL(f"OVER {name}: there is no such window; the WINDOW clause has {[*self.named]}")
            base = self.named[name]
            keys, order = keys or base.args.get("partition_by"), order or base.args.get("order")
            frame = frame or base.args.get("spec")
        by = tuple(self._column(key, "PARTITION BY") for key in keys or ())
        ordered = order.expressions if order is not None else ()
        for one in ordered:
            if one.args.get("desc"):
                raise UnsupportedSQL(f"ORDER BY {text_of(one)}: windows follow ascending time; leave out DESC")
        on = tuple(self._column(one.this, "ORDER BY") for one in ordered)
        if type(e.this).__name__ in ("Lag", "RowNumber"):
            return OverClause(by, on, Count(1), text)
        return OverClause(by, on, frame_of(frame, bool(on), text), text)

    def _column(self, e: Any, clause: str) -> str:
        if type(e).__name__ != "Column":
            raise UnsupportedSQL(f"{clause} {text_of(e)}: name a column; compute it before if it is an expression")
        return str(e.name)


class SlidesReader(SelectReader):
    """Reads GROUP BY with TUMBLE, HOP, SESSION, CUMULATE, or Spark's window(): a result for each key and window."""

    def read(self) -> Selected:
        """Read the SELECT."""
        call, names = self._window()
        name = str(call.name).lower()
        if name.startswith(MARK):
            _, column, *rest = arguments_of(call)
            (time,) = column.expressions if type(column).__name__ == "Anonymous" else (column,)
            name = name.removeprefix(MARK)
            made = table_window(name, [length_of(one, f"a length of {name.upper()}") for one in rest])
        else:
            time, *rest = call.expressions
            made = spark_window(name, [length_of(one, f"a length of {name}()") for one in rest])
        by = tuple(names)
        found: dict[str, Aggregated] = {}
        for e, alias in self.items():
            source = self._edge(e)
            if source is None and type(e).__name__ == "Column" and not e.args.get("table"):
                source = str(e.name)
                if source not in by:
                    raise UnsupportedSQL(f"the column {source!r} is neither aggregated nor in GROUP BY")
            if source is not None:
                self.add(source, alias or source)
                continue
            self.add(f"sash_sql_{len(self.output)}", alias or _name(e))
            found[self.output[-1][0]] = self.formula(e)  # type: ignore[assignment]
        if not found:
            raise UnsupportedSQL("the statement has no aggregate: add one, such as COUNT(*)")
        return Selected((Partition(by, (str(time.name),), found),), made, tuple(self.output))

    def _edge(self, e: Any) -> str | None:
        """The name of the column for a window's start or end; None for any other expression."""
        if type(e).__name__ == "Column":
            table, name = str(e.args.get("table") or "").lower(), str(e.name).lower()
            if table in ("window", "session_window") and name in ("start", "end"):
                return f"window_{name}"
            if name in ("window_start", "window_end"):
                return name
        if type(e).__name__ == "Dot" and str(e.expression.name).lower() in ("start", "end"):
            return f"window_{str(e.expression.name).lower()}"
        if type(e).__name__ == "Anonymous" and str(e.name).lower() in ("window", "session_window"):
            raise UnsupportedSQL("select window.start and window.end instead of the window itself")
        return None

    def _window(self) -> tuple[Any, list[str]]:
        """The call that defines the windows, and the keys of GROUP BY."""
        source = self.select.args["from_"].this.this
        call = source if type(source).__name__ == "Anonymous" else None
        names = []
        for e in self.select.args["group"].expressions:
            if type(e).__name__ == "Anonymous" and str(e.name).lower() in ("window", "session_window"):
                if call is not None:
                    raise UnsupportedSQL("the statement has two windows: keep one")
                call = e
            elif self._edge(e) is None:
                if type(e).__name__ != "Column":
                    raise UnsupportedSQL(f"GROUP BY {text_of(e)}: name a column; compute it before")
                names.append(str(e.name))
        if call is None:
            raise UnsupportedSQL(
                "GROUP BY has no window: use your own engine, or GROUP BY window(ts, '1 hour'), or FROM "
                "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) with GROUP BY window_start, window_end"
            )
        return call, names

    def leaf(self, e: Any) -> Aggregated:
        """An aggregate, with FILTER or without."""
        if type(e).__name__ == "Window":
            raise UnsupportedSQL(f"{text_of(e)}: OVER and GROUP BY cannot be combined: write two statements")
        return aggregate_of(*_unfiltered(e))


def _name(e: Any) -> str:
    """The name of a column without AS: the function and its arguments."""
    inner = e.this if type(e).__name__ in ("Window", "Filter") else e
    inner = inner.this if type(inner).__name__ == "Filter" else inner
    words = re.findall(r"\w+", text_of(inner).lower())
    return "_".join(words) or "value"
