"""Durable state: named pages of bytes. Imports nothing else of sash.

`store`      the protocol of a store
`memory`     a store in a dict
`envelope`   format, kind, query and checksum of a page
`page`       Arrow record batches in an envelope (imports pyarrow, so only when asked)
`batches`    record batches whose values are valid
`checks`     the fields of a page's meta: types and ranges
`snapshot`   many pages in one envelope
`codec`      Python values as bytes, without pickle
"""

from sash.stores.envelope import PageError
from sash.stores.memory import MemoryStore
from sash.stores.store import Store

__all__ = ["MemoryStore", "PageError", "Store"]
