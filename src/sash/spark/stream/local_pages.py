"""Local state: what is kept of a shard between micro-batches, in memory of the worker or in a file of the executor.

    token in Spark's state ──▶ the operator in this worker ──else──▶ pages of the file ──else──▶ pages of Spark's state

Spark creates a new processor for each micro-batch and gives a shard to any of its Python workers. The worker that had
the shard last keeps the operator; the others find its pages in a file, and load them. Either is used only if it has the
token of Spark's state, which stays the source of truth. A task that fails leaves neither.

LocalPages: the pages of one shard in a file.

    ┌──────┬────────┬────────┬───┬───────┬──────┐
    │ page │ page   │ page   │ … │ index │ foot │      index: name, offset, size and checksum of each page
    └──────┴────────┴────────┴───┴───────┴──────┘      foot: the token of the state, where the index is, its checksum

The file is a cache: all its pages equal those of Spark's state at the commit of this token, but some may be missing. A
page that is missing or damaged is read from Spark. A micro-batch appends the pages that it changes, and overwrites the
old index; the file is rewritten when more than half of it is obsolete.

LocalDirectory: the files of local state in a directory of the executor, which its Python workers share.

    SPARK_LOCAL_DIRS/             of one executor of one application; Spark removes it with the application
      sash-live/                  mode 0700
        3f9c…e1                   pages of the state with this token (`local_pages`), mode 0600
        77ab….use                 a file that a worker has claimed, or that it left when it was killed

The token of a state is random, new with every commit, and also in Spark's state. So a file with the token that Spark
has is exactly that version, whoever wrote it. A worker claims a file by renaming it, which only one process can do: a
second attempt of a task, or a second query from a copy of the checkpoint, finds no file and reads Spark's state. A
worker that fails leaves no file with a token.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from struct import Struct, error
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

if TYPE_CHECKING:
    from sash.engine import Operator
    from sash.spark.stream.map_state_store import MapStateStore


# --- Local pages ---

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


# --- Local directory ---

NAME = "sash-live"
ROOTS = "SPARK_LOCAL_DIRS"
"""Spark sets it for its workers: the directories of this executor, separated by commas."""

STALE = 3600.0
"""Files that were not written for this many seconds are deleted: a file is only a cache."""

_TOKEN = re.compile("[0-9a-f]{32}")
_PRIVATE = 0o600
_OPEN = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)

_cleaned: set[str] = set()
"""Directories of executors where this process has deleted stale files already."""


class LocalDirectory:
    """A directory of files with at most `limit` bytes between micro-batches.

    Raises OSError, also if the directory exists and is of another user, a link, or open to others.
    """

    def __init__(self, path: str, limit: int) -> None:
        self.limit = limit
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
        self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _require_own(os.fstat(self.descriptor), stat.S_ISDIR)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def of_worker(limit: int, shard: int) -> LocalDirectory | None:
        """The directory for a shard in this Spark worker; None if there is none, or it cannot be used."""
        roots = [root for root in os.environ.get(ROOTS, "").split(",") if root]
        if not roots or limit <= 0 or not hasattr(os, "geteuid"):
            return None
        root = roots[shard % len(roots)]
        try:
            found = LocalDirectory(os.path.join(root, NAME), limit)
        except OSError:
            return None
        if root not in _cleaned:
            _cleaned.add(root)
            delete_stale_files(root)
        return found

    def claim(self, token: str) -> ClaimedFile | None:
        """Claim the file of this token, so that no other process gets it; None if it is missing or damaged."""
        if not _TOKEN.fullmatch(token):
            return None
        name = _random_name()
        try:
            os.rename(token, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except OSError:
            return None
        found = None
        try:
            found = self._opened(name, _OPEN)
            found.pages.load(token)
        except (OSError, ValueError):
            self.delete(name) if found is None else found.discard()
            return None
        return found

    def create(self) -> ClaimedFile | None:
        """A new file; None if it cannot be created."""
        try:
            return self._opened(_random_name(), _OPEN | os.O_CREAT | os.O_EXCL)
        except OSError:
            return None

    def _opened(self, name: str, flags: int) -> ClaimedFile:
        descriptor = os.open(name, flags, _PRIVATE, dir_fd=self.descriptor)
        try:
            _require_own(os.fstat(descriptor), stat.S_ISREG)
        except BaseException:
            os.close(descriptor)
            raise
        return ClaimedFile(self, name, LocalPages(descriptor, self.limit))

    def publish(self, name: str, token: str) -> None:
        """Rename a file to the token of its state, and delete the oldest files beyond the limit."""
        os.rename(name, token, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        files = sorted(self._files(), key=lambda file: file[1].st_mtime, reverse=True)
        total = 0
        for other, found in files:
            total += found.st_size
            if other != token and (total > self.limit or time.time() - found.st_mtime > STALE):
                self.delete(other)

    def delete_stale(self) -> None:
        """Delete the files that were not written for `STALE` seconds."""
        for name, found in self._files():
            if time.time() - found.st_mtime > STALE:
                self.delete(name)

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        for name in os.listdir(self.descriptor):
            with suppress(OSError):
                yield name, os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        with suppress(OSError):
            os.unlink(name, dir_fd=self.descriptor)

    def close(self) -> None:
        """Close the directory; a second call does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class ClaimedFile:
    """A file that only this process uses, until it is published for the next one, or discarded."""

    def __init__(self, directory: LocalDirectory, name: str, pages: LocalPages) -> None:
        self.directory, self.name, self.pages = directory, name, pages

    def publish(self, token: str) -> None:
        """Publish the pages as those of the state with this token. A file that cannot be published is deleted."""
        try:
            if self.pages.is_sparse:
                self._rewrite()
            if not self.pages.is_complete or not _TOKEN.fullmatch(token):
                self.discard()
                return
            self.pages.write_index(token)
            self.directory.publish(self.name, token)
            self.pages.close()
        except OSError:
            self.discard()

    def _rewrite(self) -> None:
        other = self.directory.create()
        if other is None:
            self.pages.give_up()
            return
        self.pages.copy_to(other.pages)
        self.discard()
        self.name, self.pages = other.name, other.pages

    def discard(self) -> None:
        """Delete the file; a second call does nothing."""
        if self.pages.descriptor >= 0:
            self.pages.close()
            self.directory.delete(self.name)


def delete_stale_files(root: str) -> None:
    """Delete stale files of killed applications, in this directory of Spark's and in its neighbours."""
    # the directories of other executors stay: only their owner knows whether they are still in use
    for path in Path(root).parent.glob(f"*/{NAME}"):
        try:
            other = LocalDirectory(str(path), 0)
        except OSError:  # of another user, or gone
            continue
        other.delete_stale()
        other.close()
        with suppress(OSError):
            if path.parent != Path(root):
                path.rmdir()  # fails while there are files in it


def _require_own(found: os.stat_result, is_kind: Callable[[int], bool]) -> None:
    """Raises PermissionError unless a file is of this kind and only this user can access it."""
    if not is_kind(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError("the file or directory belongs to another user, or other users can access it")


def _random_name() -> str:
    return f"{secrets.token_hex(16)}.use"


# --- Local state ---


ALIVE = 4
"""The maximum number of operators that a worker keeps between micro-batches."""

_alive: dict[str, Operator] = {}
"""Operators by the token of their state."""


class LocalState:
    """The cached state of a shard. `limit`: the maximum bytes of the files of an executor."""

    def __init__(self, limit: int, shard: int, store: MapStateStore) -> None:
        self.limit, self.shard, self.store = limit, shard, store
        self._directory: LocalDirectory | None = None
        self._file: ClaimedFile | None = None

    def take(self, token: str | None) -> Operator | None:
        """The operator whose state has this token, if this worker has it. The store reads from the file from now on."""
        self._directory = LocalDirectory.of_worker(self.limit, self.shard)
        if self._directory is not None:
            self._file = self._directory.claim(token) if token else None
            self._file = self._file or self._directory.create()
            self.store.use_local(None if self._file is None else self._file.pages)
        return _alive.pop(token, None) if token else None

    def keep(self, operator: Operator) -> None:
        """Keep the operator for the next micro-batch, and publish its pages, which are in Spark's state by now."""
        if operator.state.token:
            _alive[operator.state.token] = operator
            while len(_alive) > ALIVE:
                _alive.pop(next(iter(_alive)), None)
        if self._file is not None:
            self._file.publish(operator.state.committed_token)
        self.close()

    def close(self) -> None:
        """Delete the file unless it was published; a second call does nothing."""
        self.store.use_local(None)
        if self._file is not None:
            self._file.discard()
        if self._directory is not None:
            self._directory.close()
