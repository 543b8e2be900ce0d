"""Parse the text of an expression into a tree. sqlglot parses; its tree is translated node by node, by a table.

Everything else is refused by name: statements, subqueries, aggregates, window functions, parameters and functions that
are not in `function_names.py`.
"""

from __future__ import annotations

import datetime
import difflib
import logging
import math
import re
from collections.abc import Callable
from typing import Any

from sash.expressions.excerpt import excerpt, shortened
from sash.expressions.function_names import ALIASES, FUNCTIONS, SUPPORTED
from sash.expressions.tree import RESERVED, CallNode, CastNode, ColumnNode, Expr, LiteralNode, Node

DIALECT = "duckdb"
"""The dialect of expressions: that of DuckDB."""

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
            f"got {value!r}, a {type(value).__name__}"
        )
    if value.isidentifier() and value.lower() not in RESERVED:  # a column's name: sqlglot need not be loaded
        return Expr(ColumnNode(value))
    return expr(value)


class Unsupported(ValueError):
    """A text is no expression, or has something that sash does not support."""


class _Translator:
    """Translates the tree of sqlglot for one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def tree(self) -> Node:
        """The tree of the text."""
        try:
            return self._checked(self._parsed())
        except RecursionError:
            raise self._refused(f"it is nested more than {DEEPEST} deep: split it") from None

    def _parsed(self) -> Any:
        import sqlglot
        from sqlglot.errors import SqlglotError

        logger = logging.getLogger("sqlglot")
        silent, logger.disabled = logger.disabled, True  # it warns of statements that it does not know
        try:
            found = sqlglot.parse(self.text, read=DIALECT)
        except SqlglotError as error:
            raise self._refused(_where(error)) from None
        finally:
            logger.disabled = silent
        if len(found) != 1:
            raise self._refused(f"it has {len(found)} statements: give one expression")
        if found[0] is None:
            raise self._refused("it is empty: give a column or a calculation, such as 'price * qty'")
        return found[0]

    def _checked(self, parsed: Any) -> Node:
        node = self.node(parsed)
        if _depth(node) > DEEPEST:
            raise self._refused(f"it is nested more than {DEEPEST} deep: split it")
        return node

    def _refused(self, why: str) -> Unsupported:
        return Unsupported(f"the expression {excerpt(self.text)} cannot be used: {shortened(why, 1000)}")

    # ---- node by node ----

    def node(self, e: Any) -> Node:
        """A node of sqlglot as one of ours."""
        name = type(e).__name__
        if name in _BINARY:
            return CallNode(_BINARY[name], (self.node(e.this), self.node(e.expression)))
        special: Callable[[Any], Node] | None = getattr(self, f"_on_{name.lower()}", None)
        if special is not None:
            return special(e)
        return self._function(e)

    def _on_paren(self, e: Any) -> Node:
        return self.node(e.this)

    def _on_column(self, e: Any) -> Node:
        if e.args.get("table") is not None:
            raise self._refused(
                f"{e.sql()} has a table before the column: quote the name if it has a dot, as {_dotted(e)}"
            )
        if type(e.this).__name__ == "Star":
            raise self._refused("* names no column: name one")
        return ColumnNode(e.this.name)

    def _on_identifier(self, e: Any) -> Node:
        return ColumnNode(e.name)

    def _on_null(self, _e: Any) -> Node:
        return LiteralNode("null", None)

    def _on_boolean(self, e: Any) -> Node:
        return LiteralNode("bool", bool(e.this))

    def _on_literal(self, e: Any) -> Node:
        if e.is_string:
            return LiteralNode("text", e.this)
        if re.fullmatch(r"\d+", e.this):
            if not _fits(e.this):
                raise self._refused(f"{shortened(e.this, 60)} does not fit 64 bits")
            return LiteralNode("int", int(e.this))
        number = float(e.this)
        if math.isinf(number):
            raise self._refused(f"{shortened(e.this, 60)} does not fit a 64-bit float")
        return LiteralNode("float", number)

    def _on_neg(self, e: Any) -> Node:
        value = self.node(e.this)
        if isinstance(value, LiteralNode) and value.kind in ("int", "float"):
            return LiteralNode(value.kind, -value.value)
        return CallNode("negate", (value,))

    def _on_not(self, e: Any) -> Node:
        return CallNode("not", (self.node(e.this),))

    def _on_is(self, e: Any) -> Node:
        value, other = self.node(e.this), self.node(e.expression)
        if isinstance(other, LiteralNode) and other.kind == "null":
            return CallNode("is null", (value,))
        if isinstance(other, LiteralNode) and other.kind == "bool":
            same = value if other.value else CallNode("not", (value,))
            return CallNode("coalesce", (same, LiteralNode("bool", False)))
        raise self._refused(f"{e.sql()}: IS takes NULL, TRUE or FALSE")

    def _on_between(self, e: Any) -> Node:
        value = self.node(e.this)
        low, high = self.node(e.args["low"]), self.node(e.args["high"])
        return CallNode("and", (CallNode(">=", (value, low)), CallNode("<=", (value, high))))

    def _on_in(self, e: Any) -> Node:
        if not e.args.get("expressions"):
            raise self._refused(f"{e.sql()} has a subquery: IN takes a list of values")
        value = self.node(e.this)
        found: Node | None = None
        for one in e.expressions:
            same = CallNode("=", (value, self.node(one)))
            found = same if found is None else CallNode("or", (found, same))
        assert found is not None
        return found

    def _on_like(self, e: Any) -> Node:
        return self._pattern("like", e)

    def _on_ilike(self, e: Any) -> Node:
        return self._pattern("ilike", e)

    def _pattern(self, function: str, e: Any) -> Node:
        pattern = self.node(e.expression)
        if not isinstance(pattern, LiteralNode) or pattern.kind != "text":
            raise self._refused(f"{e.sql()}: the pattern of {function.upper()} must be text in quotes")
        found: Node = CallNode(function, (self.node(e.this), pattern))
        return CallNode("not", (found,)) if e.args.get("negate") else found

    def _on_case(self, e: Any) -> Node:
        subject = None if e.this is None else self.node(e.this)
        operands: list[Node] = []
        for one in e.args["ifs"]:
            on = self.node(one.this)
            operands += [on if subject is None else CallNode("=", (subject, on)), self.node(one.args["true"])]
        last = e.args.get("default")
        return CallNode("case", (*operands, LiteralNode("null", None) if last is None else self.node(last)))

    def _on_if(self, e: Any) -> Node:
        last = e.args.get("false")
        otherwise = LiteralNode("null", None) if last is None else self.node(last)
        return CallNode("case", (self.node(e.this), self.node(e.args["true"]), otherwise))

    def _on_cast(self, e: Any) -> Node:
        name = e.to.this.name if hasattr(e.to.this, "name") else str(e.to.this)
        value = self.node(e.this)
        if isinstance(value, LiteralNode) and value.kind == "text" and name in ("DATE", "TIMESTAMP", "TIMESTAMPNTZ"):
            return self._moment(value.value, "date" if name == "DATE" else "timestamp")
        if name == "DECIMAL":
            return CastNode(value, self._decimal(e))
        if name not in _TYPES:
            known = "bigint, double, varchar, boolean, date, timestamp, decimal(p, s) and their other names"
            raise self._refused(f"{e.sql()}: there is no cast to {name}; types are {known}")
        return CastNode(value, _TYPES[name])

    def _decimal(self, e: Any) -> str:
        written = [str(one.this.this) for one in e.to.expressions]
        given = [int(one) if _fits(one) else LARGEST for one in written]
        precision, scale = (*given, 0)[:2] if given else (18, 3)
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise self._refused(f"{e.sql()}: a decimal has 1 to 38 digits, and at most as many after the point")
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

    def _on_interval(self, e: Any) -> Node:
        unit = str(e.args.get("unit") or "").rstrip("sS").lower()
        if unit not in _UNITS:
            raise self._refused(f"{e.sql()}: units of intervals are {', '.join(_UNITS)}")
        try:
            count = float(e.this.this)
        except (AttributeError, TypeError, ValueError):
            raise self._refused(f"{e.sql()}: an interval is a number and a unit, such as interval '1 hour'") from None
        try:
            return LiteralNode("interval", count * datetime.timedelta(microseconds=_UNITS[unit]))
        except (OverflowError, ValueError):
            raise self._refused(f"{e.sql()}: an interval has at most {datetime.timedelta.max.days:,} days") from None

    def _on_extract(self, e: Any) -> Node:
        return self._call(e.this.name.lower(), [e.expression])

    def _on_log(self, e: Any) -> Node:
        if e.expression is None:
            return self._call("log10", [e.this])
        base = e.this
        if getattr(base, "this", None) in ("2", "10"):
            return self._call(f"log{base.this}", [e.expression])
        return self._call("log", [base, e.expression])

    def _on_trim(self, e: Any) -> Node:
        if e.expression is not None:
            raise self._refused(f"{e.sql()}: trim removes spaces alone, and takes no other characters")
        position = str(e.args.get("position") or "").upper()
        return self._call({"LEADING": "ltrim", "TRAILING": "rtrim"}.get(position, "trim"), [e.this])

    def _on_substring(self, e: Any) -> Node:
        found = self._call("substr", [e.this, e.args.get("start"), e.args.get("length")])
        for one in found.parts[1:]:
            if not isinstance(one, LiteralNode) or one.kind != "int" or one.value < 0:
                raise self._refused(f"{e.sql()}: start and length of substr must be numbers, such as substr(x, 1, 3)")
        if found.parts[1] == LiteralNode("int", 0):
            raise self._refused(f"{e.sql()}: the first character has the number 1")
        return found

    def _on_round(self, e: Any) -> Node:
        found = self._call("round", [e.this, e.args.get("decimals")])
        for one in found.parts[1:]:
            if not isinstance(one, LiteralNode) or one.kind != "int" or abs(one.value) > 18:
                raise self._refused(f"{e.sql()}: the digits of round must be a number from -18 to 18")
        return found

    def _on_anonymous(self, e: Any) -> Node:
        name = str(e.this).lower()
        if name == "date_part" and len(e.expressions) == 2:
            return self._call(str(e.expressions[0].this).lower(), e.expressions[1:])
        return self._call(name, e.expressions)

    def _function(self, e: Any) -> Node:
        import sqlglot.expressions as exp

        what = _FORBIDDEN.get(type(e).__name__)
        if what is not None:
            raise self._refused(what.format(e.sql(DIALECT)))
        if isinstance(e, exp.AggFunc) or type(e).__name__ in ("LogicalAnd", "LogicalOr"):
            raise self._refused(
                f"{e.sql(DIALECT)} is an aggregate: an expression computes a value from one row. Use sash's aggregates "
                "around it, as in sash.sum(sash.expr(…)) / sash.count()"
            )
        if not isinstance(e, exp.Func):
            raise self._refused(f"{type(e).__name__.upper()} ({e.sql(DIALECT)}) is not supported in an expression")
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(e).__name__).lower()
        for key, value in e.args.items():
            if key not in ("this", "expression", "expressions") and isinstance(value, exp.Expression):
                raise self._refused(f"{e.sql(DIALECT)}: {name}() does not take {key}")
        given = [e.args.get("this"), e.args.get("expression"), *(e.args.get("expressions") or ())]
        return self._call(name, given)

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


def _dotted(e: Any) -> str:
    return '"' + ".".join(part.name for part in e.parts) + '"'


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
