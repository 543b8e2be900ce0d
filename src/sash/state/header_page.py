"""The header page: the progress of an operator, and a directory of its other pages. Written last, with every call."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import no_rows
from sash.columns.input_encoding import numbers
from sash.columns.keys import HASH_VERSION
from sash.columns.time_numbers import Watermark, stored_time_type
from sash.engine.intake.progress import RowCounts
from sash.engine.intake.reorder_buffer import TimedRows
from sash.plan.bound_query import BoundQuery
from sash.plan.fingerprint import described_state
from sash.plan.time_axis import Number
from sash.state.page_checks import LARGEST, require
from sash.state.page_transaction import NUMBER, Pages
from sash.state.root_page import HEADER, QUERY, ROOT, root_batch
from sash.stores import PageError, Store
from sash.stores.envelope import COUNTER, check_meta, decoding, list_of, text

_GARBAGE = list_of(text(r"b[0-9a-f]{16}|s[0-9a-f]{16}\.[0-9]+\.[0-9]+|[qe][0-9]+|held"))
"""Names of pages that an operator makes, and may delete."""

_OPTIONAL = {"garbage": _GARBAGE, "failed": list_of(COUNTER, 2), "newest": NUMBER}
"""Fields that a header may lack: pages to delete, numbers of rows and results that have failed, the newest time."""


@dataclass(frozen=True)
class Header:
    """The progress of an operator: watermark, counters, the caller's offset, the next numbers of keys and pages."""

    watermark: Watermark
    before: Number | None
    counters: RowCounts
    offset: Any
    eager: bool
    held: TimedRows | None = None
    newest: Watermark = None
    """The greatest time seen; None also in state of versions that did not save it."""
    has_held: bool = False
    held_generation: int = 0
    number: int = 0
    page: int = 0
    token: str = ""
    """Random, and new with every commit: state in memory with this token is exactly what the store has."""


class PageEntry(NamedTuple):
    """A page that the header lists: its number, the least and the greatest time in it, its rows, its generation."""

    page: int
    low: Number
    high: Number
    rows: int
    generation: int


class StoredState:
    """The base of durable state: a transaction, the header, and the token of the last commit."""

    def __init__(self, store: Store, bound_query: BoundQuery, mode: str) -> None:
        self.transaction, self.mode = Pages(store, bound_query.fingerprint), mode
        self.bound_query = bound_query
        self.number_type = stored_time_type(bound_query)
        self.next_page = 0
        self.token = ""
        """The token of the last commit."""

    def commit_header(
        self, header: Header, buckets: pa.RecordBatch | None, listed: list[PageEntry], shared: bool
    ) -> None:
        """Write the header after all other pages, and commit them to the store.

        `listed`: the pages of rows; `shared`: other operators may open the store, so the header gets a token.
        """
        empty, waiting = directories(self.number_type)
        token = secrets.token_hex(16) if shared else ""
        columns = zip(*listed, strict=True) if listed else [()] * len(waiting)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, waiting, strict=True)]
        directory = pa.RecordBatch.from_arrays(arrays, schema=waiting)
        header = replace(header, page=self.next_page, token=token)
        if not self.transaction.header:
            batches = [root_batch(self.bound_query.schema)] if shared else []
            self.transaction.write(ROOT, ROOT, {QUERY: described_state(self.bound_query)}, batches)
        write_header(self.transaction, header, self.mode, no_rows(empty) if buckets is None else buckets, directory)
        self.transaction.commit()
        self.token = token


def token_of(pages: Pages, number: pa.DataType) -> str | None:
    """The token of the state that a store has; None if it is empty."""
    if pages.store.get_many([HEADER])[0] is None:
        return None
    ((meta, _),) = pages.read("header", [HEADER], directories(number))
    pages.rollback()
    return str(meta["token"])


def read_header(pages: Pages, mode: str, number: pa.DataType) -> tuple[Header, pa.RecordBatch, pa.RecordBatch] | None:
    """The header and its directories; None if the store is empty. Raises PageError if it is of another kind."""
    if pages.store.get_many([HEADER])[0] is None:
        header, root = pages.store.get_many([HEADER, ROOT])
        if header is None and root is not None:
            raise PageError(f"page {HEADER!r} is missing from the store {pages.store!r}: its state is incomplete")
        if header is None:
            return None
    ((meta, (buckets, waiting)),) = pages.read("header", [HEADER], directories(number))
    if meta["hash"] != HASH_VERSION:
        raise PageError(f"the state was written with hash version {meta['hash']}; this sash uses {HASH_VERSION}")
    if meta["mode"] != mode:
        raise PageError(f"the state was written in mode {meta['mode']!r}, not {mode!r}")
    garbage, failed, newest = meta.get("garbage", []), meta.get("failed", [0, 0]), meta.get("newest")
    check_meta({"garbage": garbage, "failed": failed, "newest": newest}, _OPTIONAL, f"page {HEADER!r}")
    with decoding(f"page {HEADER!r}"):
        _check_buckets(buckets)
        _check_waiting(waiting, meta["page"])
        _check_garbage(garbage, buckets, waiting, meta["held"] is not None)
        watermark, before = _from_text(meta["watermark"], number), _from_text(meta["before"], number)
        newest = _from_text(newest, number)
        require(newest != math.inf, "its newest time is infinite")
    pages.opened(meta["bytes"], garbage)
    held: dict[str, Any] = {"has_held": meta["held"] is not None, "held_generation": meta["held"] or 0}
    numbers_given = {name: meta[name] for name in ("number", "page", "token")}
    counters = RowCounts(*meta["counters"], *failed)
    found = Header(watermark, before, counters, meta["offset"], meta["eager"], newest=newest, **held, **numbers_given)
    return found, buckets, waiting


def directories(number: pa.DataType) -> list[pa.Schema]:
    """The schemas of the directories of buckets and of the reorder buffer; times are of type `number`."""
    buckets = [("start", pa.uint64()), ("due", number), ("keys", pa.int64()), ("elements", pa.int64())]
    waiting = [("page", pa.int64()), ("low", number), ("high", number), ("rows", pa.int64())]
    return [pa.schema([*columns, ("generation", pa.int64())]) for columns in (buckets, waiting)]


def write_header(pages: Pages, header: Header, mode: str, buckets: pa.RecordBatch, waiting: pa.RecordBatch) -> None:
    """Write the header, after all other pages of the call."""
    meta = {
        "hash": HASH_VERSION,
        "mode": mode,
        "watermark": _to_text(header.watermark),
        "before": _to_text(header.before),
        "counters": list(header.counters[:4]),
        "offset": header.offset,
        "eager": header.eager,
        "held": None if header.held is None else pages.generation_of("held"),
        "number": header.number,
        "page": header.page,
        "token": header.token,
        "bytes": pages.nbytes,
    }
    if any(header.counters[4:]):
        meta["failed"] = list(header.counters[4:])
    if garbage := [name for name in pages.unneeded if name != HEADER]:  # it is written next
        meta["garbage"] = garbage
    if header.newest is not None:
        meta["newest"] = _to_text(header.newest)
    pages.write("header", HEADER, meta, [buckets, waiting])


def _to_text(number: Watermark) -> str | None:
    return None if number is None else repr(number)


def _from_text(text: str | None, number: pa.DataType) -> Watermark:
    if text is None:
        return None
    found = float(text) if "inf" in text or not pa.types.is_integer(number) else int(text)
    require(found == math.inf or -(2**63) <= found < 2**63, f"{text} is not a time")
    return found


def _check_buckets(buckets: pa.RecordBatch) -> None:
    """Raises ValueError unless buckets lie side by side, from the least hash on."""
    require(all(not buckets.column(name).null_count for name in ("start", "keys", "elements", "generation")), _MISSING)
    starts = numbers(buckets.column("start"))
    require(not len(starts) or starts[0] == 0, "the first bucket does not begin with the least hash")
    require(starts[1:] > starts[:-1], "its buckets are not in order")
    for name in ("keys", "elements"):
        counts = numbers(buckets.column(name))
        require((counts >= 0) & (counts < LARGEST), f"a bucket has an impossible number of {name}")
    due = buckets.column("due")
    if pa.types.is_floating(due.type):
        given = numbers(due.drop_null())
        require(given == given, "a timer is NaN")


def _check_waiting(waiting: pa.RecordBatch, pages: int) -> None:
    """Raises ValueError unless each page of the reorder buffer is listed once, with times in order."""
    require(all(not column.null_count for column in waiting.columns), _MISSING)
    page, low, high, rows = (numbers(waiting.column(i)) for i in range(4))
    require((page >= 0) & (page < pages), "it lists a page that was never written")
    require(len(np.unique(page)) == len(page), "it lists a page twice")
    require((low <= high) & (rows >= 0) & (rows < LARGEST), "it lists a page with impossible times or rows")


def _check_garbage(garbage: list[str], buckets: pa.RecordBatch, waiting: pa.RecordBatch, holds: bool) -> None:
    """Raises ValueError if a page that the state needs is among those that are to be deleted."""
    if not garbage:
        return
    filled = numbers(buckets.column("start"))[numbers(buckets.column("keys")) > 0]
    deleted = np.array([int(name[1:], 16) for name in garbage if name[0] == "b"], np.uint64)
    needed = {"held"} if holds else set()
    needed |= {f"{kind}{page}" for page in numbers(waiting.column("page")).tolist() for kind in "qe"}
    is_needed = len(deleted) and np.isin(deleted, filled).any()
    require(not is_needed and needed.isdisjoint(garbage), "it lists a page both as needed and as to be deleted")


_MISSING = "a number is missing in a list of pages"
