"""A store with one failing operation, which fails before, after or in the middle of its work."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sash.stores import MemoryStore

HOWS = ("before", "after", "torn")
"""`torn` leaves a random part of the pages written, or deleted: a store that is not atomic."""


class Fault(OSError):
    """The error that a faulty store raises."""


@dataclass
class FaultyStore:
    """Pages in memory; the operation number `at`, counted from 1, fails. Others behave as those of `pages`."""

    pages: MemoryStore
    at: int = 0
    how: str = ""
    seed: int = 0
    error: Callable[[], BaseException] = Fault
    count: int = 0
    struck: str = ""
    """The operation that has failed: get, put or delete."""

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        if self._is_due("get"):
            raise self.error()
        return self.pages.get_many(ids)

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        if not self._is_due("put"):
            self.pages.put_many(pages)
            return
        self.pages.put_many({name: pages[name] for name in self._some(pages)})
        raise self.error()

    def delete_many(self, ids: Iterable[str]) -> None:
        if not self._is_due("delete"):
            self.pages.delete_many(ids)
            return
        self.pages.delete_many(self._some(ids))
        raise self.error()

    def scan(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        if self._is_due("get"):
            raise self.error()
        return self.pages.scan(prefix)

    def close(self) -> None:
        self.pages.close()

    def _is_due(self, operation: str) -> bool:
        self.count += 1
        if self.count == self.at:
            self.struck = operation
            return True
        return False

    def _some(self, names: Iterable[str]) -> list[str]:
        """The pages that a failing operation reaches."""
        names = list(names)
        if self.how == "torn":
            chance = random.Random(f"{self.seed} {self.at}")
            return chance.sample(names, chance.randint(1, max(len(names) - 1, 1)))
        return names if self.how == "after" else []

    def __repr__(self) -> str:
        return f"<FaultyStore: {self.pages!r}>"
