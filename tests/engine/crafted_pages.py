"""Crafted state: pages of a query in which one column has other values, with a matching checksum."""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

import sash
from sash.state.header_page import directories
from sash.state.repeated_columns import restored, stored_fields
from sash.state.slot_codec import RANGES
from sash.stores import MemoryStore
from sash.stores.pages import pack
from sash.stores.pages import unpack as unpack_page
from tests.fuzz.envelopes import unwrapped

SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.int64()), ("s", pa.string())])
KEYS = ["a", "b", "a", "b", "a", "c", "a", "b"]


def rows(start: int, count: int) -> pa.RecordBatch:
    place = range(start, start + count)
    columns = [
        [KEYS[i % len(KEYS)] for i in place],
        list(place),
        [i * 7 % 5 for i in place],
        [f"w{i % 3}" for i in place],
    ]
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA
    )


def query(window: Any, **arguments: Any) -> sash.Query:
    aggregates = {"total": sash.sum("x"), "top": sash.max("s"), "all": sash.collect("x")}
    return sash.Query(window, **{"by": "k", "on": "t", "lateness": 4, **arguments}, **aggregates)


def stored(asked: sash.Query, calls: int = 3) -> MemoryStore:
    """The pages of a query that has seen some rows."""
    store = MemoryStore()
    operator = asked.operator(SCHEMA, store=store)
    for i in range(calls):
        operator.process(rows(20 * i, 20))
    return store


def schemas(asked: sash.Query, kind: str) -> list[pa.Schema]:
    """The schemas of the batches of a kind of page."""
    backend: Any = asked.operator(SCHEMA, store=MemoryStore()).state.backend
    if kind == "header":
        return directories(backend.durable.number_type)
    if kind in ("bucket", "eager"):
        return list(backend.durable.codec.schemas)
    return [backend.durable.buffered.schema] if kind == "buffer" else [RANGES, backend.durable.codec.elements[0]]


def layouts(meta: dict[str, Any], kind: str) -> list[Any]:
    """The layouts of the batches of a page; None for a batch that has all columns."""
    return meta["columns"] if kind == "bucket" else [None, meta["columns"]]


def crafted(asked: sash.Query, page: bytes, batch: int, column: str, change: Callable[[list[Any]], list[Any]]) -> bytes:
    """A page with other values in a column, and a matching checksum."""
    envelope = unwrapped(page)
    kinds = schemas(asked, envelope.kind)
    if envelope.kind in ("bucket", "segment"):

        def stored(meta: Mapping[str, Any]) -> list[pa.Schema]:
            ways = layouts(dict(meta), envelope.kind)
            return [kind if how is None else stored_fields(kind, how) for kind, how in zip(kinds, ways, strict=True)]

        meta, batches = unpack_page(page, envelope.kind, envelope.fingerprint, stored, "it")
        ways = layouts(meta, envelope.kind)
        every = zip(batches, kinds, ways, strict=True)
        batches = [one if how is None else restored(one, kind, how) for one, kind, how in every]
        whole = [[-1] * one.num_columns for one in batches]
        meta["columns"] = whole if envelope.kind == "bucket" else whole[1]
    else:
        meta, batches = unpack_page(page, envelope.kind, envelope.fingerprint, kinds, "it")
    given = batches[batch]
    at = given.schema.get_field_index(column)
    new = pa.array(change(given.column(at).to_pylist()), given.schema.field(at).type)
    batches[batch] = given.set_column(at, given.schema.field(at), new)
    return pack(envelope.kind, envelope.fingerprint, meta, batches)
