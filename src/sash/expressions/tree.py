"""The tree of an expression: columns, literals, calls and casts, as frozen data.

    price * qty > 100          Call(">", Call("*", Column("price"), Column("qty")), Literal("int", 100))

A tree is made by `parser.py` and computed by `arrow_evaluation.py` on arrays, and by `row_evaluation.py` on one row.
It is pickled as it is: a worker neither parses nor executes text. Its text (`str`) is normalised: equal trees have
equal texts, so it stands for the expression in fingerprints.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

LiteralKind = Literal["null", "bool", "int", "float", "text", "date", "timestamp", "interval"]

INFIX = ("+", "-", "*", "/", "//", "%", "||", "=", "<>", "<", "<=", ">", ">=", "and", "or", "like", "ilike")
"""The operators that stand between two operands."""

CHAINS = ("and", "or", "+", "-", "*", "||")
"""The operators that take any number of operands, from left to right: a flat list is not nested."""

WORDS = {"negate": "-", "not": "not "}
"""The operators that stand before their operand."""


def described(value: Any) -> str:
    """A value that an argument does not take, for a message: a number or a text as it is, of others their type.

    >>> described(5), described([1, 2])
    ('5, a int', 'a list')
    """
    name, package = type(value).__name__, type(value).__module__.partition(".")[0]
    if package != "builtins":
        return f"a {name} of {package}"
    return f"{value!r}, a {name}" if value is None or isinstance(value, int | float | str) else f"a {name}"


@dataclass(frozen=True)
class Node:
    """A node of a tree."""

    @property
    def parts(self) -> tuple[Node, ...]:
        """The nodes below this one."""
        return ()

    def columns(self) -> Iterator[str]:
        """The columns that the tree reads, in the order of the text; some twice."""
        for part in self.parts:
            yield from part.columns()


@dataclass(frozen=True)
class ColumnNode(Node):
    """A column, by its exact name. `quoted`: as it was written, for messages."""

    name: str
    quoted: bool = field(default=False, compare=False, repr=False)

    def columns(self) -> Iterator[str]:
        """Its name."""
        yield self.name

    def __str__(self) -> str:
        is_plain = self.name.isidentifier() and self.name.lower() not in RESERVED
        return self.name if is_plain else '"' + self.name.replace('"', '""') + '"'


@dataclass(frozen=True)
class LiteralNode(Node):
    """A constant. `kind` distinguishes 1, 1.0 and true, which are equal in Python."""

    kind: LiteralKind
    value: Any

    def __str__(self) -> str:
        if self.kind == "text":
            return "'" + str(self.value).replace("'", "''") + "'"
        if self.kind in ("date", "timestamp"):
            return f"{self.kind} '{self.value}'"
        if self.kind == "interval":
            microseconds = self.value // datetime.timedelta(microseconds=1)
            return f"interval '{microseconds} microseconds'"
        return "null" if self.value is None else str(self.value).lower()


@dataclass(frozen=True)
class CallNode(Node):
    """An operator or a function, by its name in `parser.py`, with its operands."""

    function: str
    arguments: tuple[Node, ...]

    @property
    def parts(self) -> tuple[Node, ...]:
        """The operands."""
        return self.arguments

    def step(self, place: int) -> CallNode:
        """A chain up to the operand at a place, as a pair: what is computed there. Any other call is itself."""
        if self.function not in CHAINS or len(self.arguments) == 2:
            return self
        before = self.arguments[:place]
        return CallNode(
            self.function, (CallNode(self.function, before) if place > 1 else before[0], self.arguments[place])
        )

    def __str__(self) -> str:
        texts = [str(one) for one in self.arguments]
        if self.function in INFIX:
            return f"({f' {self.function} '.join(texts)})"
        if self.function in WORDS:
            return f"({WORDS[self.function]}{texts[0]})"
        if self.function == "where":
            return f"({texts[0]} where {outermost(texts[1])})"
        if self.function == "is null":
            return f"({texts[0]} is null)"
        if self.function == "case":
            pairs = zip(texts[:-1:2], texts[1:-1:2], strict=True)
            return f"case {' '.join(f'when {on} then {then}' for on, then in pairs)} else {texts[-1]} end"
        return f"{self.function}({', '.join(map(outermost, texts))})"


def chained(function: str, operands: Sequence[Node]) -> CallNode:
    """A call of an operator of `CHAINS`: `(a + b) + c` is `a + b + c`."""
    first, *rest = operands
    if isinstance(first, CallNode) and first.function == function:
        return CallNode(function, (*first.arguments, *rest))
    return CallNode(function, tuple(operands))


@dataclass(frozen=True)
class CastNode(Node):
    """A conversion to a type of Arrow, by its name: "int64", "decimal128(10, 2)"."""

    value: Node
    type: str

    @property
    def decimal_digits(self) -> tuple[int, int]:
        """Precision and scale of a cast to decimal."""
        precision, scale = self.type.removeprefix("decimal128(").removesuffix(")").split(",")
        return int(precision), int(scale)

    @property
    def parts(self) -> tuple[Node, ...]:
        """The converted value."""
        return (self.value,)

    def __str__(self) -> str:
        name = _SQL_TYPES.get(self.type, self.type.replace("decimal128", "decimal"))
        return f"cast({outermost(str(self.value))} as {name})"


_SQL_TYPES = {
    "int64": "bigint",
    "float64": "double",
    "string": "varchar",
    "bool": "boolean",
    "date32": "date",
    "timestamp[us]": "timestamp",
}
"""The types of casts in SQL."""


RESERVED = frozenset(
    (
        *("and", "or", "not", "null", "true", "false", "is", "in", "like", "ilike", "between", "cast", "as"),
        *("case", "when", "then", "else", "end", "interval", "date", "timestamp", "select", "from", "where"),
        *("distinct", "order", "group", "by", "having", "limit", "union", "with", "on", "using", "exists", "all"),
    )
)
"""Words of SQL: a column of such a name must be quoted."""


class UnfitOperands(Exception):
    """Operands of a function or an operator have types that do not fit."""


@dataclass(frozen=True)
class Expr:
    """An SQL expression over the columns of a row, made by `sash.expr`: immutable, hashable, safe to pickle.

    >>> import sash
    >>> sash.expr("price * qty"), sash.expr("a+1") == sash.expr("(a + 1)")
    (expr('price * qty'), True)
    """

    tree: Node

    def __repr__(self) -> str:
        return f"expr({self.text!r})"

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """The expression in its normal form."""
        return outermost(str(self.tree))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads, each once."""
        return tuple(dict.fromkeys(self.tree.columns()))


def outermost(text: str) -> str:
    """A normalised text without the parentheses around all of it.

    >>> outermost("((a + 1) * (b + 2))"), outermost("(a)(b)")
    ('(a + 1) * (b + 2)', '(a)(b)')
    """
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth, quote = 0, ""
    for i, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            depth += (letter == "(") - (letter == ")")
            if depth == 0 and i < len(text) - 1:
                return text
    return text[1:-1]


def with_text(tree: Node, name: str) -> str:
    """What to write in place of a column in double quotes that is meant as text: a comparison, or the text; else ""."""
    if isinstance(tree, ColumnNode):
        return ""
    return _compared(tree, name) or (str(LiteralNode("text", name)) if _has_quoted(tree, name) else "")


def _has_quoted(tree: Node, name: str) -> bool:
    if isinstance(tree, ColumnNode):
        return tree.quoted and tree.name == name
    return any(_has_quoted(part, name) for part in tree.parts)


def _compared(tree: Node, name: str) -> str:
    """The first comparison with the column, with a text in its place."""
    if isinstance(tree, CallNode) and tree.function in INFIX and tree.function not in CHAINS:
        is_text = [isinstance(one, ColumnNode) and one.quoted and one.name == name for one in tree.arguments]
        if any(is_text):
            pairs = zip(tree.arguments, is_text, strict=True)
            parts = tuple(LiteralNode("text", name) if is_text else one for one, is_text in pairs)
            return outermost(str(CallNode(tree.function, parts)))
    return next((found for part in tree.parts if (found := _compared(part, name))), "")
