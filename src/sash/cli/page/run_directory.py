"""The runs on this machine: each serves its figures on a Unix socket, in a directory that only this user can enter.

    $XDG_RUNTIME_DIR/sash/  or  /tmp/sash-runs-<user>/     mode 0700, checked: ours, no link, closed to others
        4711-9f2c01d3.sock                                 made at the start of a run, removed at its end

Only users who can enter the directory can open the socket, so no token is needed. A killed run leaves its socket, which
refuses connections, and the next `sash ui` removes it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import socket
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from sash.cli.page.page_server import PageServer

if TYPE_CHECKING:
    from sash.cli.page.query_board import QueryBoard

SECONDS = 2.0
"""The timeout for the answer of a run."""


def run_directory() -> Path:
    """The directory of this user, created if it is missing. Raises PermissionError if others can enter it."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    path = (
        Path(base, "sash") if base and Path(base).is_dir() else Path(tempfile.gettempdir(), f"sash-runs-{os.getuid()}")
    )
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{path} must be a directory of user {os.getuid()} with mode 0700: remove it")
    return path


class RegisteredRun:
    """Lets `sash ui` show the queries of this process, until it is closed.

    board: its queries.

    Raises OSError if the socket cannot be made.
    """

    def __init__(self, board: QueryBoard) -> None:
        self.path = run_directory() / f"{os.getpid()}-{secrets.token_hex(4)}.sock"
        self._server = PageServer(board, str(self.path), None).start()

    def close(self) -> None:
        """Remove the run."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        self._server.close()


class RunBoard:
    """The queries of all runs of this user on this machine. A query's name ends with the number of its process."""

    def queries(self) -> list[dict[str, Any]]:
        """The figures of all queries; sockets that runs have left behind are removed."""
        return [one for path in _sockets() for one in self._of_run(path)]

    def _of_run(self, path: Path) -> list[dict[str, Any]]:
        try:
            found = _get(path, "/api/queries")["queries"]
        except (ConnectionRefusedError, FileNotFoundError):
            with contextlib.suppress(OSError):
                path.unlink()
            return []
        except (OSError, ValueError, KeyError, http.client.HTTPException):  # it is just ending, or suspended
            return []
        return [{**one, "name": f"{one['name']} ({_process(path)})"} for one in found]

    def keys(self, name: str) -> list[str]:
        """The keys of the newest results of a query."""
        found: list[str] = self._ask(name, "keys")["keys"]
        return found

    def results(self, name: str, key: str) -> dict[str, Any] | None:
        """The newest results of a key."""
        found: dict[str, Any] | None = self._ask(name, f"results?{urlencode({'key': key})}")["results"]
        return found

    def plan(self, name: str) -> dict[str, str]:
        """The plan as text and as a picture."""
        found: dict[str, str] = self._ask(name, "plan")
        return found

    def _ask(self, name: str, what: str) -> Any:
        own, _, process = name.removesuffix(")").rpartition(" (")
        path = next((path for path in _sockets() if _process(path) == process), None)
        if path is None:
            raise KeyError(name)
        try:
            return _get(path, f"/api/queries/{quote(own, safe='')}/{what}")
        except (OSError, http.client.HTTPException):
            raise KeyError(name) from None


def _sockets() -> list[Path]:
    return sorted(run_directory().glob("*.sock"))


def _process(path: Path) -> str:
    return path.name.partition("-")[0]


class _UnixConnection(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(SECONDS)
        try:
            self.sock.connect(str(self._path))
        except OSError:
            self.sock.close()
            raise


def _get(path: Path, target: str) -> Any:
    """The JSON answer of a run. Raises KeyError and ValueError as its board does, OSError if it does not answer."""
    connection = _UnixConnection(path)
    try:
        connection.request("GET", target, headers={"Connection": "close"})
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status == http.client.NOT_FOUND:
        raise KeyError(target)
    if response.status != http.client.OK:
        raise ValueError(body.decode(errors="replace").strip())
    return json.loads(body)
