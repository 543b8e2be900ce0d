"""Durable state: named pages of bytes. Imports nothing else of sash.

`store`             the protocol of a store
`memory`            a store in a dict
`rocksdb_store`     a store in a directory; needs rocksdict
`valkey_store`      a store in Valkey or Redis; needs valkey
`store_backup`      copies of stores; needs rocksdict
`valkey_connection` calls to a Valkey server: bounded waiting, clear errors
`valkey_lease`      one writer at a time for a store in Valkey
`store_errors`      the errors of stores
`page_names`        names and pages as every store checks them
`page_writer`       writes, deletes and reads ahead in the background
`envelope`          format, kind, query and checksum of a page
`page`              Arrow record batches in an envelope (imports pyarrow, so it is not loaded by default)
`batches`           read record batches from untrusted bytes
`checks`            check the fields of a page's metadata: types and ranges
`snapshot`          many pages in one envelope
`codec`             Python values as bytes, without pickle; `scalars`: its single values
`state_list`        many states of an aggregate as bytes
`state_objects`     states that are NamedTuples or dataclasses as bytes
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sash.stores.envelope import PageError
from sash.stores.memory import MemoryStore
from sash.stores.store import Refreshable, Store
from sash.stores.store_errors import FlushError, StoreDamaged, StoreError, StoreInUse, StoreUnavailable, WriterReplaced

if TYPE_CHECKING:
    from sash.stores.rocksdb_store import RocksDBStore
    from sash.stores.store_backup import backup, restore
    from sash.stores.valkey_store import ValkeyStore

__all__ = [
    "FlushError",
    "MemoryStore",
    "PageError",
    "Refreshable",
    "RocksDBStore",
    "Store",
    "StoreDamaged",
    "StoreError",
    "StoreInUse",
    "StoreUnavailable",
    "ValkeyStore",
    "WriterReplaced",
    "backup",
    "restore",
]

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
