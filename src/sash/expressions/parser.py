"""Parse the text of an expression into a tree. sqlglot parses; its tree is translated node by node, by a table.

Everything else is refused by name: statements, subqueries, aggregates, window functions, parameters, functions that
are not in `parser.py`, and whatever part of a node is not read.

The operators and functions of expressions: their names, and how many operands they take.
"""

from __future__ import annotations

import datetime
import difflib
import math
import re
from collections.abc import Callable
from typing import Any

from sash.expressions.parsed_sql import Part, parsed
from sash.expressions.source_text import excerpt, shortened
from sash.expressions.tree import (
    CHAINS,
    RESERVED,
    CallNode,
    CastNode,
    ColumnNode,
    Expr,
    LiteralNode,
    Node,
    chained,
    described,
)

# --- Function names ---

FUNCTIONS: dict[str, tuple[int, int | None]] = {
    **dict.fromkeys(("abs", "floor", "ceil", "sqrt", "exp", "ln", "log2", "log10", "sign"), (1, 1)),
    "round": (1, 2),
    **dict.fromkeys(("power", "log"), (2, 2)),
    **dict.fromkeys(("isnan", "isinf", "isfinite"), (1, 1)),
    **dict.fromkeys(("upper", "lower", "trim", "ltrim", "rtrim", "length"), (1, 1)),
    "substr": (2, 3),
    "starts_with": (2, 2),
    "concat": (1, None),
    **dict.fromkeys(("coalesce", "greatest", "least"), (1, None)),
    "nullif": (2, 2),
    **dict.fromkeys(("year", "quarter", "month", "day", "dow", "hour", "minute", "second", "epoch"), (1, 1)),
}
"""The functions by name, with the least and the greatest number of operands (None: any number)."""

ALIASES = {
    "ceiling": "ceil",
    "pow": "power",
    "substring": "substr",
    "len": "length",
    "ifnull": "coalesce",
    "dayofweek": "dow",
    "dayofmonth": "day",
    "is_nan": "isnan",
    "is_finite": "isfinite",
    "is_inf": "isinf",
    "day_of_week": "dow",
    "day_of_month": "day",
    "time_to_unix": "epoch",
    "starts_with": "starts_with",
}
"""Other names of functions."""

SUPPORTED = ", ".join(sorted(FUNCTIONS))
"""All functions, for messages."""


# --- Parser ---

LARGEST = 2**63
DEEPEST = 100
"""The greatest depth of a tree: evaluation is recursive."""


def expr(text: str) -> Expr:
    """An SQL expression over the columns of a row, for use in place of a column, and as a condition.

    text: an expression in DuckDB's dialect, such as "price * qty" or "status = 'ok' and price > 0". Names of columns
        are case-sensitive; quote those that are not plain words: '"unit price" * 2'.

    >>> import sash
    >>> window = sash.Window(2, sash.sum(sash.expr("price * qty")))
    >>> [window.push({"price": p, "qty": q}) for p, q in ((2, 3), (5, 1), (1, 1))]
    [6, 11, 6]

    Arrow computes it, the same way on every host. Division gives a float, and null for a divisor of zero. Nulls are
    as in SQL. Raises ValueError, with the position, for text that is no expression, or that is not supported.
    """
    if isinstance(text, Expr):
        return text
    if not isinstance(text, str):
        raise TypeError(f"expr() takes an SQL expression as text, such as 'price * qty'; got {text!r}")
    return Expr(_Translator(text).tree())


def condition(value: Any, label: str) -> Expr | None:
    """The condition `where=` of an aggregate: a boolean column's name, an expression as text, or an `Expr`."""
    if value is None or isinstance(value, Expr):
        return value
    if not isinstance(value, str):
        raise TypeError(
            f"where= of {label} must be a boolean column's name, or a condition such as \"status = 'ok'\"; "
            f"got {described(value)}"
        )
    if value.isidentifier() and value.lower() not in RESERVED:  # a column's name: sqlglot need not be loaded
        return Expr(ColumnNode(value))
    return expr(value)


class Unsupported(ValueError):
    """A text is no expression, or has something that sash does not support."""


def expr_of(part: Part) -> Expr:
    """The expression of a part of a statement. Raises ValueError for what is not supported."""
    return Expr(_Translator(part).translated(part))


class _Translator:
    """Translates the tree of sqlglot for one text, or for a part of a statement."""

    def __init__(self, source: str | Part) -> None:
        self.source = source

    @property
    def text(self) -> str:
        """The text, for messages."""
        return self.source.text if isinstance(self.source, Part) else self.source

    def tree(self) -> Node:
        """The tree of the text."""
        try:
            part = self._parsed()
        except RecursionError:
            raise self._nested() from None
        found = self.translated(part)
        if (unread := part.unread()) is not None:
            raise self._refused(f"{unread[0]}: {unread[1]} is not supported")
        return found

    def translated(self, part: Part) -> Node:
        """The tree of a part."""
        try:
            found = self.node(part)
            if _depth(found) > DEEPEST:
                raise self._nested()
        except RecursionError:
            raise self._nested() from None
        return found

    def _parsed(self) -> Part:
        from sqlglot.errors import SqlglotError

        try:
            found = parsed(self.text)
        except SqlglotError as error:
            raise self._refused(_where(error)) from None
        if len(found) != 1:
            raise self._refused(f"it has {len(found)} statements: give one expression")
        if found[0] is None:
            raise self._refused("it is empty: give a column or a calculation, such as 'price * qty'")
        return Part(found[0])

    def _nested(self) -> Unsupported:
        return self._refused(f"it is nested more than {DEEPEST} deep: split it")

    def _refused(self, why: str) -> Unsupported:
        return Unsupported(f"the expression {excerpt(self.text)} cannot be used: {shortened(why, 1000)}")

    # ---- node by node ----

    def node(self, e: Part) -> Node:
        """A node of sqlglot as one of ours."""
        name = e.kind
        if _BINARY.get(name) in CHAINS:
            return self._chain(e)
        if name in _BINARY:
            return CallNode(_BINARY[name], (self.node(e.this), self.node(e.expression)))
        match name:
            case "Paren":
                return self.node(e.this)
            case "Identifier":
                return ColumnNode(e.name, bool(e.get("quoted")))
            case "Null":
                return LiteralNode("null", None)
            case "Boolean":
                return LiteralNode("bool", bool(e.this))
            case "Not":
                return CallNode("not", (self.node(e.this),))
            case "Extract":
                return self._call(e.this.name.lower(), [e.expression])
        special: Callable[[Part], Node] = getattr(self, f"_on_{name.lower()}", self._function)
        return special(e)

    def _chain(self, e: Part) -> Node:
        """Operands that one operator joins: sqlglot nests them to the left, as deep as there are operands."""
        kind, operands = e.kind, []
        while e.kind == kind:
            operands.append(e.expression)
            e = e.this
            while e.kind == "Paren":
                e = e.this
        return chained(_BINARY[kind], [self.node(e), *map(self.node, reversed(operands))])

    def _on_column(self, e: Part) -> Node:
        if e.get("table") is not None:
            raise self._refused(
                f"{e.text} has a table before the column: quote the name if it has a dot, as {_dotted(e)}"
            )
        if e.this.kind == "Star":
            raise self._refused("* names no column: name one")
        return self.node(e.this)

    def _on_literal(self, e: Part) -> Node:
        if e.is_text:
            return LiteralNode("text", e.this)
        if re.fullmatch(r"\d+", e.this):
            if not _fits(e.this):
                raise self._refused(f"{shortened(e.this, 60)} does not fit 64 bits")
            return LiteralNode("int", int(e.this))
        try:
            number = float(e.this)
        except ValueError:
            raise self._refused(f"{shortened(e.this, 60)} is not a number") from None
        if math.isinf(number):
            raise self._refused(f"{shortened(e.this, 60)} does not fit a 64-bit float")
        return LiteralNode("float", number)

    def _on_neg(self, e: Part) -> Node:
        value = self.node(e.this)
        if isinstance(value, LiteralNode) and value.kind in ("int", "float"):
            return LiteralNode(value.kind, -value.value)
        return CallNode("negate", (value,))

    def _on_is(self, e: Part) -> Node:
        value, other = self.node(e.this), self.node(e.expression)
        if isinstance(other, LiteralNode) and other.kind == "null":
            return CallNode("is null", (value,))
        if isinstance(other, LiteralNode) and other.kind == "bool":
            same = value if other.value else CallNode("not", (value,))
            return CallNode("coalesce", (same, LiteralNode("bool", False)))
        raise self._refused(f"{e.text}: IS takes NULL, TRUE or FALSE")

    def _on_between(self, e: Part) -> Node:
        value = self.node(e.this)
        low, high = self.node(e.get("low")), self.node(e.get("high"))
        return CallNode("and", (CallNode(">=", (value, low)), CallNode("<=", (value, high))))

    def _on_in(self, e: Part) -> Node:
        if not e.get("expressions"):
            raise self._refused(f"{e.text} has a subquery: IN takes a list of values")
        value = self.node(e.this)
        same: list[Node] = [CallNode("=", (value, self.node(one))) for one in e.expressions]
        return same[0] if len(same) == 1 else CallNode("or", tuple(same))

    def _on_like(self, e: Part) -> Node:
        function, pattern = e.kind.lower(), self.node(e.expression)
        if not isinstance(pattern, LiteralNode) or pattern.kind != "text":
            meant = ""
            if isinstance(pattern, ColumnNode) and pattern.quoted:
                meant = f", which are single ones: {LiteralNode('text', pattern.name)}"
            raise self._refused(f"{e.text}: the pattern of {function.upper()} must be text in quotes{meant}")
        found: Node = CallNode(function, (self.node(e.this), pattern))
        return CallNode("not", (found,)) if e.get("negate") else found

    _on_ilike = _on_like

    def _on_case(self, e: Part) -> Node:
        subject = None if e.this is None else self.node(e.this)
        operands: list[Node] = []
        for one in e.get("ifs"):
            on = self.node(one.this)
            operands += [on if subject is None else CallNode("=", (subject, on)), self.node(one.get("true"))]
        return CallNode("case", (*operands, self._else(e.get("default"))))

    def _on_if(self, e: Part) -> Node:
        return CallNode("case", (self.node(e.this), self.node(e.get("true")), self._else(e.get("false"))))

    def _else(self, e: Part | None) -> Node:
        return LiteralNode("null", None) if e is None else self.node(e)

    def _on_cast(self, e: Part) -> Node:
        kind = e.get("to")
        name = str(getattr(kind.this, "name", kind.this))
        value = self.node(e.this)
        if isinstance(value, LiteralNode) and value.kind == "text" and name in ("DATE", "TIMESTAMP", "TIMESTAMPNTZ"):
            return self._moment(value.value, "date" if name == "DATE" else "timestamp")
        if name == "DECIMAL":
            return CastNode(value, self._decimal(e, kind))
        if _TYPES.get(name) == "string":
            kind.skip()  # the length of varchar(10) means nothing in DuckDB
        if name not in _TYPES:
            known = "bigint, double, varchar, boolean, date, timestamp, decimal(p, s) and their other names"
            raise self._refused(f"{e.text}: there is no cast to {name}; types are {known}")
        return CastNode(value, _TYPES[name])

    def _decimal(self, e: Part, kind: Part) -> str:
        given = [one.name for one in kind.expressions]
        precision, scale = 18, 3
        if given:
            precision, scale = (*(int(one) if one.isdigit() and len(one) < 4 else -1 for one in given), 0)[:2]
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise self._refused(f"{e.text}: a decimal has 1 to 38 digits, and at most as many after the point")
        return f"decimal128({precision}, {scale})"

    def _moment(self, text: str, kind: Any) -> Node:
        try:
            found = datetime.datetime.fromisoformat(text)
        except ValueError:
            raise self._refused(
                f"{text!r} is not a {kind}: write it as '2024-05-01' or '2024-05-01 09:30:00'"
            ) from None
        if found.tzinfo is not None:
            raise self._refused(f"{text!r} has a time zone: give the time in UTC, without one")
        return LiteralNode(kind, found.date() if kind == "date" else found)

    def _on_interval(self, e: Part) -> Node:
        unit = e.get("unit")
        unit = "" if unit is None else unit.name.rstrip("sS").lower()
        if unit not in _UNITS:
            raise self._refused(f"{e.text}: units of intervals are {', '.join(_UNITS)}")
        try:
            count = float(e.name)
        except ValueError:
            raise self._refused(f"{e.text}: an interval is a number and a unit, such as interval '1 hour'") from None
        try:
            return LiteralNode("interval", count * datetime.timedelta(microseconds=_UNITS[unit]))
        except (OverflowError, ValueError):
            raise self._refused(f"{e.text}: an interval has at most {datetime.timedelta.max.days:,} days") from None

    def _on_log(self, e: Part) -> Node:
        if e.expression is None:
            return self._call("log10", [e.this])
        base = e.this
        if base.kind == "Literal" and base.name in ("2", "10"):
            return self._call(f"log{base.name}", [e.expression])
        return self._call("log", [base, e.expression])

    def _on_trim(self, e: Part) -> Node:
        if e.expression is not None:
            raise self._refused(f"{e.text}: trim removes spaces alone, and takes no other characters")
        position = str(e.get("position") or "").upper()
        return self._call({"LEADING": "ltrim", "TRAILING": "rtrim"}.get(position, "trim"), [e.this])

    def _on_substring(self, e: Part) -> Node:
        found = self._call("substr", [e.this, e.get("start"), e.get("length")])
        for one in found.parts[1:]:
            if not isinstance(one, LiteralNode) or one.kind != "int" or one.value < 0:
                raise self._refused(f"{e.text}: start and length of substr must be numbers, such as substr(x, 1, 3)")
        if found.parts[1] == LiteralNode("int", 0):
            raise self._refused(f"{e.text}: the first character has the number 1")
        return found

    def _on_round(self, e: Part) -> Node:
        found = self._call("round", [e.this, e.get("decimals")])
        for one in found.parts[1:]:
            if not isinstance(one, LiteralNode) or one.kind != "int" or abs(one.value) > 18:
                raise self._refused(f"{e.text}: the digits of round must be a number from -18 to 18")
        return found

    def _on_anonymous(self, e: Part) -> Node:
        name = str(e.this).lower()
        if name == "date_part" and len(e.expressions) == 2:
            return self._call(e.expressions[0].name.lower(), e.expressions[1:])
        return self._call(name, e.expressions)

    def _function(self, e: Part) -> Node:
        import sqlglot.expressions as exp

        what = _FORBIDDEN.get(e.kind)
        if what is not None:
            raise self._refused(what.format(e.text))
        if isinstance(e.node, exp.AggFunc) or e.kind in ("LogicalAnd", "LogicalOr"):
            raise self._refused(
                f"{e.text} is an aggregate: an expression computes a value from one row. Use sash's aggregates "
                "around it, as in sash.sum(sash.expr(…)) / sash.count()"
            )
        if e.kind in _WORDS:
            sign, word = _WORDS[e.kind]
            raise self._refused(f"{e.text}: {sign} is not supported; for conditions write {word}")
        if not isinstance(e.node, exp.Func):
            raise self._refused(f"{e.kind.upper()} ({e.text}) is not supported in an expression")
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", e.kind).lower()
        return self._call(name, [e.this, e.expression, *e.expressions])

    def _call(self, name: str, given: list[Any]) -> Node:
        """A function by name. Raises Unsupported if there is none, or if the number of operands does not fit."""
        name = ALIASES.get(name, name)
        if name not in FUNCTIONS:
            near = difflib.get_close_matches(name, FUNCTIONS, 1, 0.7)
            meant = f" Did you mean {near[0]}()?" if near else ""
            raise self._refused(f"there is no function {name}().{meant} Functions are {SUPPORTED}")
        operands = tuple(self.node(one) for one in given if one is not None)
        least, most = FUNCTIONS[name]
        if len(operands) < least or (most is not None and len(operands) > most):
            wanted = str(least) if least == most else f"{least} to {most}" if most is not None else f"at least {least}"
            raise self._refused(f"{name}() takes {wanted} operand{'s' * (wanted != '1')}; got {len(operands)}")
        return CallNode(name, operands)


def _fits(digits: str) -> bool:
    """Are these the digits of a number of 64 bits? Python converts at most 4,300 of them."""
    return len(digits.lstrip("0")) < 20 and int(digits) < LARGEST


def _depth(node: Node) -> int:
    return 1 + max((_depth(part) for part in node.parts), default=0)


def _dotted(e: Part) -> str:
    return '"' + ".".join(part.name for part in e.node.parts) + '"'


def _where(error: Any) -> str:
    """The position and the reason of a syntax error, without the escape codes that sqlglot adds for terminals."""
    for one in getattr(error, "errors", None) or ():
        rest = f"{one.get('highlight') or ''}{one.get('end_context') or ''}"
        found = str(one.get("description") or "it is not an expression").partition(" missing for")[0]
        at = f"at character {one['col']}, {rest!r}" if rest and one.get("col") else "at its end"
        return f"{found} {at}"
    return str(error).splitlines()[0]


_BINARY = {
    "Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "IntDiv": "//", "Mod": "%", "DPipe": "||", "EQ": "=", "NEQ": "<>",
    "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=", "And": "and", "Or": "or", "Pow": "power", "Nullif": "nullif",
}  # fmt: skip
"""The operators of sqlglot with two operands, by their names here."""

_WORDS = {
    "BitwiseAnd": ("&", "AND"),
    "ArrayOverlaps": ("&&", "AND"),
    "BitwiseOr": ("|", "OR"),
    "BitwiseNot": ("~", "NOT"),
}
"""Operators of Python and C that people write between conditions, and the words of SQL."""

_TYPES = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "MEDIUMINT"), "int64"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "float64"),
    **dict.fromkeys(("VARCHAR", "TEXT", "CHAR", "NVARCHAR"), "string"),
    "BOOLEAN": "bool",
    "DATE": "date32",
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ", "DATETIME"), "timestamp[us]"),
}
"""The types of casts, by sqlglot's names."""

_UNITS = {
    "microsecond": 1, "millisecond": 10**3, "second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6,
    "day": 86400 * 10**6, "week": 7 * 86400 * 10**6,
}  # fmt: skip
"""The units of intervals, in microseconds."""

_FORBIDDEN = {
    **dict.fromkeys(("Subquery", "Exists"), "{} is a subquery: an expression reads one row alone"),
    "Select": "{} is a query: give only the expression",
    "Window": "{} is a window function: windows are those of the query",
    "Filter": "{} is an aggregate: use where= of sash's aggregates",
    "Star": "* names no column: name one",
    **dict.fromkeys(("Placeholder", "Parameter", "SessionParameter"), "{} is a parameter: put its value into the text"),
    "Alias": "{} is an alias: results are named by the keywords of the query. "
    "Put a column's name with spaces in double quotes",
    "TryCast": "{}: there is no TRY_CAST, which turns errors into nulls: use CASE and CAST",
    **dict.fromkeys(("CurrentDate", "CurrentTimestamp", "Rand", "CurrentTime"), "{} is not deterministic"),
    "Command": "{} is a statement: give an expression",
}
"""Nodes that are refused, with the reason."""
