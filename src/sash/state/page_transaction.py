"""The pages of one operator during a call: reads are cached, writes are buffered until the commit, both are counted.

The metadata fields of pages, by kind of page.

Ownership of a store: it belongs to one operator at a time, the last one that was opened on it.
"""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from sash.engine.atomic import all_at_once, attributes
from sash.plan.bound_query import MODES
from sash.state.repeated_columns import COLUMN
from sash.stores import PageError, Store
from sash.stores.envelope import ANYTHING, COUNTER, Check, integer, list_of, one_of, optional, text
from sash.stores.pages import Schemas, pack, unpack

# --- Page fields ---

NUMBER = optional(text(r"-?[0-9]{1,19}|-?inf|-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]{1,3})?"))
"""A watermark or a time."""

IDENTITY: Mapping[str, Check] = {"name": text(), "generation": integer()}
"""Fields of every page: its name, and the call that wrote it."""

_OWN: Mapping[str, Mapping[str, Check]] = {
    "header": {
        "hash": integer(),
        "mode": one_of(*MODES),
        "watermark": NUMBER,
        "before": NUMBER,
        "counters": list_of(COUNTER, 4),
        "offset": ANYTHING,
        "eager": one_of(False, True),
        "held": optional(integer()),
        "number": COUNTER,
        "page": COUNTER,
        "token": text(),
        "bytes": COUNTER,
    },
    "bucket": {
        "emit": one_of("final", "changes"),
        "columns": list_of(list_of(COLUMN)),
        "segments": list_of(list_of(COUNTER, 2)),
        "marks": list_of(text(r"[0-9a-f]{16}")),
    },
    "segment": {"columns": list_of(COLUMN)},
}

FIELDS: Mapping[str, Mapping[str, Check]] = {
    kind: {**IDENTITY, **_OWN.get(kind, {})}
    for kind in ("header", "root", "bucket", "segment", "buffer", "held", "eager")
}
"""By kind of page: the fields of its meta."""


# --- Store owner ---


class StoreOwner:
    """The writer of a store, until another one claims it."""

    store: Store

    def claim(self) -> None:
        """Become the owner: the previous owner is refused from now on."""
        _owners[id(self.store)] = self

    def require_owner(self) -> None:
        """Raises RuntimeError if another operator was opened on the store since."""
        if _owners.get(id(self.store)) is not self:
            raise RuntimeError(
                f"another operator was opened on the store {self.store!r} and owns its state now: use that one, or "
                "open a new operator. A store belongs to one operator at a time"
            )


_owners: weakref.WeakValueDictionary[int, StoreOwner] = weakref.WeakValueDictionary()
"""By the id of a store: its owner. The owner refers to the store, so that the id is not reused."""


# --- Page transaction ---

Page = tuple[dict[str, Any], list[pa.RecordBatch]]


@dataclass(frozen=True)
class BeforeWrite:
    """What was known before a commit: sizes and generations of its pages, names of new pages, and attributes."""

    sizes: dict[str, int]
    generations: dict[str, int | None]
    fresh: list[str]
    values: dict[str, Any]


class Pages(StoreOwner):
    """The pages of a store, as one call sees them.

    A call reads, and writes or drops; nothing reaches the store before `commit`, and `rollback` forgets it all. If a
    call fails at `commit` or after it, it is unknown whether the store has its pages: they are uncertain until a later
    call has written them again, or deleted those that the state does not need.

    A page contains its name and its generation, which identifies the call that wrote it. A page under another name, or
    from another call than the header lists, is refused when it is read.
    """

    def __init__(self, store: Store, fingerprint: str) -> None:
        self.store, self.fingerprint = store, fingerprint
        self.read_count = self.written_count = 0
        self.nbytes = 0
        """The size of all pages but the header, as it will be when the call has succeeded."""
        self.header = 0
        """The size of the header."""
        self.generation = 0
        """The generation of pages that the current call writes."""
        self._generations: dict[str, int | None] = {}
        """The generations of pages of earlier calls, where they are known."""
        self._written: dict[str, int] = {}
        """The generations of pages that the call writes."""
        self._known: dict[str, int] = {}
        """The sizes of pages that have been read or written."""
        self._before = 0, 0
        self._sizes: dict[str, int] = {}
        self._seen: dict[str, Page] = {}
        self._changed: dict[str, bytes | None] = {}
        self._sent: dict[str, int | None] = {}
        """Pages that the call has passed to the store, with their sizes before it; None for a new page."""
        self._uncertain: dict[str, bool] = {}
        """Pages whose version in the store is unknown, and whether the state needs them."""
        self.garbage: list[str] = []
        """Obsolete pages. The header lists them: after a crash, the next operator deletes them."""
        self._dropped: list[str] = []
        """Deleted pages, whose size and generation the next call forgets."""
        self._undone: BeforeWrite | None = None
        """The values before `commit`, until the next call: sizes, generations, names of new pages, attributes."""

    def move(self, store: Store) -> None:
        """Continue on another store, which has the same pages, as its owner."""
        self.store = store
        self.claim()

    def number_call(self) -> None:
        """Choose a generation for the call. It has a fixed number of digits: page sizes do not depend on it."""
        self.generation = 1 << 62 | secrets.randbits(62)

    def begin(self) -> None:
        """Begin a call; the last one has succeeded or was rolled back."""
        self._sent, self._undone = {}, None
        while self._dropped:
            self._known.pop(self._dropped[-1], None)
            self._generations.pop(self._dropped[-1], None)
            self._dropped.pop()

    @property
    def names(self) -> list[str]:
        """The pages that have been read or written, except header and root."""
        return [name for name, size in self._known.items() if size and name not in ("header", "root")]

    @property
    def uncertain(self) -> list[str]:
        """Pages whose version in the store is unknown after a failed write: the next call writes them again."""
        return [name for name, is_needed in self._uncertain.items() if is_needed]

    def opened(self, nbytes: int, garbage: list[str]) -> None:
        """Continue the state of a header that was read: `nbytes` of other pages, and obsolete pages."""
        self._before, self.garbage = (nbytes, self.header), garbage
        self._clear()

    def replace_pages(self, names: list[str]) -> None:
        """Let the next header list these pages as obsolete: the new ones replace them."""
        self.garbage = names

    def read(self, kind: str, names: Sequence[str], schemas: Schemas) -> list[Page]:
        """The pages of these names. Raises PageError for one that is missing, damaged or of another call."""
        missing = [name for name in names if name not in self._seen]
        for name, data in zip(missing, self.store.get_many(missing) if missing else [], strict=True):
            if data is None:
                raise PageError(f"page {name!r} is missing from the store {self.store!r}: its state is incomplete")
            self.read_count += 1
            self._known[name] = len(data)
            if name == "header":
                self.header = len(data)
            page = unpack(data, kind, self.fingerprint, schemas, f"page {name!r}", FIELDS[kind])
            self._require(name, page[0])
            self._generations.setdefault(name, page[0]["generation"])
            self._seen[name] = page
        return [self._seen[name] for name in names]

    def forget_pages(self) -> None:
        """Forget what is known of pages: another writer has changed them."""
        for known in (self._known, self._generations, self._seen):
            known.clear()

    def forget_reads(self, names: Iterable[str] | None = None) -> None:
        """Drop pages from the cache of reads: all, or those of these names."""
        if names is None:
            self._seen.clear()
        else:
            for name in names:
                self._seen.pop(name, None)

    def _require(self, name: str, meta: dict[str, Any]) -> None:
        """Raises PageError for a page with another name, or from another call than the header lists."""
        if meta["name"] != name:
            raise PageError(f"the store returned page {meta['name']!r} for page {name!r}: pages were mixed up")
        expected = self._generations.get(name)
        if expected is not None and expected != meta["generation"]:
            raise PageError(
                f"page {name!r} is not of the call that the header lists: a write reached the store only in part, "
                "or an older copy of the page was restored"
            )

    def expect(self, generations: Mapping[str, int]) -> None:
        """Set the generations that pages must have, from the header."""
        self._generations.update(generations)

    def generation_of(self, name: str) -> int:
        """The generation of a page that has been read or written, for the header."""
        return self._written.get(name, self._generations.get(name) or 0)

    def write(self, kind: str, name: str, meta: dict[str, Any], batches: Sequence[pa.RecordBatch]) -> int:
        """Write a page with the commit, in place of an older version, which has been read; returns its size."""
        meta = {**meta, "name": name, "generation": self.generation}
        self._written[name] = self.generation
        data = pack(kind, self.fingerprint, meta, batches)
        self._count(name, len(data))
        self._changed[name] = data
        if kind == "buffer":  # pages of the reorder buffer may be merged in the same call; others are in live state
            self._seen[name] = (meta, list(batches))
        else:
            self._seen.pop(name, None)
        return len(data)

    def drop(self, names: Iterable[str]) -> None:
        """Delete pages with the commit. A page that was never sent to the store is forgotten."""
        for name in names:
            self._count(name, 0)
            is_new = name in self._written and name not in self._known and name not in self._uncertain
            if is_new and self._generations.get(name) is None:
                del self._changed[name], self._sizes[name]
            else:
                self._changed[name] = None
            self._written.pop(name, None)
            self._seen.pop(name, None)

    def _count(self, name: str, size: int) -> None:
        if name == "header":
            self.header = size
            return
        self.nbytes += size - self._sizes.get(name, self._known.get(name, 0))
        self._sizes[name] = size

    @property
    def unneeded(self) -> list[str]:
        """The pages that the state does not need once the call has succeeded, and that may be in the store."""
        gone = [name for name, data in self._changed.items() if data is None]
        gone += [name for name, is_needed in self._uncertain.items() if not is_needed and name not in self._changed]
        return gone + [name for name in self.garbage if name not in self._changed]

    def commit(self) -> None:
        """Write all changes to the store. Obsolete pages stay there until `delete_garbage`."""
        put, gone = {name: data for name, data in self._changed.items() if data is not None}, self.unneeded
        self._sent = {name: self._known.get(name) or None for name in put}
        self.store.put_many(put)
        sizes, generations = dict(self._sizes), dict[str, int | None](self._written)
        sizes.update(dict.fromkeys(gone, 0))
        generations.update(dict.fromkeys(gone))
        known = {name: self._known.get(name, 0) for name in sizes}
        changes: dict[str, Any] = {"_before": self._before, "_uncertain": self._uncertain, "garbage": self.garbage}
        changes |= {"written_count": self.written_count}
        listed = {name: self._generations.get(name) for name in generations}
        undone = BeforeWrite(known, listed, [name for name, size in known.items() if not size], changes)
        now: dict[str, Any] = {"_before": (self.nbytes, self.header), "_uncertain": {}, "garbage": gone}
        now |= {"written_count": self.written_count + len(put), "_undone": undone}
        self._note(sizes, generations, [*gone], now)
        self._clear()

    def _note(
        self, sizes: dict[str, int], generations: dict[str, int | None], dropped: list[str], values: dict[str, Any]
    ) -> None:
        """Update what is known of some pages, and some attributes, at once. The cost depends on these pages only."""
        known = partial(dict.update, self._known, sizes), partial(dict.update, self._generations, generations)
        all_at_once(*known, attributes(self, _dropped=dropped, **values))

    def delete_garbage(self) -> None:
        """Delete obsolete pages. If the store raises, the next call tries again.

        Only after the call has succeeded: a call that is interrupted here must not be undone, because pages of the
        state before it may be deleted already.
        """
        if self.garbage:
            try:
                self.store.delete_many(self.garbage)
            except Exception:
                return
            self.garbage = []

    def take_over(self, other: Pages) -> None:
        """Replace another transaction over the same pages, which has succeeded."""
        self.read_count += other.read_count
        self.written_count += other.written_count
        self.garbage = other.garbage

    def rollback(self) -> None:
        """Forget what was read and changed. May be interrupted, and called again."""
        if self._undone is not None:
            before = self._undone
            self._note(before.sizes, before.generations, [*before.fresh], {**before.values, "_undone": None})
        if self._sent:
            uncertain = {name: size is not None for name, size in self._sent.items()}
            all_at_once(attributes(self, _uncertain={**uncertain, **self._uncertain}, _sent={}))
        self._clear()

    def _clear(self) -> None:
        self.nbytes, self.header = self._before
        self._sizes.clear()
        self._written.clear()
        self._seen.clear()
        self._changed.clear()
