"""Access control of a page: a token on every request, and a check of the Host header.

A page in another tab cannot read this one, because browsers separate origins. But its domain may be made to point at
127.0.0.1 (DNS rebinding): then it has our origin, and only the Host header differs. So on loopback the header must be a
name of this machine. The token keeps out other users of the machine, and of the network.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from email.message import Message

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
