"""Views: a store keeps the pages that a write replaces, as long as another thread reads the version before it.

view      ├──────────── reads ────────────┤      pages of the version at its beginning
writes        b1, header       b7, header        their old pages are kept for the view
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from sash.stores.store import Reads


class View:
    """The pages of a store at one time. It costs a write to it the old version of each page that is replaced."""

    def __init__(self, store: Reads) -> None:
        self._store = store
        self._replaced: dict[str, bytes | None] = {}
        """Pages that were written since, as they were before; None for one that did not exist."""

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        """Return the pages of these names, in their order; None for one that did not exist."""
        pages = self._store.get_many(ids)  # first: what is written meanwhile was kept before
        return [self._replaced.get(name, page) for name, page in zip(ids, pages, strict=True)]

    def keep(self, name: str, page: bytes | None) -> None:
        """Keep a page that is about to be written, unless an older one is kept."""
        self._replaced.setdefault(name, page)


class Views:
    """The open views of a store.

    A view that is opened between `keep` and the write that follows has both versions; readers of state notice that by
    the generations of pages, and open another one.
    """

    def __init__(self) -> None:
        self._open: list[View] = []

    @contextmanager
    def view(self, store: Reads) -> Iterator[View]:
        """Open a view of a store."""
        made = View(store)
        self._open.append(made)
        try:
            yield made
        finally:
            self._open.remove(made)

    def keep(self, store: Reads, names: Iterable[str]) -> None:
        """Keep pages for the open views, before they are written or deleted."""
        views = [*self._open]
        if not views:
            return
        ids = [*names]
        for name, page in zip(ids, store.get_many(ids), strict=True):
            for view in views:
                view.keep(name, page)
