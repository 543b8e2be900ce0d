"""A page that is served for tests, and requests to it."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import sash

KEYS = ["a", "<script>alert(1)</script>", 'q"\\', "日本", "a/b?c&d#e"]


@contextmanager
def served() -> Iterator[Any]:
    """A page with the results of a query; it has the operator, and a stack of what is closed with it, as attributes."""
    op = sash.Query(2, by="k", high=sash.max("x")).operator()
    with sash.live_page() as made, contextlib.ExitStack() as opened:
        made.watch(op, "a/b <c>")
        op.process({"k": KEYS * 2, "x": [*range(2 * len(KEYS))]})
        made.operator, made.opened = op, opened
        yield made


def token_of(page: Any) -> str:
    """The token in the address of a page."""
    return urlsplit(page.url).query.removeprefix("token=")


def ask(page: Any, path: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    """The response to a request, and its body."""
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def bearer(page: Any, path: str) -> Any:
    """The JSON at a path, asked for with the token; the status and the text of an error."""
    response, body = ask(page, path, Authorization=f"Bearer {token_of(page)}")
    return json.loads(body) if response.status == 200 else (response.status, body.decode())
