"""Encode single values as bytes: for each exact type a tag, a writer, and a reader.

    i  int, 64 bits        I  int, longer         d  float           T F _  True, False, None
    s  str                 b  bytes               D  Decimal         N      a NumPy scalar
    y  date                Y  datetime            h  time            p      timedelta
                           P  pandas.Timestamp                       Q      pandas.Timedelta

A writer returns the tag and the content; a reader takes the data and the offset after the tag, and returns the value
and the offset after it. Time zones are written as values of these types: None, an offset (timedelta) with its name, or
the key of a zone.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal, InvalidOperation
from struct import Struct
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

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


def _write_datetime(x: datetime) -> bytes:
    return b"Y" + _I.pack(x.toordinal()) + _clock(x)


def _write_time(x: time) -> bytes:
    return b"h" + _clock(x)


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
    datetime: _write_datetime,
    time: _write_time,
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
