"""The header page: how far an operator has come, and what other pages there are. Written last, with every call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sash.engine.keys import HASH_VERSION
from sash.engine.page_transaction import Pages
from sash.engine.reorder_buffer import TimedRows
from sash.stores import PageError

NAME = "header"

ROOT = "root"
"""A page that is written once, with the first header: it tells a store that has lost its header from an empty one."""


@dataclass(frozen=True)
class Header:
    """The watermark, counters, the caller's offset, the next numbers of large keys and pages."""

    watermark: Any
    before: Any
    counters: tuple[int, int, int, int]
    offset: Any
    eager: bool
    held: TimedRows | None = None
    has_held: bool = False
    held_generation: int = 0
    large: int = 0
    page: int = 0
    token: str = ""
    """Random, and new with every commit: state in memory with this token is exactly what the store has."""


def token_of(pages: Pages, number: pa.DataType) -> str | None:
    """The token of the state that a store has; None if it is empty."""
    if pages.store.get_many([NAME])[0] is None:
        return None
    ((meta, _),) = pages.read("header", [NAME], directories(number))
    pages.rollback()
    return str(meta["token"])


def read_header(pages: Pages, mode: str, number: pa.DataType) -> tuple[Header, pa.RecordBatch, pa.RecordBatch] | None:
    """The header and its directories; None if the store is empty. Raises PageError if it is of another kind."""
    header, root = pages.store.get_many([NAME, ROOT])
    if header is None:
        if root is not None:
            raise PageError(f"page {NAME!r} is missing from the store {pages.store!r}: its state is incomplete")
        return None
    ((meta, (buckets, waiting)),) = pages.read("header", [NAME], directories(number))
    if meta["hash"] != HASH_VERSION:
        raise PageError(f"the state was written with hash version {meta['hash']}; this is {HASH_VERSION}")
    if meta["mode"] != mode:
        raise PageError(f"the state was written in mode {meta['mode']!r}, not {mode!r}")
    pages.nbytes = meta["bytes"]
    found = Header(
        _from_text(meta["watermark"]),
        _from_text(meta["before"]),
        tuple(meta["counters"]),
        meta["offset"],
        meta["eager"],
        None,
        meta["held"] is not None,
        meta["held"] or 0,
        meta["large"],
        meta["page"],
        meta["token"],
    )
    return found, buckets, waiting


def directories(number: pa.DataType) -> list[pa.Schema]:
    """The schemas of the directories of buckets and of the reorder buffer, where times are such numbers."""
    buckets = [("start", pa.uint64()), ("due", number), ("keys", pa.int64()), ("elements", pa.int64())]
    waiting = [("page", pa.int64()), ("low", number), ("high", number), ("rows", pa.int64())]
    return [pa.schema([*columns, ("generation", pa.int64())]) for columns in (buckets, waiting)]


def write_header(pages: Pages, header: Header, mode: str, buckets: pa.RecordBatch, waiting: pa.RecordBatch) -> None:
    """Write the header, after all other pages of the call; with the first one the root."""
    if not pages.header:
        pages.write(ROOT, ROOT, {}, [])
    meta = {
        "hash": HASH_VERSION,
        "mode": mode,
        "watermark": _to_text(header.watermark),
        "before": _to_text(header.before),
        "counters": list(header.counters),
        "offset": header.offset,
        "eager": header.eager,
        "held": None if header.held is None else pages.generation_of("held"),
        "large": header.large,
        "page": header.page,
        "token": header.token,
        "bytes": pages.nbytes,
    }
    pages.write("header", NAME, meta, [buckets, waiting])


def _to_text(number: Any) -> str | None:
    return None if number is None else repr(number)


def _from_text(text: str | None) -> Any:
    if text is None:
        return None
    return int(text) if text.lstrip("-").isdigit() else float(text)
