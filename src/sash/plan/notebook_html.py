"""HTML of queries and plans for notebooks, with the same words as the text."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sash.plan.query import Query


class PlanText(str):
    """The text of a plan. A notebook shows it with its headings in bold, not as a quoted string."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        first, *lines = self.splitlines()
        marked = [f"<b>{escape(line)}</b>" if line and line[0] not in " (" else escape(line) for line in lines]
        return f"<pre><b>{escape(first)}</b>\n" + "\n".join(marked) + "</pre>"


def query_html(query: Query) -> str:
    """A query as a table: its windows, keys, order and aggregates."""
    windows = ((f"window {name}".strip(), repr(window)) for name, window in query.all_windows.items())
    rows: list[tuple[str, str]] = [*windows]
    rows += [(name, ", ".join(columns)) for name, columns in (("by", query.by), ("on", query.on)) if columns]
    optional = {"lateness": query.lateness, "forget": query.forget, "ahead": query.ahead, "retract": query.retract}
    optional |= {"min_periods": query.min_periods or None}
    rows += [(name, str(value)) for name, value in optional.items() if value is not None]
    rows += [("emit", query.emit)] if query.emit != "final" else []
    rows += [(name, repr(aggregate)) for name, aggregate in query.aggregates.items()]
    return f"<b>Query</b>{_table(rows)}"


def _table(rows: Iterable[tuple[str, str]]) -> str:
    cells = (
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in rows
    )
    return f"<table>{''.join(cells)}</table>"
