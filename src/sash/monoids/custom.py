"""User-defined aggregates: `sash.monoid(...)`. They must be associative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sash.expressions.source_text import function_text
from sash.monoids.algebra import Monoid


class _Undeclared:
    """The default of `empty` (None is a valid value)."""

    def __repr__(self) -> str:
        return "UNDECLARED"


UNDECLARED: Any = _Undeclared()


def itself(x: Any) -> Any:
    """The default of `lift` and `lower`."""
    return x


class Custom(Monoid):
    """A monoid of user-defined functions. Built by `sash.monoid`, which documents and checks its attributes."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def parameters(self) -> dict[str, Any]:
        """None: those that it is made with belong to `called`."""
        return {}

    def called(self) -> str:
        """Its name; without one, the call that made it, with the names of its functions."""
        if self.name:
            return self.name
        plain = {**dict.fromkeys(("inverse", "dump", "load", "returns", "empty")), "lift": itself, "lower": itself}
        flags = dict.fromkeys(("commutative", "selective", "exact"), False)
        given = {name: value for name, value in vars(self).items() if name not in ("name", "declares_empty")}
        differing = {name: value for name, value in given.items() if value is not (plain | flags).get(name, UNDECLARED)}
        if self.declares_empty:
            differing["empty"] = self.empty
        texts = (
            f"{name}={function_text(one) if callable(one) else repr(one)}" for name, one in sorted(differing.items())
        )
        return f"monoid({', '.join(texts)})"

    def __repr__(self) -> str:
        return f"monoid({self.name!r})" if self.name else f"monoid(identity={self.identity!r})"


def monoid(
    *,
    identity: Any,
    lift: Callable[..., Any] = itself,
    combine: Callable[[Any, Any], Any],
    lower: Callable[[Any], Any] = itself,
    inverse: Callable[[Any, Any], Any] | None = None,
    picks_right: Callable[[Any, Any], bool] | None = None,
    commutative: bool = False,
    selective: bool = False,
    exact: bool = False,
    empty: Any = UNDECLARED,
    dump: Callable[[Any], bytes] | None = None,
    load: Callable[[bytes], Any] | None = None,
    name: str | None = None,
    returns: Any = None,
) -> Monoid:
    """Make an aggregate of your own (a user-defined aggregate function, UDAF) from functions.

    Call the result with the names of columns to use it in a query: `my_aggregate("price")`. Declare a property only if
    it holds; `sash.testing.check_laws` tests it.

    identity: the state of no input: combining it with a state gives that state.
    lift: turns an input into a state; it takes as many arguments as columns. By default the input is the state.
    combine: joins two neighbouring states, the older first. It must be associative.
    lower: turns a state into the result. By default the state is the result.
    inverse: `inverse(total, oldest)` removes the oldest elements of a state: `inverse(combine(a, b), a) == b`, exactly.
    picks_right: for a selective aggregate: does `combine(a, b)` return `b`?
    commutative: the order of the operands of `combine` does not matter.
    selective: `combine` returns one of its operands, as a maximum does.
    exact: the laws hold without a tolerance for rounding.
    empty: the result for a window without input; by default that of `lower(identity)`.
    dump: turns a state into bytes, for states that are objects of your own.
    load: turns the bytes of `dump` into the state.
    name: the name of the aggregate in errors and plans. It also identifies its stored state, which then stays readable
        when the code of the functions changes.
    returns: the Arrow type of the result, or its name; needed where a query cannot find it by trying sample values.

    >>> import math, sash
    >>> geo = sash.monoid(identity=(0, 0.0), lift=lambda x: (1, math.log(x)),
    ...                   combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
    ...                   lower=lambda a: math.exp(a[1] / a[0]), name="geo")
    >>> window = sash.aggregators.DABA(geo)
    >>> window.insert(2.0); window.insert(8.0); round(window.query(), 6)
    4.0

    Raises TypeError if a function is not callable, or one of `dump` and `load` is missing.
    """
    functions: dict[str, Any] = {"lift": lift, "combine": combine, "lower": lower}
    optional = {"inverse": inverse, "picks_right": picks_right, "dump": dump, "load": load}
    functions |= {key: function for key, function in optional.items() if function is not None}
    for key, function in functions.items():
        if not callable(function):
            raise TypeError(f"{key}= must be a function; got {function!r}")
    if (dump is None) != (load is None):
        raise TypeError("dump= and load= belong together: give both or neither")
    if picks_right is not None and not selective:
        raise TypeError("picks_right= returns which operand a selective monoid chose: declare selective=True")
    if not (returns is None or isinstance(returns, str) or type(returns).__module__.startswith("pyarrow")):
        raise TypeError(f"returns= must be an Arrow type or the name of one, such as 'float64'; got {returns!r}")
    return Custom(
        **functions,
        identity=identity,
        commutative=commutative,
        selective=selective,
        exact=exact,
        declares_empty=empty is not UNDECLARED,
        empty=None if empty is UNDECLARED else empty,
        name=name or "",
        returns=returns,
    )
