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
are accepted, since an instance of a subclass (a namedtuple) would be decoded as the base class. Encoder and decoder
use an explicit stack, so nesting costs memory, not recursion. Only tuples in a set or in a key of a dict are limited
to 1,000 levels, because Python hashes tuples recursively and without a limit.

For each exact type there are a tag, a writer, and a reader:

    i  int, 64 bits        I  int, longer         d  float           T F _  True, False, None
    s  str                 b  bytes               D  Decimal         N      a NumPy scalar
    y  date                Y  datetime            h  time            p      timedelta
                           P  pandas.Timestamp                       Q      pandas.Timedelta

A writer returns the tag and the content; a reader takes the data and the offset after the tag, and returns the value
and the offset after it. Time zones are written as values of these types: None, an offset (timedelta) with its name, or
the key of a zone.

The states of user-defined aggregates are encoded in this order:

    a monoid with dump= and load=      what these functions return
    a NamedTuple or a dataclass        its fields, as above; the class is that of the identity
    anything else                      as above

A list of states, for the pages of a tree's nodes:

    1.0 2.0 3.0 …           n │ d │ 1.0, 2.0, 3.0, …            numbers of one type
    2**64 + 1, 2**65, …     w │ 9 │ 2**64 + 1, 2**65, …         larger integers, all of one width: exact sums
    (3, 0.5) (4, 1.5) …     t │ 2 │ 2 │ 3, 4, … │ 0.5, 1.5, …   tuples of one length: a list for each position
    anything else           c │ a list, as above

Values of one type are packed in one call: 512 pairs of numbers take 60 µs instead of 500.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from struct import Struct, error
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

# --- Scalars ---

Writer = Callable[[Any], bytes]
Reader = Callable[[bytes, int], tuple[Any, int]]

DAMAGED = "the bytes of a value are damaged"


class CodecError(ValueError):
    """The bytes do not encode a value."""


_INT = Struct("<cq")
_FLOAT = Struct("<cd")
_TIMEDELTA = Struct("<iii")
_CLOCK = Struct("<BBBIB")
_Q, _D, _I, _COUNT = Struct("<q"), Struct("<d"), Struct("<I"), Struct("<cI")


def _write_int(x: int) -> bytes:
    if -(1 << 63) <= x < 1 << 63:
        return _INT.pack(b"i", x)
    return _sized(b"I", x.to_bytes(x.bit_length() // 8 + 1, "little", signed=True))


def _sized(tag: bytes, content: bytes) -> bytes:
    return _COUNT.pack(tag, len(content)) + content


def _content(data: bytes, at: int) -> tuple[bytes, int]:
    (size,) = _I.unpack_from(data, at)
    end = at + 4 + size
    if end > len(data):
        raise CodecError(f"{DAMAGED}, or truncated: {size} bytes expected, {len(data) - at - 4} left")
    return data[at + 4 : end], end


def _read_number(packed: Struct) -> Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        return packed.unpack_from(data, at)[0], at + packed.size

    return read


def _read_sized(build: Callable[[bytes], Any]) -> Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        content, at = _content(data, at)
        return build(content), at

    return read


def _decimal(content: bytes) -> Decimal:
    try:
        return Decimal(content.decode())
    except InvalidOperation:
        raise CodecError(f"{DAMAGED}: {content!r} is not a decimal") from None


# ---- times ----


def _clock(x: datetime | time) -> bytes:
    return _CLOCK.pack(x.hour, x.minute, x.second, x.microsecond, x.fold) + _zone(x.tzinfo)


def _write_timedelta(x: timedelta) -> bytes:
    return b"p" + _TIMEDELTA.pack(x.days, x.seconds, x.microseconds)


def _zone(zone: tzinfo | None) -> bytes:
    """Encode a time zone: as None, as an offset and perhaps a name, or as a key."""
    if zone is None:
        return b"_"
    if type(zone) is timezone:
        offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]
        return _write_timedelta(offset) + (WRITERS[str](name[0]) if name else b"_")
    if type(zone) is ZoneInfo and zone.key is not None:
        return WRITERS[str](zone.key)
    if type(zone).__module__.partition(".")[0] == "pytz" and getattr(zone, "zone", None):
        return WRITERS[str](zone.zone)  # type: ignore[attr-defined] # decoded as the ZoneInfo of this key
    raise TypeError(
        f"a time with the zone {zone!r}, a {type(zone).__name__}, cannot be written as state: "
        "use datetime.timezone or zoneinfo.ZoneInfo, or give the monoid dump= and load="
    )


def _read_zone(data: bytes, at: int) -> tuple[tzinfo | None, int]:
    tag = data[at : at + 1]
    if tag == b"_":
        return None, at + 1
    if tag == b"s":
        key, at = READERS[ord("s")](data, at + 1)
        try:
            return ZoneInfo(key), at
        except (KeyError, ValueError, OSError) as error:
            raise CodecError(f"a time has the zone {key!r}, which this machine does not have") from error
    if tag == b"p":
        offset, at = _read_timedelta(data, at + 1)
        if data[at] == ord("_"):
            return timezone(offset), at + 1
        name, at = READERS[ord("s")](data, at + 1)
        return timezone(offset, name), at
    raise CodecError(f"{DAMAGED}: unknown time zone kind {tag!r}")


def _read_date(data: bytes, at: int) -> tuple[date, int]:
    return date.fromordinal(_I.unpack_from(data, at)[0]), at + 4


def _read_datetime(data: bytes, at: int) -> tuple[datetime, int]:
    day, at = _read_date(data, at)
    clock, at = _read_time(data, at)
    return datetime.combine(day, clock), at


def _read_time(data: bytes, at: int) -> tuple[time, int]:
    hour, minute, second, micro, fold = _CLOCK.unpack_from(data, at)
    zone, at = _read_zone(data, at + _CLOCK.size)
    return time(hour, minute, second, micro, zone, fold=fold), at


def _read_timedelta(data: bytes, at: int) -> tuple[timedelta, int]:
    days, seconds, micros = _TIMEDELTA.unpack_from(data, at)
    return timedelta(days, seconds, micros), at + _TIMEDELTA.size


# ---- NumPy ----


def write_foreign(item: Any, value: Any) -> bytes:
    """Encode a scalar of NumPy or pandas, which is a part of `value`.

    Raises TypeError for any other object, naming its type, and the type of `value` if the object is only a part.
    """
    if isinstance(item, np.generic) and item.dtype.kind in "biufmM":
        dtype = item.dtype.newbyteorder("<")
        return _sized(b"N", dtype.str.encode() + b" " + item.astype(dtype).tobytes())
    if type(item).__module__.startswith("pandas.") and type(item).__name__ in _PANDAS:
        return _write_pandas(item, value)
    place = "" if item is value else f" (within a {type(value).__name__})"
    named = f"{type(item).__module__}.{type(item).__qualname__}{place}"
    raise TypeError(
        f"a {named} cannot be written as state: {item!r:.80}. Give the monoid dump= and load=, "
        "or a state of numbers, text, times, tuples, lists, dicts and sets"
    )


# ---- pandas: times with nanoseconds ----

_PANDAS = ("Timestamp", "Timedelta")


def _write_pandas(x: Any, value: Any) -> bytes:
    """Encode a Timestamp as its zone and a NumPy scalar in UTC, a Timedelta as a NumPy scalar."""
    if type(x).__name__ == "Timestamp":
        return b"P" + _zone(x.tzinfo) + write_foreign(x.to_datetime64(), value)
    return b"Q" + write_foreign(x.to_timedelta64(), value)


def _read_timestamp(data: bytes, at: int) -> tuple[Any, int]:
    zone, at = _read_zone(data, at)
    moment, at = _read_scalar(data, at, "M")
    found = _pandas().Timestamp(moment)
    return (found if zone is None else found.tz_localize("UTC").tz_convert(zone)), at


def _read_pandas_timedelta(data: bytes, at: int) -> tuple[Any, int]:
    length, at = _read_scalar(data, at, "m")
    return _pandas().Timedelta(length), at


def _read_scalar(data: bytes, at: int, kind: str) -> tuple[Any, int]:
    if data[at : at + 1] != b"N":
        raise CodecError(f"{DAMAGED}: a time of pandas has no number")
    found, at = READERS[ord("N")](data, at + 1)
    if found.dtype.kind != kind:
        raise CodecError(f"{DAMAGED}: a time of pandas is a {found.dtype}")
    return found, at


def _pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ImportError:
        raise CodecError("the state has times of pandas, which is not installed") from None


_NUMPY_TYPE = re.compile(rb"[<|][biufmM]\d{1,2}(\[\d{0,9}[A-Za-z]{1,2}\])?")


def _numpy(content: bytes) -> Any:
    code, _, raw = content.partition(b" ")
    if _NUMPY_TYPE.fullmatch(code) is None:  # NumPy would evaluate a list of types
        raise CodecError(f"{DAMAGED}: {code!r:.80} is not the type of a NumPy scalar")
    dtype = np.dtype(code.decode())
    if dtype.kind not in "biufmM" or dtype.itemsize != len(raw):
        raise CodecError(f"{DAMAGED}: {code!r:.80} in {len(raw)} bytes")
    return np.frombuffer(raw, dtype)[0].astype(dtype.newbyteorder("="))


WRITERS: dict[type, Writer] = {
    type(None): lambda _x: b"_",
    bool: lambda x: b"T" if x else b"F",
    int: _write_int,
    float: lambda x: _FLOAT.pack(b"d", x),
    str: lambda x: _sized(b"s", x.encode("utf-8", "surrogatepass")),
    bytes: lambda x: _sized(b"b", x),
    Decimal: lambda x: _sized(b"D", str(x).encode()),
    date: lambda x: b"y" + _I.pack(x.toordinal()),
    datetime: lambda x: b"Y" + _I.pack(x.toordinal()) + _clock(x),
    time: lambda x: b"h" + _clock(x),
    timedelta: _write_timedelta,
}

READERS: dict[int, Reader] = {
    ord("_"): lambda _data, at: (None, at),
    ord("T"): lambda _data, at: (True, at),
    ord("F"): lambda _data, at: (False, at),
    ord("i"): _read_number(_Q),
    ord("d"): _read_number(_D),
    ord("I"): _read_sized(lambda content: int.from_bytes(content, "little", signed=True)),
    ord("s"): _read_sized(lambda content: content.decode("utf-8", "surrogatepass")),
    ord("b"): _read_sized(bytes),
    ord("D"): _read_sized(_decimal),
    ord("y"): _read_date,
    ord("Y"): _read_datetime,
    ord("h"): _read_time,
    ord("p"): _read_timedelta,
    ord("N"): _read_sized(_numpy),
    ord("P"): _read_timestamp,
    ord("Q"): _read_pandas_timedelta,
}


# --- Codec ---

Value = Any

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


class _Close(NamedTuple):
    """On the stack of `dumps`: the container with this id is complete."""

    container: int


class _Sort(list[int]):
    """On the stack of `dumps`: the items of a set begin at these places of the output, and must be sorted."""

    def begin_at(self, place: int) -> None:
        """Record that an item begins at this part of the output."""
        self.append(place)


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
                ends = [*item[1:], len(out)]
                out[item[0] :] = sorted(b"".join(out[start:end]) for start, end in zip(item, ends, strict=True))
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
    out.append(_COUNT.pack(_TAGS[kind], len(container)))
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
            (count,) = _I.unpack_from(data, at)
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


# --- State objects ---

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
    return _record_codec(kind, names) if names else (dumps, loads)


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
            return dumps(state)  # raises an error with its type if it cannot be written
        return b"\0" + dumps(tuple(getattr(state, name) for name in names))

    def load(data: bytes) -> Any:
        if data[:1] != b"\0":  # `codec` uses no such tag
            return loads(data)
        values = loads(data[1:])
        if type(values) is not tuple or len(values) != len(names):
            raise CodecError(f"the bytes of a state of {kind.__qualname__} are damaged")
        return kind(**dict(zip(names, values, strict=True)))

    return dump, load


# --- State list ---

_SHAPE = Struct("<II")
"""Length of the tuples, and their number."""

_LONGEST = 1 << 16
"""Greatest number of packed tuples, and of values in each: empty tuples take no bytes, so a crafted number of them
could exhaust the memory."""

_DEEPEST = 8
"""Greatest depth of nested tuples that are packed."""


_NOT_DUMPED = "it holds states that the monoid's dump has not written"


def dump_states(states: Sequence[Any], dump: Callable[[Any], bytes] | None = None) -> bytes:
    """Encode states as bytes; `dump` encodes a state that the codec does not know.

    >>> load_states(dump_states([(1, 2.5), (2, 0.5)]))
    [(1, 2.5), (2, 0.5)]

    Raises TypeError, naming the type, for states that cannot be written.
    """
    if dump is not None:
        return b"c" + dumps([dump(state) for state in states])
    return _dump(states, _DEEPEST)


def _dump(states: Sequence[Any], depth: int) -> bytes:
    kinds = set(map(type, states))
    if len(kinds) == 1:
        kind = kinds.pop()
        if kind in _CODES:
            try:
                return b"n" + _CODES[kind].encode() + _struct(_CODES[kind], len(states)).pack(*states)
            except error:  # an integer beyond 64 bits
                return _dump_wide(states)
        if kind is tuple and depth and len(set(map(len, states))) == 1 and max(len(states), len(states[0])) <= _LONGEST:
            places = [_dump(place, depth - 1) for place in zip(*states, strict=True)]
            lengths = [_I.pack(len(place)) for place in places]
            return b"".join((b"t", _SHAPE.pack(len(places), len(states)), *lengths, *places))
    return b"c" + dumps(list(states))


def _dump_wide(states: Sequence[int]) -> bytes:
    width = max(map(int.bit_length, states)) // 8 + 1
    return b"w" + _I.pack(width) + b"".join([state.to_bytes(width, "little", signed=True) for state in states])


@lru_cache(maxsize=256)
def _struct(code: str, count: int) -> Struct:
    return Struct(f"<{count}{code}")


def load_states(data: bytes, load: Callable[[bytes], Any] | None = None) -> list[Any]:
    """Decode states, with the same types.

    Raises ValueError if the bytes are truncated or damaged, and whatever `load` raises.
    """
    if load is None:
        return _load_list(data, _DEEPEST)
    if data[:1] != b"c":
        raise ValueError(_NOT_DUMPED)
    states = _load_list(data, 0)
    if not all(type(state) is bytes for state in states):
        raise ValueError(_NOT_DUMPED)
    return [load(state) for state in states]


def _load_list(data: bytes, depth: int) -> list[Any]:
    tag = data[:1]
    if tag == b"c":
        states = loads(data[1:])
        if type(states) is not list:
            raise ValueError(f"it holds a {type(states).__name__} where a list of states belongs")
        return states
    if tag == b"n":
        return _load_numbers(data)
    if tag == b"w":
        return _load_wide(data)
    if tag == b"t" and depth:
        return _load_tuples(data, depth)
    raise ValueError(f"it holds states of an unknown kind, {tag!r}")


def _load_numbers(data: bytes) -> list[Any]:
    code = data[1:2].decode("latin-1")
    size = 1 if code == "?" else 8
    if code not in _CODES.values() or (len(data) - 2) % size:
        raise ValueError(f"it holds {len(data) - 2} bytes of numbers of kind {code!r}")
    return list(_struct(code, (len(data) - 2) // size).unpack_from(data, 2))


def _load_wide(data: bytes) -> list[int]:
    start = 1 + _I.size
    width = int.from_bytes(data[1:start], "little")
    if len(data) < start or not width or (len(data) - start) % width:
        raise ValueError(f"it holds {len(data)} bytes of integers of {width} bytes each")
    places = range(start, len(data), width)
    return [int.from_bytes(data[place : place + width], "little", signed=True) for place in places]


def _load_tuples(data: bytes, depth: int) -> list[Any]:
    at = 1 + _SHAPE.size
    try:
        width, count = _SHAPE.unpack_from(data, 1)
        if max(width, count) > _LONGEST:
            raise ValueError(f"it holds {count} tuples of {width} values")
        lengths = Struct(f"<{width}I").unpack_from(data, at)
    except error:
        raise ValueError(f"it holds the beginning of some tuples, {len(data)} bytes") from None
    at += _I.size * width
    if at + sum(lengths) != len(data):
        raise ValueError(f"it holds {len(data)} bytes of tuples; {at + sum(lengths)} were written")
    places = []
    for length in lengths:
        places.append(_load_list(data[at : at + length], depth - 1))
        at += length
    if any(len(place) != count for place in places):
        raise ValueError(f"it holds {count} tuples, and {sorted(set(map(len, places)))} values of them")
    return list(zip(*places, strict=True)) if places else [()] * count
