"""One store for several states: each has pages of its own, and one call writes those of all of them at once.

    state 0 ──put_many──▶ g0.header g0.b00 … ┐
    state 1 ──put_many──▶ g1.header g1.b00 … ┴──commit──▶ put_many of the store, atomic

The page `root` lists the queries of each state: an operator of other queries, or of a single query, is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sash.engine.operator_snapshot import ANY, SEVERAL
from sash.state.page_transaction import StoreOwner
from sash.state.root_page import HEADER, ROOT
from sash.stores import PageError, Store
from sash.stores.envelope import check_meta, decoding, list_of, read_json, text, unwrap, wrap

_LABEL = f"page {ROOT!r}"


class JointStore(StoreOwner):
    """Collects what states write in a call, and passes it to the store as one."""

    def __init__(self, store: Store, groups: Sequence[Sequence[str]]) -> None:
        self.store, self.groups = store, [list(names) for names in groups]
        self._waiting: dict[str, bytes] = {}
        self._has_root = self._check()
        self.claim()

    def _check(self) -> bool:
        """Has the store state of these queries? Raises PageError if it has that of others."""
        stored = stored_groups(self.store)
        if stored is not None:
            require_groups(f"the store {self.store!r}", stored, self.groups)
        return stored is not None

    def part(self, number: int) -> StorePart:
        """The pages of one state."""
        return StorePart(self, f"g{number}.")

    def put(self, pages: Mapping[str, bytes]) -> None:
        """Pages that `commit` writes."""
        self._waiting.update(pages)

    def get(self, names: Sequence[str]) -> list[bytes | None]:
        """Pages as the states have written them, including uncommitted ones."""
        found = self.store.get_many(names)
        return [self._waiting.get(name, page) for name, page in zip(names, found, strict=True)]

    def commit(self) -> None:
        """Write all uncommitted pages, or none."""
        pages = self._waiting
        if not self._has_root:
            pages = {**pages, ROOT: wrap(SEVERAL, ANY, [json.dumps({"groups": self.groups}).encode()])}
        self.store.put_many(pages)
        self._waiting, self._has_root = {}, True

    def discard(self) -> None:
        """Discard the uncommitted pages."""
        self._waiting = {}


def stored_groups(store: Store) -> list[list[str]] | None:
    """The queries of each state that a store has; None if it is empty. Raises PageError for other state."""
    root, header = store.get_many([ROOT, HEADER])
    if root is None and header is None:
        return None
    if root is None or header is not None:
        raise PageError(f"the store {store!r} has the state of a single query: open it with that query")
    items = unwrap(root, SEVERAL, ANY, _LABEL)
    with decoding(_LABEL):
        meta = read_json(items[0])
    check_meta(meta, {"groups": list_of(list_of(text()))}, _LABEL)
    found: list[list[str]] = meta["groups"]
    return found


class StorePart:
    """The pages of one state in a joint store. Deletes take effect at once: they follow the commit."""

    def __init__(self, joint: JointStore, prefix: str) -> None:
        self.joint, self.prefix = joint, prefix

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        """Return the pages of these names, in their order; None for one that is not there."""
        return self.joint.get([self.prefix + name for name in ids])

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        """Write these pages with the joint store's commit."""
        self.joint.put({self.prefix + name: page for name, page in pages.items()})

    def delete_many(self, ids: Iterable[str]) -> None:
        """Delete these pages, all of them or none."""
        self.joint.store.delete_many([self.prefix + name for name in ids])

    def scan(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        """Iterate over the pages whose names begin with the prefix, in the order of their names."""
        for name, page in self.joint.store.scan(self.prefix + prefix):
            yield name.removeprefix(self.prefix), page

    def close(self) -> None:
        """Do nothing: the store belongs to the queries."""

    def __repr__(self) -> str:
        return repr(self.joint.store)


def require_groups(what: str, found: Sequence[Sequence[str]], expected: Sequence[Sequence[str]]) -> None:
    """Raises PageError for state of other queries, or of the same in other groups."""
    if [list(names) for names in found] != [list(names) for names in expected]:
        raise PageError(
            f"{what} has the state of other queries, or of queries that do not share state as these do: it has "
            f"{_listed(found)}; expected {_listed(expected)}"
        )


def _listed(groups: Sequence[Sequence[str]]) -> str:
    return "; ".join(", ".join(names) for names in groups)
