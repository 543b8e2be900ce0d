"""Stores in files, for processes that are killed: one whose writes are atomic, and one whose writes are not.

    LogStore     one file; a write is a record at its end, which counts if its checksum holds
    PageFiles    one file per page, written one after the other in any order, each of them in place

What a process has written when it is killed stays in the files: the operating system keeps it. `middle` is called in
the middle of a write: there a test strikes.
"""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from struct import Struct
from zlib import crc32

from sash.engine.atomic import all_at_once, attributes
from sash.stores import MemoryStore

_HEAD = Struct("<QI")
_LEAST = 1 << 16
"""A log of at least this many bytes is rewritten when most of it is obsolete."""


def nothing() -> None:
    """Nothing happens in the middle of a write."""


class LogStore:
    """Pages in one file that only grows; an incomplete record at its end is cut off when it is opened."""

    middle: Callable[[], None] = staticmethod(nothing)

    def __init__(self, folder: Path) -> None:
        self.path = folder / "log"
        self.pages = MemoryStore()
        self._size = 0
        data = self.path.read_bytes() if self.path.exists() else b""
        while (record := self._record(data)) is not None:
            put, gone = record
            self.pages.put_many(put)
            self.pages.delete_many(gone)
        with self.path.open("ab") as file:
            file.truncate(self._size)

    def _record(self, data: bytes) -> tuple[dict[str, bytes], list[str]] | None:
        head = data[self._size : self._size + _HEAD.size]
        if len(head) < _HEAD.size:
            return None
        length, checksum = _HEAD.unpack(head)
        start = self._size + _HEAD.size
        body = data[start : start + length]
        if len(body) < length or crc32(body) != checksum:
            return None
        self._size = start + length
        found: tuple[dict[str, bytes], list[str]] = pickle.loads(body)
        return found

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        return self.pages.get_many(ids)

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self._append(dict(pages), [])
        self.pages.put_many(pages)

    def delete_many(self, ids: Iterable[str]) -> None:
        names = list(ids)
        self._append({}, names)
        self.pages.delete_many(names)

    def scan(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        return self.pages.scan(prefix)

    def close(self) -> None:
        """Nothing stays open between two calls."""

    def _append(self, put: dict[str, bytes], gone: list[str]) -> None:
        body = pickle.dumps((put, gone))
        with self.path.open("r+b") as file:
            file.seek(self._size)  # over what a call has left that was interrupted
            file.truncate()
            file.write(_HEAD.pack(len(body), crc32(body)) + body[: len(body) // 2])
            file.flush()
            self.middle()
            file.write(body[len(body) // 2 :])
        self._size += _HEAD.size + len(body)
        if self._size > max(_LEAST, 8 * self.pages.nbytes):
            self._rewrite({**self.pages.pages, **put}, gone)

    def _rewrite(self, pages: dict[str, bytes], gone: list[str]) -> None:
        body = pickle.dumps(({name: page for name, page in pages.items() if name not in gone}, []))
        fresh = self.path.with_suffix(".new")
        fresh.write_bytes(_HEAD.pack(len(body), crc32(body)) + body)
        all_at_once(partial(os.replace, fresh, self.path), attributes(self, _size=_HEAD.size + len(body)))


class PageFiles:
    """One file per page. A write that is killed leaves some pages written, and one of them in part."""

    middle: Callable[[], None] = staticmethod(nothing)

    def __init__(self, folder: Path, seed: str) -> None:
        self.folder, self.chance = folder / "pages", random.Random(seed)
        self.folder.mkdir(exist_ok=True)

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        paths = [self.folder / name for name in ids]
        return [path.read_bytes() if path.exists() else None for path in paths]

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        for name in self.chance.sample(list(pages), len(pages)):
            with (self.folder / name).open("wb", buffering=0) as file:
                half = self.chance.randint(0, len(pages[name]))
                file.write(pages[name][:half])
                self.middle()
                file.write(pages[name][half:])

    def delete_many(self, ids: Iterable[str]) -> None:
        for name in ids:
            (self.folder / name).unlink(missing_ok=True)

    def scan(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        paths = sorted(path for path in self.folder.iterdir() if path.name.startswith(prefix))
        return iter([(path.name, path.read_bytes()) for path in paths])

    def close(self) -> None:
        """Nothing stays open between two calls."""
