"""SQL as the tree of sqlglot, read so that nothing is dropped: what no reader has asked for is found at the end.

text ──tokens──▶ sqlglot ──▶ Part ──reader──▶ a tree of ours
                               └── unread() ──▶ the first clause, argument or flag that nobody read
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

DIALECT = "duckdb"
"""The dialect of expressions and statements: that of DuckDB."""

IMPLIED = frozenset(
    (
        *("_type", "big_int", "coalesce", "ignore_nulls", "is_string", "nested", "nulls_first", "over", "quoted"),
        *("safe", "typed"),
    )
)
"""Flags that sqlglot sets by itself, as the dialect has it; nobody writes them. NULLS FIRST is found in the tokens."""


class Part:
    """A node of sqlglot's tree. All that is asked of it is recorded, for `unread`."""

    __slots__ = ("_read", "node")

    def __init__(self, node: Any, read: set[tuple[int, str]] | None = None) -> None:
        self.node = node
        self._read: set[tuple[int, str]] = set() if read is None else read

    @property
    def kind(self) -> str:
        """The class of the node: "Column", "Window"."""
        return type(self.node).__name__

    def get(self, name: str) -> Any:
        """An argument: a Part, a list of them, a plain value, or None."""
        self._read.add((id(self.node), name))
        value = self.node.args.get(name)
        if isinstance(value, list):
            return [self._part(one) for one in value]
        return self._part(value)

    def _part(self, value: Any) -> Any:
        return Part(value, self._read) if hasattr(value, "args") else value

    @property
    def this(self) -> Any:
        """The first argument."""
        return self.get("this")

    @property
    def expression(self) -> Any:
        """The second argument."""
        return self.get("expression")

    @property
    def expressions(self) -> list[Part]:
        """The arguments of a list."""
        return self.get("expressions") or []

    @property
    def name(self) -> str:
        """The name of a column, a table or a function, or the text of a literal; "" of anything else."""
        value = self.this
        if isinstance(value, Part):
            return value.name if value.kind in ("Column", "Identifier", "Literal", "Var") else ""
        return "" if value is None else str(value)

    @property
    def is_text(self) -> bool:
        """Is it a literal of text?"""
        return self.kind == "Literal" and bool(self.node.is_string)

    @property
    def text(self) -> str:
        """The node as SQL, for messages and names: without comments."""
        try:
            with _silent():
                return str(self.node.sql(DIALECT, comments=False))
        except RecursionError:
            return "…"

    def has(self, *kinds: str) -> bool:
        """Is it, or has it below it, a node of one of these classes?"""
        return any(type(node).__name__ in kinds for node in self.node.walk())

    def skip(self) -> None:
        """Record all below it as read."""
        self._read |= {(id(node), name) for node in self.node.walk() for name in node.args}

    def unread(self) -> tuple[str, str] | None:
        """The first node, from the top, of which something was written and not read: its text, and that of the rest."""
        for node in self.node.walk(bfs=False):
            for name, value in node.args.items():
                is_set = value is not None and value is not False and not (isinstance(value, list) and not value)
                if is_set and name not in IMPLIED and (id(node), name) not in self._read:
                    return Part(node).text, _written(name, value)
        return None


def _written(name: str, value: Any) -> str:
    """An argument as it was written: its text, or the word of a flag."""
    some = value if isinstance(value, list) else [value]
    if all(hasattr(one, "sql") for one in some):
        return ", ".join(Part(one).text for one in some)
    return name.strip("_").replace("_", " ").upper()


def tokens_of(text: str) -> list[Any]:
    """The tokens of a text. Raises SqlglotError."""
    from sqlglot.dialects.dialect import Dialect

    return Dialect.get_or_raise(DIALECT).tokenize(text)


def parsed(text: str, tokens: Sequence[Any] | None = None) -> list[Any]:
    """The statements of a text, or of its tokens; None for an empty one. Raises SqlglotError, and RecursionError."""
    from sqlglot.dialects.dialect import Dialect

    with _silent():
        return Dialect.get_or_raise(DIALECT).parser().parse(list(tokens or tokens_of(text)), text)


@contextmanager
def _silent() -> Iterator[None]:
    """Without the warnings of sqlglot for what it, or the dialect, does not know."""
    logger = logging.getLogger("sqlglot")
    silent, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = silent
