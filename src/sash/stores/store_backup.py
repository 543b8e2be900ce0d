"""Copies of stores: backups, and new stores that are there only when they are complete.

    store of any kind ──pages──▶ backup: a directory of RocksDB ──pages──▶ empty store of any kind

A backup can be opened as any store, to inspect it, to look up in it, or to continue from it.
"""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sash.stores.envelope import MAGIC, fingerprint_of
from sash.stores.rocksdb_store import RocksDBStore
from sash.stores.store import Refreshable, Store, StoreDamaged, StoreError, StoreInUse, StoreUnavailable, sync_to_disk

CHUNK = 8 << 20
"""Bytes of pages that are written at a time."""

ATTEMPTS = 10
"""How often pages are read again if a writer commits meanwhile."""

HEADERS = ("header", *(f"g{number}.header" for number in range(256)))
"""Pages that each commit writes: those of one query, and of several queries with one store."""


def backup(store: Store, path: str | os.PathLike[str]) -> int:
    """Copy all pages of a store, which may be in use, to a new directory, and return their number.

    The copy has the state of one commit, with the position of the source. The directory appears when it is complete.

    >>> import tempfile
    >>> from sash.stores import MemoryStore
    >>> store, folder = MemoryStore(), tempfile.mkdtemp()
    >>> store.put_many({"a": b"1", "b": b"2"})
    >>> backup(store, f"{folder}/monday"), restore(f"{folder}/monday", MemoryStore())
    (2, 2)

    Raises StoreError if the directory is not empty or the store has no pages, PageError for a damaged page, and
    StoreUnavailable if the store is a server whose writer does not pause.
    """
    for _ in range(ATTEMPTS):
        if isinstance(store, Refreshable):
            store.refresh()
        before = store.get_many(HEADERS)
        with suppress(_Changed), new_store(path) as target:
            count = copy_pages(store, target)
            if store.get_many(HEADERS) != before:
                raise _Changed
            return count
    raise StoreUnavailable(f"the store {store!r} is written all the time: stop its writer, and make the backup then")


def restore(path: str | os.PathLike[str], store: Store) -> int:
    """Copy all pages of a backup to an empty store, and return their number.

    An operator or a pipeline that is opened on the store continues from the commit of the backup.

    Raises StoreError if there is no backup, or if the store has pages already.
    """
    if next(iter(store.scan()), None) is not None:
        raise StoreError(f"the store {store!r} has pages already: restore a backup to an empty one")
    with RocksDBStore(path, read_only=True) as source:
        return copy_pages(source, store)


def copy_pages(source: Store, target: Store) -> int:
    """Copy the pages of a store to another one, headers last: without them it has no state."""
    chunk: dict[str, bytes] = {}
    last: dict[str, bytes] = {}
    count = size = 0
    for name, page in source.scan():
        if page[:4] == MAGIC:
            fingerprint_of(page, f"page {name!r}")  # raises for damage
        count += 1
        if name in HEADERS:
            last[name] = page
            continue
        chunk[name] = page
        size += len(page)
        if size >= CHUNK:
            target.put_many(chunk)
            chunk, size = {}, 0
    if not count:
        raise StoreError(f"the store {source!r} has no pages to copy")
    target.put_many(chunk)
    target.put_many(last)
    return count


class _Changed(Exception):
    """The writer has committed while pages were copied."""


@contextmanager
def new_store(path: str | os.PathLike[str]) -> Iterator[RocksDBStore]:
    """A new store of RocksDB, which gets its name at the end. After an error nothing is left of it.

    What a killed process has left of an earlier one is deleted.

    Raises StoreError if there is something at the path.
    """
    place = Path(path).absolute()
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise StoreError(f"{path} exists already: move it away, or give another directory")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        _delete_unfinished(place)
        fresh = tempfile.mkdtemp(prefix=_unfinished(place), dir=place.parent)
    except OSError as error:
        raise StoreError(f"cannot create a store at {path}: {error.strerror or error}") from error
    try:
        with RocksDBStore(fresh, sync=True) as store:
            yield store
        os.rename(fresh, place)
        sync_to_disk(place.parent)
    finally:
        with suppress(FileNotFoundError):
            shutil.rmtree(fresh)


def _unfinished(place: Path) -> str:
    """How the name of a new store begins that has not got its name yet."""
    return f".{place.name}.unfinished-"


def _delete_unfinished(place: Path) -> None:
    for left in place.parent.glob(glob.escape(_unfinished(place)) + "*"):
        with suppress(StoreDamaged):
            try:
                RocksDBStore(left).close()
            except StoreInUse:  # by a process that runs
                continue
        shutil.rmtree(left)
