"""Ownership of a store: it belongs to one operator at a time, the last one that was opened on it."""

from __future__ import annotations

import weakref

from sash.stores import Store


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
