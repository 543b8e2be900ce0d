"""The windows of a query with those of its aggregates, and the names of its results.

Query({"1h": …, "1d": …}, a=max("x"), b=min("x").over(5), c=sum("x"))      windows  1h, 1d, Count(5)
                                                                           results  a_1h b c_1h a_1d c_1d
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from sash.monoids.arithmetic import Aggregated, state_text
from sash.windows.specs import WindowKind

if TYPE_CHECKING:
    from sash.plan.query import Query


class NamedResult(NamedTuple):
    """A column of results at each row: its label, the aggregate's name, and the query's window (None: its own)."""

    label: str
    name: str
    window: str | None


def has_own_windows(aggregated: Aggregated) -> bool:
    """Has every aggregate in it a window of its own?"""
    return all(leaf.window is not None for leaf in aggregated.leaves())


def all_windows(query: Query) -> dict[str, WindowKind]:
    """The windows of a query by name: those that it was given, then those of aggregates.

    The window of an aggregate is named by its text, or "" if it is the only window. An unnamed window among others is
    named by its text, too, if the results have a column for the name.
    """
    found = dict(query.windows)
    for one in query.aggregates.values():
        for leaf in one.leaves():
            if leaf.window is not None and leaf.window not in found.values():
                found[_free(state_text(leaf.window), found)] = leaf.window
    if len(found) == 1 and not query.windows:
        return {"": next(iter(found.values()))}
    if len(found) > 1 and "" in found and any(window.slide != "row" for window in found.values()):
        return {name or _free(state_text(window), found): window for name, window in found.items()}
    return found


def _free(text: str, taken: Collection[str]) -> str:
    """A text as the name of a window; the texts of two policies may be equal, and are then numbered."""
    names = (text, *(f"{text} {number}" for number in range(2, len(taken) + 2)))
    return next(name for name in names if name not in taken)


def named_results(windows: Mapping[str, WindowKind], aggregates: Mapping[str, Aggregated]) -> list[NamedResult]:
    """The results at each row: for each window each aggregate; one with windows of its own has a single result.

    Raises ValueError if two would have the same name.
    """
    found: dict[str, NamedResult] = {}
    for number, window in enumerate(windows or ("",)):
        for name, aggregated in aggregates.items():
            own = has_own_windows(aggregated)
            if own and number:
                continue
            label = f"{name}_{window}" if window and not own else name
            if label in found:
                other = found[label]
                raise ValueError(
                    f"two results would be named {label!r}: {_over(other)} and "
                    f"{_over(NamedResult(label, name, None if own else window))}; rename an aggregate or a window"
                )
            found[label] = NamedResult(label, name, None if own else window)
    return list(found.values())


def _over(result: NamedResult) -> str:
    over = "its own window" if result.window is None else f"the window {result.window!r}"
    return f"{result.name!r} over {over}"
