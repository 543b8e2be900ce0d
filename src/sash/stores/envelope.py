"""The envelope of a page: its format, its kind, its query, and a checksum.

    0      4        6    8           12       16      24             40
    ┌──────┬────────┬────┬───────────┬────────┬───────┬──────────────┬───────────────┬──────┬────────┬───
    │ SASH │ format │ 0  │ checksum  │ number │ size  │ fingerprint  │ their lengths │ kind │ item 1 │ …
    └──────┴────────┴────┴───────────┴────────┴───────┴──────────────┴───────────────┴──────┴────────┴───
                                     └──────────────── the checksummed bytes ───────────────────────────

Integers are little-endian. `size` is the length of the page in bytes, `number` the number of items including the kind.
Each item begins at a multiple of 8, so that Arrow reads columns in place. The checksum is CRC-32: it finds every burst
of up to 32 damaged bits, and misses one in four billion of other errors. It guards against accidents, not against
malice: readers check the contents.

Errors are checked in this order: no page of sash, another format, truncated, damaged, another kind, another query. The
query is compared only if the page is intact, so that damage is not reported as a change of the query.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from struct import Struct, error
from typing import Any
from zlib import crc32

MAGIC = b"SASH"
FORMAT = 5
"""Version of the page format; increased with every change of the encoding."""

HEAD = Struct("<4sHHIIQ16s")
CHECKED = 12
"""Offset of the first checksummed byte."""

TABLES = [Struct(f"<{n}Q") for n in range(16)]
PADDING = [bytes(-n % 8) for n in range(8)]


class PageError(ValueError):
    """A page or snapshot is damaged, or belongs to another format or query; the message names it."""


def damaged(name: str, why: Any) -> PageError:
    """Return the error for a page with invalid content, even if its checksum matches."""
    return PageError(f"{name} is damaged: {why}. Restore a copy of it, or start without the state")


@contextmanager
def decoding(name: str) -> Iterator[None]:
    """Convert any error in the decoding of a page to a PageError that names the page.

    >>> with decoding("page 'k/7'"):
    ...     raise ValueError("a key is listed twice")
    Traceback (most recent call last):
    sash.stores.envelope.PageError: page 'k/7' is damaged: a key is listed twice. Restore a copy of it, or start ...
    """
    try:
        yield
    except (PageError, MemoryError):
        raise
    except Exception as error:  # a monoid's `load` may raise anything
        raise damaged(name, error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}") from error


def read_json(data: Any) -> Any:
    """Parse JSON. Raises ValueError if it is invalid, or nested more deeply than Python's stack allows."""
    try:
        return json.loads(str(data, "utf-8"))
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def wrap(kind: str, fingerprint: str, items: Sequence[Any]) -> bytes:
    """Write items, each bytes or a buffer of bytes, into an envelope.

    >>> page = wrap("demo", "00" * 16, [b"one", b"two"])
    >>> len(page), [bytes(item) for item in unwrap(page, "demo", "00" * 16, "page 'a'")]
    (88, [b'one', b'two'])

    Raises ValueError for a fingerprint that does not have 32 hexadecimal digits.
    """
    label = kind.encode()
    sizes = [len(label), *map(len, items)]
    chunks = [label, PADDING[sizes[0] & 7]]
    size = HEAD.size + 8 * len(sizes) + sum([(n + 7) & -8 for n in sizes])
    for item in items:
        chunks += item, PADDING[len(item) & 7]
    table = _table(len(sizes)).pack(*sizes)
    query = _fingerprint_bytes(fingerprint)
    head = HEAD.pack(MAGIC, FORMAT, 0, 0, len(sizes), size, query)[CHECKED:]
    checksum = crc32(table, crc32(head))
    for chunk in chunks:
        checksum = crc32(chunk, checksum)
    return b"".join((HEAD.pack(MAGIC, FORMAT, 0, checksum, len(sizes), size, query), table, *chunks))


def unwrap(data: bytes, kind: str, fingerprint: str, name: str) -> list[memoryview]:
    """Return the items of an envelope without copying them. `name` names it in messages.

    Raises PageError if it is no page of sash, of another format, truncated, damaged, of another kind or another query.
    """
    view = memoryview(data)
    count, query = _checked(view, name)
    start = HEAD.size + 8 * count
    try:
        sizes = _table(count).unpack_from(view, HEAD.size)
    except error:
        raise PageError(f"{name} is damaged: it claims {count} items") from None
    items = []
    for size in sizes:
        items.append(view[start : start + size])
        start += (size + 7) & -8
    if start != len(view) or not items:
        raise PageError(f"{name} is damaged: its items end at byte {start} of {len(view)}")
    if items[0] != kind.encode():
        found = bytes(items[0]).decode(errors="replace")
        raise PageError(f"{name} is a {found} page; expected a {kind} page")
    if query != _fingerprint_bytes(fingerprint):
        raise PageError(
            f"{name} was written by another query: its fingerprint is {query.hex()}, this query's is {fingerprint}. "
            "State belongs to one query, with its windows, aggregates and column types; start without it"
        )
    return items[1:]


def fingerprint_of(data: bytes, name: str) -> str:
    """Return the fingerprint of the query that wrote a page. Raises PageError if the page is not intact.

    >>> fingerprint_of(wrap("demo", "0f" * 16, []), "page 'a'")
    '0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f'
    """
    return _checked(memoryview(data), name)[1].hex()


def _checked(view: memoryview, name: str) -> tuple[int, bytes]:
    """Return the number of items and the fingerprint of a page. Raises PageError if the page is not intact."""
    if view[:4] != MAGIC[: len(view)]:
        raise PageError(f"{name} was not written by sash: it begins with {bytes(view[:4])!r}, not with {MAGIC!r}")
    if len(view) >= 6 and (found := int.from_bytes(view[4:6], "little")) != FORMAT:
        raise PageError(
            f"{name} has format version {found}, and this sash reads version {FORMAT}; "
            "read it with the sash that wrote it, or start without it"
        )
    if len(view) < HEAD.size:
        raise PageError(f"{name} is truncated: it has {len(view)} bytes, and its header alone takes {HEAD.size}")
    _, _, reserved, checksum, count, size, query = HEAD.unpack_from(view)
    if len(view) < size:
        raise PageError(f"{name} is truncated: it has {len(view)} of {size} bytes")
    if len(view) > size:
        raise PageError(f"{name} is damaged: it has {len(view)} bytes, and its header claims {size}")
    if reserved or crc32(view[CHECKED:]) != checksum:
        raise PageError(f"{name} is damaged: its checksum does not match")
    return count, query


def _fingerprint_bytes(fingerprint: str) -> bytes:
    """Decode a fingerprint to 16 bytes. Raises ValueError if it does not have 32 hexadecimal digits."""
    try:
        decoded = bytes.fromhex(fingerprint)
    except ValueError:
        decoded = b""
    if len(decoded) != 16 or len(fingerprint) != 32:
        raise ValueError(f"a fingerprint must have 32 hexadecimal digits; got {fingerprint!r}")
    return decoded


def _table(count: int) -> Struct:
    return TABLES[count] if count < len(TABLES) else Struct(f"<{count}Q")
