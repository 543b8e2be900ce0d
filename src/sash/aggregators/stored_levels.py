"""Keep the nodes of AMTA and LogMTA in a key-value store (section 4.1.4 of the paper), in pages of 512 nodes.

             local                    in the store                 local
    level 1  [ head │ next ]   │ · · · · · · · · · · │   [ written in the background │ tail ]
    level 0  [ head │ next ]   │ · · · · · · · · · · · · · · · · · · │  [ …         │ tail ]
               F                                                                     E

- Tails: the page of each level that is being filled. A complete page never changes; it is written to the store in the
  background, in one commit with a header that describes the window at that moment, and stays in memory until then.
- Heads: the first page of each level. The next one is read ahead, in the background, when less than half of it is left.
- Any other page is read when it is needed, and stays until another one of its level is: in one call, with the first
  pages of all levels after a bulk eviction.
- Pages of evicted nodes are deleted in the background, after the first header without them. The header lists
  those that may not be deleted yet, so that a window that is opened after a crash deletes them.
- LogMTA rewrites the first node of a level when it evicts. Such a node stays in memory, and not on its page: it can be
  recomputed from F and the nodes of the level below.

So the store has the complete pages and the header, memory a few pages per level, and an insert reads nothing.

An operation is a transaction: `begin()`, the algorithm's reads and writes, then `advance(F, E)` or `undo()`.

    prices/header      structure and monoid, [F, E), the youngest elements, and the pages still to be deleted
    prices/0/7         512 nodes of a level: those of level 0 with the numbers from 7·512 up to 8·512
    prices/1/3         …

A page of nodes is complete when it is written, and never written again. Nodes that are not on a complete page are not
stored as such: those of level 0 are in the header, those above are recomputed from the level below.

The header names the structure and the monoid, so that a window is not opened as another. Every page has a fingerprint
of both, its level and its number, and a checksum (`sash.stores.pages`).
"""

from __future__ import annotations

import hashlib
import json
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, Self

from sash.aggregators.storage import Levels
from sash.monoids import Monoid
from sash.monoids.custom import code_key, monoid_key
from sash.stores.codec import dump_states, load_states
from sash.stores.envelope import (
    Check,
    PageError,
    check_meta,
    damaged,
    decoding,
    integer,
    list_of,
    read_json,
    text,
    unwrap,
    wrap,
)
from sash.stores.page_writer import Commit, PageWriter
from sash.stores.store import Store, StoreError, StoreInUse, checked_store

# --- Stored pages ---

BITS = 9
SIZE = 1 << BITS
"""Nodes in a page."""

MASK = SIZE - 1
ANY_WINDOW = "0" * 32
"""The fingerprint of headers: they name structure and monoid in their metadata instead."""

_COUNT = integer(0, 2**62)
_RANGE = list_of(_COUNT, 3)
_HEADER: dict[str, Check] = {
    "structure": text(),
    "monoid": text(),
    "described": text(),
    "F": _COUNT,
    "E": _COUNT,
    "garbage": list_of(_RANGE),
}
_NODES: dict[str, Check] = {"level": _COUNT, "page": _COUNT, "start": integer(0, SIZE - 1)}


class _Unwritten:
    """Marks a slot without a node: None may be a node."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNWRITTEN"


UNWRITTEN: Any = _Unwritten()


class PageRange(NamedTuple):
    """The pages [first, stop) of a level."""

    level: int
    first: int
    stop: int


@dataclass(frozen=True)
class WindowHeader:
    """A consistent version of a window: [F, E), its youngest elements, and the obsolete pages."""

    F: int
    E: int
    tail: Sequence[Any]
    """The elements from `tail_start(F, E)` on."""
    garbage: list[PageRange]
    """Pages that may still have to be deleted."""


@dataclass(frozen=True)
class NodePage:
    """A complete page of nodes; those before the slot `start` are evicted."""

    level: int
    page: int
    start: int
    nodes: list[Any]
    """All slots of the page."""


def tail_start(F: int, E: int) -> int:
    """The first element that is not on a complete page."""
    return max(F, page_start(E - 1))


def head_page(level: int, F: int) -> int:
    """The first page of a level that a window from F on needs."""
    return F >> (level + BITS)


def page_start(number: int) -> int:
    """The number of the first node on the page of this node."""
    return number & ~MASK


_PLAIN = frozenset({type(None), bool, int, float, str, bytes})


def _plain(state: Any) -> bool:
    """Is the state a scalar that can be written, or a nested tuple of such? Cheaper than encoding it."""
    kind = type(state)
    return kind in _PLAIN or (kind is tuple and (_PLAIN.issuperset(map(type, state)) or all(map(_plain, state))))


class WindowPages:
    """Names, writes and reads the pages of one window."""

    def __init__(self, name: str, structure: str, monoid: Monoid) -> None:
        self.name = name
        self.structure = structure
        self.monoid = json.dumps(monoid_key(monoid, code_key), sort_keys=True)
        self.described = repr(monoid)
        self._dump, self._load = monoid.dump, monoid.load
        meaning = f"{structure} {self.monoid}"
        self.fingerprint = hashlib.blake2b(meaning.encode(), digest_size=16, person=b"sash window").hexdigest()
        self.header_name = f"{name}/header"

    def page_name(self, level: int, page: int) -> str:
        """The name of a page of nodes."""
        return f"{self.name}/{level}/{page}"

    def level_and_page(self, name: str) -> tuple[int, int]:
        """Return the level and number of a page, from its name."""
        level, page = name.removeprefix(f"{self.name}/").split("/")
        return int(level), int(page)

    def is_page(self, name: str) -> bool:
        """Is this the name of one of the window's pages of nodes?"""
        parts = name.removeprefix(f"{self.name}/").split("/")
        return len(parts) == 2 and all(part.isdecimal() for part in parts)

    def check_state(self, state: Any) -> None:
        """Raises TypeError, naming the type, for a state that cannot be written."""
        if self._dump is not None or not _plain(state):
            dump_states([state], self._dump)

    def encode(self, item: WindowHeader | NodePage) -> bytes:
        """Encode a page. Raises TypeError, naming the type, for a state that cannot be written."""
        meta: dict[str, Any]
        if isinstance(item, NodePage):
            meta = {"level": item.level, "page": item.page, "start": item.start}
            states, kind, fingerprint = item.nodes[item.start :], "nodes", self.fingerprint
        else:
            meta = {"structure": self.structure, "monoid": self.monoid, "described": self.described}
            meta |= {"F": item.F, "E": item.E, "garbage": item.garbage}
            states, kind, fingerprint = list(item.tail), "window", ANY_WINDOW
        return wrap(kind, fingerprint, [json.dumps(meta).encode(), dump_states(states, self._dump)])

    def decode_header(self, data: bytes) -> WindowHeader:
        """Decode the header of a window of this structure and monoid.

        Raises PageError if the page is damaged, of another format, or belongs to another structure or monoid.
        """
        name = f"page {self.header_name!r}"
        meta, states = _meta_and_states(data, "window", ANY_WINDOW, _HEADER, name)
        if (meta["structure"], meta["monoid"]) != (self.structure, self.monoid):
            raise PageError(
                f"{name} holds a window {meta['structure']}({meta['described']}); this is "
                f"{self.structure}({self.described}). Open it as such a window, or give this one another name="
            )
        with decoding(name):
            tail = load_states(states, self._load)
        F, E = meta["F"], meta["E"]
        if F > E:
            raise damaged(name, f"its window [{F}, {E}) ends before it begins")
        if len(tail) != E - tail_start(F, E):
            raise damaged(name, f"it has {len(tail)} elements; of [{F}, {E}) there must be {E - tail_start(F, E)}")
        garbage = [PageRange(*one) for one in meta["garbage"]]
        for level, first, stop in garbage:
            if not first <= stop <= F >> min(level + BITS, 63):
                raise damaged(
                    name, f"it wants to delete the pages {first} to {stop} of level {level}, which are in use"
                )
        return WindowHeader(F, E, tail, garbage)

    def decode_nodes(self, data: bytes | None, level: int, page: int, start: int) -> list[Any]:
        """Decode a page of nodes, and return all its slots. It must have the nodes from the slot `start` on.

        Raises PageError if it is missing, damaged, of another format or another window.
        """
        name = f"page {self.page_name(level, page)!r}"
        if data is None:
            raise PageError(f"{name} is missing from the store, and the window needs it. Restore a copy of the store")
        meta, states = _meta_and_states(data, "nodes", self.fingerprint, _NODES, name)
        if (meta["level"], meta["page"]) != (level, page):
            raise damaged(name, f"it holds page {meta['page']} of level {meta['level']}")
        with decoding(name):
            nodes = load_states(states, self._load)
        if meta["start"] + len(nodes) != SIZE or meta["start"] > start:
            raise damaged(name, f"it has {len(nodes)} nodes from slot {meta['start']} on; needed from slot {start}")
        return [UNWRITTEN] * meta["start"] + nodes


def _meta_and_states(
    data: bytes, kind: str, fingerprint: str, fields: dict[str, Check], name: str
) -> tuple[dict[str, Any], bytes]:
    """Return the checked metadata of a page, and the bytes of its states."""
    items = unwrap(data, kind, fingerprint, name)
    if len(items) != 2:
        raise damaged(name, f"it has {len(items)} items, not 2")
    with decoding(name):
        meta = read_json(items[0])
    check_meta(meta, fields, name)
    return meta, bytes(items[1])


# --- Page cache ---

NO_PAGE = -1

PageKey = tuple[int, int]
"""Level and number of a page."""


class PageCache:
    """The pages of a window that are in memory.

    The window starts at F; during an operation, at `next_F` when the operation ends.
    """

    def __init__(self, store: Store, pages: WindowPages, writer: PageWriter) -> None:
        self._store, self._pages, self._writer = store, pages, writer
        self.chunks: list[dict[int, list[Any]]] = []
        """By level: the pages in memory, by number. The list is never replaced, so that reads of nodes can refer to it
        directly; nor is `tails`."""
        self.tails: list[int] = []
        """By level: the number of the page that is being filled."""
        self.complete: list[PageKey] = []
        """The pages that were completed since the last commit."""
        self._others: list[int] = []
        """By level: the last page that was read and was not the head."""
        self._written: deque[tuple[int, PageKey]] = deque()
        """The pages that are being written, each with its commit."""
        self._fetching: set[PageKey] = set()

    def slots(self) -> int:
        """Return the number of slots in memory."""
        return SIZE * sum(map(len, self.chunks))

    # ---- tails ----

    def tail(self, level: int) -> int:
        """The number of the page of a level that is being filled, or NO_PAGE."""
        return self.tails[level] if level < len(self.tails) else NO_PAGE

    def begin_page(self, level: int, page: int) -> None:
        """Begin the next page of a level: the one before is complete."""
        while level >= len(self.tails):  # `tails` last: an interrupt leaves no level without its other entries
            if level >= len(self._others):
                self._others.append(NO_PAGE)
            elif level >= len(self.chunks):
                self.chunks.append({})
            else:
                self.tails.append(NO_PAGE)
        before = self.tails[level]
        if before != NO_PAGE:
            self.complete.append((level, before))
        self.chunks[level][page] = [UNWRITTEN] * SIZE
        self.tails[level] = page

    def undo_page(self, level: int, before: int) -> None:
        """Undo the last `begin_page` of a level, also one that was interrupted or not begun; `before` was its tail.

        May be interrupted, and called again.
        """
        if self.tail(level) != before:
            self.chunks[level].pop(self.tails[level], None)
            self.tails[level] = before
        if self.complete[-1:] == [(level, before)]:
            self.complete.pop()

    def submitted(self, commit: int, written: Iterable[PageKey]) -> None:
        """Keep these complete pages until the commit is durable; no other complete page is needed any more."""
        self._written.extend((commit, key) for key in written)
        self.complete.clear()

    # ---- reading ----

    def read(self, level: int, page: int, F: int, next_F: int) -> list[Any]:
        """Read a page that is not in memory, and the heads of all levels with it if it is one of them."""
        self._take_arrived(F)
        if page not in self.chunks[level]:
            heads = [
                (one, place)
                for one, tail in enumerate(self.tails)
                for place in dict.fromkeys((head_page(one, next_F), ((next_F >> one) + 1) >> BITS))
                if place < tail and place not in self.chunks[one]
            ]
            if (level, page) not in heads:
                self._others[level] = page
                heads = [(level, page)]
            found = self._store.get_many([self._pages.page_name(*key) for key in heads])
            for key, data in zip(heads, found, strict=True):
                if data is not None or key == (level, page):  # a head of which no node is needed may be missing
                    self._keep(key, data, F)
            self.trim(F, next_F)
        return self.chunks[level][page]

    def _keep(self, key: PageKey, data: bytes | None, F: int) -> None:
        level, page = key
        start = max(-(-F >> level) - (page << BITS), 0)
        self.chunks[level][page] = self._pages.decode_nodes(data, level, page, start)

    def _take_arrived(self, F: int) -> None:
        """Decode the pages that were read ahead."""
        while (arrived := self._writer.take_arrived()) is not None:
            name, data = arrived
            level, page = self._pages.level_and_page(name)
            self._fetching.discard((level, page))
            if data is not None and head_page(level, F) <= page and page not in self.chunks[level]:
                with suppress(PageError):  # if the page is needed, it is read again, and the error is raised
                    self._keep((level, page), data, F)

    # ---- dropping ----

    def move_heads(self, F: int) -> None:
        """Drop the pages before F from memory, and read the next ones ahead where less than half of one is left."""
        wanted = []
        for level, chunks in enumerate(self.chunks):
            head, tail = head_page(level, F), self.tails[level]
            for page in [page for page in chunks if page < head and page != tail]:
                del chunks[page]
            follows = head + 1
            if (F >> level) & MASK >= SIZE // 2 and follows < tail and follows not in chunks:
                wanted.append((level, follows))
        self._take_arrived(F)
        wanted = [key for key in wanted if key not in self._fetching and key[1] not in self.chunks[key[0]]]
        if wanted:
            self._fetching.update(wanted)
            self._writer.fetch([self._pages.page_name(*key) for key in wanted])

    def trim(self, F: int, next_F: int) -> None:
        """Drop pages from memory that are durable and neither heads nor tails."""
        durable = self._writer.durable
        while self._written and self._written[0][0] <= durable:
            self._written.popleft()
        needed = {key for _, key in self._written}
        needed.update(self.complete)
        for level, chunks in enumerate(self.chunks):
            if len(chunks) > 2:
                near = {self.tails[level], self._others[level]}
                for start in (F, next_F):
                    near |= {head_page(level, start), head_page(level, start) + 1}
                for page in [page for page in chunks if page not in near and (level, page) not in needed]:
                    del chunks[page]


# --- Stored levels ---

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
