"""Durable state: named pages of bytes. Imports nothing else of sash.

`store`             the protocol of a store, its errors, and how names and pages are checked
`memory`            a store in a dict
`rocksdb_store`     a store in a directory; needs rocksdict
`valkey_store`      a store in Valkey or Redis, with a lease for its writer; needs valkey
`store_backup`      copies of stores; needs rocksdict
`page_writer`       writes, deletes and reads ahead in the background
`pages`             a page as bytes: envelope (format, kind, query, checksum), record batches from untrusted bytes,
                    checks of their metadata, and snapshots, which are many pages in one
`codec`             Python values and states of aggregates as bytes, without pickle
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sash.stores.memory import MemoryStore
from sash.stores.pages import PageError
from sash.stores.store import (
    FlushError,
    Refreshable,
    Store,
    StoreDamaged,
    StoreError,
    StoreInUse,
    StoreUnavailable,
    WriterReplaced,
)

if TYPE_CHECKING:
    from sash.stores.rocksdb_store import RocksDBStore
    from sash.stores.store_backup import backup, restore
    from sash.stores.valkey_store import ValkeyStore

__all__ = [
    "FlushError", "MemoryStore", "PageError", "Refreshable", "RocksDBStore", "Store", "StoreDamaged", "StoreError",
    "StoreInUse", "StoreUnavailable", "ValkeyStore", "WriterReplaced", "backup", "restore",
]  # fmt: skip

_MODULES = {
    "RocksDBStore": "sash.stores.rocksdb_store",
    "ValkeyStore": "sash.stores.valkey_store",
    "backup": "sash.stores.store_backup",
    "restore": "sash.stores.store_backup",
}
"""Names that need a package of the extra `stores`: imported when first used."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
