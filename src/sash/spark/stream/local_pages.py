"""LocalPages: pages of one shard in a file of the executor, for the Python worker that gets the shard next.

    ┌──────┬────────┬────────┬───┬───────┬──────┐
    │ page │ page   │ page   │ … │ index │ foot │      index: name, offset, size and checksum of each page
    └──────┴────────┴────────┴───┴───────┴──────┘      foot: the token of the state, where the index is, its checksum

The file is a cache: it has some of the pages that Spark's state has at the commit of this token, and no others. A page
that is missing here, or damaged, is read from Spark. A micro-batch appends the pages that it changes, over the index of
before; the file is written anew when more than half of it is obsolete.
"""

from __future__ import annotations

import os
from struct import Struct, error
from zlib import crc32

import numpy as np

FOOT = Struct("<8s16sQQI4x")
_MAGIC = b"SASHLIVE"
_SLACK = 1 << 20
"""Obsolete bytes that do not matter."""


class LocalPages:
    """The pages in an open file, which no other process has. `limit`: a file of more bytes is given up."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self.descriptor, self.limit = descriptor, limit
        self.places: dict[str, tuple[int, int, int]] = {}
        """Offset, size and checksum of each page."""
        self.end = 0
        """Where the next page begins."""
        self.nbytes = 0
        """The bytes of all pages, without obsolete ones."""
        self.is_complete = True
        """Has all been written that was to be? A file in which something is missing is of no state."""

    def load(self, token: str) -> None:
        """Read the index. Raises ValueError unless the file is that of this token, and OSError."""
        size = os.fstat(self.descriptor).st_size
        try:
            foot = self._read(max(size - FOOT.size, 0), FOOT.size)
            magic, found, offset, length, checksum = FOOT.unpack(foot)
        except error as raised:
            raise ValueError("the file is truncated") from raised
        if magic != _MAGIC or found != bytes.fromhex(token) or offset + length + FOOT.size != size:
            raise ValueError("the file is of another state, or incomplete")
        index = self._read(offset, length)
        if crc32(index) != checksum:
            raise ValueError("the index is damaged")
        self.places = _decoded(index)
        self.end, self.nbytes = offset, sum(length for _, length, _ in self.places.values())
        if any(at < 0 or length < 0 or at + length > offset for at, length, _ in self.places.values()):
            raise ValueError("a page is out of bounds")

    def get(self, name: str) -> bytes | None:
        """A page; None if it is not here, or damaged."""
        if name not in self.places:
            return None
        offset, size, checksum = self.places[name]
        try:
            page = self._read(offset, size)
        except OSError:
            page = b""
        if len(page) == size and crc32(page) == checksum:
            return page
        self.drop(name)
        return None

    def put(self, name: str, page: bytes) -> None:
        """Add or replace a page. After an error, or beyond the limit, the file is given up."""
        self.drop(name)
        self.is_complete &= self.end + len(page) <= self.limit
        if self.is_complete:
            try:
                self._write(page, self.end)
            except OSError:  # the disk is full, or was removed
                self.is_complete = False
                return
            self.places[name] = self.end, len(page), crc32(page)
            self.end += len(page)
            self.nbytes += len(page)

    def drop(self, name: str) -> None:
        """Forget a page."""
        _, size, _ = self.places.pop(name, (0, 0, 0))
        self.nbytes -= size

    @property
    def is_sparse(self) -> bool:
        """Is more than half of the file obsolete?"""
        return self.end > 2 * self.nbytes + _SLACK

    def copy_to(self, other: LocalPages) -> None:
        """Write all pages to another file."""
        for name in list(self.places):
            page = self.get(name)
            if page is not None:
                other.put(name, page)
        other.is_complete &= self.is_complete

    def seal(self, token: str) -> None:
        """Write the index: the pages are those of this token now. Raises OSError."""
        index = _encoded(self.places)
        foot = FOOT.pack(_MAGIC, bytes.fromhex(token), self.end, len(index), crc32(index))
        self._write(index + foot, self.end)
        os.ftruncate(self.descriptor, self.end + len(index) + len(foot))

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _read(self, offset: int, size: int) -> bytes:
        found = os.pread(self.descriptor, size, offset)
        while len(found) < size and (more := os.pread(self.descriptor, size - len(found), offset + len(found))):
            found += more
        return found

    def _write(self, data: bytes, offset: int) -> None:
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self.descriptor, rest, offset)
            rest, offset = rest[written:], offset + written


def _encoded(places: dict[str, tuple[int, int, int]]) -> bytes:
    table = np.array(list(places.values()), np.int64).reshape(-1, 3)
    return len(table).to_bytes(8, "little") + table.tobytes() + "\n".join(places).encode()


def _decoded(index: bytes) -> dict[str, tuple[int, int, int]]:
    """Raises ValueError if the names do not agree with the number of pages."""
    count = int.from_bytes(index[:8], "little")
    table = np.frombuffer(index, np.int64, 3 * count, 8).reshape(-1, 3).tolist()
    names = index[8 + 24 * count :].decode().split("\n") if count else []
    return {name: (offset, size, checksum) for name, (offset, size, checksum) in zip(names, table, strict=True)}
