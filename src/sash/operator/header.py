"""The header: what an operator knows beside its keys and rows, in one page that every call writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sash.operator.keys import HASH_VERSION
from sash.operator.pages import Pages
from sash.stores import PageError

NAME = "header"


@dataclass(frozen=True)
class Meta:
    """The watermark, that of the last step, counters, the next numbers of large keys and buffer pages, rows held."""

    watermark: Any
    before: Any
    counters: list[int]
    large: int
    page: int
    held: bool


def read(pages: Pages, schemas: Sequence[pa.Schema], mode: str) -> tuple[Meta, list[pa.RecordBatch]] | None:
    """The header and its directories; None if the store is empty. Raises PageError if it is of another kind."""
    if pages.store.get_many([NAME])[0] is None:
        return None
    ((meta, batches),) = pages.read("header", [NAME], schemas)
    if meta["hash"] != HASH_VERSION:
        raise PageError(f"the state was written with hash version {meta['hash']}; this is {HASH_VERSION}")
    if meta["mode"] != mode:
        raise PageError(f"the state was written in mode {meta['mode']!r}, not {mode!r}")
    pages.nbytes = meta["bytes"]
    watermark, before = _from_text(meta["watermark"]), _from_text(meta["before"])
    return Meta(watermark, before, meta["counters"], meta["large"], meta["page"], meta["held"]), batches


def write(pages: Pages, meta: Meta, mode: str, batches: Sequence[pa.RecordBatch]) -> None:
    """Write the header, after all other pages of the call."""
    words = {
        "hash": HASH_VERSION,
        "mode": mode,
        "watermark": _to_text(meta.watermark),
        "before": _to_text(meta.before),
        "counters": meta.counters,
        "large": meta.large,
        "page": meta.page,
        "held": meta.held,
        "bytes": pages.nbytes,
    }
    pages.write("header", NAME, words, batches)


def _to_text(number: Any) -> str | None:
    return None if number is None else repr(number)


def _from_text(text: str | None) -> Any:
    if text is None:
        return None
    return int(text) if text.lstrip("-").isdigit() else float(text)
