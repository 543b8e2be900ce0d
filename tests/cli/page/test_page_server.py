"""The server of the page: who is admitted, headers, JSON, events, and bounds."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

import sash
from sash.cli.page import page_server
from sash.cli.page.page_access import HEADERS, PageAccess, host_name, is_loopback

pytestmark = pytest.mark.usefixtures("interpreted_kernels")

KEYS = ["a", "<script>alert(1)</script>", 'q"\\', "日本", "a/b?c&d#e"]


@pytest.fixture
def page() -> Iterator[Any]:
    op = sash.Query(2, by="k", high=sash.max("x")).operator()
    with sash.live_page() as made:
        made.watch(op, "a/b <c>")
        op.process({"k": KEYS * 2, "x": [*range(2 * len(KEYS))]})
        made.operator = op
        yield made


def token_of(page: Any) -> str:
    return urlsplit(page.url).query.removeprefix("token=")


def ask(page: Any, path: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def bearer(page: Any, path: str) -> Any:
    response, body = ask(page, path, Authorization=f"Bearer {token_of(page)}")
    return json.loads(body) if response.status == 200 else (response.status, body.decode())


PATHS = ["/", "/page.css", "/page.js", "/chart.js", "/icon.svg", "/events", "/api/queries", "/nothing"]


@pytest.mark.parametrize("path", PATHS)
def test_every_request_needs_the_token(page: Any, path: str) -> None:
    wrong = "x" * len(token_of(page))
    for target, headers in (
        (path, {}),
        (f"{path}?token={wrong}", {}),
        (f"{path}?token=", {}),
        (path, {"Authorization": f"Bearer {wrong}"}),
        (path, {"Authorization": f"Basic {token_of(page)}"}),
        (path, {"Cookie": f"sash_{page.port}={wrong}"}),
        (path, {"Cookie": f"sash_1={token_of(page)}"}),
        (path, {"Cookie": "=;;; ==\x01"}),
    ):
        response, body = ask(page, target, **headers)
        assert response.status == 403
        assert token_of(page) not in body.decode() + str(response.headers)
        assert "the address that sash has printed" in body.decode()


def test_the_address_sets_a_cookie_and_leaves_the_token_out_of_the_history(page: Any) -> None:
    response, _ = ask(page, f"/?token={token_of(page)}")
    assert (response.status, response.headers["Location"]) == (303, "/")
    cookie = response.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite" in cookie
    response, body = ask(page, "/", Cookie=cookie.partition(";")[0])
    assert response.status == 200
    assert b"<!doctype html>" in body
    assert ask(page, f"/api/queries?token={token_of(page)}")[0].status == 200
    with urllib.request.urlopen(page.url.replace("/?", "/api/queries?")) as response:
        assert [one["name"] for one in json.load(response)["queries"]] == ["a/b <c>"]


def test_tokens_are_random_and_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = {PageAccess("127.0.0.1").token for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 32
    compared = []
    monkeypatch.setattr("sash.cli.page.page_access.hmac.compare_digest", lambda *both: compared.append(both) or True)
    assert PageAccess("127.0.0.1").is_token("abc")
    assert compared[0][0] == b"abc"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", "[::2]:1", ""]
)
def test_another_host_name_is_refused(page: Any, host: str) -> None:
    """DNS rebinding: a domain that points at 127.0.0.1 is of our origin for a browser, with a cookie or without."""
    response, body = ask(page, f"/api/queries?token={token_of(page)}", Host=host)
    assert response.status == 421
    assert b"queries" not in body


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1234", "127.0.0.1:99", "[::1]:8000", "::1"])
def test_names_of_this_machine_are_served_also_through_a_tunnel(page: Any, host: str) -> None:
    assert ask(page, f"/api/queries?token={token_of(page)}", Host=host)[0].status == 200


def test_a_page_for_other_machines_takes_any_name_and_still_the_token() -> None:
    access = PageAccess("0.0.0.0")
    assert access.host_fits("stream.example:80")
    assert not access.loopback
    with sash.live_page(host="0.0.0.0") as page:
        assert not page.is_local
        assert socket.gethostname() in page.url
        assert ask(page, "/api/queries", Host="stream.example")[0].status == 403
        assert ask(page, f"/api/queries?token={token_of(page)}", Host="stream.example")[0].status == 200


def test_loopback() -> None:
    assert [is_loopback(name) for name in ("127.8.8.8", "::1", "localhost", "8.8.8.8", "::", "x")] == [True] * 3 + [
        False
    ] * 3
    assert host_name("a:b:c") == "a:b:c"


@pytest.mark.parametrize("path", ["/", "/page.js", "/api/queries", "/nothing", "/api/queries/x/results"])
def test_every_response_has_the_headers(page: Any, path: str) -> None:
    for token in (token_of(page), ""):
        response, _ = ask(page, path, Authorization=f"Bearer {token}")
        assert {name: response.headers[name] for name in HEADERS} == HEADERS
    assert "default-src 'self'" in HEADERS["Content-Security-Policy"]
    assert HEADERS["Cache-Control"] == "no-store"
    assert response.headers["Server"] == "sash"


def test_nothing_comes_from_elsewhere(page: Any) -> None:
    for path in ("/", "/page.css", "/page.js", "/chart.js"):
        body = ask(page, path, Authorization=f"Bearer {token_of(page)}")[1].decode()
        assert {*re.findall(r"https?://[^\"'\s)]+", body)} <= {"http://www.w3.org/2000/svg"}
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|\bstyle=|\son\w+=\"", body)


def test_figures_keys_results_and_plan(page: Any) -> None:
    name = quote("a/b <c>", safe="")
    (found,) = bearer(page, "/api/queries")["queries"]
    assert found == {**page.figures()[0], "rows_per_second": found["rows_per_second"], "rates": found["rates"]}
    assert [json.loads(key) for key in bearer(page, f"/api/queries/{name}/keys")["keys"]] == [
        [key] for key in KEYS[::-1]
    ]
    for i, key in enumerate(KEYS):
        results = bearer(page, f"/api/queries/{name}/results?key={quote(json.dumps([key]))}")["results"]
        assert results["columns"] == ["x", "high"]
        assert results["rows"] == [[i, i], [i + len(KEYS), i + len(KEYS)]]
    plan = bearer(page, f"/api/queries/{name}/plan")
    assert plan["text"] == page.operator.query.explain(page.operator.schema)
    assert plan["svg"].startswith("<svg ")


def test_wrong_requests(page: Any) -> None:
    name = quote("a/b <c>", safe="")
    assert bearer(page, "/nothing") == (404, "there is no such query or page\n")
    assert bearer(page, "/../../etc/passwd")[0] == 404
    assert bearer(page, "/assets/page.html")[0] == 404
    assert bearer(page, "/api/queries/other/results") == (404, "there is no such query or page\n")
    status, text = bearer(page, f"/api/queries/{name}/results?key=%5B%5D")
    assert (status, text) == (400, "key= takes a JSON array with a value for each of by, such as [\"a k\"]; got '[]'\n")
    response, body = ask(page, "/api/queries", "POST", Authorization=f"Bearer {token_of(page)}")
    assert response.status == 501
    assert HEADERS.items() <= dict(response.headers).items()
    response, body = ask(page, "/", "HEAD", Authorization=f"Bearer {token_of(page)}")
    assert (response.status, body) == (200, b"")


def events(page: Any) -> Iterator[tuple[str, Any]]:
    request = urllib.request.Request(page.url.replace("/?", "/events?"))
    with urllib.request.urlopen(request, timeout=10) as response:
        assert response.headers["Content-Type"] == "text/event-stream"
        kind = ""
        for line in response:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                yield kind, json.loads(value)


def test_events_follow_the_query_and_end_with_the_page(page: Any) -> None:
    page._server.period = 0.02
    found = events(page)
    kind, first = next(found)
    assert (kind, first["queries"][0]["rows_in"]) == ("queries", 10)
    page.operator.process({"k": ["a"], "x": [5]})
    deadline = time.monotonic() + 10
    for _, one in found:
        if one["queries"][0]["rows_in"] == 11:
            break
        assert time.monotonic() < deadline
    page.operator.process({"k": ["a"], "x": [5]})
    threading.Thread(target=page.close).start()
    *_, (kind, last) = found
    assert (kind, last["queries"][0]["rows_in"]) == ("end", 12)


def test_streams_of_events_are_bounded(page: Any) -> None:
    page._server.period = 0.02
    opened = [events(page) for _ in range(page_server.STREAMS)]
    for one in opened:
        next(one)
    with pytest.raises(urllib.error.HTTPError, match="503") as refused:
        next(events(page))
    assert refused.value.headers["Retry-After"]
    refused.value.close()
    assert bearer(page, "/api/queries")["queries"]
    opened.pop().close()
    deadline = time.monotonic() + 10
    while True:  # the server notices when it writes the next event
        try:
            opened.append(events(page))
            next(opened[-1])
            break
        except urllib.error.HTTPError as error:
            error.close()
            assert time.monotonic() < deadline
            time.sleep(0.02)
    for one in opened:
        one.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def connections(page: Any, count: int = page_server.CONNECTIONS) -> list[socket.socket]:
    """Connections that all have a thread of the server."""
    free = page._server._free._value
    made = [socket.create_connection(("127.0.0.1", page.port), 10) for _ in range(count)]
    until(lambda: page._server._free._value == free - count)
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
    for _ in range(20):
        assert bearer(page, "/api/queries")["queries"]
    assert all(map(has_ended, slow))
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


def test_a_page_that_is_closed_answers_no_more(page: Any) -> None:
    page.close()
    with pytest.raises(OSError, match="refused"):
        ask(page, "/")
