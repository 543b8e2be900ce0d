"""A list of states as bytes: what a page of a tree's nodes holds.

    (3, 0.5) (4, 1.5) …     N │ 2 │ qd │ 3, 0.5, 4, 1.5, …      flat tuples of the same few numbers
    1.0 2.0 3.0 …           n │ 1 │ d  │ 1.0, 2.0, 3.0, …       numbers of one type
    2**64 + 1, 2**65, …     w │ 9  │ 2**64 + 1, 2**65, …        larger integers, in as many bytes each: exact sums
    anything else           c │ a list, as `codec` writes it

States of one shape are packed in one call: 512 pairs of numbers take 60 µs, one by one they would take 500.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from struct import Struct, error
from typing import Any

from sash.stores.codec import dumps, loads

_CODES: dict[type, str] = {int: "q", float: "d", bool: "?"}
_LARGEST = 16
"""The largest tuple that is packed."""

_WIDTH = Struct("<I")
"""How many bytes each integer has."""


def dump_states(states: Sequence[Any], dump: Callable[[Any], bytes] | None = None) -> bytes:
    """States as bytes; `dump` encodes one where the codec does not know it.

    >>> load_states(dump_states([(1, 2.5), (2, 0.5)]))
    [(1, 2.5), (2, 0.5)]

    Raises TypeError, naming the type, for states that cannot be written.
    """
    if dump is not None:
        return b"c" + dumps([dump(state) for state in states])
    return _packed(states) or b"c" + dumps(list(states))


def _packed(states: Sequence[Any]) -> bytes | None:
    """States of one flat shape in one piece; None for all others."""
    kinds = set(map(type, states))
    if len(kinds) != 1:
        return None
    kind = kinds.pop()
    try:
        if kind in _CODES:
            return b"n\x01" + _CODES[kind].encode() + _struct(_CODES[kind], len(states)).pack(*states)
        if kind is tuple and (codes := _shape(states)):
            head = b"N" + bytes([len(codes)]) + codes.encode()
            return head + _struct(codes, len(states)).pack(*chain.from_iterable(states))
    except error:  # an integer beyond 64 bits
        return _wide(states) if kind is int else None
    return None


def _wide(states: Sequence[int]) -> bytes:
    width = max(map(int.bit_length, states)) // 8 + 1
    return b"w" + _WIDTH.pack(width) + b"".join([state.to_bytes(width, "little", signed=True) for state in states])


def _shape(states: Sequence[tuple[Any, ...]]) -> str:
    """The codes of the numbers that all these tuples consist of; empty if they differ."""
    width = len(states[0])
    if not 0 < width <= _LARGEST or len(set(map(len, states))) != 1:
        return ""
    flat = list(chain.from_iterable(states))
    codes = ""
    for place in range(width):
        kinds = set(map(type, flat[place::width]))
        code = _CODES.get(kinds.pop()) if len(kinds) == 1 else None
        if code is None:
            return ""
        codes += code
    return codes


@lru_cache(maxsize=256)
def _struct(codes: str, count: int) -> Struct:
    return Struct("<" + codes * count)


def load_states(data: bytes, load: Callable[[bytes], Any] | None = None) -> list[Any]:
    """The states again, of the same types.

    Raises ValueError if the bytes are truncated or damaged, and whatever `load` raises.
    """
    tag = data[:1]
    if tag == b"c":
        states = loads(data[1:])
        if type(states) is not list:
            raise ValueError(f"it holds a {type(states).__name__} where a list of states belongs")
        if load is None:
            return states
        if not all(type(state) is bytes for state in states):
            raise ValueError("it holds states that the monoid's dump has not written")
        return [load(state) for state in states]
    if tag == b"w" and load is None:
        return _load_wide(data)
    if tag not in (b"n", b"N") or len(data) < 2 or load is not None:
        raise ValueError(f"it holds states of an unknown kind, {tag!r}")
    width = data[1]
    codes = data[2 : 2 + width]
    size = Struct("<" + codes.decode()).size if codes and not codes.strip(b"qd?") else 0
    body = memoryview(data)[2 + width :]
    if not size or len(codes) != width or width > _LARGEST or len(body) % size or (tag == b"n" and width != 1):
        raise ValueError(f"it holds {len(body)} bytes of numbers of kinds {codes!r}")
    flat = _struct(codes.decode(), len(body) // size).unpack(body)
    return list(flat) if tag == b"n" else list(zip(*[iter(flat)] * width, strict=True))


def _load_wide(data: bytes) -> list[int]:
    start = 1 + _WIDTH.size
    width = int.from_bytes(data[1:start], "little")
    if len(data) < start or not width or (len(data) - start) % width:
        raise ValueError(f"it holds {len(data)} bytes of integers of {width} bytes each")
    places = range(start, len(data), width)
    return [int.from_bytes(data[place : place + width], "little", signed=True) for place in places]
