"""The key of a monoid: identifies its state outside the process.

    a monoid of ours          its class and parameters
    a user's with a name      the name: its state outlives a change of its code
    a user's without          what its code depends on

No module of sash and no private name of it is in a key: state outlives a change of ours, too. Python's `hash`, which
differs between processes, is not used.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

from sash.monoids.algebra import Monoid
from sash.monoids.custom import Custom
from sash.monoids.direct_product import DirectProduct

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
