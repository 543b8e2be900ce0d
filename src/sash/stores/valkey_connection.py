"""A connection to Valkey or Redis: calls have a timeout, and errors name the server.

A call is repeated while the server does not answer, for `timeout` seconds. So every command that is sent here must be
safe to repeat.
"""

from __future__ import annotations

import hashlib
import ssl
import time
from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from sash.stores.store_errors import StoreError, StoreUnavailable

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
