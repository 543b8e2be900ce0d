"""The envelope of a page: format, kind, query and checksum; checks of metadata; snapshots, which are many pages.

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

Check the metadata of a page: which fields it has, of which type, in which range.

    FIELDS = {"rows": integer(0), "mode": one_of("rows", "sorted"), "token": text(), "held": optional(integer())}
    check_meta(meta, FIELDS, "page 'header'")

A checksum detects accidental damage only. A crafted page can have a valid checksum, so each field is checked before it
is used.

A snapshot: all pages of an operator in one envelope, and the mode it ran in.

    envelope "snapshot" ─┬─ {"mode": …, "pages": [names]}    as JSON
                         ├─ page
                         └─ page  …

The checksum covers all pages and the fingerprint is that of the query, so an invalid snapshot is refused as a whole
before any page is read. The same pages give the same bytes, whatever their order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from struct import Struct, error
from types import TracebackType
from typing import Any, NamedTuple
from zlib import crc32

# --- Envelope ---

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


class decoding:  # noqa: N801 - used as a function; a generator takes three times as long
    """Convert any error in the decoding of a page to a PageError that names the page.

    >>> with decoding("page 'k/7'"):
    ...     raise ValueError("a key is listed twice")
    Traceback (most recent call last):
    sash.stores.envelope.PageError: page 'k/7' is damaged: a key is listed twice. Restore a copy of it, or start ...
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, PageError | MemoryError):  # `load` may raise anything
            why = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            raise damaged(self._name, why) from error


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


# --- Checks ---

LARGEST = 2**62
"""Greatest value of a counter: one more, or twice as much, is still a 64-bit integer."""


class Check(NamedTuple):
    """A requirement for a value, in words and as a test."""

    wanted: str
    holds: Callable[[Any], bool]


def integer(low: int = -(2**63), high: int = 2**63 - 1) -> Check:
    """An integer in [low, high].

    >>> integer(0).holds(7), integer(0).holds(-1), integer().holds(True), integer().holds("7")
    (True, False, False, False)
    """
    return Check(f"an integer from {low} to {high}", lambda x: type(x) is int and low <= x <= high)


def text(pattern: str = "") -> Check:
    """Text; with a pattern, text that matches this regular expression as a whole."""
    wanted = f"text like {pattern}" if pattern else "text"
    return Check(wanted, lambda x: type(x) is str and (not pattern or re.fullmatch(pattern, x) is not None))


def one_of(*values: Any) -> Check:
    """One of these values, with the same type."""
    wanted = "one of " + ", ".join(map(repr, values))
    return Check(wanted, lambda x: any(type(x) is type(value) and x == value for value in values))


def optional(check: Check) -> Check:
    """Null, or a value that passes the check."""
    return Check(f"null or {check.wanted}", lambda x: x is None or check.holds(x))


def list_of(check: Check, length: int | None = None) -> Check:
    """A list of values that pass the check, of this length if one is given.

    >>> list_of(integer(0), 2).holds([1, 2]), list_of(integer(0), 2).holds([1]), list_of(text()).holds(["a", None])
    (True, False, False)
    """
    many = "" if length is None else f"{length} "

    def holds(x: Any) -> bool:
        return type(x) is list and length in (None, len(x)) and all(map(check.holds, x))

    return Check(f"a list of {many}entries, each {check.wanted}", holds)


ANYTHING = Check("anything", lambda _x: True)
COUNTER = integer(0, LARGEST)


def check_meta(meta: Any, fields: Mapping[str, Check], name: str) -> None:
    """Raises PageError, naming the page and the field, if one is missing or invalid.

    >>> check_meta({"rows": 3}, {"rows": COUNTER}, "page 'k'")
    >>> check_meta({"rows": -3}, {"rows": integer(0, 9)}, "page 'k'")
    Traceback (most recent call last):
    sash.stores.envelope.PageError: page 'k' is damaged: its field 'rows' is -3; expected an integer from 0 to ...
    """
    if type(meta) is not dict:
        raise damaged(name, f"its meta is a {type(meta).__name__}; expected an object")
    for key, check in fields.items():
        if key not in meta:
            raise damaged(name, f"its meta has no field {key!r}")
        if not check.holds(meta[key]):
            raise damaged(name, f"its field {key!r} is {meta[key]!r:.80}; expected {check.wanted}")


# --- Snapshot ---

KIND = "snapshot"
NAME = "the snapshot"


def pack_pages(fingerprint: str, mode: str, pages: Mapping[str, bytes]) -> bytes:
    """Encode all pages as one byte string.

    >>> data = pack_pages("0f" * 16, "rows", {"header": b"...", "k/7": b"....."})
    >>> unpack_pages(data, "0f" * 16)
    ('rows', {'header': b'...', 'k/7': b'.....'})

    Raises ValueError for a fingerprint that does not have 32 hexadecimal digits.
    """
    names = sorted(pages)
    directory = json.dumps({"mode": mode, "pages": names}).encode()
    return wrap(KIND, fingerprint, [directory, *(pages[name] for name in names)])


def unpack_pages(data: bytes, fingerprint: str) -> tuple[str, dict[str, bytes]]:
    """Decode a snapshot of this query, and return the mode and the pages.

    Raises PageError if it is not a snapshot, of another format, truncated, damaged or of another query.
    """
    items = unwrap(data, KIND, fingerprint, NAME)
    with decoding(NAME):
        directory = read_json(items[0])
    check_meta(directory, {"mode": text(), "pages": list_of(text())}, NAME)
    names = directory["pages"]
    if len(names) != len(items) - 1:
        raise damaged(NAME, f"it lists {len(names)} pages and has {len(items) - 1}")
    if len(set(names)) != len(names):
        raise damaged(NAME, "it lists a page twice")
    return directory["mode"], {name: bytes(item) for name, item in zip(names, items[1:], strict=True)}
