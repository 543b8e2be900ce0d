"""QueryBoard: the watched queries of this process, by name, for a page server."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Protocol

from sash.cli.page.plan_picture import narrow_plan_svg, plan_svg
from sash.cli.page.watched_operator import WatchedQuery, WatchedStream, watched_queries

MOST = 64
"""The maximum number of queries on a page."""


class Board(Protocol):
    """The queries that a page shows: those of this process, or of all runs on this machine."""

    def queries(self) -> list[dict[str, Any]]:
        """The figures of all queries."""

    def keys(self, name: str) -> list[str]:
        """The keys of the newest results of a query. Raises KeyError for an unknown name."""

    def results(self, name: str, key: str) -> dict[str, Any] | None:
        """The newest results of a key. Raises KeyError for an unknown name, ValueError if it is not a key."""

    def plan(self, name: str) -> dict[str, str]:
        """The plan as text and as a picture. Raises KeyError for an unknown name."""


class QueryBoard:
    """The queries of this process that are watched."""

    def __init__(self) -> None:
        self._watched: dict[str, WatchedQuery] = {}
        self._plans: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()

    def watch(self, running: Any, name: str | None = None, query: Any = None) -> None:
        """Add a running query; see `LivePage.watch`."""
        for one in _watched(running, self._free(name, running), query):
            with self._lock:
                self._watched[one.name] = one

    def unwatch(self, name: str) -> None:
        """Remove a query. Raises KeyError for an unknown name."""
        self._one(name).release()
        with self._lock:
            self._watched.pop(name, None)
            self._plans.pop(name, None)

    def close(self) -> None:
        """Stop watching all queries; their last figures stay."""
        for one in self._all():
            one.release()

    def queries(self) -> list[dict[str, Any]]:
        """The figures of all queries."""
        found = []
        for one in self._all():
            one.catch_up()
            found.append(asdict(one.figures()))
        return found

    def keys(self, name: str) -> list[str]:
        """The keys of the newest results of a query."""
        return self._one(name).keys()

    def results(self, name: str, key: str) -> dict[str, Any] | None:
        """The newest results of a key."""
        return self._one(name).results(key)

    def plan(self, name: str) -> dict[str, str]:
        """The plan as text and as a picture, made once."""
        if name not in self._plans:
            text = self._one(name).plan()
            pictures = {"svg": plan_svg(text), "narrow": narrow_plan_svg(text)} if text else {"svg": "", "narrow": ""}
            self._plans[name] = {"text": text, **pictures}
        return self._plans[name]

    def _all(self) -> list[WatchedQuery]:
        with self._lock:
            return [*self._watched.values()]

    def _one(self, name: str) -> WatchedQuery:
        with self._lock:
            return self._watched[name]

    def _free(self, name: str | None, running: Any) -> str:
        """A free name. Raises ValueError if the name is taken, and for too many queries."""
        with self._lock:
            taken = {*self._watched}
        if len(taken) >= MOST:
            raise ValueError(f"a page shows at most {MOST} queries: unwatch() those that have ended")
        if name is not None:
            if not isinstance(name, str) or not name:
                raise TypeError(f"name= takes a text; got {name!r}")
            if name in taken:
                raise ValueError(f"name={name!r} is taken on this page: give another one, or unwatch() it first")
            return name
        kind = getattr(running, "name", None) or type(running).__name__.lower()
        names = [kind, *(f"{kind} {number}" for number in range(2, MOST + 2))]
        return next(one for one in names if one not in taken)


def _watched(running: Any, name: str, query: Any) -> Sequence[WatchedQuery]:
    from sash.engine import Operator, QueriesOperator
    from sash.pipeline import Pipeline

    # recognized by their attributes: importing the classes would load pyspark
    if hasattr(running, "recentProgress") or (hasattr(running, "batches") and hasattr(running, "totals")):
        from sash.spark.stream.monitor import Monitor

        owned = not isinstance(running, Monitor)
        return [WatchedStream(Monitor(running, None).follow() if owned else running, name, query, owned)]
    if query is not None:
        raise TypeError("query= is for streams of Spark: operators and pipelines have their query")
    if isinstance(running, Pipeline):
        return watched_queries(running.work.operator, name, running)
    if isinstance(running, Operator | QueriesOperator):
        return watched_queries(running, name)
    raise TypeError(
        "a page watches an operator, a pipeline (sash.pipe(…, watch=page.watch)), a streaming query of Spark or its "
        f"sash.spark.monitor(); got a {type(running).__name__}"
    )
