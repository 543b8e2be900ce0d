"""AsOfQuery: a query whose windows end at the rows of a spine, not at those of its data.

spine    time of the row  t        events of the key, by time
                          │
Time("1h")    [t − 1h ────┤        closed="left": an event at t does not count, so nothing leaks
Count(10)     ten last ───┤
Lifetime()    all ────────┤
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sash.plan import validation
from sash.plan.query import Query
from sash.windows import WindowKind
from sash.windows.specs import CLOSED

if TYPE_CHECKING:
    from sash.plan.api_types import Columns
    from sash.windows.specs import Closed


class SpineQuery(Query):
    """A query that runs on a spine: the output has no columns of the events, so results may have their names."""

    @property
    def keeps_rows(self) -> bool:
        """Do results have all columns of their rows? Not those of the events."""
        return False


@dataclass(frozen=True)
class AsOfQuery:
    """A query, and how a spine is joined to its events: the columns of the spine, and which ends belong to windows.

    Raises ValueError, naming the window or the argument, for those that as_of() does not support.
    """

    query: SpineQuery
    closed: str
    spine_by: tuple[str, ...]
    spine_on: str

    @staticmethod
    def of(query: Query, closed: Closed, spine_by: Columns | None, spine_on: str | None) -> AsOfQuery:
        """The query with validated arguments."""
        validation.one_of("closed", closed, CLOSED)
        if not query.on:
            raise ValueError("as_of() compares times: set the column of the time, in spine and events, with on=")
        own = query.by if spine_by is None else validation.columns("spine_by", spine_by)
        if len(own) != len(query.by):
            raise ValueError(
                f"spine_by={spine_by!r} names {len(own)} columns of the spine, and by={list(query.by)!r} "
                f"{len(query.by)} of the events: give one for each"
            )
        times = (query.on[0],) if spine_on is None else validation.columns("spine_on", spine_on)
        if len(times) != 1:
            raise ValueError(f"spine_on= names the time of the spine, one column; got {spine_on!r}")
        for parameter in ("forget", "retract"):
            if getattr(query, parameter) is not None:
                raise ValueError(
                    f"{parameter}={validation.format_value(getattr(query, parameter))} removes earlier rows from "
                    "windows, which as_of() does not support: leave it out"
                )
        for name, window in query.all_windows.items():
            _require_point_in_time(f"the window {name!r}" if name else "the window", window, closed)
        of_spine = SpineQuery(**query.arguments(emit="final", late="drop", lateness=None))
        return AsOfQuery(of_spine, closed, own, times[0])

    def require_free(self, names: Iterable[str]) -> None:
        """Raises ValueError if a result would have the name of a column of the spine."""
        for name in validation.labels(self.query):
            if name in names:
                raise ValueError(
                    f"the results would have two columns {name!r}, because the spine keeps its columns: rename the "
                    "aggregate or the column"
                )


def _require_point_in_time(name: str, window: WindowKind, closed: str) -> None:
    """Raises ValueError for a window that depends on its own row, slides, or holds later events."""
    what = f"{name}, {window!r},"
    if window.slide != "row":
        raise ValueError(
            f"{what} has a result for each slide, and as_of() computes one for each row of the spine: leave every= out"
        )
    if window.reads is not None or window.decides_by:
        raise ValueError(
            f"{what} depends on the row it ends at, and a spine's rows are not events: as_of() takes Time, Count, "
            "Lifetime and Session; or compute the column with sash.rolling() and take its sash.last()"
        )
    if validation.looks_ahead(window):
        raise ValueError(f"{what} holds events after the row's time, which would leak: use a shift below 0")
    if window.closed not in (closed, window.default("closed")):
        raise ValueError(
            f"{what} is closed {window.closed!r}, and as_of() has closed={closed!r} for all windows: pass "
            f"closed={window.closed!r} to as_of(), or leave it out of the window"
        )
