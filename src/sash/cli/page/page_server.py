"""The HTTP server of a page: files, metrics as JSON, and events, on a port or on a Unix socket.

    GET /                              the page; with ?token= it sets a cookie and redirects to /
    GET /page.css, /page.js, …         its files
    GET /events                        server-sent events: the metrics of all queries, each second
    GET /api/queries                   the same, once
    GET /api/queries/NAME/keys         the keys of the newest results, as JSON arrays of the values of `by`
    GET /api/queries/NAME/results?key= the newest results of a key
    GET /api/queries/NAME/plan         the plan as text and as SVG

Requests change nothing. Each connection has a thread; their number is bounded, and so are the bytes and the time of a
whole request, because all of it is read before its token is known. If all places are taken, the connection that has
waited longest for a request gives way, and a refused request ends its connection, so those who send slowly or nothing,
or read no answers, keep nobody out.

Every request needs a token, and its Host header is checked. A page in another tab cannot read this one, because
browsers separate origins. But its domain may be made to point at 127.0.0.1 (DNS rebinding): then it has our origin, and
only the Host header differs. So on loopback the header must be a name of this machine. The token keeps out other users
of the machine, and of the network.
"""

from __future__ import annotations

import contextlib
import hmac
import io
import ipaddress
import json
import os
import re
import secrets
import socket
import threading
import time
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.resources import files
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from sash.cli.page.query_board import Board


# --- Page access ---

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every response."""


def is_loopback(address: str) -> bool:
    """Can only this machine reach an address?

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("localhost")
    (True, True, False, True)
    """
    if address.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def host_name(header: str) -> str:
    """The name in a Host header, without its port.

    >>> host_name("localhost:8000"), host_name("[::1]:8000"), host_name("evil.example")
    ('localhost', '::1', 'evil.example')
    """
    name = header.strip()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.rpartition(":")[0] if name.count(":") == 1 else name


class PageAccess:
    """The token of a page, and the check of each request.

    host: the address that the page is served on.
    """

    def __init__(self, host: str) -> None:
        self.token = secrets.token_urlsafe(24)
        self.loopback = is_loopback(host)
        self.cookie = ""
        """The name of the cookie; empty until the port is known."""

    def name_cookie(self, port: int) -> None:
        """Name the cookie by the port that the page is served on, since browsers share cookies between ports."""
        self.cookie = f"sash_{port}"

    def host_fits(self, header: str | None) -> bool:
        """Is the Host header acceptable? On loopback, only a name of this machine is."""
        return not self.loopback or (header is not None and is_loopback(host_name(header)))

    def is_token(self, given: str) -> bool:
        """Is it the token? Compares in constant time."""
        return hmac.compare_digest(given.encode(), self.token.encode())

    def admits(self, headers: Message[str, str], given: str) -> bool:
        """Does a request have the token: in its address, as a cookie, or as `Authorization: Bearer …`?"""
        if given:
            return self.is_token(given)
        scheme, _, bearer = headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.is_token(bearer.strip())
        # not SimpleCookie, whose time is quadratic in the backslashes of a value
        for part in headers.get("Cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie:
                return self.is_token(value)
        return False

    def cookie_header(self) -> str:
        """The Set-Cookie header: only for this site, and not for scripts."""
        return f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Lax"


# --- Page server ---

ASSETS = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/chart.js": ("chart.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}

CONNECTIONS, STREAMS = 64, 8
"""The maximum number of connections, and of those that get events."""

HEAD, SECONDS = 16_384, 10.0
"""The maximum number of bytes of a request, and the time in which it must arrive, also after an earlier one."""

_END = re.compile(rb"\r?\n\r?\n")

PERIOD = 1.0
"""Seconds between two events."""

TOO_MANY = {"Retry-After": "5"}


class PageServer(ThreadingMixIn, HTTPServer):
    """Serves a board on a port of an address, or on a Unix socket that is protected by its directory.

    board: the queries that it shows.
    address: a host and a port; 0 is any free port. Or the path of a Unix socket.
    access: the access control of requests; None on a Unix socket.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = CONNECTIONS
    allow_reuse_address = os.name == "posix"

    def __init__(self, board: Board, address: tuple[str, int] | str, access: PageAccess | None) -> None:
        self.board, self.access = board, access
        self.ended, self.period, self.seconds = threading.Event(), PERIOD, SECONDS
        self._waiting: dict[socket.socket, None] = {}  # the longest waiting first
        self._lock = threading.Lock()
        self._free, self._streams = threading.BoundedSemaphore(CONNECTIONS), threading.BoundedSemaphore(STREAMS)
        self._open_streams: set[int] = set()
        if isinstance(address, str):
            self.address_family = socket.AF_UNIX
        else:
            found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            self.address_family = found[0][0]
        super().__init__(address, PageRequest)  # type: ignore[arg-type]
        if access is not None:
            access.name_cookie(self.server_port)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.1,), name="sash live page", daemon=True)

    def server_bind(self) -> None:
        """Bind, without the lookup of the host's name that `HTTPServer` makes: it may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name = ""
        self.server_port = 0 if isinstance(self.server_address, str) else int(self.server_address[1])

    def start(self) -> PageServer:
        """Serve in a thread."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Send the last event to all open pages, and stop."""
        self.ended.set()
        for _ in range(40):  # two seconds for the last events
            if not self._open_streams:
                break
            threading.Event().wait(0.05)
        self.shutdown()
        self.server_close()
        self._thread.join()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; close the connection if all others are being answered."""
        if not self._free.acquire(blocking=False) and not (self._give_way() and self._free.acquire(timeout=1.0)):
            self.shutdown_request(request)
            return
        self.waits(request)
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no more threads can be started
            self.has_request(request)
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer the requests of a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.has_request(request)
            self._free.release()

    def waits(self, connection: socket.socket) -> None:
        """Note that a connection waits for a request."""
        with self._lock:
            self._waiting.setdefault(connection)

    def has_request(self, connection: socket.socket) -> bool:
        """Note that a request has arrived. False if the connection has given way to another."""
        with self._lock:
            return self._waiting.pop(connection, self) is None

    def _give_way(self) -> bool:
        """End the connection that has waited longest for a request. False if none waits."""
        with self._lock:
            first = next(iter(self._waiting), None)
            if first is None:
                return False
            del self._waiting[first]
            with contextlib.suppress(OSError):
                first.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and closes it
            return True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore broken connections; failed requests have been answered."""

    @contextlib.contextmanager
    def stream(self) -> Any:
        """Reserve one of the streams of events; None if all are in use."""
        if not self._streams.acquire(blocking=False):
            yield None
            return
        self._open_streams.add(threading.get_ident())
        try:
            yield self
        finally:
            self._open_streams.discard(threading.get_ident())
            self._streams.release()


class PageRequest(BaseHTTPRequestHandler):
    """Answers a request."""

    server: PageServer
    protocol_version = "HTTP/1.1"
    timeout = 30
    """Seconds in which a client must read an answer."""

    def setup(self) -> None:
        """Read from no buffered file: its reads have no common limit of time."""
        super().setup()
        self._received = b""

    def handle_one_request(self) -> None:
        """Read a request, within its limits, and answer it."""
        self.close_connection = True
        self.server.waits(self.connection)
        try:
            head = self._read_head()
        except OSError:  # too slow, or gone
            return
        if not self.server.has_request(self.connection):
            return
        self.connection.settimeout(self.timeout)
        if head is None:
            self.requestline, self.request_version, self.command = "", self.protocol_version, ""
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a request has at most {HEAD:,} bytes")
            return
        self.rfile = io.BytesIO(head)
        super().handle_one_request()

    def _read_head(self) -> bytes | None:
        """The lines of the next request; what the client has sent, if it has ended. None if they are too long."""
        ends = time.monotonic() + self.server.seconds
        searched = 0
        while (end := _END.search(self._received, max(searched - 3, 0))) is None:
            searched = len(self._received)
            if searched > HEAD:
                return None
            self.connection.settimeout(max(ends - time.monotonic(), 1e-6))
            more = self.connection.recv(4096)
            if not more:
                break
            self._received += more
        stop = len(self._received) if end is None else end.end()
        head, self._received = self._received[:stop], self._received[stop:]
        return head if stop <= HEAD else None

    def do_GET(self) -> None:
        """Check the access, and answer."""
        self.close_connection |= "Content-Length" in self.headers or "Transfer-Encoding" in self.headers
        try:
            split = urlsplit(self.path)
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST, "this is not an address")
            return
        asked = {name: values[-1] for name, values in parse_qs(split.query, keep_blank_values=True).items()}
        access = self.server.access
        if access is not None:
            if not access.host_fits(self.headers.get("Host")):
                self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "this page is served only to localhost and 127.0.0.1")
                return
            if not access.admits(self.headers, asked.get("token", "")):
                self.send_error(
                    HTTPStatus.FORBIDDEN, "the token is missing or wrong: open the address that sash has printed"
                )
                return
            if split.path == "/" and "token" in asked:
                self._send(
                    b"", "text/plain", HTTPStatus.SEE_OTHER, {"Location": "/", "Set-Cookie": access.cookie_header()}
                )
                return
        try:
            self._answer(split.path, asked)
        except KeyError:
            self._fail(HTTPStatus.NOT_FOUND, "there is no such query or page")
        except ValueError as error:
            self._fail(HTTPStatus.BAD_REQUEST, str(error))

    do_HEAD = do_GET  # noqa: N815

    def _answer(self, path: str, asked: dict[str, str]) -> None:
        board = self.server.board
        if path in ASSETS:
            name, kind = ASSETS[path]
            self._send(files("sash.cli.page").joinpath("assets", name).read_bytes(), kind)
        elif path == "/events":
            self._events()
        elif path == "/api/queries":
            self._json({"queries": board.queries()})
        else:
            match path.split("/"):
                case ["", "api", "queries", name, "keys"]:
                    self._json({"keys": board.keys(unquote(name))})
                case ["", "api", "queries", name, "results"]:
                    self._json({"results": board.results(unquote(name), asked.get("key", "[]"))})
                case ["", "api", "queries", name, "plan"]:
                    self._json(board.plan(unquote(name)))
                case _:
                    raise KeyError(path)

    def _events(self) -> None:
        with self.server.stream() as place:
            if place is None:
                text = f"{STREAMS} pages are open already: close one of them"
                self._fail(HTTPStatus.SERVICE_UNAVAILABLE, text, TOO_MANY)
                return
            self.close_connection = True
            self.send_response(HTTPStatus.OK)
            for name, value in {**HEADERS, "Content-Type": "text/event-stream", "Connection": "close"}.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):
                self._send_events()

    def _send_events(self) -> None:
        """Send the metrics each period, until the server ends; the last event is `end`."""
        ended = self.server.ended
        self.wfile.write(b"retry: 1000\n\n")
        while True:
            kind = "end" if ended.is_set() else "queries"
            found = json.dumps({"queries": self.server.board.queries()})
            self.wfile.write(f"event: {kind}\ndata: {found}\n\n".encode())
            self.wfile.flush()
            if kind == "end":
                return
            ended.wait(self.server.period)

    def _json(self, value: Any) -> None:
        self._send(json.dumps(value).encode(), "application/json")

    def _fail(self, status: HTTPStatus, text: str, more: dict[str, str] | None = None) -> None:
        self._send(f"{text}\n".encode(), "text/plain; charset=utf-8", status, more)

    def _send(
        self, body: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK, more: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(body)), **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request, and close its connection.

        One refusal fits into the buffers of the connection. Refusals of many requests that nobody reads would not: the
        thread would wait for the client, and its place be taken.
        """
        del explain
        self.close_connection = True
        self._fail(HTTPStatus(code), message or HTTPStatus(code).phrase, {"Connection": "close"})

    def version_string(self) -> str:
        """The Server header: no versions."""
        return "sash"

    def address_string(self) -> str:
        """The address of the client; a Unix socket has none."""
        return "" if isinstance(self.client_address, str) else str(self.client_address[0])

    def log_message(self, format: str, *values: Any) -> None:  # noqa: A002 (as in http.server)
        """Write no log: the terminal belongs to the program."""
