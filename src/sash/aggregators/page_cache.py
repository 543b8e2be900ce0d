"""Keep the pages of a window in memory that it needs now or soon; the others are only in its store.

    level 1  [ head │ next ]   │ · · · · · · · · · · │   [ being written │ tail ]
    level 0  [ head │ next ]   │ · · · · · · [ last read ] · · · · · · │ [ being written │ tail ]
               F                                                                        E

- Tail: the page of a level that is being filled. A complete page stays in memory until it is durable.
- Head: the first page of a level. The next one is read ahead, in the background, when less than half of it is left.
- Any other page is read when it is needed, and stays until another one of its level is: in one call, with the first
  pages of all levels after a bulk eviction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from sash.aggregators.stored_pages import BITS, MASK, SIZE, UNWRITTEN, WindowPages, head_page
from sash.stores.envelope import PageError
from sash.stores.page_writer import PageWriter
from sash.stores.store import Store

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
