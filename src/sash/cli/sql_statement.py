"""Read a SELECT statement: its table, its condition, its windows, and the columns of the result.

text ──sqlglot──▶ tree ──▶ Statement: queries over one table, and the columns of the result
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sash.cli.sql_aggregates import UnsupportedSQL, text_of
from sash.cli.sql_select import ALL, MARK, TABLE_FUNCTIONS, Partition, RowsReader, SlidesReader, arguments_of
from sash.expressions.parser import DIALECT, expr
from sash.expressions.tree import Expr
from sash.monoids.arithmetic import Aggregated
from sash.plan.api_types import Windows
from sash.plan.query import Query

RESERVED_ARGUMENTS = frozenset(inspect.signature(Query).parameters)
"""Names that an aggregate of a query cannot have."""

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

    def with_output_names(self, columns: Container[str]) -> Statement:
        """Name aggregates as in the result, if the table has no such column, so that errors have these names."""
        computed = {source for partition in self.partitions for source in partition.aggregates}
        names = {s: name for s, name in self.output if s in computed and name.isidentifier() and name not in columns}
        names = {source: name for source, name in names.items() if name not in RESERVED_ARGUMENTS}
        partitions = tuple(
            replace(one, aggregates={names.get(source, source): made for source, made in one.aggregates.items()})
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


def statement_of(text: str) -> Statement:
    """Read a statement. Raises UnsupportedSQL, naming the clause, for what is not supported."""
    select = _parsed(text)
    for clause, name in UNSUPPORTED.items():
        if select.args.get(clause):
            raise UnsupportedSQL(
                f"{name} is not about windows: use your own engine for it, before or after sash.sql; "
                "a statement has SELECT, FROM, WHERE, WINDOW, and GROUP BY with a window"
            )
    source = select.args.get("from_")
    if source is None:
        raise UnsupportedSQL("there is no FROM: name a table that is passed to sash.sql, such as trades=frame")
    where = select.args.get("where")
    condition = "" if where is None else text_of(where.this)
    reader: RowsReader | SlidesReader = SlidesReader(select) if select.args.get("group") else RowsReader(select)
    return Statement(_table(source), expr(condition) if condition else None, condition, *reader.read())


def formula_of(text: str) -> Aggregated:
    """Read an aggregate, or arithmetic with aggregates, without OVER. Raises UnsupportedSQL for anything else.

    >>> formula_of("max(price) - min(price) FILTER (WHERE ok)")
    max('price') - min('price', where='ok')
    """
    select = _parsed(f"SELECT {text}")
    more = [name for name, value in select.args.items() if value and name not in ("expressions", "kind")]
    if more or len(select.expressions) != 1 or type(select.expressions[0]).__name__ == "Alias":
        raise UnsupportedSQL(f"{text!r} is not one aggregate: write one, such as 'max(price)'")
    made = SlidesReader(select).formula(select.expressions[0])
    if isinstance(made, int | float):
        raise UnsupportedSQL(f"{text!r} is a number: write an aggregate, such as 'max(price)'")
    return made


def _parsed(text: str) -> Any:
    import sqlglot
    from sqlglot.errors import SqlglotError

    logger = logging.getLogger("sqlglot")
    silent, logger.disabled = logger.disabled, True
    try:
        found = [one for one in sqlglot.parse(_plain(text), read=DIALECT) if one is not None]
    except SqlglotError as error:
        (first, *_) = getattr(error, "errors", None) or [{}]
        place = f" at line {first['line']}, column {first['col']}" if "line" in first else ""
        raise UnsupportedSQL(f"this is not SQL{place}: {first.get('description', error)}") from None
    finally:
        logger.disabled = silent
    if len(found) != 1:
        raise UnsupportedSQL(f"give one SELECT statement; there are {len(found)}")
    if type(found[0]).__name__ != "Select":
        raise UnsupportedSQL(f"give a SELECT statement; this is {type(found[0]).__name__.upper()}")
    return found[0]


_TABLE = re.compile(
    r"\bTABLE\s+(\w+)(?:\s+PARTITION\s+BY\s+[\w\s,]+?)?(?=\s*,\s*(?:\w+\s*=>\s*)?DESCRIPTOR)", re.IGNORECASE
)
"""The table argument of a window function. Its PARTITION BY is dropped, because GROUP BY repeats it."""


def _plain(text: str) -> str:
    """Rewrite Flink's TABLE(TUMBLE(TABLE t PARTITION BY k, …)) to a function call that the parser understands."""
    names = "|".join(TABLE_FUNCTIONS)
    call = re.compile(rf"\bTABLE\s*\(\s*(?=(?:{names})\s*\()", re.IGNORECASE)
    while found := call.search(text):
        inner, depth, end = found.end(), 1, found.end()
        while end < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        arguments = _TABLE.sub(r"\1", text[inner : end - 1])
        text = text[: found.start()] + MARK + arguments + text[end:]
    return text


def _table(source: Any) -> str:
    found = source.this
    if type(found).__name__ != "Table":
        raise UnsupportedSQL("FROM takes the name of a table; for a subquery use your own engine, and pass its result")
    call = found.this
    if type(call).__name__ == "Anonymous":
        found = arguments_of(call)[0]
        if type(found).__name__ not in ("Column", "Identifier", "Table"):
            raise UnsupportedSQL(f"{text_of(call)}: the first argument is the name of a table")
    return str(found.name)
