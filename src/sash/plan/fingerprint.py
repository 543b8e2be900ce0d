"""The fingerprint of a query: identifies its state.

State outlives the process, so its identity covers everything that determines its meaning: windows in units, aggregates
and which of them share a state, keys, order, lateness and forgetting, and the columns' names and types. It does not
cover how results are computed and emitted (options, emit, late, ahead). It does not use Python's `hash`, which differs
between processes.

    a monoid of ours          its class and parameters
    a user's with a name      the name: state survives a change of its code
    a user's without          everything its code depends on (kernels/jit/code_fingerprint.py), which differs by Python

A fingerprint has no module and no private name of sash: state survives a reorganisation of sash, too.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from typing import TYPE_CHECKING, Any

from sash.monoids.algebra import Monoid
from sash.monoids.custom import Custom
from sash.monoids.custom import itself as identity_function
from sash.monoids.direct_product import DirectProduct
from sash.plan.state_sharing import shared_states
from sash.windows.specs import Policy

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
        "windows": [_window(spec) for spec in bound_query.windows],
        "aggregates": [_aggregate(spec) for spec in bound_query.aggregates],
    }
    lowered = [
        [one.number, group[0].number, one.reads] for group in shared_states(bound_query.aggregates) for one in group[1:]
    ]
    if lowered:  # these have no columns in the state
        meaning["lowered"] = lowered
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16, person=b"sash query").hexdigest()


def _window(spec: WindowSpec) -> list[Any]:
    measured = spec.axis.column if spec.axis is not None else None
    meaning = [spec.name, spec.kind, spec.size, spec.slide, spec.every, spec.offset, spec.closed, spec.full]
    policy = [code(spec.window.evict), spec.window.alone] if isinstance(spec.window, Policy) else None
    return [*meaning, measured, spec.column, [_aggregate(over) for over in spec.over], policy]


def _aggregate(spec: AggregateSpec) -> list[Any]:
    return [spec.name, _monoid(spec.monoid), spec.columns, [str(type_) for type_ in spec.types], str(spec.result)]


def _monoid(monoid: Monoid) -> Any:
    if isinstance(monoid, DirectProduct):
        return ["product", *map(_monoid, monoid.parts)]
    if isinstance(monoid, Custom):
        return ["named", monoid.name] if monoid.name else ["code", code(monoid)]
    ours = type(monoid).__module__.startswith("sash.")
    return ["ours" if ours else "named", monoid.name, _parameters(monoid)]


def _parameters(monoid: Monoid) -> dict[str, Any]:
    """The parameters that a user may set: the constructor's arguments without those that `typed` sets."""
    found = {}
    for key in inspect.signature(type(monoid)).parameters:
        if key not in Monoid.__annotations__ and not key.startswith("_") and hasattr(monoid, key):
            found[key] = _value(getattr(monoid, key))
    return found


def _value(value: Any) -> Any:
    if isinstance(value, Monoid):
        return _monoid(value)
    if isinstance(value, tuple | list):
        return [_value(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return code(value) if callable(value) else repr(value)


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
