"""The protocol of a store: pages of bytes by name, many in one call.

    operator ──get_many──▶ pages it needs for a batch
             ◀─bytes / None
             ──put_many──▶ pages it changed
             ──delete_many▶ pages it no longer needs

Calls take many pages, because each call to a remote store costs a round trip: an operator makes one per batch.

A name is any Unicode text. Stores outside of memory encode it in UTF-8, which keeps the order.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self, runtime_checkable

# --- Store ---


@runtime_checkable
class Store(Protocol):
    """Pages of bytes by name. A store has one writer at a time.

    `put_many` and `delete_many` are atomic: after a crash, all of a call's changes are there or none of them.

    >>> from sash.stores import MemoryStore
    >>> isinstance(MemoryStore(), Store), isinstance({}, Store)
    (True, False)
    """

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        """Return the pages of these names, in their order; None for a missing page."""
        ...

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        """Write these pages atomically; existing pages of the same names are replaced."""
        ...

    def delete_many(self, ids: Iterable[str]) -> None:
        """Delete these pages atomically; missing pages are ignored."""
        ...

    def scan(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        """Iterate over the pages whose names begin with the prefix, in the order of their names."""
        ...

    def close(self) -> None:
        """Release what the store holds: files, connections, its lock. A second call does nothing."""
        ...


@runtime_checkable
class Reads(Protocol):
    """Pages that can be read."""

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        """Return the pages of these names, in their order; None for a missing page."""
        ...


@runtime_checkable
class Viewable(Protocol):
    """A store that shows one version of its pages while another thread writes to it."""

    def view(self) -> AbstractContextManager[Reads]:
        """The pages as they are now, until the end of the `with` block."""
        ...


@runtime_checkable
class Refreshable(Protocol):
    """A store that can be read while a writer is open: reads see at least the commits before the last `refresh`.

    >>> from sash.stores import MemoryStore
    >>> isinstance(MemoryStore(), Refreshable)
    True
    """

    def refresh(self) -> None:
        """Make the writer's commits so far visible to reads."""
        ...


def checked_store(what: str, given: Any) -> Store:
    """Return the argument if it is a store.

    >>> checked_store("store=", "state")
    Traceback (most recent call last):
    TypeError: store= must be a store: for a directory, use sash.stores.RocksDBStore('state'); got 'state'

    Raises TypeError, naming the argument and what to pass, for anything else.
    """
    if not isinstance(given, type) and isinstance(given, Store):
        return given
    advice = "such as sash.stores.RocksDBStore(path)"
    if isinstance(given, type):
        advice = f"an object of the class {given.__name__}, not the class"
    elif isinstance(given, str) and "://" in given:
        advice = "for a server, use sash.stores.ValkeyStore(url)"  # the URL may contain a password
        raise TypeError(f"{what} must be a store: {advice}; got a URL")
    elif isinstance(given, str | os.PathLike):
        advice = f"for a directory, use sash.stores.RocksDBStore({os.fspath(given)!r})"
    raise TypeError(f"{what} must be a store: {advice}; got {given!r:.80}")


class ClosedAtEnd:
    """A store that is closed at the end of a `with` block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Release what the store holds."""
        raise NotImplementedError


def sync_to_disk(path: str | os.PathLike[str]) -> None:
    """Flush a file, or the names in a directory, to disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


# --- Store errors ---


class StoreError(Exception):
    """A store cannot be opened or used. The message names the store and what to do."""


class StoreInUse(StoreError):
    """Another writer has the store open."""


class StoreDamaged(StoreError):
    """Files of a store are damaged or missing: the message names the file."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or cannot write at the moment: the same call can be repeated later.

    A write that raised this has been applied as a whole or not at all. Repeating it is safe either way.
    """


class WriterReplaced(StoreError):
    """This writer may not write any more: another one has written since, or the store has lost its last writes.

    The pages that this writer knows are out of date: open the store again, and continue from what it has.
    """


class FlushError(StoreError):
    """Pages could not be written in the background. They are kept, and written again later."""


# --- Page names ---


def checked_names(ids: Iterable[str]) -> list[str]:
    """Return names of pages as a list.

    Raises TypeError for a single str instead of several names, and for a name that is no str; ValueError for a name
    that is not valid Unicode.

    >>> checked_names(iter(["b", "a"]))
    ['b', 'a']
    >>> checked_names("header")
    Traceback (most recent call last):
    TypeError: expected several names of pages, got one text: use ['header']
    """
    if isinstance(ids, str):
        raise TypeError(f"expected several names of pages, got one text: use [{ids!r:.80}]")
    names = list(ids)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"names of pages must be str; {name!r:.80} is a {type(name).__name__}")
        if not name.isascii():
            _encoded(name)
    return names


def checked_pages(pages: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Return the pages, if all of them are bytes and their names are text.

    Raises TypeError, naming the page, if one is not bytes: a bytearray could change later.
    """
    checked_names(pages.keys())
    for name, page in pages.items():
        if type(page) is not bytes:
            raise TypeError(f"pages must be bytes; page {name!r} is a {type(page).__name__}")
    return pages


def _encoded(name: str) -> bytes:
    try:
        return name.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"names of pages must be valid Unicode; {name!r:.80} has a lone surrogate") from error


def encoded_names(ids: Iterable[str]) -> list[bytes]:
    """Encode names in UTF-8, checked as in `checked_names`.

    >>> encoded_names(["b3f0", "é"])
    [b'b3f0', b'\\xc3\\xa9']
    """
    return [name.encode() for name in checked_names(ids)]


def encoded_pages(pages: Mapping[str, bytes]) -> list[tuple[bytes, bytes]]:
    """Encode the names of pages in UTF-8, checked as in `checked_pages`."""
    return [(name.encode(), page) for name, page in checked_pages(pages).items()]


def after_prefix(prefix: bytes) -> bytes | None:
    """Return the least bytes that are greater than all names with this prefix; None for an empty prefix.

    >>> after_prefix(b"b3"), after_prefix(b"")
    (b'b4', None)
    """
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None  # no byte of UTF-8 is 0xff
