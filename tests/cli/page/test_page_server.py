"""The server of the page: who is admitted, headers, JSON, and events."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

import sash
from sash.cli.page import page_server
from sash.cli.page.page_server import HEADERS, PageAccess, host_name, is_loopback
from tests.cli.page.served import KEYS, ask, bearer, served, token_of

pytestmark = pytest.mark.usefixtures("interpreted_kernels")


@pytest.fixture
def page() -> Iterator[Any]:
    with served() as made:
        yield made


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
    monkeypatch.setattr("sash.cli.page.page_server.hmac.compare_digest", lambda *both: compared.append(both) or True)
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


def test_a_page_that_is_closed_answers_no_more(page: Any) -> None:
    page.close()
    with pytest.raises(OSError, match="refused"):
        ask(page, "/")
