"""LocalPages: the pages of one shard in a file of the executor, for the Python worker that gets the shard next.

    ┌──────┬────────┬────────┬───┬───────┬──────┐
    │ page │ page   │ page   │ … │ index │ foot │      index: name, offset, size and checksum of each page
    └──────┴────────┴────────┴───┴───────┴──────┘      foot: the token of the state, where the index is, its checksum

The file is a cache: all its pages equal those of Spark's state at the commit of this token, but some may be missing. A
page that is missing or damaged is read from Spark. A micro-batch appends the pages that it changes, and overwrites the
old index; the file is rewritten when more than half of it is obsolete.
"""

from __future__ import annotations

import os
from struct import Struct, error
from typing import NamedTuple
from zlib import crc32

import numpy as np

FOOT = Struct("<8s16sQQI4x")
_MAGIC = b"SASHLIVE"
_SLACK = 1 << 20
"""Obsolete bytes below which a file is not rewritten."""


class PagePlace(NamedTuple):
    """Where a page is in the file."""

    offset: int
    size: int
    checksum: int


class LocalPages:
    """The pages in an open file, which no other process uses. `limit`: a file of more bytes is given up."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self.descriptor, self.limit = descriptor, limit
        self.places: dict[str, PagePlace] = {}
        self.end = 0
        """The offset of the next page."""
        self.nbytes = 0
        """The bytes of all current pages."""
        self.is_complete = True
        """False if a write has failed: then the file has the pages of no state, and is not published."""

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
        self.end, self.nbytes = offset, sum(place.size for place in self.places.values())
        if any(one.offset < 0 or one.size < 0 or one.offset + one.size > offset for one in self.places.values()):
            raise ValueError("a page is out of bounds")

    def get(self, name: str) -> bytes | None:
        """A page; None if it is not here, or damaged."""
        place = self.places.get(name)
        if place is None:
            return None
        try:
            page = self._read(place.offset, place.size)
        except OSError:
            page = b""
        if len(page) == place.size and crc32(page) == place.checksum:
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
                self.give_up()
                return
            self.places[name] = PagePlace(self.end, len(page), crc32(page))
            self.end += len(page)
            self.nbytes += len(page)

    def drop(self, name: str) -> None:
        """Remove a page, if it is here."""
        place = self.places.pop(name, None)
        self.nbytes -= 0 if place is None else place.size

    def give_up(self) -> None:
        """Mark the file as incomplete, so that it is not published."""
        self.is_complete = False

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
        if not self.is_complete:
            other.give_up()

    def write_index(self, token: str) -> None:
        """Write the index, with the token that the pages belong to now. Raises OSError."""
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


def _encoded(places: dict[str, PagePlace]) -> bytes:
    table = np.array(list(places.values()), np.int64).reshape(-1, 3)
    return len(table).to_bytes(8, "little") + table.tobytes() + "\n".join(places).encode()


def _decoded(index: bytes) -> dict[str, PagePlace]:
    """Raises ValueError if the names do not agree with the number of pages."""
    count = int.from_bytes(index[:8], "little")
    table = np.frombuffer(index, np.int64, 3 * count, 8).reshape(-1, 3).tolist()
    names = index[8 + 24 * count :].decode().split("\n") if count else []
    return {name: PagePlace(*row) for name, row in zip(names, table, strict=True)}
