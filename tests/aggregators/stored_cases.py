"""Helpers for the tests of windows in a store: small pages, stores that count, fail and remember, and a crash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import sash
from sash.aggregators import AMTA, LogMTA, stored_levels
from sash.aggregators import stored_levels as page_cache
from sash.aggregators import stored_levels as stored_pages
from sash.aggregators.bulk_evict import BulkEvict
from sash.stores import MemoryStore

STRUCTURES: list[type[BulkEvict]] = [AMTA, LogMTA]
JOIN = sash.monoid(identity="", combine=lambda a, b: a + b, exact=True, name="join")


@contextmanager
def small_pages(bits: int = 2) -> Iterator[None]:
    """Pages of a few nodes, so that small windows have many of them."""
    size = 1 << bits
    with (
        mock.patch.multiple(stored_pages, BITS=bits, SIZE=size, MASK=size - 1),
        mock.patch.multiple(page_cache, BITS=bits, SIZE=size, MASK=size - 1),
        mock.patch.multiple(stored_levels, BITS=bits, SIZE=size, MASK=size - 1, HALF=bits - 1),
    ):
        yield


class CountingStore(MemoryStore):
    """Counts calls and pages."""

    def __init__(self) -> None:
        super().__init__()
        self.clear_counts()

    def clear_counts(self) -> None:
        self.reads = self.pages_read = self.writes = self.pages_written = 0

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        self.reads += 1
        self.pages_read += len(ids)
        return super().get_many(ids)

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self.writes += 1
        self.pages_written += len(pages)
        super().put_many(pages)


class RememberingStore(MemoryStore):
    """Remembers what it held after each change: the stores that a crash could leave."""

    def __init__(self, pages: dict[str, bytes] | None = None) -> None:
        super().__init__({} if pages is None else pages)
        self.versions: list[dict[str, bytes]] = [dict(self.pages)]

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        super().put_many(pages)
        self.versions.append(dict(self.pages))

    def delete_many(self, ids: Iterable[str]) -> None:
        super().delete_many(ids)
        self.versions.append(dict(self.pages))


class FailingStore(MemoryStore):
    """Raises OSError in the calls named in `failing`."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: set[str] = set()

    def _call(self, name: str) -> None:
        if name in self.failing:
            raise OSError(f"no {name} today")

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        self._call("get")
        return super().get_many(ids)

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self._call("put")
        super().put_many(pages)

    def delete_many(self, ids: Iterable[str]) -> None:
        self._call("delete")
        super().delete_many(ids)


def contents(window: BulkEvict) -> tuple[Any, ...]:
    """All that a user sees of a window."""
    return len(window), list(window), window.query()
