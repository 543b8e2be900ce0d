"""Check and encode the names and pages that are passed to a store.

A name is any Unicode text. Stores outside of memory encode it in UTF-8, which keeps the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def checked_names(ids: Iterable[str]) -> list[str]:
    """Return names of pages as a list.

    Raises TypeError for a single str instead of several names, and for a name that is no str; ValueError for a name
    that is not valid Unicode.

    >>> checked_names(iter(["b", "a"]))
    ['b', 'a']
    >>> checked_names("header")
    Traceback (most recent call last):
    TypeError: expected several names of pages, got one text: use ['header']
    """
    if isinstance(ids, str):
        raise TypeError(f"expected several names of pages, got one text: use [{ids!r:.80}]")
    names = list(ids)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"names of pages must be str; {name!r:.80} is a {type(name).__name__}")
        if not name.isascii():
            _encoded(name)
    return names


def checked_pages(pages: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Return the pages, if all of them are bytes and their names are text.

    Raises TypeError, naming the page, if one is not bytes: a bytearray could change later.
    """
    checked_names(pages.keys())
    for name, page in pages.items():
        if type(page) is not bytes:
            raise TypeError(f"pages must be bytes; page {name!r} is a {type(page).__name__}")
    return pages


def _encoded(name: str) -> bytes:
    try:
        return name.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"names of pages must be valid Unicode; {name!r:.80} has a lone surrogate") from error


def encoded_names(ids: Iterable[str]) -> list[bytes]:
    """Encode names in UTF-8, checked as in `checked_names`.

    >>> encoded_names(["b3f0", "é"])
    [b'b3f0', b'\\xc3\\xa9']
    """
    return [name.encode() for name in checked_names(ids)]


def encoded_pages(pages: Mapping[str, bytes]) -> list[tuple[bytes, bytes]]:
    """Encode the names of pages in UTF-8, checked as in `checked_pages`."""
    return [(name.encode(), page) for name, page in checked_pages(pages).items()]


def after_prefix(prefix: bytes) -> bytes | None:
    """Return the least bytes that are greater than all names with this prefix; None for an empty prefix.

    >>> after_prefix(b"b3"), after_prefix(b"")
    (b'b4', None)
    """
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None  # no byte of UTF-8 is 0xff
