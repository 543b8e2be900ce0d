"""Frames taken apart and put together again, with a checksum that fits."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from sash.stores.envelope import CHECKED, HEAD, wrap

_TABLE = 8


@dataclass
class Parts:
    """A frame: its kind, its fingerprint, and its parts."""

    kind: str
    fingerprint: str
    parts: list[bytes]

    def sealed(self) -> bytes:
        """The frame again."""
        return wrap(self.kind, self.fingerprint, self.parts)

    @property
    def meta(self) -> Any:
        """What the first part says."""
        return json.loads(self.parts[0])

    def with_meta(self, meta: Any) -> Parts:
        """The same with another first part."""
        text = meta if isinstance(meta, bytes) else json.dumps(meta).encode()
        return Parts(self.kind, self.fingerprint, [text, *self.parts[1:]])


def opened(frame: bytes) -> Parts:
    """The parts of a frame. Raises ValueError for one that claims more of them than it has bytes."""
    _, _, _, _, count, _, mark = HEAD.unpack_from(frame)
    if HEAD.size + _TABLE * count > len(frame):
        raise ValueError(f"{count} parts in {len(frame)} bytes")
    at, found = HEAD.size + _TABLE * count, []
    for i in range(count):
        start = HEAD.size + _TABLE * i
        size = int.from_bytes(frame[start : start + _TABLE], "little")
        found.append(frame[at : at + size])
        at += (size + 7) & -8
    return Parts(found[0].decode(), mark.hex(), found[1:])


def repaired(frame: bytes) -> bytes:
    """Bytes with a head whose size and checksum fit them."""
    if len(frame) < HEAD.size:
        return frame
    magic, version, reserved, _, count, _, mark = HEAD.unpack_from(frame)
    made = HEAD.pack(magic, version, reserved, 0, count, len(frame), mark) + frame[HEAD.size :]
    return made[:8] + crc32(made[CHECKED:]).to_bytes(4, "little") + made[CHECKED:]


@dataclass
class State:
    """A state at rest: the pages of a store, or of a snapshot, which has a schema, a mode and late rows beside them."""

    pages: dict[str, bytes]
    schema: bytes = b""
    mode: str = ""
    fingerprint: str = field(default="0" * 32)
    """That of the query: the outer frame of a snapshot has none."""

    @staticmethod
    def of_snapshot(data: bytes) -> State:
        """The pages of a snapshot."""
        outer = opened(data)
        inner = opened(outer.parts[1])
        pages = dict(zip(inner.meta["pages"], inner.parts[1:], strict=True))
        return State(pages, outer.parts[0], inner.meta["mode"], inner.fingerprint)

    def snapshot(self) -> bytes:
        """The snapshot again."""
        names = sorted(self.pages)
        directory = json.dumps({"mode": self.mode, "pages": names}).encode()
        inner = wrap("snapshot", self.fingerprint, [directory, *(self.pages[name] for name in names)])
        return wrap("operator", "0" * 32, [self.schema, inner])
