"""Texts of `explain` for windows, their elements and ties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sash.plan.slicing import sliding_range
from sash.windows.calendar import CalendarLength
from sash.windows.duration import UNITS, Duration

if TYPE_CHECKING:
    from sash.plan.bound_query import BoundQuery, WindowSpec
    from sash.plan.planner import WindowGroup
    from sash.plan.time_axis import TimeAxis

_BOUNDS = {"right": "(]", "left": "[)", "both": "[]", "neither": "()"}

ORDERED = ("count", "delta", "policy", "punctuation")
"""The kinds of windows that distinguish rows of equal time."""


def amount(value: Any) -> str:
    """A length without quotes."""
    return str(value) if isinstance(value, Duration) else f"{value:,}"


def holds(spec: WindowSpec) -> str:
    """The rows of a window."""
    window: Any = spec.window
    if spec.kind == "time":
        left, right = tuple(_BOUNDS[spec.closed])
        end = "end" if spec.slide == "time" else "t"
        if spec.calendar_size is not None or spec.calendar_shift is not None:
            held = _of_calendar(spec, end)
        else:
            held = f"{_moved(end, _less(window.shift, window.size))}, {_moved(end, window.shift)}"
        return f"{left}{held}{right}, rows of equal time together"
    if spec.kind == "count":
        held = (
            f"the last {rows(window.size)}" if not spec.shift else f"{rows(window.size)} up to {_place(window.shift)}"
        )
        return held + ("; null until there are as many" if window.full else "")
    if spec.kind == "delta":
        return f"rows less than {amount(window.size)} behind in {window.column!r}"
    if spec.kind == "session":
        return f"rows at most {amount(window.gap)} apart"
    if spec.kind == "punctuation":
        return f"rows up to one with {window.column!r} true"
    if spec.kind == "policy":
        return f"rows that {window.evict_name} does not evict, by {', '.join(map(repr, window.over))}"
    return "all rows since the key's start"


def _of_calendar(spec: WindowSpec, end: str) -> str:
    """Start and end of a window whose size or shift is a calendar length."""
    window: Any = spec.window
    if spec.calendar_shift is not None:
        back = amount(Duration(-window.shift.nanoseconds, -window.shift.months))
        end = f"{end} - {back} of the calendar in {spec.calendar_shift.clock.zone}"
    elif spec.shift:
        end = _moved(end, window.shift)
    of = "" if spec.calendar_size is None else f" of the calendar in {spec.calendar_size.clock.zone}"
    return f"{end} - {amount(window.size)}{of}, {end}"


def _less(shift: Any, size: Any) -> Any:
    """shift - size, as a length."""
    if isinstance(size, Duration):
        return Duration((shift.nanoseconds if shift else 0) - size.nanoseconds)
    return shift - size


def _moved(end: str, by: Any) -> str:
    """A time at a distance from another."""
    zero = Duration(0) if isinstance(by, Duration) else 0
    if by == zero:
        return end
    return f"{end} + {amount(by)}" if by > zero else f"{end} - {amount(_less(0, by))}"


def _place(shift: int) -> str:
    return f"{rows(abs(shift))} {'after' if shift > 0 else 'before'} it"


def ends(spec: WindowSpec) -> str:
    """When there is a result."""
    step = spec.window.step
    if spec.slide == "row":
        return "at each row" + (", once its end has passed" if spec.shift > 0 else "")
    if spec.slide == "close":
        return "when it closes"
    if spec.slide == "rows":
        return f"every {rows(step)}" if step > 1 else "every row"
    offset = getattr(spec.window, "offset", 0)
    calendar = ""
    if spec.grid is not None and not isinstance(spec.grid.every, int):
        calendar = f" of the calendar in {spec.grid.every.clock.zone}"
    aligned = ", aligned by start" if getattr(spec.window, "align", "end") == "start" else ""
    return f"every {amount(step)}{calendar}{aligned}" + (f", shifted by {amount(offset)}" if offset else "")


def zone_hint(spec: WindowSpec, axis: TimeAxis | None) -> str:
    """What to write for local days in a time zone; empty if slides are no whole days, or those of a zone already."""
    zone, window = getattr(axis and axis.type, "tz", None), spec.window
    step, every = window.step, getattr(window, "every", None)
    given = getattr(window, "tz", None) or getattr(every, "tz", None) or getattr(window, "offset", 0)
    if zone in (None, "UTC", "Etc/UTC", "+00:00") or given or spec.slide != "time" or not isinstance(step, Duration):
        return ""
    if not step.months and step.nanoseconds % UNITS["d"]:
        return ""
    assert axis is not None
    return (
        f"{label(spec)} is cut at midnight in UTC, and {axis.column!r} is in {zone}: with tz={zone!r} the window is "
        "cut at midnight there"
    )


def rows(number: int) -> str:
    return f"{number:,} row" + ("s" if number != 1 else "")


def label(spec: WindowSpec) -> str:
    return spec.name or repr(spec.window)


# ---- elements ----


def elements(bound_query: BoundQuery, group: WindowGroup) -> str:
    """The state of a key, and its size."""
    specs = [bound_query.windows[place] for place in group.windows]
    if group.kind == "running":
        return "one partial"
    if group.single_rows:
        return f"the rows of at most {most_panes(specs):,} panes"
    if group.kind in ("time panes", "row panes"):
        return f"at most {most_panes(specs):,} partials"
    return "; ".join(_longest(specs))


def _longest(specs: list[WindowSpec]) -> list[str]:
    """The longest window of each kind: it contains the others."""
    found: dict[Any, WindowSpec] = {}
    for spec in specs:
        at = (spec.kind, spec.column, id(spec.window) if spec.kind == "policy" else None)
        if at not in found or spec.behind > found[at].behind:
            found[at] = spec
    return [_reach(spec) for spec in found.values()]


def _reach(spec: WindowSpec) -> str:
    window: Any = spec.window
    if spec.kind != "time":
        return f"the last {rows(window.size - window.shift)}" if spec.shift < 0 else holds(spec).partition(";")[0]
    if spec.shift < 0 and (spec.calendar_size is not None or spec.calendar_shift is not None):
        return f"the rows of {holds(spec).partition(', rows')[0]}"
    return (
        f"the rows of the last {amount(_less(0, _less(window.shift, window.size)) if spec.shift < 0 else window.size)}"
    )


def most_panes(specs: list[WindowSpec]) -> int:
    """The greatest number of panes in the longest window.

    A pane ends where a window starts or ends. A grid of edges that coincides with another adds none.

    >>> from types import SimpleNamespace
    >>> [most_panes([SimpleNamespace(size=s, every=e, offset=0, grid=None)]) for s, e in ((86400, 60), (5, 2))]
    [1440, 5]
    """
    if any(spec.grid is not None for spec in specs):
        return _most_calendar_panes(specs)
    ranges = [sliding_range(spec) for spec in specs]
    grids = {grid for one in ranges for grid in (one.ends, one.starts)}
    needed = {grid for grid in grids if not any(grid.lies_on(other) for other in grids - {grid})}
    longest = max(ranges, key=lambda one: one.size)
    size, starts = longest.size, longest.starts
    # a window includes its end but not its start: it holds one edge less of the grid of starts
    return sum(size // grid.step if grid == starts else -(-size // grid.step) for grid in needed)


def _most_calendar_panes(specs: list[WindowSpec]) -> int:
    """The same with a calendar: each window has an edge for each end and for each start within the longest window.

    Where sizes are multiples of slides, starts are ends.
    """
    longest = max(spec.size or 0 for spec in specs)
    found = 0
    for spec in specs:
        grid = spec.grid
        if grid is not None and isinstance(grid.every, CalendarLength) and isinstance(grid.size, CalendarLength):
            month = bool(grid.every.months)
            slide, size = (grid.every.months, grid.size.months) if month else (grid.every.days, grid.size.days)
            if size and not size % slide and spec.size == longest:
                found += size // slide
                continue
        step = grid.every.shortest if grid is not None and isinstance(grid.every, CalendarLength) else spec.every
        found += 2 * -int(-longest // (step or 1))
    return found


# ---- ties ----


def ties(bound_query: BoundQuery) -> list[str]:
    """The windows, then the aggregates, that depend on the order of rows of equal time."""
    found = [
        f"{label(spec)} (a {type(spec.window).__name__} window)" for spec in bound_query.windows if spec.kind in ORDERED
    ]
    made = bound_query.query.aggregates.items()
    return found + [
        f"{name}={one!r}" for name, one in made if not all(leaf.monoid.commutative for leaf in one.leaves())
    ]
