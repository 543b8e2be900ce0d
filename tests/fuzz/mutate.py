"""Random changes of a state: bits, words, lengths, fields of the meta, batches, pages; checksums are corrected."""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tests.fuzz.envelopes import Envelope, State, repaired, unwrapped

WORDS = [0, 1, 2, 7, 8, 64, 255, 4095, 4096, 2**31 - 1, 2**31, 2**32, 2**53, 2**61, 2**62, 2**63 - 1]
FLOATS = [0.0, -0.0, 1.0, 1e16, 1e308, float("inf"), float("-inf"), float("nan"), 5e-324]
VALUES: list[Any] = [
    *(None, True, False, "", "x", "inf", "-inf", "nan", "1e999", "9" * 19, "9" * 40, "0.5", [], {}, [[]], 0.5),
    *(-1, 0, 1, 2, 17, 2**31, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64, 10**40, float("nan"), "final", "eager"),
]


UNREADABLE = (ValueError, RecursionError, LookupError, TypeError, struct.error)
"""Errors of reading a page that was changed before."""


def mutated(state: State, others: Sequence[State], rng: Random) -> State:
    """A state with one to three changes; `others` are states of the same query, to take parts from."""
    made = copy.deepcopy(state)
    for _ in range(rng.choice([1, 1, 1, 1, 2, 3])):
        name = rng.choice(sorted(made.pages))
        if made.schema and rng.random() < 0.02:
            made.schema = _bytes_changed(made.schema, rng)
        elif rng.random() < 0.06:
            _pages_changed(made, others, rng)
        elif name == "late" or rng.random() < 0.1:
            made.pages[name] = repaired(_bytes_changed(made.pages[name], rng))
        else:
            made.pages[name] = _page_changed(made.pages[name], [other.pages.get(name) for other in others], rng)
    return made


def _pages_changed(state: State, others: Sequence[State], rng: Random) -> None:
    """Swap, drop, copy or exchange whole pages."""
    name, other = rng.choice(sorted(state.pages)), rng.choice(sorted(state.pages))
    way = rng.randrange(4)
    if way == 0 and "late" not in (name, other):
        one, two = state.pages[name], state.pages[other]
        state.pages[name], state.pages[other] = _renamed(two, one), _renamed(one, two)
    elif way == 1:
        del state.pages[name]
        if not state.pages:
            state.pages[name] = b""
    elif way == 2:
        state.pages[name] = b""
    elif others:
        state.pages.update({n: data for n, data in rng.choice(others).pages.items() if n == name})


def _renamed(page: bytes, like: bytes) -> bytes:
    """A page with the name and generation of another one; unchanged if one of them can no longer be read."""
    try:
        made, theirs = unwrapped(page), unwrapped(like)
        own = {key: theirs.meta[key] for key in ("name", "generation")}
        return made.with_meta({**made.meta, **own}).wrapped()
    except UNREADABLE:
        return page


def _page_changed(page: bytes, others: Sequence[bytes | None], rng: Random) -> bytes:
    try:
        made = unwrapped(page)
    except UNREADABLE:  # it was changed before
        return repaired(_bytes_changed(page, rng))
    way = rng.random()
    if way < 0.3:
        try:
            return made.with_meta(_meta_changed(made.meta, rng)).wrapped()
        except UNREADABLE:
            return page
    if len(made.items) < 2:
        return repaired(_bytes_changed(page, rng))
    at = rng.randrange(1, len(made.items))
    if way < 0.85:
        made.items[at] = _batch_changed(made.items[at], rng)
    elif way < 0.9:
        to = rng.randrange(1, len(made.items))
        made.items[at], made.items[to] = made.items[to], made.items[at]
    elif way < 0.95:
        _splice(made, at, [unwrapped(other) for other in others if other], rng)
    else:
        made.items.insert(at, made.items[at]) if rng.random() < 0.5 else made.items.pop(at)
    return made.wrapped()


def _splice(made: Envelope, at: int, others: Sequence[Envelope], rng: Random) -> None:
    """Take a batch of another state's page of the same name."""
    fitting = [other for other in others if len(other.items) == len(made.items)]
    if fitting:
        made.items[at] = rng.choice(fitting).items[at]


def _batch_changed(part: bytes, rng: Random) -> bytes:
    """Change the head of a batch, or values in its body."""
    if len(part) < 16:
        return _bytes_changed(part, rng)
    head = min(8 + int.from_bytes(part[4:8], "little"), len(part))
    data = bytearray(part)
    for _ in range(rng.choice([1, 1, 2, 5])):
        where = rng.random()
        low, high = (0, head) if where < 0.25 or head >= len(part) - 8 else (head, len(part))
        width = rng.choice([1, 4, 8, 8, 8])
        at = low + rng.randrange(max((high - low) // width, 1)) * width
        data[at : at + width] = _word(bytes(data), at, width, rng)[: len(data) - at]
    return bytes(data)


def _word(data: bytes, at: int, width: int, rng: Random) -> bytes:
    """Another value for a word: an extreme, a neighbour, a little more or less, or a bit of it flipped."""
    old = int.from_bytes(data[at : at + width], "little")
    way = rng.randrange(6)
    if way == 0:
        new = rng.choice(WORDS) * rng.choice([1, -1])
    elif way == 1:
        new = old + rng.choice([-1, 1, 2, -2, 8, 1000])
    elif way == 2:
        new = old ^ (1 << rng.randrange(8 * width))
    elif way == 3:
        to = rng.randrange(0, max(len(data) - width, 1))
        new = int.from_bytes(data[to : to + width], "little")
    elif way == 4 and width == 8:
        return struct.pack("<d", rng.choice(FLOATS))
    else:
        new = rng.randrange(-4, 40)
    return (new % (1 << 8 * width)).to_bytes(width, "little")


def _meta_changed(meta: Any, rng: Random) -> Any:
    """Change a field of the meta, drop it, or add a deep one."""
    way = rng.random()
    if way < 0.04:
        return b"[" * 100_000
    if way < 0.08:
        return rng.choice(VALUES)
    if not isinstance(meta, dict) or not meta:
        return meta
    key = rng.choice(sorted(meta))
    if key in ("name", "generation") and rng.random() < 0.8:
        key = rng.choice(sorted(meta))
    if way < 0.14:
        del meta[key]
    elif isinstance(meta[key], list) and meta[key] and rng.random() < 0.7:
        meta[key][rng.randrange(len(meta[key]))] = rng.choice(VALUES)
    elif isinstance(meta[key], int) and rng.random() < 0.5:
        meta[key] += rng.choice([-1, 1, 7, -7, 4096])
    else:
        meta[key] = rng.choice(VALUES)
    return meta


def _bytes_changed(data: bytes, rng: Random) -> bytes:
    """Flip bits, write runs of bytes, cut off, append."""
    ways: list[Callable[[bytearray, int], None]] = [
        lambda made, at: made.__setitem__(at, made[at] ^ (1 << rng.randrange(8))),
        lambda made, at: made.__setitem__(slice(at, at + 8), rng.randbytes(8)[: len(made) - at]),
        lambda made, at: made.__setitem__(slice(at, at + 16), bytes([rng.choice([0, 255])]) * min(16, len(made) - at)),
        lambda made, at: made.__delitem__(slice(at, None)),
        lambda made, _at: made.extend(rng.randbytes(rng.randrange(1, 40))),
    ]
    made = bytearray(data)
    if made:
        rng.choice(ways)(made, rng.randrange(len(made)))
    return bytes(made)
