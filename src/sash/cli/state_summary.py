"""What a snapshot or a store has, without its query: `sash inspect`."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from sash.engine.root_page import HEADER, ROOT, stored_description
from sash.engine.state_header import directories
from sash.plan.query_difference import window_text
from sash.stores import snapshot as snapshots
from sash.stores.batches import read_batch
from sash.stores.envelope import PageError, decoding, fingerprint_of, read_json, unwrap

COUNTERS = ("rows_in", "rows_out", "late", "untimed")

KINDS = {"b": "buckets of keys", "s": "elements of large keys", "q": "reorder buffer", "e": "eager state"}
"""Kinds of pages, by the first letter of their names; others go by their names."""


def state_summary(path: str) -> dict[str, Any]:
    """What is in a snapshot, a file, or in a store of RocksDB, a directory.

    Raises FileNotFoundError if there is nothing, PageError if the state is damaged.
    """
    place = Path(path)
    if not place.exists():
        raise FileNotFoundError(f"there is no snapshot or store {path!r}")
    if not place.is_dir():
        return {"kind": "snapshot", **_summary(_of_snapshot(place.read_bytes()))}
    from sash.stores import RocksDBStore

    store = RocksDBStore(place, read_only=True)
    try:
        return {"kind": "store", **_summary(dict(store.scan("")))}
    finally:
        store.close()


def _of_snapshot(data: bytes) -> dict[str, bytes]:
    items = unwrap(data, "operator", "0" * 32, snapshots.NAME)
    if len(items) != 2:
        raise PageError(f"{snapshots.NAME} has {len(items)} parts; expected a schema and pages")
    inner = bytes(items[1])
    return snapshots.unpack(inner, fingerprint_of(inner, snapshots.NAME))[1]


def _summary(pages: Mapping[str, bytes]) -> dict[str, Any]:
    if HEADER not in pages:
        raise PageError(f"there is no page {HEADER!r}: no operator has committed its state here")
    label = f"page {HEADER!r}"
    fingerprint = fingerprint_of(pages[HEADER], label)
    items = unwrap(pages[HEADER], HEADER, fingerprint, label)
    with decoding(label):
        meta = read_json(items[0])
        # the columns that are read here have the same width for times of any type
        buckets, waiting = (read_batch(*pair) for pair in zip(items[1:], directories(pa.int64()), strict=True))
        counters = dict(zip(COUNTERS, meta["counters"], strict=True))
        progress = {"mode": meta["mode"], "watermark": meta["watermark"], **counters, "offset": meta["offset"]}
    query = stored_description(pages[ROOT]) if ROOT in pages else None
    if query is not None:
        query = {name: value for name, value in query.items() if name != "keys"}
    found = {"query": query, "fingerprint": fingerprint, **progress}
    # eager state is a log of changes, whose header counts no keys
    found["keys"] = None if meta["eager"] else _total(buckets, "keys")
    found["elements"] = None if meta["eager"] else _total(buckets, "elements")
    found["waiting"] = _total(waiting, "rows")
    return found | {"pages": _by_kind(pages.items())}


def _total(batch: pa.RecordBatch, name: str) -> int:
    return sum(batch.column(name).to_pylist())


def _by_kind(pages: Iterable[tuple[str, bytes]]) -> dict[str, dict[str, int]]:
    """The number of pages and of their bytes, by kind."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: {"pages": 0, "bytes": 0})
    for name, page in pages:
        kind = KINDS[name[0]] if name[:1] in KINDS and name[1:2].isalnum() and name[-1:].isalnum() else name
        found[kind]["pages"] += 1
        found[kind]["bytes"] += len(page)
    return dict(found)


def summary_lines(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The same for people: names and values."""
    query = found["query"]
    if query is not None:
        for name, window in query["windows"].items():
            yield f"window {name}".strip(), window_text(window)
        for name, text in query["aggregates"].items():
            yield f"aggregate {name}", text
        for name in ("by", "on"):
            yield name, ", ".join(query[name])
        for name in ("lateness", "forget", "min_periods"):
            if query.get(name):
                yield name, query[name]
    for name in ("fingerprint", "mode", "watermark", *COUNTERS, "offset", "keys", "elements", "waiting"):
        value = found[name]
        if isinstance(value, int):
            yield name, f"{value:,}"
        else:
            yield name, value if isinstance(value, str) else "" if value is None else json.dumps(value)
    for kind, sizes in found["pages"].items():
        yield f"pages: {kind}", f"{sizes['pages']:,} of {sizes['bytes']:,} bytes"
