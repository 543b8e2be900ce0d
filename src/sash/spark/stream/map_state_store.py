"""Pages in Spark's state: a store on a MapState that reads and writes each page once a micro-batch.

    operator ─▶ get_many ─▶ cache ──miss──▶ file of the executor ──miss──▶ MapState, a round trip per page
             ─▶ put_many ─▶ cache
                              └─── flush, at the end ──▶ MapState, and the file

A call of the MapState is a round trip to the JVM for one page. An operator writes its header with each call, and pages
of its buffer often twice; only the final version is written.

Pages are compressed: the connection to the JVM transfers some 60 MB a second. Columns are words of eight bytes whose
upper bytes are similar, so the first bytes of all words are stored together, then the second ones, and so on:

    01 00 00 00   02 00 00 00   03 00 00 00     ──▶     01 02 03   00 00 00   00 00 00   00 00 00

A row of a timestamp, a key, a price and its position, 32 bytes, compresses to 13 bytes in that order and to 20
without, and LZ4 is twice as fast on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa

from sash.spark.stream.local_pages import LocalPages
from sash.stores.envelope import decoding

_LZ4 = pa.Codec("lz4")
_SIZE = Struct("<cI")
_PACKED, _PLAIN = b"w", b"-"
_WORD = 8
_DENSEST = 255
"""The maximum number of bytes that one byte of LZ4 can encode."""
_IN_SPARK = ("host", "header")
"""Pages that are read from Spark's state in every micro-batch: the token is in one of them."""
SMALL = 512
"""Pages of fewer bytes are not compressed."""
OPTIONAL = ("host", "header", "root")
"""Pages that new state lacks. Spark logs a warning when a missing value is read, so `containsKey` is called first."""


def packed(page: bytes) -> bytes:
    """A page as it is stored.

    >>> packed(b"header"), len(packed(bytes(100_000))) < 1000
    (b'-header', True)
    """
    if len(page) < SMALL:
        return _PLAIN + page
    return _SIZE.pack(_PACKED, len(page)) + bytes(_LZ4.compress(_transposed(page, by_word=True), asbytes=True))


def unpacked(data: bytes, name: str) -> bytes:
    """Decode the page of this name. Whether it is intact is checked later, by its checksum.

    >>> unpacked(packed(b"header"), "header"), unpacked(packed(bytes(700)), "k") == bytes(700)
    (b'header', True)

    Raises PageError if it cannot be decompressed, or claims more bytes than LZ4 can have packed.
    """
    if data[:1] == _PLAIN:
        return data[1:]
    with decoding(f"page {name!r}"):
        tag, size = _SIZE.unpack_from(data) if len(data) > _SIZE.size else (b"", 0)
        if tag != _PACKED or size > _DENSEST * len(data):
            raise ValueError(f"its {len(data)} bytes claim to be {size}")
        return _transposed(_LZ4.decompress(memoryview(data)[_SIZE.size :], size, asbytes=True), by_word=False)


def _transposed(data: bytes, by_word: bool) -> bytes:
    """Transpose bytes from word by word to byte position by byte position, or back."""
    words = len(data) // _WORD * _WORD
    table = np.frombuffer(data, np.uint8, words).reshape((-1, _WORD) if by_word else (_WORD, -1))
    return table.T.tobytes() + data[words:]


class MapStateStore:
    """Pages of one shard in one micro-batch; counts its reads and writes."""

    def __init__(self, state: Any) -> None:
        self.state = state
        self.local: LocalPages | None = None
        """Pages in a file that equal those of Spark's state: read first, and updated by `flush`."""
        self.cached: dict[str, bytes | None] = {}
        self.changed: dict[str, None] = {}
        self.pages_read = self.pages_written = self.bytes_read = self.bytes_written = self.pages_local = 0

    def use_local(self, pages: LocalPages | None) -> None:
        """Read pages from a file first, and write changes to it as well; None: only from Spark's state."""
        self.local = pages

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        """The pages of these names, None for one that is missing."""
        return [self._page(name) for name in ids]

    def _page(self, name: str) -> bytes | None:
        if name in self.cached:
            return self.cached[name]
        page = None if self.local is None else self.local.get(name)
        if page is not None:
            self.pages_local += 1
            return page
        page = self.cached[name] = self._read(name)
        if page is not None and self.local is not None:
            self.local.put(name, page)
        return page

    def _read(self, name: str) -> bytes | None:
        if name in OPTIONAL and not self.state.containsKey((name,)):
            return None
        found = self.state.getValue((name,))
        if found is None:
            return None
        data = bytes(found[0])
        self.pages_read += 1
        self.bytes_read += len(data)
        return unpacked(data, name)

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        """Store these pages, each in place of the one of its name."""
        self.cached.update(pages)
        self.changed.update(dict.fromkeys(pages))

    def delete_many(self, ids: Iterable[str]) -> None:
        """Drop these pages."""
        for name in ids:
            self.cached[name] = None
            self.changed[name] = None

    def scan(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        """Iterate over the pages whose names begin with the prefix, in the order of their names."""
        names = {key[0] for key in self.state.keys()} | self.cached.keys()  # noqa: SIM118 - a MapState is not a dict
        for name in sorted(name for name in names if name.startswith(prefix)):
            (page,) = self.get_many([name])
            if page is not None:
                yield name, page

    def close(self) -> None:
        """Do nothing: Spark owns the state, and commits it with the micro-batch."""

    def flush(self) -> None:
        """Write all changes to Spark's state, which commits them with the micro-batch, and to the file."""
        for name in self.changed:
            data = self.cached[name]
            if data is None:
                self.state.removeKey((name,))
                if self.local is not None:
                    self.local.drop(name)
                continue
            if self.local is not None and name not in _IN_SPARK:
                self.local.put(name, data)
            stored = packed(data)
            self.state.updateValue((name,), (stored,))
            self.pages_written += 1
            self.bytes_written += len(stored)
        self.changed.clear()
        self.cached.clear()  # an operator that is kept refers to this store until the next micro-batch

    def __repr__(self) -> str:
        return "<pages in Spark's state>"
