"""The protocol of a store: pages of bytes by name, many in one call.

    operator ──get_many──▶ pages it needs for a batch
             ◀─bytes / None
             ──put_many──▶ pages it changed
             ──delete_many▶ pages it no longer needs

Calls take many pages, because each call to a remote store costs a round trip: an operator makes one per batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable


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
