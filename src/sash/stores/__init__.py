"""Durable state: named pages of bytes. Imports nothing else of sash.

`store`             the protocol of a store, its errors, and how names and pages are checked
`memory`            a store in a dict
`rocksdb_store`     a store in a directory; needs rocksdict
`valkey_store`      a store in Valkey or Redis, with a lease for its writer; needs valkey
`store_backup`      copies of stores; needs rocksdict
`page_writer`       writes, deletes and reads ahead in the background
`envelope`          a page as bytes: format, kind, query, checksum; checks of metadata; snapshots of many pages
`pages`             record batches in an envelope, read from untrusted bytes
`codec`             Python values and states of aggregates as bytes, without pickle
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    from sash.stores.envelope import PageError
    from sash.stores.memory import MemoryStore
    from sash.stores.rocksdb_store import RocksDBStore
    from sash.stores.store_backup import backup, restore
    from sash.stores.valkey_store import ValkeyStore

__all__ = [
    "FlushError", "MemoryStore", "PageError", "Refreshable", "RocksDBStore", "Store", "StoreDamaged", "StoreError",
    "StoreInUse", "StoreUnavailable", "ValkeyStore", "WriterReplaced", "backup", "restore",
]  # fmt: skip

_MODULES = {
    "MemoryStore": "sash.stores.memory",
    "PageError": "sash.stores.envelope",
    "RocksDBStore": "sash.stores.rocksdb_store",
    "ValkeyStore": "sash.stores.valkey_store",
    "backup": "sash.stores.store_backup",
    "restore": "sash.stores.store_backup",
}
"""Names whose modules are imported when first used: they need pyarrow, or a package of the extra `stores`."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
