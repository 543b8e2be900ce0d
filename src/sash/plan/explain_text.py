"""Wording: what a window holds, what its elements are and what ties may change, in words."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sash.plan.validation import format_value
from sash.windows.duration import Duration

if TYPE_CHECKING:
    from sash.plan.bound_query import BoundQuery, WindowSpec
    from sash.plan.planner import WindowGroup

_BOUNDS = {"right": "(]", "left": "[)", "both": "[]", "neither": "()"}

ORDERED = ("count", "delta", "policy", "punctuation")
"""The kinds of windows that tell rows of equal time apart."""


def amount(value: Any) -> str:
    """A length without quotes."""
    return str(value) if isinstance(value, Duration) else f"{value:,}"


def holds(span: WindowSpec) -> str:
    """Which rows a window holds."""
    window: Any = span.window
    if span.kind == "time":
        left, right = tuple(_BOUNDS[span.closed])
        end = "end" if span.slide == "time" else "t"
        return f"{left}{end} - {amount(window.size)}, {end}{right}, rows of equal time together"
    if span.kind == "count":
        return f"the last {rows(window.size)}" + ("; null until there are as many" if window.full else "")
    if span.kind == "delta":
        return f"rows less than {amount(window.size)} behind in {window.column!r}"
    if span.kind == "session":
        return f"rows less than {amount(window.gap)} apart"
    if span.kind == "punctuation":
        return f"rows up to one with {window.column!r} true"
    if span.kind == "policy":
        return f"rows that {_name(window.evict)} does not give up, seeing {', '.join(map(repr, window.over))}"
    return "all rows since the key's start"


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", repr(function))).rpartition(".")[2]


def ends(span: WindowSpec) -> str:
    """When there is a result."""
    step = span.window.step
    if span.slide == "row":
        return "at each row"
    if span.slide == "close":
        return "when it closes"
    if span.slide == "rows":
        return f"every {rows(step)}" if step > 1 else "every row"
    offset = getattr(span.window, "offset", 0)
    return f"every {amount(step)}" + (f", shifted by {amount(offset)}" if offset else "")


def rows(number: int) -> str:
    return f"{number:,} row" + ("s" if number != 1 else "")


def label(span: WindowSpec) -> str:
    return span.name or repr(span.window)


# ---- elements ----


def elements(bound_query: BoundQuery, series: WindowGroup) -> str:
    """What is kept for a key, and how much of it."""
    spans = [bound_query.windows[place] for place in series.windows]
    if series.kind == "running":
        return "one partial"
    if series.kind in ("slices", "counted"):
        return f"at most {partials(spans):,} partials"
    return "; ".join(_longest(spans))


def _longest(spans: list[WindowSpec]) -> list[str]:
    """The longest window of each kind: the others lie within."""
    found: dict[Any, WindowSpec] = {}
    for span in spans:
        at = (span.kind, span.column, id(span.window) if span.kind == "policy" else None)
        if at not in found or (span.size or 0) > (found[at].size or 0):
            found[at] = span
    return [_reach(span) for span in found.values()]


def _reach(span: WindowSpec) -> str:
    window: Any = span.window
    return f"the rows of the last {amount(window.size)}" if span.kind == "time" else holds(span).partition(";")[0]


def partials(spans: list[WindowSpec]) -> int:
    """How many partials lie in the longest window, at most.

    Windows are cut where one of them starts or ends. A grid of cuts that lies on another adds none.

    >>> from types import SimpleNamespace as Window
    >>> partials([Window(size=86400, every=60, offset=0)]), partials([Window(size=5, every=2, offset=0)])
    (1440, 5)
    """
    grids = {grid for span in spans for grid in _grids(span)}
    needed = {grid for grid in grids if not any(_lies_on(grid, other) for other in grids - {grid})}
    longest = max(spans, key=lambda span: span.size or 0)
    size, (_, starts) = Fraction(longest.size or 1), _grids(longest)
    # a window holds its end and not its start: of the grid of starts one less may lie within
    return sum(size // grid[0] if grid == starts else -(-size // grid[0]) for grid in needed)


def _grids(span: WindowSpec) -> tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]]:
    """Where windows end and where they start: how far apart, and the least that is not negative."""
    every, size, offset = Fraction(span.every or 1), Fraction(span.size or 1), Fraction(span.offset)
    return (every, offset % every), (every, (offset - size) % every)


def _lies_on(grid: tuple[Fraction, Fraction], other: tuple[Fraction, Fraction]) -> bool:
    return not grid[0] % other[0] and grid[1] % other[0] == other[1]


# ---- ties ----


def ties(bound_query: BoundQuery) -> list[str]:
    """What depends on the order of rows of equal time: windows, then aggregates."""
    found = [
        f"{label(span)} (a {type(span.window).__name__} window)" for span in bound_query.windows if span.kind in ORDERED
    ]
    made = bound_query.query.aggregates
    return found + [f"{name}={made[name]!r}" for name in made if not made[name].monoid.commutative]


def length(value: Any) -> str:
    return format_value(value).strip("'")
