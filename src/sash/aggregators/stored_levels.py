"""Keep the nodes of AMTA and LogMTA in a key-value store (section 4.1.4 of the paper), in pages of 512 nodes.

             local                    in the store                 local
    level 1  [ head │ next ]   │ · · · · · · · · · · │   [ written in the background │ tail ]
    level 0  [ head │ next ]   │ · · · · · · · · · · · · · · · · · · │  [ …         │ tail ]
               F                                                                     E

- Tails: the page of each level that is being filled. A complete page never changes; it is written to the store in the
  background, in one commit with a header that describes the window at that moment.
- Heads: the first page of each level, and the next one. `page_cache.py` reads them, and decides what stays in memory.
- Pages of evicted nodes are deleted in the background, after the first header without them. The header lists
  those that may not be deleted yet, so that a window that is opened after a crash deletes them.
- LogMTA rewrites the first node of a level when it evicts. Such a node stays in memory, and not on its page: it can be
  recomputed from F and the nodes of the level below.

So the store has the complete pages and the header, memory a few pages per level, and an insert reads nothing.

An operation is a transaction: `begin()`, the algorithm's reads and writes, then `advance(F, E)` or `undo()`.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any, NoReturn, Self

from sash.aggregators.block_levels import Levels
from sash.aggregators.page_cache import NO_PAGE, PageCache, PageKey
from sash.aggregators.stored_pages import (
    BITS,
    MASK,
    SIZE,
    UNWRITTEN,
    NodePage,
    PageRange,
    WindowHeader,
    WindowPages,
    head_page,
    tail_start,
)
from sash.stores.envelope import PageError
from sash.stores.page_writer import Commit, PageWriter
from sash.stores.store import Store, checked_store
from sash.stores.store_errors import StoreError, StoreInUse

HALF = BITS - 1
"""Heads are checked each time that F enters another half of a page: that many low bits of F have overflowed."""

_open: set[tuple[int, str]] = set()
"""The windows that are open in this process, by store and name."""

_opening = threading.RLock()
"""Reentrant, because the garbage collector may end a window while another one is opened."""

NodeKey = tuple[int, int]
"""Level and number of a node."""

_Undo = tuple[list[Any], int, Any] | tuple[dict[NodeKey, Any], NodeKey, Any] | tuple[None, int, int]
"""How to undo a write: a page, a slot and its old node; `_firsts`, a key and its old node; or, for a new page, None,
its level and the tail before."""


class StoredLevels(Levels):
    """Nodes by level and number, most of them in a store.

    Raises StoreInUse if a window of this name is open on the store, PageError if its header is not valid.
    """

    def __init__(self, store: Store, pages: WindowPages) -> None:
        self._store, self._pages = checked_store("store=", store), pages
        self._label = f"{pages.structure} {pages.name!r}"
        self._closed = False
        self._kept: list[range] = []
        """By level: the pages that are in the store or being written to it, without obsolete ones."""
        self._firsts: dict[NodeKey, Any] = {}
        """First nodes that were rewritten."""
        self._undo: list[_Undo] = []
        self._garbage: deque[tuple[int, list[PageRange]]] = deque()
        """By commit: the pages that it made obsolete, and that may not be deleted yet."""
        self._due = False
        self._next_F = 0
        self.F = self.E = 0
        self._saved = (0, 0)
        self._writer = PageWriter(store, pages.encode, self._label)
        self._cache = PageCache(store, pages, self._writer)
        self._chunks, self._tails = self._cache.chunks, self._cache.tails
        """The cache alone adds and drops pages; here nodes are read and written, without a call for each."""
        self._finalizer = self._register()
        try:
            self._load()
        except BaseException:
            self.release()
            raise

    # ---- the nodes ----

    def __getitem__(self, key: tuple[int, int]) -> Any:
        level, number = key
        if self._firsts and (first := self._firsts.get(key, UNWRITTEN)) is not UNWRITTEN:
            return first
        chunk = self._chunks[level].get(number >> BITS)
        if chunk is None:
            chunk = self._cache.read(level, number >> BITS, self.F, max(self.F, self._next_F))
        return chunk[number & MASK]

    def __setitem__(self, key: tuple[int, int], value: Any) -> None:
        level, number = key
        page, slot = number >> BITS, number & MASK
        if level == 0:  # the page is encoded later, when it is too late for an error
            self._pages.check_state(value)
        if level >= len(self._tails) or page > self._tails[level]:
            self._begin_page(level, page)
        if page == self._tails[level]:
            chunk = self._chunks[level][page]
            if chunk[slot] is not UNWRITTEN:
                self._undo.append((chunk, slot, chunk[slot]))
            chunk[slot] = value
        else:
            self._undo.append((self._firsts, key, self._firsts.get(key, UNWRITTEN)))
            self._firsts[key] = value

    def _begin_page(self, level: int, page: int) -> None:
        """Begin the next page of a level."""
        while level >= len(self._kept):
            self._kept.append(range(0))
        before = self._cache.tail(level)
        self._undo.append((None, level, before))
        self._due = self._due or (level == 0 and before != NO_PAGE)
        self._cache.begin_page(level, page)

    def drop_before(self, level: int, number: int) -> None:
        """Record the new start of the window: at the end of the operation, F determines the obsolete pages."""
        if level == 0:
            self._next_F = number

    def drop_all(self) -> None:
        """Not supported: positions must not be reused, or old pages could be taken for new ones. Raises TypeError."""
        raise TypeError(f"{self._label} is emptied by evicting all elements")

    def copy(self) -> Self:
        """Not supported for a window in a store. Raises TypeError."""
        self._refuse_copy()

    def __reduce__(self) -> NoReturn:
        self._refuse_copy()

    def _refuse_copy(self) -> NoReturn:
        raise TypeError(
            f"{self._label} is in a store, which has one writer: it cannot be copied or pickled. "
            "Copy the store, or insert the elements into a window in memory"
        )

    def slots(self) -> int:
        """Return the number of slots in memory."""
        return self._cache.slots()

    # ---- operations ----

    @property
    def attention(self) -> bool:
        """Is there a reason to call `begin()` in the middle of many operations?"""
        return self._writer.attention

    def begin(self) -> None:
        """Begin an operation. Raises StoreError on a closed window, FlushError if a background write has failed."""
        if self._closed:
            raise StoreError(f"{self._label} is closed: open it again with {self._pages.structure}(monoid, store=…)")
        if self._writer.attention:
            self._writer.check()

    def advance(self, F: int, E: int) -> None:
        """End an operation: the window is [F, E)."""
        moved = F >> HALF != self.F >> HALF
        self._undo, self.F, self.E = [], F, E  # at once: no interrupt comes in between
        if moved:
            self._move_heads()
        if self._due:
            self._commit()

    def undo(self) -> None:
        """Undo all writes since the operation began. May be interrupted, and called again."""
        while self._undo:
            entry = self._undo[-1]
            if entry[0] is None:
                _, level, before = entry
                self._cache.undo_page(level, before)
            elif isinstance(entry[0], list):
                chunk, slot, node = entry
                chunk[slot] = node
            else:
                firsts, key, node = entry
                if node is UNWRITTEN:
                    firsts.pop(key, None)
                else:
                    firsts[key] = node
            self._undo.pop()
        self._next_F = self.F

    def flush(self) -> None:
        """Wait until the present window is durable. Raises FlushError if it cannot be written."""
        self.begin()
        if self._saved != (self.F, self.E):
            self._commit()
        self._writer.wait()
        self._trim()

    def close(self) -> None:
        """Flush, delete obsolete pages, and release the window's name. A second call does nothing."""
        if self._closed:
            return
        self.flush()
        self._writer.wait(deleted=True)
        if self._garbage:  # all of it is deleted, but the last header still lists it
            self._commit()
            self._writer.wait()
        self._closed = True
        self.release()

    # ---- writing to the store ----

    def _commit(self) -> None:
        """Submit the complete pages and a header, a consistent version, to the background thread."""
        F, E = self.F, self.E
        number = self._writer.submitted + 1
        obsolete = self._obsolete(F)
        items: dict[str, Any] = {}
        written: list[PageKey] = []
        for level, page in self._cache.complete:
            nodes = self._complete_page(level, page)
            if nodes is not None:
                items[self._pages.page_name(level, page)] = nodes
                written.append((level, page))
                kept = self._kept[level]
                self._kept[level] = range(kept.start if kept else page, page + 1)
        while self._garbage and self._garbage[0][0] <= self._writer.cleaned:
            self._garbage.popleft()
        if obsolete:
            self._garbage.append((number, obsolete))
        start = tail_start(F, E)
        tail = self._chunks[0][start >> BITS][start & MASK : ((E - 1) & MASK) + 1] if E > F else []
        items[self._pages.header_name] = WindowHeader(
            F, E, tail, [one for _, ranges in self._garbage for one in ranges]
        )
        self._writer.submit(Commit(items, self._names(obsolete)))
        self._cache.submitted(number, written)
        self._due, self._saved = False, (F, E)
        self._trim()

    def _complete_page(self, level: int, page: int) -> NodePage | None:
        """The page with those of its nodes that are in the window; None if there are none."""
        start = max((self.F >> level) - (page << BITS), 0)
        if start >= SIZE:
            return None
        chunk = self._chunks[level][page]
        while start < SIZE and chunk[start] is UNWRITTEN:  # AMTA computes no node that begins before F
            start += 1
        return NodePage(level, page, start, chunk) if start < SIZE else None

    def _obsolete(self, F: int) -> list[PageRange]:
        """The pages that are in the store, or will be, and that a window from F on does not need."""
        found = []
        for level, kept in enumerate(self._kept):
            head = min(head_page(level, F), kept.stop)
            if head > kept.start:
                found.append(PageRange(level, kept.start, head))
                self._kept[level] = range(head, kept.stop)
        return found

    def _names(self, ranges: list[PageRange]) -> Iterator[str]:
        pages = self._pages
        return (pages.page_name(level, page) for level, first, stop in ranges for page in range(first, stop))

    # ---- pages in memory ----

    def _move_heads(self) -> None:
        """Drop what is before F from memory; a page of the store that has become obsolete is a reason for a commit."""
        F = self.F
        self._due = self._due or bool(self._kept and head_page(0, F) > self._kept[0].start < self._kept[0].stop)
        self._firsts = {key: node for key, node in self._firsts.items() if (key[1] + 1) << key[0] > F}
        self._cache.move_heads(F)

    def _trim(self) -> None:
        self._cache.trim(self.F, max(self.F, self._next_F))

    # ---- opening and closing ----

    def _register(self) -> weakref.finalize[..., Any]:
        """Reserve the window's name on its store. Returns what releases it."""
        place = (id(self._store), self._pages.name)
        with _opening:
            if place in _open:
                raise StoreInUse(
                    f"a window named {self._pages.name!r} is open on this store: close() it first, "
                    "or give this one another name="
                )
            _open.add(place)
        return weakref.finalize(self, _end, place, self._writer)

    def release(self) -> None:
        """Release the window's name, after all submitted pages are written."""
        self._finalizer()

    def _load(self) -> None:
        """Read the header and take over the youngest elements; the pages are read when they are needed."""
        (data,) = self._store.get_many([self._pages.header_name])
        if data is None:
            for name, _ in self._store.scan(f"{self._pages.name}/"):
                if self._pages.is_page(name):
                    raise PageError(
                        f"page {self._pages.header_name!r} is missing from the store, and there are pages of the "
                        f"window, {name!r} for one. Restore it, delete them, or give this window another name="
                    )
            return
        header = self._pages.decode_header(data)
        self.F, self.E = self._saved = header.F, header.E
        self._next_F = header.F
        for number, element in enumerate(header.tail, tail_start(header.F, header.E)):
            self[0, number] = element
        self._undo.clear()
        self._due = False
        if header.garbage:
            self._garbage.append((1, header.garbage))
            self._writer.submit(Commit({}, self._names(header.garbage)))

    def restored(self) -> None:
        """End the restoring of a window: the nodes that are not on a complete page were recomputed."""
        for level, tail in enumerate(self._tails):
            self._kept[level] = range(min(head_page(level, self.F), tail), max(tail, 0))
        self._undo.clear()
        self._due = False


def _end(place: tuple[int, str], writer: PageWriter) -> None:
    """Release the name of a window that was closed or garbage-collected, after all submitted pages are written."""
    writer.close()
    with _opening:
        _open.discard(place)
