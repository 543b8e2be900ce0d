"""A snapshot: all pages of an operator in one envelope, and the mode it ran in.

    envelope "snapshot" ─┬─ {"mode": …, "pages": [names]}    as JSON
                         ├─ page
                         └─ page  …

The checksum covers all pages and the fingerprint is that of the query, so an invalid snapshot is refused as a whole
before any page is read. The same pages give the same bytes, whatever their order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from sash.stores.checks import check_meta, list_of, text
from sash.stores.envelope import damaged, decoding, read_json, unwrap, wrap

KIND = "snapshot"
NAME = "the snapshot"


def pack(fingerprint: str, mode: str, pages: Mapping[str, bytes]) -> bytes:
    """Encode all pages as one byte string.

    >>> data = pack("0f" * 16, "rows", {"header": b"...", "k/7": b"....."})
    >>> unpack(data, "0f" * 16)
    ('rows', {'header': b'...', 'k/7': b'.....'})

    Raises ValueError for a fingerprint that does not have 32 hexadecimal digits.
    """
    names = sorted(pages)
    directory = json.dumps({"mode": mode, "pages": names}).encode()
    return wrap(KIND, fingerprint, [directory, *(pages[name] for name in names)])


def unpack(data: bytes, fingerprint: str) -> tuple[str, dict[str, bytes]]:
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
