"""Encode the states of user-defined aggregates as bytes, without pickle. In this order:

a monoid with dump= and load=      what these functions return
a NamedTuple or a dataclass        its fields, by `codec`; the class is that of the identity
anything else                      by `codec`
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from sash.stores import codec
from sash.stores.scalars import CodecError

Dump = Callable[[Any], bytes]
Load = Callable[[bytes], Any]


def state_codec(monoid: Any) -> tuple[Dump, Load]:
    """Return the functions that encode a monoid's states as bytes and decode them.

    >>> from typing import NamedTuple
    >>> class Total(NamedTuple):
    ...     n: int
    ...     total: float
    >>> class Example:
    ...     dump, load, identity = None, None, Total(0, 0.0)
    >>> dump, load = state_codec(Example())
    >>> load(dump(Total(2, 0.5)))
    Total(n=2, total=0.5)
    """
    if monoid.dump is not None and monoid.load is not None:
        return monoid.dump, monoid.load
    kind = type(monoid.identity)
    names = _fields(kind)
    return _record_codec(kind, names) if names else (codec.dumps, codec.loads)


def _fields(kind: type) -> tuple[str, ...]:
    """The fields of a NamedTuple or dataclass; () for other classes, and if the constructor takes other arguments."""
    if issubclass(kind, tuple):
        return tuple(getattr(kind, "_fields", ()))
    if not dataclasses.is_dataclass(kind):
        return ()
    fields = dataclasses.fields(kind)
    return tuple(field.name for field in fields) if all(field.init for field in fields) else ()


def _record_codec(kind: type, names: tuple[str, ...]) -> tuple[Dump, Load]:
    def dump(state: Any) -> bytes:
        if type(state) is not kind:
            return codec.dumps(state)  # raises an error with its type if it cannot be written
        return b"\0" + codec.dumps(tuple(getattr(state, name) for name in names))

    def load(data: bytes) -> Any:
        if data[:1] != b"\0":  # `codec` uses no such tag
            return codec.loads(data)
        values = codec.loads(data[1:])
        if type(values) is not tuple or len(values) != len(names):
            raise CodecError(f"the bytes of a state of {kind.__qualname__} are damaged")
        return kind(**dict(zip(names, values, strict=True)))

    return dump, load
