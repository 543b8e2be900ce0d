"""WatchedQueries: observes the operator of several queries, with figures for each query."""

from __future__ import annotations

from typing import Any

from sash.cli.page.query_figures import QueryFigures
from sash.cli.page.watched_operator import CallFigures, WatchedCalls
from sash.engine import QueriesOperator


class WatchedQueries:
    """Observes the calls of the operator once for all queries."""

    def __init__(self, operator: QueriesOperator, name: str) -> None:
        self.operator = operator
        self.members = [
            WatchedMember(f"{name}: {member}", CallFigures(query), self)
            for member, query in operator.queries.queries.items()
        ]
        self._names = [*operator.queries.queries]
        operator.set_observer(self._observe)

    def _observe(self, results: dict[str, Any], seconds: float) -> None:
        inner = {name: group.operator for group in self.operator.groups for name in group.names}
        for name, member in zip(self._names, self.members, strict=True):
            member.calls.take(inner[name], results[name], seconds)

    def release(self) -> None:
        """Stop watching the operator."""
        self.operator.remove_observer()


class WatchedMember(WatchedCalls):
    """One of several queries. Queries that share a state show its size and counters."""

    def __init__(self, name: str, calls: CallFigures, watched: WatchedQueries) -> None:
        self.name, self.calls, self.watched = name, calls, watched

    def figures(self) -> QueryFigures:
        """The figures after the last call."""
        return self.calls.figures(self.name, "operator")

    def plan(self) -> str:
        """The text of `explain()`."""
        return self.calls.query.explain(self.watched.operator.schema)

    def release(self) -> None:
        """Stop watching all of them."""
        self.watched.release()
