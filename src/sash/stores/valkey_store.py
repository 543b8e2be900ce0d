"""A store in Valkey or Redis: pages on another machine, for writers that move and readers anywhere.

    {prefix}:pages     a hash: name ▶ page
    {prefix}:names     a sorted set of the names, for `scan`
    {prefix}:lease     who may write
    {prefix}:commit    the last write

The braces are a hash tag: in a cluster all keys of a store are in one slot, so that a write can be atomic.

The lease of a store in Valkey: there is one writer at a time, and a replaced writer cannot write.

    {prefix}:lease     the writer's random token and who it is; expires `seconds` after its last renewal
    {prefix}:commit    the last write: the token of its writer and a number

Each write checks both in the script that writes. So a writer whose lease has expired can continue until another one
opens the store: that one leaves its token in `commit`. The same check detects a server that has lost confirmed writes,
by a restart or a failover.

A connection to Valkey or Redis: calls have a timeout, and errors name the server.

A call is repeated while the server does not answer, for `timeout` seconds. So every command that is sent here must be
safe to repeat.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from math import inf
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from sash.stores.store import (
    ClosedAtEnd,
    StoreError,
    StoreInUse,
    StoreUnavailable,
    WriterReplaced,
    after_prefix,
    encoded_names,
    encoded_pages,
)

# --- Valkey connection ---

try:
    import valkey
    from valkey import cluster, exceptions
except ImportError as error:
    raise ImportError("ValkeyStore needs the package valkey: pip install 'sash[stores]'") from error

Server = str | valkey.Valkey | cluster.ValkeyCluster
"""A URL, or a client."""

SCHEMES = ("valkey", "valkeys", "redis", "rediss", "unix")
"""Schemes of URLs; `valkeys` and `rediss` use TLS."""

_PAUSES = (0.02, 0.5)
"""Seconds between two attempts: the first pause, which doubles, and the longest."""

_TRANSIENT = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.ClusterError,
    exceptions.TryAgainError,
    exceptions.ValkeyClusterException,
    OSError,
)
"""Errors after which a call is repeated: the server restarts, loads its data, or elects a primary."""


class Script(NamedTuple):
    """A Lua script, which the server runs as one atomic step, and its name there."""

    text: str
    sha: str


def script(*texts: str) -> Script:
    """Concatenate texts to a script."""
    text = "".join(texts)
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def url_without_password(url: str) -> str:
    """Remove password and options from a URL.

    >>> url_without_password("rediss://me:secret@db.example:6380/2?ssl_ca_certs=ca.pem")
    'rediss://me@db.example:6380/2'
    >>> url_without_password("unix:///run/valkey.sock?password=secret")
    'unix:///run/valkey.sock'
    """
    found = urlsplit(url)
    user, at, place = found.netloc.rpartition("@")
    name = user.partition(":")[0]
    return f"{found.scheme}://{name + at if name else ''}{place}{found.path}"


def _client(url: str, timeout: float) -> valkey.Valkey:
    scheme = url.partition(":")[0].lower()
    if scheme not in SCHEMES:
        raise ValueError(f"url must begin with one of {', '.join(f'{s}://' for s in SCHEMES)}; got {scheme!r:.20}")
    options: dict[str, Any] = {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    if scheme in ("valkeys", "rediss"):
        options["ssl_check_hostname"] = True  # the client's own default is to accept any host's certificate
    if scheme != "unix":
        options["socket_keepalive"] = True
    try:
        if scheme == "unix" and not urlsplit(url).path.startswith("/"):
            raise ValueError
        client = valkey.Valkey.from_url(url, **options)
        pool = client.connection_pool
        pool.connection_class(**pool.connection_kwargs)  # finds unknown options; connects nowhere
    except (TypeError, ValueError):
        # Without the cause: its message may quote a piece of the password.
        raise ValueError(
            f"url is not a valid {scheme}:// address: expected {scheme}://[user[:password]@]host[:port][/database], or "
            "unix:///path, and options of the client after a ?; / # @ : in a password have to be percent-encoded"
        ) from None
    return client


class ValkeyConnection:
    """A server, a cluster, or a client that the caller has made."""

    def __init__(self, server: Server, timeout: float) -> None:
        if not 0 < timeout < inf:
            raise ValueError(f"timeout must be a positive number of seconds; got {timeout!r}")
        self.timeout = timeout
        self._own = isinstance(server, str)
        if isinstance(server, str):
            self.client: Any = _client(server, timeout)
            self.address = url_without_password(server)
        elif isinstance(server, valkey.Valkey | cluster.ValkeyCluster):
            self.client = server
            self.address = f"the given {type(server).__name__}"
            if server.get_encoder().decode_responses:
                raise ValueError("the client has decode_responses=True, and pages are bytes: create it without")
        else:
            raise TypeError(f"url must be a URL or a client of the package valkey; got a {type(server).__name__}")

    def call(self, *command: Any, timeout: float | None = None) -> Any:
        """Send a command and return the answer; repeat it while the server cannot be reached, for `timeout` seconds.

        Raises StoreUnavailable if the server did not answer in time, or refuses to write at the moment, and
        StoreError if it refuses the command.
        """
        limit = self.timeout if timeout is None else timeout
        end = time.monotonic() + limit
        pause, longest = _PAUSES
        while True:
            try:
                return self.client.execute_command(*command)
            except (exceptions.AuthenticationError, exceptions.AuthorizationError) as error:
                raise StoreError(f"{self.address} refuses user or password: {error}") from error
            except exceptions.NoScriptError:
                raise
            except exceptions.MovedError as error:
                raise StoreError(
                    f"{self.address} is a node of a cluster: pass a valkey.cluster.ValkeyCluster in place of the URL"
                ) from error
            except (exceptions.ValkeyError, *_TRANSIENT) as error:
                if isinstance(error.__context__, ssl.SSLCertVerificationError):
                    raise StoreError(f"{self.address} is not trusted: {error.__context__}") from error
                if not isinstance(error, _TRANSIENT) and not str(error).startswith("BUSY "):  # a script takes seconds
                    raise self._refused(error) from error
                left = end - time.monotonic()
                if left <= 0:
                    raise StoreUnavailable(
                        f"{self.address} did not answer within {limit:g} s ({error}): repeat the call when it does"
                    ) from error
                time.sleep(min(pause, left))
                pause = min(2 * pause, longest)

    def run(self, script: Script, keys: Sequence[bytes], *arguments: Any, timeout: float | None = None) -> Any:
        """Run a script on these keys, as one atomic step."""
        try:
            return self.call("EVALSHA", script.sha, len(keys), *keys, *arguments, timeout=timeout)
        except exceptions.NoScriptError:  # the server does not know the script yet, or has restarted
            return self.call("EVAL", script.text, len(keys), *keys, *arguments, timeout=timeout)

    def _refused(self, error: Exception) -> StoreError:
        text = str(error)
        if isinstance(error, exceptions.OutOfMemoryError) or "OOM" in text:
            return StoreUnavailable(
                f"{self.address} is out of memory (maxmemory) and refuses to write: {text}; raise maxmemory or delete "
                "pages, then repeat the call"
            )
        if "MISCONF" in text:
            return StoreUnavailable(f"{self.address} cannot save to its disk and refuses to write: {text}")
        if "NOREPLICAS" in text:
            return StoreUnavailable(f"{self.address} has too few replicas and refuses to write: {text}")
        if isinstance(error, exceptions.ReadOnlyError) or "READONLY" in text:
            return StoreError(f"{self.address} is a replica and cannot write: open its primary, or pass read_only=True")
        if "WRONGTYPE" in text:
            return StoreError(f"{self.address} has something else under the keys of the store: choose another prefix")
        return StoreError(f"{self.address} refuses the command: {text}")

    def close(self) -> None:
        """Close the connections, unless the caller has made the client."""
        if self._own:
            self.client.close()


# --- Valkey lease ---

_TOKEN = 32
"""Characters of a token."""

_LEASE = f"""
local token = ARGV[1]
local lease = redis.call('GET', KEYS[1])
if lease and string.sub(lease, 1, {_TOKEN}) ~= token then
    return {{lease, redis.call('PTTL', KEYS[1])}}
end
"""
"""Beginning of a script: if another writer has the lease, return that lease and its remaining milliseconds."""

_ACQUIRE = script(
    _LEASE,
    """
if redis.call('HLEN', KEYS[3]) ~= redis.call('ZCARD', KEYS[4]) then return 'DAMAGED' end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('SET', KEYS[2], ARGV[4])
return 'OK'
""",
)

# The first command that writes decides whether a server out of memory refuses a script: it refuses SET, not PEXPIRE. So
# it takes no new pages, but a lease can be renewed and pages can be deleted.
_RENEW = script(
    _LEASE,
    f"""
if string.sub(redis.call('GET', KEYS[2]) or '', 1, {_TOKEN}) ~= token then return 'REPLACED' end
if lease then
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
else
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return 'OK'
""",
)

_RELEASE = script(
    """
local lease = redis.call('GET', KEYS[1])
if lease and string.sub(lease, 1, #ARGV[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 'OK'
"""
)

_CHECK = """
local last, known = redis.call('GET', KEYS[2]) or '', false
for id in string.gmatch(ARGV[4], '%S+') do
    if id == last then known = true end
end
if not known then return {'LAST', last} end
"""

_PUT = script(
    _LEASE,
    _CHECK,
    """
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('SET', KEYS[2], ARGV[5])
for i = 6, #ARGV, 2 do
    if redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1]) == 1 then redis.call('ZADD', KEYS[4], 0, ARGV[i]) end
end
return 'OK'
""",
)

_DELETE = script(
    _LEASE,
    _CHECK,
    """
redis.call('PEXPIRE', KEYS[1], ARGV[3])
for i = 6, #ARGV do
    if redis.call('HDEL', KEYS[3], ARGV[i]) == 1 then redis.call('ZREM', KEYS[4], ARGV[i]) end
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('SET', KEYS[2], ARGV[5])
return 'OK'
""",
)


class WriterLease:
    """The lease of one writer, renewed by a thread, and the scripts that write under it."""

    def __init__(self, connection: ValkeyConnection, keys: list[bytes], seconds: float, wait: float) -> None:
        self._connection = connection
        self._keys = keys
        self._token = secrets.token_hex(_TOKEN // 2)
        since = f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S %z}"
        self._holder = f"{self._token} process {os.getpid()} on {socket.gethostname()} since {since}"
        self._milliseconds = round(1000 * seconds)
        self._number = 0
        self._known = [self._id()]
        """The last confirmed write, and later ones whose answer was lost: the server may have executed them."""
        self._one_write = threading.Lock()
        self._one_renewal = threading.Lock()
        """Held during a renewal: a renewal that ends after `release` would acquire the lease again."""
        self._acquire(wait)
        self._ended = threading.Event()
        arguments = (weakref.ref(self), self._ended, seconds / 3)
        threading.Thread(target=_renew_until, args=arguments, name="sash-lease", daemon=True).start()

    def _id(self) -> str:
        return f"{self._token}:{self._number}"

    def _acquire(self, wait: float) -> None:
        end = time.monotonic() + wait
        while True:
            arguments = (self._token, self._holder, self._milliseconds, self._id())
            answer = self._connection.run(_ACQUIRE, self._keys, *arguments)
            if answer == b"OK":
                return
            if answer == b"DAMAGED":
                raise StoreError(
                    f"{self._store_name()} has different numbers of names and pages: another program has changed its "
                    "keys. Restore a copy"
                )
            seconds = max(answer[1], 0) / 1000
            left = end - time.monotonic()
            if left <= 0:
                raise StoreInUse(
                    f"{self._store_name()} is open for writing in {_holder(answer[0])}; its lease expires in "
                    f"{seconds:.1f} s unless it is renewed: close it there, pass wait= to wait for it, or open it "
                    "with read_only=True"
                )
            time.sleep(min(left, max(seconds, 0.01), 0.25))

    def _store_name(self) -> str:
        return f"the store {self._keys[0].decode().rpartition(':')[0][1:-1]!r} at {self._connection.address}"

    def put(self, pages: Iterable[tuple[bytes, bytes]]) -> None:
        """Write pages. Raises WriterReplaced if another writer has taken over."""
        self._write(_PUT, [text for item in pages for text in item])

    def delete(self, names: Iterable[bytes]) -> None:
        """Delete pages. Raises WriterReplaced if another writer has taken over."""
        self._write(_DELETE, list(names))

    def _write(self, script: Script, data: list[bytes]) -> None:
        with self._one_write:
            self._number += 1
            done = self._id()
            self._known.append(done)
            arguments = (self._token, self._holder, self._milliseconds, " ".join(self._known), done, *data)
            answer = self._connection.run(script, self._keys, *arguments)
            if answer == b"OK":
                self._known = [done]
                return
        if answer[0] == b"LAST":
            raise WriterReplaced(f"{self._store_name()} {self._replaced(answer[1].decode())} {_REOPEN}")
        raise WriterReplaced(f"{self._store_name()} was taken over by {_holder(answer[0])}: {_REOPEN}")

    def _replaced(self, last: str) -> str:
        if last.startswith(self._token):
            return "has lost writes that the server had confirmed (a restart or a failover):"
        if last:
            return "has had another writer since this one's lease expired:"
        return "is gone: the server has lost its data, or somebody has deleted it;"

    def renew(self) -> bool:
        """Renew the lease, and return whether it is still this writer's.

        Retries for a third of the lease if the server does not answer.
        """
        arguments = (self._token, self._holder, self._milliseconds)
        with self._one_renewal:
            if self._ended.is_set():
                return False
            answer = self._connection.run(_RENEW, self._keys[:2], *arguments, timeout=self._milliseconds / 3000)
        return bool(answer == b"OK")

    def release(self) -> None:
        """End the lease. If the server cannot be reached, it expires by itself."""
        self._ended.set()
        with self._one_renewal, suppress(StoreError):
            self._connection.run(_RELEASE, self._keys[:1], self._token, timeout=0)


_REOPEN = "open the store again and continue from what it has"


def _holder(lease: bytes) -> str:
    return lease[_TOKEN + 1 :].decode(errors="replace")[:200] or "an unknown process"


def _renew_until(lease: weakref.ref[WriterLease], ended: threading.Event, pause: float) -> None:
    """Renew a lease until it ends, is lost, or its object is garbage collected."""
    while not ended.wait(pause):
        held = lease()
        if held is None:
            return
        try:
            if not held.renew():
                return  # the next write raises WriterReplaced
        except StoreError:
            continue  # the server may answer again before the lease expires
        finally:
            del held


# --- Valkey store ---

_SCANNED = 256
"""Pages that a scan reads at once."""


class ValkeyStore(ClosedAtEnd):
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

    def __repr__(self) -> str:
        closed = ", closed" * (self._connection is None)
        return f"<ValkeyStore: {self.prefix!r} at {self._place}{', read only' * self.read_only}{closed}>"
