"""The lease of a store in Valkey: there is one writer at a time, and a replaced writer cannot write.

    {prefix}:lease     the writer's random token and who it is; expires `seconds` after its last renewal
    {prefix}:commit    the last write: the token of its writer and a number

Each write checks both in the script that writes. So a writer whose lease has expired can continue until another one
opens the store: that one leaves its token in `commit`. The same check detects a server that has lost confirmed writes,
by a restart or a failover.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

from sash.stores.store_errors import StoreError, StoreInUse, WriterReplaced
from sash.stores.valkey_connection import Script, ValkeyConnection, script

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
