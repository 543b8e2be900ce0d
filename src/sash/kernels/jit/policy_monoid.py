"""A slide policy as a monoid: the product of the aggregates of `over`, with the user's function.

    Watched ── over: Beside ── parts: typed monoids, OrNone if the plain aggregate of no values is None
            └─ evict(total, prefix)

The compiler treats a monoid as a type, whose key depends on everything that the function depends on.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

from sash.kernels.jit.state_layout import NotColumnar
from sash.monoids.algebra import TOLERANCE, Kind, Monoid, agree
from sash.monoids.custom import SAMPLES
from sash.monoids.direct_product import DirectProduct, Unit


class Beside(DirectProduct):
    """A product of monoids, each on its own columns."""

    def __init__(self, *parts: Monoid) -> None:
        self.parts = parts
        self.first: Monoid = parts[0]
        self.rest: Monoid = Beside(*parts[1:]) if len(parts) > 1 else Unit()
        self.identity = (self.first.identity, self.rest.identity)


class OrNone(Monoid):
    """A typed monoid that records whether it has a value: (has, state)."""

    def __init__(self, monoid: Monoid) -> None:
        self.monoid = monoid
        self.identity = (False, monoid.identity)

    def combine(self, a: Any, b: Any) -> Any:
        return (a[0] or b[0], self.monoid.combine(a[1], b[1]))

    def policy_value(self, a: Any) -> Any:
        return self.monoid.policy_value(a[1]) if a[0] else None


class Watched(Monoid):
    """The aggregates of a policy and its function. `over` is one aggregate, or several as a `Beside`."""

    def __init__(self, over: Monoid, evict: Callable[[Any, Any], Any]) -> None:
        self.over, self.evict = over, evict
        self.identity = over.identity

    def lift(self, *row: Any) -> Any:
        return self.over.lift(*row)

    def combine(self, a: Any, b: Any) -> Any:
        return self.over.combine(a, b)

    def evicts(self, total: Any, prefix: Any) -> bool:
        return bool(self.evict(self.over.policy_value(total), self.over.policy_value(prefix)))


def watched(parts: Sequence[Monoid], evict: Callable[[Any, Any], Any], alone: bool) -> Watched:
    """A policy over these aggregates; `alone`: its function takes the value of one, not a tuple."""
    return Watched(parts[0] if alone else Beside(*parts), evict)


def joined(states: Sequence[Any], alone: bool) -> Any:
    """The states (or shapes) of the aggregates as a state (or shape) of `watched`: pairs, the last of which is ()."""
    if alone:
        return states[0]
    found: Any = ()
    for state in reversed(states):
        found = (state, found)
    return found


def split(state: Any, alone: bool) -> list[Any]:
    """The states of the aggregates in a state of `watched`."""
    if alone:
        return [state]
    found = []
    while state != ():
        first, state = state
        found.append(first)
    return found


def policy_monoid(plain: Monoid, typed: Monoid, kinds: tuple[Kind, ...]) -> Monoid:
    """The typed monoid in a form from which a policy gets the same values as from the plain one, tested on samples.

    Raises NotColumnar, naming the values, if they differ.
    """
    if typed is plain:
        return typed
    try:
        nothing, typed_nothing = plain.policy_value(plain.identity), typed.policy_value(typed.identity)
        _require_alike(plain, typed, kinds)
    except NotColumnar:
        raise
    except Exception as error:
        raise NotColumnar(
            f"{plain!r} cannot be passed to a policy; on sample values it raised {type(error).__name__}: {error}"
        ) from error
    if nothing is None:
        return OrNone(typed)
    if typed_nothing is None or not agree(nothing, typed_nothing):
        raise NotColumnar(f"an empty {plain!r} is {nothing!r} to a policy interpreted and {typed_nothing!r} compiled")
    return typed


def _require_alike(plain: Monoid, typed: Monoid, kinds: tuple[Kind, ...]) -> None:
    states = [plain.identity, typed.identity]
    for row in zip(*(SAMPLES[kind] for kind in kinds), strict=True):
        states = [
            monoid.combine(state, monoid.lift(*row)) for monoid, state in zip((plain, typed), states, strict=True)
        ]
        a, b = plain.policy_value(states[0]), typed.policy_value(states[1])
        if not agree(a, b, TOLERANCE):
            raise NotColumnar(f"{plain!r} is {a!r} to a policy interpreted and {b!r} compiled")


# ---- policies that are not plain functions ----


def compilable(evict: Any) -> Any:
    """A policy in a form that compiles: a function, or the method of an object whose attributes are constants.

    Raises NotColumnar for anything else.
    """
    if isinstance(evict, types.FunctionType) or hasattr(evict, "py_func"):
        return evict
    owner, function = evict, inspect.getattr_static(type(evict), "__call__", None)
    if isinstance(evict, types.MethodType):
        owner, function = evict.__self__, evict.__func__
    if not isinstance(function, types.FunctionType) or not hasattr(owner, "__dict__") or isinstance(owner, type):
        raise NotColumnar(f"the policy is a {type(evict).__name__}, not a Python function")
    return types.MethodType(function, _constant(owner))


def _constant(owner: Any) -> Monoid:
    """A monoid with the attributes and methods of an object, so that its key depends on all of them."""
    members: dict[str, Any] = {"__module__": "a policy of the user's"}
    for cls in reversed(type(owner).__mro__[:-1]):
        members |= {name: value for name, value in vars(cls).items() if not name.startswith("__")}
    made: Monoid = object.__new__(type(type(owner).__name__, (Monoid,), members))
    vars(made).update(vars(owner))
    return made
