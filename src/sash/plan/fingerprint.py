"""The fingerprint of a query: identifies its state.

State outlives the process, so its identity covers everything that determines its meaning: windows in units, aggregates
and which of them share a state, keys, order, lateness and forgetting, and the columns' names and types. It does not
cover how results are computed and emitted (options, emit, late, ahead). It does not use Python's `hash`, which differs
between processes.

Aggregates are named by `monoids/custom.py`; a user's without a name by what its code depends on
(kernels/jit/code_fingerprint.py), which differs between Pythons.

A fingerprint has no module and no private name of sash: state survives a reorganisation of sash, too.

Describe a query as JSON, and the differences between two queries in words.

    old    windows {"": Time 1h}     aggregates {high: max('price')}
    new    windows {"": Time 2h}     aggregates {high: max('price'), low: min('price')}
           ──▶ window 1h → 2h; aggregate low=min('price') added

State contains the description of its query, so that the error for a changed query names the changes. A description
covers what a fingerprint covers; functions, which have no text, by a short hash of their code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from sash.monoids.algebra import Bound
from sash.monoids.algebra import itself as identity_function
from sash.monoids.arithmetic import Aggregated
from sash.monoids.custom import Custom, monoid_key
from sash.monoids.direct_product import DirectProduct
from sash.plan.common_results import groups_by_state
from sash.windows.calendar import CalendarLength
from sash.windows.specs import Policy, WindowKind

if TYPE_CHECKING:
    from sash.plan.bound_query import AggregateSpec, BoundQuery, WindowSpec
    from sash.plan.query import Query


# --- Fingerprint ---

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
        [one.number, group[0].number, one.reads]
        for group in groups_by_state(bound_query.aggregates)
        for one in group[1:]
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
    if spec.categories:  # states have been compared by these
        meaning.append([None if one is None else [str(value) for value in one] for one in spec.categories])
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


# --- Query difference ---

Description = dict[str, Any]
"""A query as JSON: windows, aggregates, by, on, lateness, forget, min_periods; bound to a schema also its columns."""


def described(query: Query) -> Description:
    """Describe a query without the types of its columns.

    >>> import sash
    >>> found = described(sash.Query("1h", by="symbol", on="ts", high=sash.max("price")))
    >>> found["windows"], found["aggregates"], found["by"]
    ({'': {'kind': 'Time', 'size': '1h'}}, {'high': "max('price')"}, ['symbol'])
    """
    found: Description = {
        "windows": {name: _window(window) for name, window in query.all_windows.items()},
        "aggregates": {name: _aggregate(one) for name, one in query.aggregates.items()},
        "by": list(query.by),
        "on": list(query.on),
        "lateness": _text(query.lateness),
        "forget": _text(query.forget),
    }
    if query.min_periods:
        found["min_periods"] = str(query.min_periods)
    return found


def described_state(bound_query: BoundQuery) -> Description:
    """Describe a query with its columns, and with keys of its windows and aggregates."""
    codes = {spec.name: _key(window_meaning(spec)[1:]) for spec in bound_query.windows}
    made = {
        one.label: _key([aggregate_meaning(bound_query.aggregates[cell.aggregate])[1:] for cell in one.cells])
        for one in bound_query.projection.outputs
    }
    columns = {field.name: str(field.type) for field in bound_query.schema}
    return described(bound_query.query) | {"columns": columns, "keys": {"windows": codes, "aggregates": made}}


def is_description(found: Any) -> bool:
    """Is a value from a page such a description, as far as `difference` looks at it?"""
    if type(found) is not dict:
        return False
    windows, keys = found.get("windows"), found.get("keys", {})
    if type(windows) is not dict or type(keys) is not dict:
        return False
    by_name = [*windows.values(), found.get("aggregates"), found.get("columns", {})]
    by_name += [keys.get("windows", {}), keys.get("aggregates", {})]
    lists = [found.get("by"), found.get("on")]
    texts = [found.get(name) or "" for name in ("lateness", "forget", "min_periods")]
    return (
        all(type(one) is dict and all(type(value) is str for value in one.values()) for one in by_name)
        and all(type(one) is list and all(type(value) is str for value in one) for one in lists)
        and all(type(value) is str for value in texts)
    )


def difference(old: Description, new: Description) -> list[str]:
    """Describe the changes from one query to another.

    >>> import sash
    >>> old = described(sash.Query("1h", by="symbol", on="ts", high=sash.max("price")))
    >>> new = described(sash.Query("2h", by=["symbol", "venue"], on="ts", high=sash.min("price"), n=sash.count()))
    >>> for change in difference(old, new):
    ...     print(change)
    window 1h → 2h
    aggregate high: max('price') → min('price')
    aggregate n=count() added
    by: symbol → symbol, venue
    """
    found = list(_named("windows", old["windows"], new["windows"], _window_change))
    found += _named("aggregates", old["aggregates"], new["aggregates"], _aggregate_change)
    before, after = _argument_texts(old), _argument_texts(new)
    found += [f"{name}: {text} → {after[name]}" for name, text in before.items() if text != after[name]]
    if "columns" in old and "columns" in new:
        found += _named("columns", old["columns"], new["columns"], _column_change)
        if not found:
            found += _codes(old.get("keys", {}), new.get("keys", {}))
    return found


# ---- descriptions ----


def _window(window: WindowKind) -> dict[str, str]:
    if isinstance(window, Policy):
        return {"kind": "Policy", "evict": window.evict_name, "over": ", ".join(map(repr, window.over))}
    given = ((one.name, getattr(window, one.name)) for one in fields(window))  # type: ignore[arg-type]
    return {"kind": type(window).__name__} | {
        name: str(value) for name, value in given if value != window.default(name)
    }


def _aggregate(one: Aggregated) -> str:
    """An aggregate as it is written, and its parameters."""
    if not isinstance(one, Bound):
        own = any(isinstance(leaf.monoid, Custom | DirectProduct) for leaf in one.leaves())
        return one.state_text() if own else repr(one)
    if isinstance(one.monoid, Custom | DirectProduct):
        return one.state_text()
    _, _, parameters = monoid_key(one.monoid, code)
    given = ", ".join(f"{name}={value}" for name, value in parameters.items() if value is not None)
    return f"{one.state_text()} with {given}" if given else one.state_text()


def _argument_texts(description: Description) -> dict[str, str]:
    """The arguments of a query other than windows and aggregates, as texts."""
    texts = {name: ", ".join(description[name]) or "nothing" for name in ("by", "on")}
    return texts | {name: description.get(name) or "none" for name in ("lateness", "forget", "min_periods")}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _key(meaning: Any) -> str:
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=4, person=b"sash part").hexdigest()


# ---- differences ----


def _named(kind: str, old: Mapping[str, Any], new: Mapping[str, Any], change: Callable[..., str]) -> Iterator[str]:
    """The changes between two mappings: `change(name, before, after)` describes one; a missing value is None."""
    for name in [*old, *(name for name in new if name not in old)]:
        before, after = old.get(name), new.get(name)
        if before != after:
            yield change(name, before, after)
    if list(old) != list(new) and {*old} == {*new}:
        yield f"the order of {kind}: {', '.join(old)} → {', '.join(new)}"


def _window_change(name: str, before: Mapping[str, str] | None, after: Mapping[str, str] | None) -> str:
    named = f"window {name!r}:" if name else "window"
    if before is None or after is None:
        return f"{named} {window_text(before or after or {})} {'added' if before is None else 'removed'}"
    sizes = {**before, "size": ""} == {**after, "size": ""} and "size" in before and "size" in after
    texts = [one["size"] if sizes else window_text(one) for one in (before, after)]
    return f"{named} {texts[0]} → {texts[1]}"


def window_text(window: Mapping[str, str]) -> str:
    """A window as it is written, without quotes: Time(1h, every=5m)."""
    first, *rest = [*window.items()][1:] or [("", "")]
    values = [first[1] if first[0] in ("size", "column", "gap", "evict", "") else "=".join(first)]
    return f"{window.get('kind', '')}({', '.join([*values, *map('='.join, rest)])})"


def _aggregate_change(name: str, before: str | None, after: str | None) -> str:
    if before is None or after is None:
        return f"aggregate {name}={before or after} {'added' if before is None else 'removed'}"
    return f"aggregate {name}: {before} → {after}"


def _column_change(name: str, before: str | None, after: str | None) -> str:
    if after is None:
        return f"column {name} removed"
    return f"column {name} of type {after} added" if before is None else f"column {name}: {before} → {after}"


def _codes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Changes of windows and aggregates whose texts are equal: of code and parameters."""
    for kind in ("windows", "aggregates"):
        before, after = old.get(kind, {}), new.get(kind, {})
        for name in before:
            if name in after and before[name] != after[name]:
                named = f" {name}" if name else ""
                yield f"the code or the parameters of {kind[:-1]}{named} have changed"
