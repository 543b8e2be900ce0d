"""Run a monoid on sample rows, to find the types of its states and results.

Check on sample rows that a user's aggregate does not change its states.

A structure keeps states and combines them again: a `combine` that appends to its argument would give wrong results
later, in other windows. So it is an error when the query is bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from sash.monoids.algebra import Kind, Monoid

# --- Sample probe ---

SAMPLES: dict[Kind, tuple[Any, ...]] = {
    "bool": (True, True, False, True, False, False, True),
    "int": (1, 2, 5, 3, 8, 4, 9),
    "float": (1.5, 2.25, 5.0, 3.5, 8.75, 4.0, 9.5),
}
"""Sample values: enough distinct ones for results of a fourth moment and of a regression."""


def sample_rows(columns: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """The rows of sample columns, each rotated by its position: two columns of one type do not hold the same values.

    >>> list(sample_rows([(1, 2, 3), (1, 2, 3)]))
    [(1, 2), (2, 3), (3, 1)]
    """
    return zip(*([*values[i % 3 :], *values[: i % 3]] for i, values in enumerate(columns)), strict=True)


def outcomes(monoid: Monoid, rows: Iterable[tuple[Any, ...]]) -> tuple[list[Any], list[Any], str]:
    """States and results of sample rows, and the last error. A row that fails is skipped.

    >>> from sash.monoids import Max
    >>> outcomes(Max(), [(3,), (5,)])
    ([3, 5, 5], [3, 5, 5], '')
    """
    failed = ""
    states: list[Any] = []
    results: list[Any] = []
    for row in rows:
        try:
            lifted = monoid.lift(*row)
            states += [lifted, monoid.combine(states[-1], lifted)] if states else [lifted]
            results += [result for result in map(monoid.lower, states[-2:]) if result is not None]
        except Exception as error:
            failed = f"it raised {type(error).__name__}: {error}"
    return states, results, failed


# --- Pure check ---

_PLAIN = (int, float, complex, str, bytes, type(None))


def require_pure(monoid: Monoid, rows: Iterable[tuple[Any, ...]], label: str) -> None:
    """Raises ValueError, naming the aggregate and the function, if `combine`, `lower` or `inverse` changes a state.

    Rows on which a function fails are skipped.
    """
    total: Any = monoid.identity
    for row in rows:
        try:
            state = monoid.lift(*row)
        except Exception:
            continue
        before = total
        found, total = _called(monoid.combine, "combine", label, total, state)
        if not found:
            total = before
            continue
        _called(monoid.lower, "lower", label, total)
        if monoid.inverse is not None and before is not monoid.identity:
            _called(monoid.inverse, "inverse", label, total, before)


def _called(function: Callable[..., Any], name: str, label: str, *states: Any) -> tuple[bool, Any]:
    """Call a function: whether it succeeded, and its result. Raises ValueError if it has changed an argument."""
    before = [frozen(state) for state in states]
    try:
        result = function(*states)
    except Exception:
        return False, None
    if [frozen(state) for state in states] != before:
        raise ValueError(
            f"{label}: {name}= changes its argument, and states are used again: it must return a new state, such as "
            "a + b, a | b or [*a, *b]"
        )
    return True, result


def frozen(value: Any) -> Any:
    """A frozen copy of a value, to compare with its later state; parts of unknown types are left out.

    >>> state = [1, {"a": [float("nan")]}]
    >>> before = frozen(state)
    >>> frozen(state) == before, state.append(2), frozen(state) == before
    (True, None, False)
    """
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, dict):
        return [(frozen(key), frozen(item)) for key, item in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, map(frozen, value)))
    if isinstance(value, list | tuple):
        return [frozen(item) for item in value]
    if hasattr(value, "tobytes"):  # arrays
        return value.tobytes()
    slots = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ()) if isinstance(name, str)]
    named = {name: getattr(value, name) for name in slots if hasattr(value, name)} | getattr(value, "__dict__", {})
    try:
        return [(name, frozen(item)) for name, item in named.items()] or [frozen(item) for item in list(value)]
    except (TypeError, RecursionError):  # neither fields nor items
        return None
