"""Stores of tests: one that records its calls, so that tests can count pages, and one that is no MemoryStore."""

from collections.abc import Iterable, Mapping, Sequence

from sash.stores import MemoryStore


class CountingStore(MemoryStore):
    """A store that records the names of pages read, written and deleted since `forget`, and counts its reads."""

    def __init__(self, pages: Mapping[str, bytes] | None = None) -> None:
        super().__init__(dict(pages or {}))
        self.forget()

    def forget(self) -> None:
        """Reset the counts."""
        self.read: list[str] = []
        self.written: list[str] = []
        self.dropped: list[str] = []
        self.round_trips = 0

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        self.read += ids
        self.round_trips += 1
        return super().get_many(ids)

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self.written += pages
        super().put_many(pages)

    def delete_many(self, ids: Iterable[str]) -> None:
        names = list(ids)
        self.dropped += names
        super().delete_many(names)

    @property
    def touched(self) -> set[str]:
        """The pages that were read, written or dropped."""
        return {*self.read, *self.written, *self.dropped}

    @property
    def largest(self) -> int:
        """The size of the largest page."""
        return max(map(len, self.pages.values()))


class Elsewhere:
    """A store that wraps a MemoryStore, and is none itself."""

    def __init__(self) -> None:
        self.inner = MemoryStore()
        self.get_many, self.put_many = self.inner.get_many, self.inner.put_many
        self.delete_many, self.scan = self.inner.delete_many, self.inner.scan
        self.close = self.inner.close
