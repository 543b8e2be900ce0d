"""User-defined aggregates: `sash.monoid(...)`, which must be associative; the keys of monoids, and runs on sample rows.

The key of a monoid identifies its state outside the process:

    a monoid of ours          its class and parameters
    a user's with a name      the name: its state outlives a change of its code
    a user's without          what its code depends on

No module of sash and no private name of it is in a key: state outlives a change of ours, too. Python's `hash`, which
differs between processes, is not used.

Sample rows show the types of states and results, and whether a user's aggregate changes its states. A structure keeps
states and combines them again: a `combine` that appends to its argument would give wrong results later, in other
windows. So it is an error when the query is bound.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, ModuleType
from typing import Any

from sash.expressions.source_text import function_text
from sash.monoids.algebra import Kind, Monoid, itself
from sash.monoids.direct_product import DirectProduct

# --- Custom ---


class _Undeclared:
    """The default of `empty` (None is a valid value)."""

    def __repr__(self) -> str:
        return "UNDECLARED"


UNDECLARED: Any = _Undeclared()


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


# --- Monoid key ---


_FUNCTIONS = ("lift", "combine", "lower", "inverse", "picks_right")


def monoid_key(monoid: Monoid, code: Callable[[Any], str]) -> Any:
    """The key of a monoid, as a JSON value. `code` returns the key of a user's function or nameless monoid.

    >>> from sash.monoids import Sum, Var
    >>> monoid_key(Sum(), code_key), monoid_key(Var(ddof=0), code_key)
    (['ours', 'sum', {}], ['ours', 'var', {'ddof': 0}])
    """
    if isinstance(monoid, DirectProduct):
        return ["product", *(monoid_key(part, code) for part in monoid.parts)]
    if isinstance(monoid, Custom):
        return ["named", monoid.name] if monoid.name else ["code", code(monoid)]
    ours = type(monoid).__module__.startswith("sash.")
    return ["ours" if ours else "named", monoid.name, _parameters(monoid, code)]


def _parameters(monoid: Monoid, code: Callable[[Any], str]) -> dict[str, Any]:
    """The parameters that a user may set: the constructor's, without those that `typed` fills."""
    found = {}
    for key in inspect.signature(type(monoid)).parameters:
        if key not in Monoid.__annotations__ and not key.startswith("_") and hasattr(monoid, key):
            found[key] = _value(getattr(monoid, key), code)
    return found


def _value(value: Any, code: Callable[[Any], str]) -> Any:
    if isinstance(value, Monoid):
        return monoid_key(value, code)
    if isinstance(value, tuple | list):
        return [_value(item, code) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return code(value) if callable(value) else repr(value)


def code_key(thing: Any) -> str:
    """A key for a user's function or nameless monoid: its byte code, constants, defaults, captured values and globals.

    It differs between versions of Python; a name given to the monoid does not.
    """
    functions = [vars(thing).get(name) for name in _FUNCTIONS] if isinstance(thing, Custom) else [thing]
    seen: set[CodeType] = set()
    meaning: list[Any] = [_value_key(function, seen) for function in functions]
    if isinstance(thing, Custom):
        meaning.append(_constant(thing.identity))
    return hashlib.blake2b(repr(meaning).encode(), digest_size=16, person=b"sash code").hexdigest()


def _value_key(value: Any, seen: set[CodeType]) -> Any:
    """The meaning of a value that a function uses; for a function, that of the values which it uses in turn."""
    code = getattr(value, "__code__", None)
    if code is None:
        return _named(value) if callable(value) else _constant(value)
    if code in seen:
        return _named(value)
    seen.add(code)
    cells = [_value_key(cell.cell_contents, seen) for cell in value.__closure__ or ()]
    names = sorted(_names(code) & value.__globals__.keys())
    used = [(name, _value_key(value.__globals__[name], seen)) for name in names]
    return [_code(code), _constant(value.__defaults__), cells, used]


def _names(code: CodeType) -> set[str]:
    """The names that code reads, in functions within it, too."""
    inner = [_names(value) for value in code.co_consts if isinstance(value, CodeType)]
    return set(code.co_names).union(*inner)


def _code(code: CodeType) -> Any:
    constants = [_code(value) if isinstance(value, CodeType) else _constant(value) for value in code.co_consts]
    return [code.co_code.hex(), constants, code.co_names]


def _constant(value: Any) -> str:
    """A value as text that is the same in every process."""
    if isinstance(value, frozenset | set):  # its order depends on the hashes of the process
        return repr(sorted(map(repr, value)))
    if isinstance(value, ModuleType):  # its text has the path of a file
        return value.__name__
    text = repr(value)
    return type(value).__qualname__ if " at 0x" in text else text


def _named(function: Any) -> str:
    """A function without byte code: a built-in, or an object with `__call__`."""
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"


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
