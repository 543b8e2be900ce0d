"""Envelopes of pages: unwrapped, changed and wrapped again with a matching checksum."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from sash.stores.envelope import CHECKED, HEAD, wrap

_TABLE = 8


@dataclass
class Envelope:
    """The content of an envelope: its kind, its fingerprint and its items."""

    kind: str
    fingerprint: str
    items: list[bytes]

    def wrapped(self) -> bytes:
        """The bytes of the envelope, with a matching checksum."""
        return wrap(self.kind, self.fingerprint, self.items)

    @property
    def meta(self) -> Any:
        """The first item, decoded from JSON."""
        return json.loads(self.items[0])

    def with_meta(self, meta: Any) -> Envelope:
        """A copy with another first item."""
        text = meta if isinstance(meta, bytes) else json.dumps(meta).encode()
        return Envelope(self.kind, self.fingerprint, [text, *self.items[1:]])


def unwrapped(page: bytes) -> Envelope:
    """Read an envelope without checks. Raises ValueError if its table of items is longer than its bytes."""
    _, _, _, _, count, _, mark = HEAD.unpack_from(page)
    if HEAD.size + _TABLE * count > len(page):
        raise ValueError(f"{count} items in {len(page)} bytes")
    at, found = HEAD.size + _TABLE * count, []
    for i in range(count):
        start = HEAD.size + _TABLE * i
        size = int.from_bytes(page[start : start + _TABLE], "little")
        found.append(page[at : at + size])
        at += (size + 7) & -8
    return Envelope(found[0].decode(), mark.hex(), found[1:])


def repaired(page: bytes) -> bytes:
    """Correct the size and the checksum in the head of an envelope."""
    if len(page) < HEAD.size:
        return page
    magic, version, reserved, _, count, _, mark = HEAD.unpack_from(page)
    made = HEAD.pack(magic, version, reserved, 0, count, len(page), mark) + page[HEAD.size :]
    return made[:8] + crc32(made[CHECKED:]).to_bytes(4, "little") + made[CHECKED:]


@dataclass
class State:
    """A state at rest: the pages of a store, or of a snapshot, which also has a schema, a mode and late rows."""

    pages: dict[str, bytes]
    schema: bytes = b""
    mode: str = ""
    fingerprint: str = field(default="0" * 32)
    """That of the query: the outer envelope of a snapshot has none."""

    @staticmethod
    def of_snapshot(data: bytes) -> State:
        """The pages of a snapshot."""
        outer = unwrapped(data)
        inner = unwrapped(outer.items[1])
        pages = dict(zip(inner.meta["pages"], inner.items[1:], strict=True))
        return State(pages, outer.items[0], inner.meta["mode"], inner.fingerprint)

    def snapshot(self) -> bytes:
        """The snapshot again."""
        names = sorted(self.pages)
        directory = json.dumps({"mode": self.mode, "pages": names}).encode()
        inner = wrap("snapshot", self.fingerprint, [directory, *(self.pages[name] for name in names)])
        return wrap("operator", "0" * 32, [self.schema, inner])
