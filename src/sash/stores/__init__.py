"""Where state lives when it leaves an operator: named pages of bytes. Imports nothing else of sash.

`store`      what a place for pages must offer
`memory`     a dict
`frame`      bytes that know what they are and whether they are whole
`page`       Arrow record batches in a frame (imports pyarrow, so only when asked)
`batches`    record batches whose values are valid
`checks`     the fields of a page's meta: types and ranges
`snapshot`   many pages in a frame
`codec`      Python values as bytes, without pickle
"""

from sash.stores.envelope import PageError
from sash.stores.memory import MemoryStore
from sash.stores.store import Store

__all__ = ["MemoryStore", "PageError", "Store"]
