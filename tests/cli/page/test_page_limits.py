"""The limits of the server of the page: bytes, time and connections of clients that have no token, or read nothing."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from sash.cli.page import page_server
from sash.cli.page.page_server import PageAccess
from tests.cli.page.served import ask, bearer, served, token_of

pytestmark = pytest.mark.usefixtures("interpreted_kernels")


@pytest.fixture
def page() -> Iterator[Any]:
    with served() as made:
        yield made


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def connections(page: Any, count: int = page_server.CONNECTIONS) -> list[socket.socket]:
    """Connections that all have a thread of the server, and are the only ones; they are closed with the page."""
    until(lambda: page._server._free._value == page_server.CONNECTIONS)  # a thread outlives its connection
    made = [socket.create_connection(("127.0.0.1", page.port), 10) for _ in range(count)]
    for one in made:
        page.opened.enter_context(one)
    until(lambda: page._server._free._value == page_server.CONNECTIONS - count)
    return made


def has_ended(connection: socket.socket) -> bool:
    """Has the server ended a connection? Waits for it, and closes it."""
    with connection, contextlib.suppress(ConnectionError):
        while connection.recv(65536):
            pass
    return True


def test_idle_connections_give_way_oldest_first(page: Any) -> None:
    idle = connections(page)
    assert ask(page, "/")[0].status == 403
    assert has_ended(idle[0])
    assert bearer(page, "/api/queries")["queries"]
    assert page._server._free._value >= 0
    idle[-1].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert idle[-1].recv(100).startswith(b"HTTP/1.1 403 ")
    for one in idle:
        one.close()
    until(lambda: page._server._free._value == page_server.CONNECTIONS)
    assert not page._server._waiting


def test_connections_that_are_answered_do_not_give_way(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()
    monkeypatch.setattr(page._server.board, "queries", lambda: answer.wait(20) and [])
    busy = connections(page)
    for one in busy:
        one.sendall(f"GET /api/queries?token={token_of(page)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    until(lambda: not page._server._waiting)
    with pytest.raises((http.client.HTTPException, OSError)):
        ask(page, "/")
    answer.set()
    for one in busy:
        assert one.recv(100).startswith(b"HTTP/1.1 200 ")
        one.close()


def test_slow_senders_keep_nobody_out(page: Any) -> None:
    """A byte now and then: the time counts for the whole request."""
    page._server.seconds = 0.5
    slow = connections(page)
    ended = threading.Event()

    def send() -> None:
        for letter in b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 10_000:
            for one in slow:
                with contextlib.suppress(OSError):
                    one.send(bytes([letter]))
            if ended.wait(0.05):
                return

    sender = threading.Thread(target=send)
    sender.start()
    try:
        for _ in range(20):
            assert bearer(page, "/api/queries")["queries"]
        assert all(map(has_ended, slow))
    finally:
        ended.set()
        sender.join()
    page._server.seconds = 60.0  # also before their time is over
    slow = connections(page)
    for one in slow:
        one.sendall(b"GET / HTTP/1.1\r\nX: ")
    for _ in range(20):
        assert bearer(page, "/api/queries")["queries"]
    for one in slow:
        one.close()


def test_those_who_read_no_answers_keep_nobody_out(page: Any) -> None:
    """Requests without a token, thousands of them on each connection, whose refusals would fill its buffers."""

    def send(one: socket.socket) -> None:
        with contextlib.suppress(OSError):
            for _ in range(300):
                one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)

    deaf = connections(page)
    senders = [threading.Thread(target=send, args=(one,)) for one in deaf]
    for one in senders:
        one.start()
    for one in senders:
        one.join(20)
    assert not any(one.is_alive() for one in senders)
    for _ in range(20):
        assert bearer(page, "/api/queries")["queries"]
    for one in deaf:
        one.close()


@pytest.mark.parametrize("header", ["Host: localhost", "Host: evil.example"])
def test_a_refusal_ends_the_connection(page: Any, header: str) -> None:
    (one,) = connections(page, 1)
    one.sendall(f"GET / HTTP/1.1\r\n{header}\r\n\r\n".encode())
    found = b""
    while more := one.recv(4096):
        found += more
    assert b"\r\nConnection: close\r\n" in found
    one.close()


def test_a_cookie_is_read_in_linear_time() -> None:
    """Python's SimpleCookie takes 0.3 s for 16 KB of backslashes, and every request may have them."""
    access = PageAccess("127.0.0.1")
    access.name_cookie(80)
    headers = Message()
    headers["Cookie"] = 'sash_80="' + "\\1" * 8000 + '"'
    began = time.process_time()
    for _ in range(100):
        assert not access.admits(headers, "")
    assert time.process_time() - began < 1
    for text in (f"a=b; sash_80={access.token}", f"sash_80={access.token}", f"x ;=;sash_80={access.token} ;y"):
        del headers["Cookie"]
        headers["Cookie"] = text
        assert access.admits(headers, "")
    for text in ("sash_80", "sash_80=", f"sash_801={access.token}", f"sash_80=x; sash_80={access.token}"):
        del headers["Cookie"]
        headers["Cookie"] = text
        assert not access.admits(headers, "")


def test_addresses_and_keys_that_cannot_be_parsed(page: Any) -> None:
    (one,) = connections(page, 1)
    one.sendall(b"GET http://[x/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert one.recv(4096).startswith(b"HTTP/1.1 400 ")
    one.close()
    status, text = bearer(page, f"/api/queries/{quote('a/b <c>', safe='')}/results?key=" + "[" * 9000)
    assert (status, text[:26]) == (400, "key= takes a JSON array wi")


def test_a_thread_that_cannot_start_takes_no_place(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(2 * page_server.CONNECTIONS):
            with socket.create_connection(("127.0.0.1", page.port), 10) as one:
                assert has_ended(one)
    assert page._server._free._value == page_server.CONNECTIONS
    assert not page._server._waiting
    assert bearer(page, "/api/queries")["queries"]


def test_long_requests_take_no_memory(page: Any) -> None:
    """98 lines of 64 KB on each connection, before a token is known."""
    line = b"X: " + b"x" * 65_000 + b"\r\n"
    sent = []

    def send(one: socket.socket) -> None:
        with contextlib.suppress(OSError):
            one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            for _ in range(98):
                one.sendall(line)
                sent.append(1)

    opened = connections(page)
    before = resident()
    senders = [threading.Thread(target=send, args=(one,)) for one in opened]
    for one in senders:
        one.start()
    most = 0
    while any(one.is_alive() for one in senders):
        most = max(most, resident() - before)
        time.sleep(0.01)
    assert most < 60e6  # the threads' own stacks and buffers; the requests have 400 MB
    assert all(map(has_ended, opened))
    assert bearer(page, "/api/queries")["queries"]


def resident() -> int:
    """The resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("text", [b"GET /" + b"a" * 20_000, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 4000])
def test_a_request_that_is_too_long_is_refused(page: Any, text: bytes) -> None:
    (one,) = connections(page, 1)
    one.sendall(text)
    assert one.recv(4096).startswith(b"HTTP/1.1 431 ")
    assert has_ended(one)
    one.close()


def test_requests_in_pieces_and_several_at_once(page: Any) -> None:
    request = f"GET /api/queries HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token_of(page)}\r\n\r\n"
    (one,) = connections(page, 1)
    for letter in request:
        one.sendall(letter.encode())
    assert one.recv(65536).startswith(b"HTTP/1.1 200 ")
    one.sendall(request.encode() * 3 + b"GET / HTTP/1.0\n\n")
    found = b""
    while more := one.recv(65536):
        found += more
    assert (found.count(b"HTTP/1.1 200 OK"), found.count(b"HTTP/1.1 421 ")) == (3, 1)
    one.close()
