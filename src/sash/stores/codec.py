"""Encode Python values as bytes, without pickle: the values that a stored state of a monoid may consist of.

    None bool int float str bytes                 integers of any size
    date datetime time timedelta Decimal          with their time zone: fixed, or a ZoneInfo by its key
    tuple list dict set frozenset                 of these, nested to any depth
    NumPy scalars                                 numbers and times, with their type
    Timestamp and Timedelta of pandas             with their nanoseconds

A scalar is a tag and its content; a container is its tag, its length, and its items one after the other:

    (1, "a")     t │ 2 │ i │ 1 │ s │ 1 │ a
    (3, 0.5)     n │ 2 │ qd │ 3, 0.5             a flat tuple of up to 16 numbers: one read, one write

The same value gives the same bytes: a set's items are sorted by their bytes, a dict keeps its order. Only exact types
are accepted, since an instance of a subclass (a namedtuple) would be decoded as the base class. Encoder and decoder use
an explicit stack, so nesting costs memory, not recursion. Only tuples in a set or in a key of a dict are limited to
1,000 levels, because Python hashes tuples recursively and without a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from struct import Struct, error
from typing import Any

from sash.stores.scalars import DAMAGED, READERS, WRITERS, CodecError, Reader, write_foreign

Value = Any

_LENGTH = Struct("<cI")
_COUNT = Struct("<I")
_TAGS: dict[type, bytes] = {tuple: b"t", list: b"l", dict: b"m", set: b"e", frozenset: b"z"}
_BUILD: dict[int, Callable[[list[Value]], Value]] = {
    ord(b"t"): tuple,
    ord(b"l"): list,
    ord(b"m"): lambda items: _unique(dict(zip(_hashed(items[::2]), items[1::2], strict=True)), len(items) // 2),
    ord(b"e"): lambda items: _unique(set(_hashed(items)), len(items)),
    ord(b"z"): lambda items: _unique(frozenset(_hashed(items)), len(items)),
}
_DICT = ord(b"m")
_NUMBERS = ord(b"n")
_CODES = {int: "q", float: "d", bool: "?"}
_LARGEST = 16
DEEPEST = 1000
"""Greatest depth of nested tuples in a set or in a key of a dict."""


class _Close:
    """On the stack of `dumps`: the container with this id is complete."""

    __slots__ = ("container",)

    def __init__(self, container: int) -> None:
        self.container = container


class _Sort:
    """On the stack of `dumps`: the items of a set begin at these places of the output, and must be sorted."""

    __slots__ = ("starts",)

    def __init__(self) -> None:
        self.starts: list[int] = []

    def begin_at(self, place: int) -> None:
        """Record that an item begins at this part of the output."""
        self.starts.append(place)


class _Start:
    """On the stack of `dumps`: an item of a set begins here."""

    __slots__ = ("of",)

    def __init__(self, of: _Sort) -> None:
        self.of = of


def dumps(value: Value) -> bytes:
    """Encode a value as bytes. Linear in its size; a flat tuple of a few numbers takes about a microsecond.

    >>> loads(dumps((3, [0.5, None], {"a", "b"}))) == (3, [0.5, None], {"a", "b"})
    True

    Raises TypeError, naming the type, for anything that is not listed above, and ValueError for a value that contains
    itself, has an item of 4 GiB or more, or tuples nested too deeply in a set or a key.
    """
    if type(value) is tuple and (flat := _flat(value)) is not None:
        return flat
    out: list[bytes] = []
    todo: list[Value] = [value]
    within: set[int] = set()
    try:
        while todo:
            item = todo.pop()
            kind = type(item)
            if (write := WRITERS.get(kind)) is not None:
                out.append(write(item))
            elif kind in _TAGS:
                _open(item, out, todo, within)
            elif kind is _Close:
                within.discard(item.container)
            elif kind is _Start:
                item.of.begin_at(len(out))
            elif kind is _Sort:
                _sort(item.starts, out)
            else:
                out.append(write_foreign(item, value))
    except error:
        raise ValueError("a value with an item of 4 GiB or more cannot be written") from None
    return b"".join(out)


def _open(container: Value, out: list[bytes], todo: list[Value], within: set[int]) -> None:
    """Write the tag and length of a container, and its items if all are scalars; else push them on the stack."""
    kind = type(container)
    if kind is tuple and (flat := _flat(container)) is not None:
        out.append(flat)
        return
    out.append(_LENGTH.pack(_TAGS[kind], len(container)))
    items = [x for pair in container.items() for x in pair] if kind is dict else list(container)
    try:
        plain = [WRITERS[type(item)](item) for item in items]
    except KeyError:
        pass
    else:
        out.extend(sorted(plain) if kind is set or kind is frozenset else plain)
        return
    if kind is not tuple and kind is not list:
        _hashed(container)
    if kind is set or kind is frozenset:
        todo.append(sort := _Sort())
        for item in items:
            todo += item, _Start(sort)
        return
    if id(container) in within:
        raise ValueError(f"a {kind.__name__} that contains itself cannot be written")
    within.add(id(container))
    todo.append(_Close(id(container)))
    items.reverse()
    todo += items


def _sort(starts: list[int], out: list[bytes]) -> None:
    ends = [*starts[1:], len(out)]
    out[starts[0] :] = sorted(b"".join(out[start:end]) for start, end in zip(starts, ends, strict=True))


def _flat(value: tuple[Value, ...]) -> bytes | None:
    """Encode a tuple of a few numbers in one piece; None if it is anything else."""
    found = _flat_layout(tuple(map(type, value)))
    if found is None:
        return None
    prefix, packed = found
    try:
        return prefix + packed.pack(*value)
    except error:  # an integer beyond 64 bits
        return None


@lru_cache(maxsize=1024)
def _flat_layout(kinds: tuple[type, ...]) -> tuple[bytes, Struct] | None:
    """The bytes before the numbers of a flat tuple of these types, and the struct that packs the numbers."""
    if not 0 < len(kinds) <= _LARGEST or not all(kind in _CODES for kind in kinds):
        return None
    codes = "".join(_CODES[kind] for kind in kinds)
    return b"n" + bytes([len(codes)]) + codes.encode(), Struct("<" + codes)


@lru_cache(maxsize=1024)
def _packed(codes: bytes) -> Struct:
    if not codes or len(codes) > _LARGEST or codes.strip(b"qd?"):
        raise CodecError(f"{DAMAGED}: numbers of kinds {codes!r}")
    return Struct("<" + codes.decode())


def loads(data: bytes) -> Value:
    """Decode a value that `dumps` has encoded, with the same types.

    >>> loads(dumps({"a": (1, 2.5), "b": frozenset()}))
    {'a': (1, 2.5), 'b': frozenset()}

    Raises ValueError if the bytes are truncated or damaged, or name a time zone that this machine does not have.
    """
    if type(data) is not bytes:
        data = bytes(data)
    try:
        value, end = _load(data)
    except CodecError:
        raise
    except (error, IndexError, OverflowError, TypeError, ValueError) as why:
        raise CodecError(f"{DAMAGED}, or truncated: {why}") from why
    if end != len(data):
        raise CodecError(f"{DAMAGED}: {len(data) - end} bytes follow the value")
    return value


def _load(data: bytes) -> tuple[Value, int]:
    at = 0
    open_: list[tuple[int, int, list[Value]]] = []
    while True:
        tag = data[at]
        at += 1
        if tag == _NUMBERS:
            begin = at + 1 + data[at]
            packed = _packed(data[at + 1 : begin])
            value: Value = packed.unpack_from(data, begin)
            at = begin + packed.size
        elif tag in _BUILD:
            (count,) = _COUNT.unpack_from(data, at)
            at += 4
            count *= 1 + (tag == _DICT)
            if count > len(data) - at:
                raise CodecError(f"{DAMAGED}, or truncated: {count} items in {len(data) - at} bytes")
            if count:
                open_.append((tag, count, []))
                continue
            value = _BUILD[tag]([])
        else:
            reader: Reader | None = READERS.get(tag)
            if reader is None:
                raise CodecError(f"{DAMAGED}: unknown type {bytes([tag])!r}")
            value, at = reader(data, at)
        while open_:
            kind, wanted, items = open_[-1]
            items.append(value)
            if len(items) < wanted:
                break
            open_.pop()
            value = _BUILD[kind](items)
        else:
            return value, at


def _hashed(items: Iterable[Value]) -> Iterable[Value]:
    """Return values that are to be hashed. Raises CodecError for tuples nested so deeply that hashing would crash."""
    for item in items:
        within, depth = [item], 0
        while within := [item for outer in within if type(outer) is tuple for item in outer if type(item) is tuple]:
            depth += 1
            if depth > DEEPEST:
                raise CodecError(f"tuples in a set or a key are nested more than {DEEPEST} deep")
    return items


def _unique(built: Value, wanted: int) -> Value:
    if len(built) != wanted:
        raise CodecError(f"{DAMAGED}: a {type(built).__name__} contains an element twice")
    return built
