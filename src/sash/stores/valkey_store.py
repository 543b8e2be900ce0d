"""A store in Valkey or Redis: pages on another machine, for writers that move and readers anywhere.

    {prefix}:pages     a hash: name ▶ page
    {prefix}:names     a sorted set of the names, for `scan`
    {prefix}:lease     who may write
    {prefix}:commit    the last write

The braces are a hash tag: in a cluster all keys of a store are in one slot, so that a write can be atomic.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf

from sash.stores.page_names import after_prefix, encoded_names, encoded_pages
from sash.stores.store_errors import StoreError
from sash.stores.valkey_connection import Server, ValkeyConnection
from sash.stores.valkey_lease import WriterLease

_SCANNED = 256
"""Pages that a scan reads at once."""


class ValkeyStore:
    """Pages in Valkey or Redis, at a URL: `valkey://`, `redis://`, with TLS `valkeys://`, `rediss://`, or `unix://`.

    In place of a URL, a client of the package valkey is accepted, for a cluster or options of its own.

    `prefix`: the name of the store on the server.
    `read_only`: open while a writer is running, without a lease. A replica is enough.
    `timeout`: seconds for which a call is retried if the server does not answer; it may take up to twice as long.
    `lease`: seconds after which a writer that has died without `close` can be replaced.
    `wait`: seconds to wait for another writer to close, or for its lease to expire.

    Raises StoreInUse if another writer has the store, StoreUnavailable if the server does not answer, and StoreError
    if it refuses.
    """

    def __init__(
        self,
        url: Server,
        *,
        prefix: str = "sash",
        read_only: bool = False,
        timeout: float = 10.0,
        lease: float = 10.0,
        wait: float = 0.0,
    ) -> None:
        if not isinstance(prefix, str) or not prefix or set(prefix) & set("{}"):
            raise ValueError(f"prefix must be text without braces, and not empty; got {prefix!r}")
        for name, seconds in (("timeout", timeout), ("lease", lease), ("wait", wait)):
            if isinstance(seconds, bool) or not isinstance(seconds, int | float):
                raise TypeError(f"{name} must be a number of seconds; got {seconds!r}")
        if not 0.1 <= lease < inf:
            raise ValueError(f"lease must be at least 0.1 seconds; got {lease!r}")
        if not wait >= 0:
            raise ValueError(f"wait must be 0 seconds or more; got {wait!r}")
        self.prefix = prefix
        self.read_only = read_only
        self._process = os.getpid()
        keys = encoded_names(f"{{{prefix}}}:{kind}" for kind in ("lease", "commit", "pages", "names"))
        self._pages, self._names = keys[2:]
        self._connection: ValkeyConnection | None = ValkeyConnection(url, timeout)
        self._place = self._connection.address
        self._lease: WriterLease | None = None
        try:
            if read_only:
                self._connection.call("HLEN", self._pages)  # a wrong address or password is found at once
            else:
                self._lease = WriterLease(self._connection, keys, lease, wait)
        except BaseException:
            self._connection.close()
            raise

    def _opened(self) -> ValkeyConnection:
        if self._connection is None:
            raise StoreError(f"the store {self.prefix!r} at {self._place} is closed")
        return self._connection

    def _writer(self) -> WriterLease:
        self._opened()
        if self._lease is None:
            raise StoreError(
                f"the store {self.prefix!r} at {self._place} is open with read_only=True: only its writer can write"
            )
        if os.getpid() != self._process:
            raise StoreError(
                f"the store {self.prefix!r} at {self._place} was opened in process {self._process}, and this is its "
                f"fork {os.getpid()}: open it in the process that uses it"
            )
        return self._lease

    def get_many(self, ids: Sequence[str]) -> list[bytes | None]:
        """Return the pages of these names in order, from one version; None for a missing page. One round trip."""
        connection, names = self._opened(), encoded_names(ids)
        found: list[bytes | None] = connection.call("HMGET", self._pages, *names) if names else []
        return found

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        """Write these pages atomically; existing pages of the same names are replaced. One round trip.

        Raises TypeError, naming the page, if one is not bytes, WriterReplaced if another writer has taken over, and
        StoreUnavailable if the server does not answer: then all of the pages were written or none, and the call can be
        repeated.
        """
        items = encoded_pages(pages)
        writer = self._writer()
        if items:
            writer.put(items)

    def delete_many(self, ids: Iterable[str]) -> None:
        """Delete these pages atomically; missing pages are ignored. Raises as `put_many`."""
        names = encoded_names(ids)
        writer = self._writer()
        if names:
            writer.delete(names)

    def scan(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        """Iterate over the pages whose names begin with the prefix, in the order of their names.

        The names are those at the time of the call. The pages are read later, in groups: a page that is deleted
        meanwhile is left out, and one that is replaced may be the old or the new one.
        """
        (first,) = encoded_names([prefix])
        end = after_prefix(first)
        bounds = (b"[" + first, b"+" if end is None else b"(" + end)
        names: list[bytes] = self._opened().call("ZRANGEBYLEX", self._names, *bounds)
        return self._read(names)

    def _read(self, names: list[bytes]) -> Iterator[tuple[str, bytes]]:
        for start in range(0, len(names), _SCANNED):
            group = names[start : start + _SCANNED]
            pages = self._opened().call("HMGET", self._pages, *group)
            for name, page in zip(group, pages, strict=True):
                if page is not None:
                    yield name.decode(), page

    def refresh(self) -> None:
        """Do nothing: each call reads the pages that are committed at that time."""
        self._opened()

    def close(self) -> None:
        """Release the lease and close the connections. A second call does nothing."""
        if self._connection is None:
            return
        if self._lease is not None and os.getpid() == self._process:
            self._lease.release()
        self._connection.close()
        self._connection = None

    def __enter__(self) -> ValkeyStore:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = ", closed" * (self._connection is None)
        return f"<ValkeyStore: {self.prefix!r} at {self._place}{', read only' * self.read_only}{closed}>"
