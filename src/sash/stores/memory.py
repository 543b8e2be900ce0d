"""A store in the memory of the process: a dict. The default."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from sash.stores.page_names import checked_names, checked_pages
from sash.stores.store import Reads
from sash.stores.views import Views


@dataclass(repr=False)
class MemoryStore:
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

    def __enter__(self) -> MemoryStore:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.pages)

    def __bool__(self) -> bool:
        return True  # `store or MemoryStore()` keeps an empty store

    def __repr__(self) -> str:
        return f"<MemoryStore: {len(self)} page{'s' * (len(self) != 1)}, {self.nbytes} bytes>"
