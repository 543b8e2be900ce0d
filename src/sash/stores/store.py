"""The protocol of a store: three methods, each for many pages at once.

    operator ──get_many──▶ pages it needs for a batch
             ◀─bytes / None
             ──put_many──▶ pages it changed
             ──delete_many▶ pages it no longer needs

Many at once, since a page of a remote store costs a round trip: an operator asks once a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Store(Protocol):
    """Pages of bytes by name. A store belongs to one operator at a time.

    >>> from sash.stores import MemoryStore
    >>> isinstance(MemoryStore(), Store), isinstance({}, Store)
    (True, False)
    """

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        """The pages of these names, in their order; None for one that is not there."""
        ...

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        """Keep these pages, each in place of the one of its name."""
        ...

    def delete_many(self, ids: Iterable[str]) -> None:
        """Drop these pages; one that is not there is no error."""
        ...
