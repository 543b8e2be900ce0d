"""The envelope of a page: its format, its kind, its query, and a checksum.

    0      4        6    8           12       16      24             40
    ┌──────┬────────┬────┬───────────┬────────┬───────┬──────────────┬───────────────┬──────┬────────┬───
    │ SASH │ format │ 0  │ checksum  │ number │ size  │ fingerprint  │ their lengths │ kind │ item 1 │ …
    └──────┴────────┴────┴───────────┴────────┴───────┴──────────────┴───────────────┴──────┴────────┴───
                                     └──────────────── the checksummed bytes ───────────────────────────

Integers are little-endian. The size is that of all bytes, the number that of the items, the kind among them; each item
begins at a multiple of 8, so that Arrow reads columns in place. The checksum is CRC-32: it finds every burst of up to
32 damaged bits, and misses one in four billion of the rest. It guards against accidents, not against malice: readers
check the contents.

Errors are distinguished in this order: no page of sash, another format, truncated, damaged, another kind, another
query. The query is compared only if the page is intact, so that damage is not reported as a change of the query.
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
"""Increased with every change of what the bytes mean."""

HEAD = Struct("<4sHHIIQ16s")
CHECKED = 12
"""Offset of the first checksummed byte."""

TABLES = [Struct(f"<{n}Q") for n in range(16)]
PADDING = [bytes(-n % 8) for n in range(8)]


class PageError(ValueError):
    """A page, or a snapshot, that is not what was asked for; the message names it."""


def damaged(name: str, why: Any) -> PageError:
    """The error for a page whose content is wrong, whatever its checksum says."""
    return PageError(f"{name} is damaged: {why}. Restore a copy of it, or start without the state")


@contextmanager
def decoding(name: str) -> Iterator[None]:
    """Turn whatever the decoding of a page raises into a PageError that names the page.

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
    """A JSON value. Raises ValueError if it is none, or nested more deeply than Python's stack."""
    try:
        return json.loads(str(data, "utf-8"))
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def wrap(kind: str, fingerprint: str, items: Sequence[Any]) -> bytes:
    """Items, each bytes or a buffer of them, in an envelope.

    >>> page = wrap("demo", "00" * 16, [b"one", b"two"])
    >>> len(page), [bytes(item) for item in unwrap(page, "demo", "00" * 16, "page 'a'")]
    (88, [b'one', b'two'])

    Raises ValueError for a fingerprint that has not 32 hexadecimal digits.
    """
    label = kind.encode()
    sizes = [len(label), *map(len, items)]
    chunks = [label, PADDING[sizes[0] & 7]]
    size = HEAD.size + 8 * len(sizes) + sum([(n + 7) & -8 for n in sizes])
    for item in items:
        chunks += item, PADDING[len(item) & 7]
    table = _table(len(sizes)).pack(*sizes)
    mark = digits(fingerprint)
    head = HEAD.pack(MAGIC, FORMAT, 0, 0, len(sizes), size, mark)[CHECKED:]
    checksum = crc32(table, crc32(head))
    for chunk in chunks:
        checksum = crc32(chunk, checksum)
    return b"".join((HEAD.pack(MAGIC, FORMAT, 0, checksum, len(sizes), size, mark), table, *chunks))


def unwrap(data: bytes, kind: str, fingerprint: str, name: str) -> list[memoryview]:
    """The items of an envelope, not copied. `name` names it in messages.

    Raises PageError if it is no page of sash, of another format, truncated, damaged, of another kind or another query.
    """
    view = memoryview(data)
    count, mark = _checked(view, name)
    start = HEAD.size + 8 * count
    try:
        sizes = _table(count).unpack_from(view, HEAD.size)
    except error:
        raise PageError(f"{name} is damaged: it claims {count} parts") from None
    items = []
    for size in sizes:
        items.append(view[start : start + size])
        start += (size + 7) & -8
    if start != len(view) or not items:
        raise PageError(f"{name} is damaged: its parts end at byte {start} of {len(view)}")
    if items[0] != kind.encode():
        found = bytes(items[0]).decode(errors="replace")
        raise PageError(f"{name} is a {found} page; expected a {kind} page")
    if mark != digits(fingerprint):
        raise PageError(
            f"{name} was written by another query: its fingerprint is {mark.hex()}, this query's is {fingerprint}. "
            "State belongs to one query, with its windows, aggregates and column types; start without it"
        )
    return items[1:]


def fingerprint_of(data: bytes, name: str) -> str:
    """The fingerprint of the query that wrote a page. Raises PageError if the page is not intact.

    >>> fingerprint_of(wrap("demo", "0f" * 16, []), "page 'a'")
    '0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f'
    """
    return _checked(memoryview(data), name)[1].hex()


def _checked(view: memoryview, name: str) -> tuple[int, bytes]:
    """The number of items and the fingerprint, if the page is intact."""
    if view[:4] != MAGIC[: len(view)]:
        raise PageError(f"{name} was not written by sash: it begins with {bytes(view[:4])!r}, not with {MAGIC!r}")
    if len(view) >= 6 and (found := int.from_bytes(view[4:6], "little")) != FORMAT:
        raise PageError(
            f"{name} has format version {found}, and this sash reads version {FORMAT}; "
            "read it with the sash that wrote it, or start without it"
        )
    if len(view) < HEAD.size:
        raise PageError(f"{name} is truncated: it has {len(view)} bytes, and its header alone takes {HEAD.size}")
    _, _, reserved, checksum, count, size, mark = HEAD.unpack_from(view)
    if len(view) < size:
        raise PageError(f"{name} is truncated: it has {len(view)} of {size} bytes")
    if len(view) > size:
        raise PageError(f"{name} is damaged: it has {len(view)} bytes, and its header claims {size}")
    if reserved or crc32(view[CHECKED:]) != checksum:
        raise PageError(f"{name} is damaged: its checksum does not match")
    return count, mark


def digits(fingerprint: str) -> bytes:
    """The 16 bytes of a fingerprint. Raises ValueError if it has not 32 hexadecimal digits."""
    try:
        mark = bytes.fromhex(fingerprint)
    except ValueError:
        mark = b""
    if len(mark) != 16 or len(fingerprint) != 32:
        raise ValueError(f"a fingerprint must have 32 hexadecimal digits; got {fingerprint!r}")
    return mark


def _table(count: int) -> Struct:
    return TABLES[count] if count < len(TABLES) else Struct(f"<{count}Q")
