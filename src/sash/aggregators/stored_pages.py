"""Encode and decode the pages of a window in a store.

    prices/header      structure and monoid, [F, E), the youngest elements, and the pages still to be deleted
    prices/0/7         512 nodes of a level: those of level 0 with the numbers from 7·512 up to 8·512
    prices/1/3         …

A page of nodes is complete when it is written, and never written again. Nodes that are not on a complete page are not
stored as such: those of level 0 are in the header, those above are recomputed from the level below.

The header names the structure and the monoid, so that a window is not opened as another. Every page has a fingerprint
of both, its level and its number, and a checksum (`sash.stores.envelope`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sash.monoids import Monoid
from sash.monoids.monoid_key import code_key, monoid_key
from sash.stores.checks import Check, check_meta, integer, list_of, text
from sash.stores.envelope import PageError, damaged, decoding, read_json, unwrap, wrap
from sash.stores.state_list import dump_states, load_states

BITS = 9
SIZE = 1 << BITS
"""Nodes in a page."""

MASK = SIZE - 1
ANY_WINDOW = "0" * 32
"""The fingerprint of headers: they name structure and monoid in their metadata instead."""

_COUNT = integer(0, 2**62)
_RANGE = list_of(_COUNT, 3)
_HEADER: dict[str, Check] = {
    "structure": text(),
    "monoid": text(),
    "described": text(),
    "F": _COUNT,
    "E": _COUNT,
    "garbage": list_of(_RANGE),
}
_NODES: dict[str, Check] = {"level": _COUNT, "page": _COUNT, "start": integer(0, SIZE - 1)}


class _Unwritten:
    """Marks a slot without a node: None may be a node."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNWRITTEN"


UNWRITTEN: Any = _Unwritten()


class PageRange(NamedTuple):
    """The pages [first, stop) of a level."""

    level: int
    first: int
    stop: int


@dataclass(frozen=True)
class WindowHeader:
    """A consistent version of a window: [F, E), its youngest elements, and the obsolete pages."""

    F: int
    E: int
    tail: Sequence[Any]
    """The elements from `tail_start(F, E)` on."""
    garbage: list[PageRange]
    """Pages that may still have to be deleted."""


@dataclass(frozen=True)
class NodePage:
    """A complete page of nodes; those before the slot `start` are evicted."""

    level: int
    page: int
    start: int
    nodes: list[Any]
    """All slots of the page."""


def tail_start(F: int, E: int) -> int:
    """The first element that is not on a complete page."""
    return max(F, page_start(E - 1))


def head_page(level: int, F: int) -> int:
    """The first page of a level that a window from F on needs."""
    return F >> (level + BITS)


def page_start(number: int) -> int:
    """The number of the first node on the page of this node."""
    return number & ~MASK


_PLAIN = frozenset({type(None), bool, int, float, str, bytes})


def _plain(state: Any) -> bool:
    """Is the state a scalar that can be written, or a nested tuple of such? Cheaper than encoding it."""
    kind = type(state)
    return kind in _PLAIN or (kind is tuple and (_PLAIN.issuperset(map(type, state)) or all(map(_plain, state))))


class WindowPages:
    """Names, writes and reads the pages of one window."""

    def __init__(self, name: str, structure: str, monoid: Monoid) -> None:
        self.name = name
        self.structure = structure
        self.monoid = json.dumps(monoid_key(monoid, code_key), sort_keys=True)
        self.described = repr(monoid)
        self._dump, self._load = monoid.dump, monoid.load
        meaning = f"{structure} {self.monoid}"
        self.fingerprint = hashlib.blake2b(meaning.encode(), digest_size=16, person=b"sash window").hexdigest()
        self.header_name = f"{name}/header"

    def page_name(self, level: int, page: int) -> str:
        """The name of a page of nodes."""
        return f"{self.name}/{level}/{page}"

    def level_and_page(self, name: str) -> tuple[int, int]:
        """Return the level and number of a page, from its name."""
        level, page = name.removeprefix(f"{self.name}/").split("/")
        return int(level), int(page)

    def is_page(self, name: str) -> bool:
        """Is this the name of one of the window's pages of nodes?"""
        parts = name.removeprefix(f"{self.name}/").split("/")
        return len(parts) == 2 and all(part.isdecimal() for part in parts)

    def check_state(self, state: Any) -> None:
        """Raises TypeError, naming the type, for a state that cannot be written."""
        if self._dump is not None or not _plain(state):
            dump_states([state], self._dump)

    def encode(self, item: WindowHeader | NodePage) -> bytes:
        """Encode a page. Raises TypeError, naming the type, for a state that cannot be written."""
        meta: dict[str, Any]
        if isinstance(item, NodePage):
            meta = {"level": item.level, "page": item.page, "start": item.start}
            states, kind, fingerprint = item.nodes[item.start :], "nodes", self.fingerprint
        else:
            meta = {"structure": self.structure, "monoid": self.monoid, "described": self.described}
            meta |= {"F": item.F, "E": item.E, "garbage": item.garbage}
            states, kind, fingerprint = list(item.tail), "window", ANY_WINDOW
        return wrap(kind, fingerprint, [json.dumps(meta).encode(), dump_states(states, self._dump)])

    def decode_header(self, data: bytes) -> WindowHeader:
        """Decode the header of a window of this structure and monoid.

        Raises PageError if the page is damaged, of another format, or belongs to another structure or monoid.
        """
        name = f"page {self.header_name!r}"
        meta, states = _meta_and_states(data, "window", ANY_WINDOW, _HEADER, name)
        if (meta["structure"], meta["monoid"]) != (self.structure, self.monoid):
            raise PageError(
                f"{name} holds a window {meta['structure']}({meta['described']}); this is "
                f"{self.structure}({self.described}). Open it as such a window, or give this one another name="
            )
        with decoding(name):
            tail = load_states(states, self._load)
        F, E = meta["F"], meta["E"]
        if F > E:
            raise damaged(name, f"its window [{F}, {E}) ends before it begins")
        if len(tail) != E - tail_start(F, E):
            raise damaged(name, f"it has {len(tail)} elements; of [{F}, {E}) there must be {E - tail_start(F, E)}")
        garbage = [PageRange(*one) for one in meta["garbage"]]
        for level, first, stop in garbage:
            if not first <= stop <= F >> min(level + BITS, 63):
                raise damaged(
                    name, f"it wants to delete the pages {first} to {stop} of level {level}, which are in use"
                )
        return WindowHeader(F, E, tail, garbage)

    def decode_nodes(self, data: bytes | None, level: int, page: int, start: int) -> list[Any]:
        """Decode a page of nodes, and return all its slots. It must have the nodes from the slot `start` on.

        Raises PageError if it is missing, damaged, of another format or another window.
        """
        name = f"page {self.page_name(level, page)!r}"
        if data is None:
            raise PageError(f"{name} is missing from the store, and the window needs it. Restore a copy of the store")
        meta, states = _meta_and_states(data, "nodes", self.fingerprint, _NODES, name)
        if (meta["level"], meta["page"]) != (level, page):
            raise damaged(name, f"it holds page {meta['page']} of level {meta['level']}")
        with decoding(name):
            nodes = load_states(states, self._load)
        if meta["start"] + len(nodes) != SIZE or meta["start"] > start:
            raise damaged(name, f"it has {len(nodes)} nodes from slot {meta['start']} on; needed from slot {start}")
        return [UNWRITTEN] * meta["start"] + nodes


def _meta_and_states(
    data: bytes, kind: str, fingerprint: str, fields: dict[str, Check], name: str
) -> tuple[dict[str, Any], bytes]:
    """Return the checked metadata of a page, and the bytes of its states."""
    items = unwrap(data, kind, fingerprint, name)
    if len(items) != 2:
        raise damaged(name, f"it has {len(items)} items, not 2")
    with decoding(name):
        meta = read_json(items[0])
    check_meta(meta, fields, name)
    return meta, bytes(items[1])
