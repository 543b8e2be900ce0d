"""The fingerprint of a query: identifies its state.

State outlives the process, so its identity covers everything that determines its meaning: windows in units, aggregates
and which of them share a state, keys, order, lateness and forgetting, and the columns' names and types. It does not
cover how results are computed and emitted (options, emit, late, ahead). It does not use Python's `hash`, which differs
between processes.

Aggregates are named by `monoids/monoid_key.py`; a user's without a name by what its code depends on
(kernels/jit/code_fingerprint.py), which differs between Pythons.

A fingerprint has no module and no private name of sash: state survives a reorganisation of sash, too.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from sash.monoids.custom import Custom
from sash.monoids.custom import itself as identity_function
from sash.monoids.monoid_key import monoid_key
from sash.plan.state_sharing import shared_states
from sash.windows.calendar import CalendarLength
from sash.windows.slide_policy import Policy

if TYPE_CHECKING:
    from sash.plan.bound_query import AggregateSpec, BoundQuery, WindowSpec

VERSION = 1
"""The version of the hashed data and of the hash."""


def fingerprint(bound_query: BoundQuery) -> str:
    """32 hexadecimal digits: equal for equal queries, in every process."""
    meaning = {
        "version": VERSION,
        "by": bound_query.by,
        "on": bound_query.query.on,
        "lateness": bound_query.lateness,
        "forget": bound_query.forget,
        "columns": [[field.name, str(field.type)] for field in bound_query.schema],
        "windows": [window_meaning(spec) for spec in bound_query.windows],
        "aggregates": [aggregate_meaning(spec) for spec in bound_query.aggregates],
    }
    if not bound_query.projection.is_plain:
        meaning["outputs"] = [output.meaning for output in bound_query.projection.outputs]
        meaning["min_periods"] = bound_query.projection.min_periods
    lowered = [
        [one.number, group[0].number, one.reads] for group in shared_states(bound_query.aggregates) for one in group[1:]
    ]
    if lowered:  # these have no columns in the state
        meaning["lowered"] = lowered
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16, person=b"sash query").hexdigest()


def window_meaning(spec: WindowSpec) -> list[Any]:
    """The meaning of a window as a JSON value, with its name first."""
    measured = spec.axis.column if spec.axis is not None else None
    meaning = [spec.name, spec.kind, spec.size, spec.slide, spec.every, spec.offset, spec.closed, spec.full]
    policy = [code(spec.window.evict), spec.window.alone] if isinstance(spec.window, Policy) else None
    found: list[Any] = [*meaning, measured, spec.column, [aggregate_meaning(over) for over in spec.over], policy]
    if spec.shift:  # state of windows without one is older than shifts
        found.append(["shift", spec.shift])
    if spec.calendar_shift:
        found.append(["calendar shift", _length(spec.calendar_shift)])
    return found + _calendar(spec) if spec.calendar_size or spec.grid else found


def _calendar(spec: WindowSpec) -> list[Any]:
    """The calendar lengths of a window, which its numbers only bound."""
    grid = spec.grid
    slides = None if grid is None else [_length(grid.every), _length(grid.size), grid.offset, grid.months]
    if slides and grid and grid.after:  # state of windows without it is older
        slides.append(grid.after)
    return [_length(spec.calendar_size), slides]


def _length(length: CalendarLength | int | None) -> Any:
    if not isinstance(length, CalendarLength):
        return length
    return [length.clock.zone, length.months, length.days]


def aggregate_meaning(spec: AggregateSpec) -> list[Any]:
    """The meaning of an aggregate as a JSON value, with its name first."""
    meaning = [
        spec.stored_name,
        monoid_key(spec.monoid, code),
        spec.columns,
        [str(type_) for type_ in spec.types],
        str(spec.result),
    ]
    if spec.orders:  # states have been compared in this order
        meaning.append([None if order is None else [str(value) for value in order] for order in spec.orders])
    return meaning


_FUNCTIONS = ("lift", "combine", "lower", "inverse", "picks_right")
_DECLARED = ("identity", "commutative", "selective", "exact", "declares_empty", "empty")


def code(thing: Any) -> str:
    """A key for a user's function or nameless monoid, from everything its code depends on.

    If that has no stable key (because of a captured object, say), the key has only the names of the functions.
    """
    # imported here: it loads Numba, which queries of our own aggregates do not need
    from sash.kernels.jit.code_fingerprint import NotKeyed, state_key

    functions: dict[str, Any] = {"function": thing}
    declared: dict[str, Any] = {}
    if isinstance(thing, Custom):  # the functions passed to `sash.monoid`; its own methods do not matter
        given = {name: vars(thing).get(name) for name in _FUNCTIONS}
        functions = {name: None if function is identity_function else function for name, function in given.items()}
        declared = {name: getattr(thing, name) for name in _DECLARED}
    try:
        return state_key(**functions, **declared)
    except NotKeyed:
        named = [function for function in functions.values() if function is not None]
        return " ".join(
            f"{getattr(f, '__module__', '')}.{getattr(f, '__qualname__', type(f).__qualname__)}" for f in named
        )
