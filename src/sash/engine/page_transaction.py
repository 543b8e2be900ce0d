"""Pages of one operator: reads are remembered for a call, writes wait until it has succeeded, both are counted."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sash.engine.atomic import all_at_once, attributes
from sash.stores import PageError, Store
from sash.stores.page import pack, unpack

Page = tuple[dict[str, Any], list[pa.RecordBatch]]


class Pages:
    """The pages of a store, as one call sees them.

    A call reads, and writes or drops; nothing reaches the store before `commit`, and `rollback` forgets it all. Of a
    call that fails at `commit` or after it nobody knows whether the store has its pages: they are doubtful until a
    later call has written them again, or deleted those that are not to be there.

    A page knows its name and its generation: the call that has written it. One in the place of another, or of another
    call than the header says, is refused when it is read.
    """

    def __init__(self, store: Store, fingerprint: str) -> None:
        self.store, self.fingerprint = store, fingerprint
        self.read_count = self.written_count = 0
        self.nbytes = 0
        """The size of all pages but the header, as it will be when the call has succeeded."""
        self.header = 0
        """The size of the header."""
        self.generation = 0
        """A number for the pages of the call under way."""
        self._generations: dict[str, int] = {}
        """Those of the pages of calls before, where they are known."""
        self._written: dict[str, int] = {}
        """Those of the pages that the call writes."""
        self._known: dict[str, int] = {}
        """The sizes of pages that have been read or written."""
        self._before = 0, 0
        self._sizes: dict[str, int] = {}
        self._seen: dict[str, Page] = {}
        self._changed: dict[str, bytes | None] = {}
        self._sent: dict[str, int | None] = {}
        """What the call has handed to the store, with the sizes of before; None for a page that was not there."""
        self._doubtful: dict[str, bool] = {}
        """By page: is it to be there?"""
        self._garbage: list[str] = []
        """Pages that could not be deleted."""

    def number_call(self) -> None:
        """Give the call under way a number of its own, always of as many digits: sizes of pages do not depend on it."""
        self.generation = 1 << 62 | secrets.randbits(62)

    def begin(self) -> None:
        """A call begins: the one before has succeeded, or has been rolled back."""
        self._sent, self._undone = {}, None

    def is_doubtful(self, name: str) -> bool:
        """Does nobody know which version of a page the store has? Then it is to be written again."""
        return self._doubtful.get(name, False)

    def opened(self) -> None:
        """The header has been read: sizes are as it says."""
        self._before = self.nbytes, self.header
        self._clear()

    def read(self, kind: str, names: Sequence[str], schemas: Sequence[pa.Schema]) -> list[Page]:
        """The pages of these names. Raises PageError for one that is missing or not what it should be."""
        missing = [name for name in names if name not in self._seen]
        for name, data in zip(missing, self.store.get_many(missing) if missing else [], strict=True):
            if data is None:
                raise PageError(f"page {name!r} is missing from the store {self.store!r}: its state is incomplete")
            self.read_count += 1
            self._known[name] = len(data)
            if name == "header":
                self.header = len(data)
            page = unpack(data, kind, self.fingerprint, schemas, f"page {name!r}")
            self._require(name, page[0])
            self._seen[name] = page
        return [self._seen[name] for name in names]

    def _require(self, name: str, meta: dict[str, Any]) -> None:
        """Raises PageError for a page that is not the one of this name, or not of the call that the header names."""
        if meta.get("name") != name:
            raise PageError(f"the store has page {meta.get('name')!r} in the place of {name!r}: pages were mixed up")
        if self._generations.get(name, meta["generation"]) != meta["generation"]:
            raise PageError(
                f"page {name!r} is of another call than the header says: only a part of a write has reached the store, "
                "or an older copy of the page was put back"
            )

    def expect(self, generations: Mapping[str, int]) -> None:
        """Pages that the header lists, with their generations."""
        self._generations.update(generations)

    def generation_of(self, name: str) -> int:
        """The generation of a page that has been read or written, for the header."""
        return self._written.get(name, self._generations.get(name, 0))

    def write(self, kind: str, name: str, meta: dict[str, Any], batches: Sequence[pa.RecordBatch]) -> int:
        """Replace a page, once the call has succeeded; gives its size. One that is there has been read before."""
        meta = {**meta, "name": name, "generation": self.generation}
        self._written[name] = self.generation
        data = pack(kind, self.fingerprint, meta, batches)
        self._count(name, len(data))
        self._changed[name] = data
        self._seen[name] = (meta, list(batches))
        return len(data)

    def drop(self, names: Iterable[str], sizes: Mapping[str, int] | None = None) -> None:
        """Delete pages, once the call has succeeded. `sizes` are those of pages that have not been read."""
        for name in names:
            if sizes and name in sizes:
                self._known.setdefault(name, sizes[name])
            self._count(name, 0)
            self._changed[name] = None
            self._written.pop(name, None)
            self._seen.pop(name, None)

    def _count(self, name: str, size: int) -> None:
        if name == "header":
            self.header = size
            return
        self.nbytes += size - self._sizes.get(name, self._known.get(name, 0))
        self._sizes[name] = size

    def commit(self) -> None:
        """Hand all changes to the store."""
        put = {name: data for name, data in self._changed.items() if data is not None}
        gone = [name for name, data in self._changed.items() if data is None]
        gone += [name for name, is_there in self._doubtful.items() if not is_there and name not in self._changed]
        gone += [name for name in self._garbage if name not in self._changed]
        known = {name: size for name, size in {**self._known, **self._sizes}.items() if size}
        self._sent = {name: self._known.get(name) for name in put}
        self.store.put_many(put)
        self._delete(gone)
        generations = {**self._generations, **self._written}
        for name in gone:
            generations.pop(name, None)
        undone: dict[str, Any] = {"_before": self._before, "_known": self._known, "_doubtful": self._doubtful}
        undone |= {"written_count": self.written_count, "_generations": self._generations}
        changes: dict[str, Any] = {"_before": (self.nbytes, self.header), "_known": known, "_doubtful": {}}
        changes |= {"written_count": self.written_count + len(put), "_generations": generations, "_undone": undone}
        all_at_once(attributes(self, **changes))
        self._clear()

    _undone: dict[str, Any] | None = None
    """What `commit` has changed, as it was, until the next call."""

    def _delete(self, names: list[str]) -> None:
        """Delete pages. The call has succeeded already: what cannot be deleted now is garbage for the next one."""
        self._garbage = names
        if names:
            try:
                self.store.delete_many(names)
            except Exception:
                return
        self._garbage = []

    def rollback(self) -> None:
        """Forget what was read and changed. May be interrupted, and called again."""
        if self._undone is not None:
            all_at_once(attributes(self, **self._undone, _undone=None))
        if self._sent:
            doubtful = {name: size is not None for name, size in self._sent.items()}
            all_at_once(attributes(self, _doubtful={**doubtful, **self._doubtful}, _sent={}))
        self._clear()

    def _clear(self) -> None:
        self.nbytes, self.header = self._before
        self._sizes.clear()
        self._written.clear()
        self._seen.clear()
        self._changed.clear()
