"""A store in the memory of the process: a dict. The default. And views of any store in the process.

A store keeps the pages that a write replaces, as long as another thread reads the version before it:

view      ├──────────── reads ────────────┤      pages of the version at its beginning
writes        b1, header       b7, header        their old pages are kept for the view
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from sash.stores.store import ClosedAtEnd, Reads, checked_names, checked_pages

# --- Views ---


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


# --- Memory ---


@dataclass(repr=False)
class MemoryStore(ClosedAtEnd):
    """Pages in a dict.

    >>> store = MemoryStore()
    >>> store.put_many({"a": b"12", "b": b"345"})
    >>> store.delete_many(["b", "c"]); store.get_many(["a", "b"])
    [b'12', None]
    >>> store
    <MemoryStore: 1 page, 2 bytes>
    """

    pages: dict[str, bytes] = field(default_factory=dict)
    _views: Views = field(default_factory=Views, init=False, compare=False)

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        """Return the pages of these names, in their order; None for a missing page."""
        return [self.pages.get(name) for name in checked_names(ids)]

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        """Write these pages; existing pages of the same names are replaced.

        Raises TypeError, naming the page, if one is not bytes: a bytearray could change later.
        """
        checked = checked_pages(pages)
        self._views.keep(self, checked)
        self.pages.update(checked)

    def delete_many(self, ids: Iterable[str]) -> None:
        """Delete these pages; missing pages are ignored."""
        names = checked_names(ids)
        self._views.keep(self, names)
        for name in names:
            self.pages.pop(name, None)

    def scan(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        """Iterate over the pages whose names begin with the prefix, in the order of their names."""
        checked_names([prefix])
        pages = list(self.pages.items())  # one step: another thread may write meanwhile
        return iter(sorted(item for item in pages if item[0].startswith(prefix)))

    def view(self) -> AbstractContextManager[Reads]:
        """The pages as they are now, until the end of the `with` block, while another thread writes."""
        return self._views.view(self)

    def refresh(self) -> None:
        """Do nothing: writer and reader share the dict."""

    def close(self) -> None:
        """Do nothing: the pages live as long as the store."""

    def items(self) -> ItemsView[str, bytes]:
        """Every page with its name."""
        return self.pages.items()

    def copy(self) -> MemoryStore:
        """An independent store with the same pages, which are shared: bytes do not change."""
        return MemoryStore(self.pages.copy())

    @property
    def nbytes(self) -> int:
        """The size of all pages."""
        return sum(map(len, self.pages.values()))

    def __len__(self) -> int:
        return len(self.pages)

    def __bool__(self) -> bool:
        return True  # `store or MemoryStore()` keeps an empty store

    def __repr__(self) -> str:
        return f"<MemoryStore: {len(self)} page{'s' * (len(self) != 1)}, {self.nbytes} bytes>"
