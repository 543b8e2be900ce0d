"""Read a SELECT statement: its table, its condition, its windows, and the columns of the result.

text ──tokens──▶ sqlglot ──▶ Part ──▶ Statement: queries over one table, and the columns of the result

Flink's TABLE(TUMBLE(TABLE t PARTITION BY k, …)) and Spark's window(…) are given to sqlglot as plain functions, by
changing tokens. What no reader has read of the tree is refused at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from sash.cli.sql_aggregates import UnsupportedSQL
from sash.cli.sql_select import (
    ALL,
    MARK,
    TABLE_FUNCTIONS,
    Partition,
    RowsReader,
    SlidesReader,
    table_arguments,
    table_of,
)
from sash.expressions.parsed_sql import Part, parsed, tokens_of
from sash.expressions.parser import expr_of
from sash.expressions.tree import Expr, Node
from sash.monoids.arithmetic import Aggregated
from sash.plan.api_types import Windows
from sash.plan.binder import known_columns
from sash.plan.derived_columns import inputs_of
from sash.plan.validation import OUTPUTS, PARAMETERS

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
    partitions, windows, output, named = reader.read()
    _require_read(select)
    text = "" if where is None else where.this.text
    return Statement(table, condition, text, partitions, windows, output, named)


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
