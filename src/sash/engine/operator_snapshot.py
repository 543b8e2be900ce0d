"""Snapshots of an operator: the schema, pages and late rows of each of its states, as bytes.

one query   a state                                          the snapshot of Operator
several     directory (mode, queries of each state), states  the snapshot of QueriesOperator
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple, cast

import pyarrow as pa

from sash.columns.failed_rows import ERROR, FailedRows, failed_schema
from sash.kernels.loops.array_types import NO_INTS
from sash.plan.api_types import Mode
from sash.plan.bound_query import MODES
from sash.plan.query import Query
from sash.state.root_page import ROOT, require_query
from sash.stores import PageError
from sash.stores import envelope as snapshots
from sash.stores.envelope import (
    check_meta,
    damaged,
    decoding,
    fingerprint_of,
    list_of,
    one_of,
    read_json,
    text,
    unwrap,
    wrap,
)
from sash.stores.pages import read_stream

ANY = "0" * 32
"""In place of a fingerprint: states have theirs."""

SEVERAL = "queries"
"""The kind of what belongs to several queries."""

_LATE = "late"
"""The page of late rows."""

_FAILED = "failed"
"""The page of rows that have failed."""


class Snapshot(NamedTuple):
    """The content of a snapshot."""

    schema: pa.Schema
    mode: str
    pages: dict[str, bytes]
    late_rows: tuple[pa.RecordBatch, ...]
    failed_rows: tuple[FailedRows, ...]


def pack_snapshot(
    schema: pa.Schema,
    fingerprint: str,
    mode: str,
    pages: dict[str, bytes],
    late_rows: Sequence[pa.RecordBatch],
    failed_rows: Sequence[pa.RecordBatch] = (),
) -> bytes:
    """The bytes of a snapshot."""
    for name, columns, batches in ((_LATE, schema, late_rows), (_FAILED, failed_schema(schema), failed_rows)):
        if batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, columns) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            pages = {**pages, name: sink.getvalue().to_pybytes()}
    inner = snapshots.pack_pages(fingerprint, mode, pages)
    return wrap("operator", ANY, [schema.serialize().to_pybytes(), inner])


def snapshot_parts(data: bytes) -> tuple[pa.Schema, bytes]:
    """The schema of a snapshot of any query, and its packed pages. Raises PageError if it is damaged."""
    parts = unwrap(data, "operator", ANY, snapshots.NAME)
    if len(parts) != 2:
        raise damaged(snapshots.NAME, f"it has {len(parts)} parts; expected a schema and pages")
    with decoding(snapshots.NAME):
        schema = pa.ipc.read_schema(pa.py_buffer(bytes(parts[0])))
    return schema, bytes(parts[1])


def unpack_snapshot(query: Query, data: bytes) -> Snapshot:
    """Read a snapshot. Raises PageError if it is damaged, or of another query."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"a snapshot is the bytes that Operator.snapshot() returns; got a {type(data).__name__}")
    schema, inner = snapshot_parts(bytes(data))
    mode, pages = snapshots.unpack_pages(inner, fingerprint_of(inner, snapshots.NAME))
    _require_query(query, schema, inner, pages)
    if mode not in MODES or (mode == "sorted" and query.emit == "eager"):
        raise damaged(snapshots.NAME, f"its mode is {mode!r:.80}, which an operator of this query does not support")
    late, failed = (
        _rows(pages, name, columns) for name, columns in ((_LATE, schema), (_FAILED, failed_schema(schema)))
    )
    failed_rows = (
        FailedRows(rows.drop_columns([ERROR]), NO_INTS, [str(text) for text in rows.column(ERROR).to_pylist()])
        for rows in failed
    )
    return Snapshot(schema, mode, pages, tuple(late), tuple(failed_rows))


def _rows(pages: dict[str, bytes], name: str, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Remove a page of rows, and read it."""
    data = pages.pop(name, None)
    with decoding(f"page {name!r}"):
        return [] if data is None else list(read_stream(data, schema))


def _require_query(query: Query, schema: pa.Schema, inner: bytes, pages: dict[str, bytes]) -> None:
    """Raises PageError, with what has changed, if a snapshot is not of this query."""
    written = fingerprint_of(inner, snapshots.NAME)
    root = pages.get(ROOT)
    if root is not None and fingerprint_of(root, f"page {ROOT!r}") == written:
        require_query(query, schema, root, snapshots.NAME)
        return
    try:
        fingerprint = query.bind(schema).fingerprint
    except Exception as error:  # columns or types that the query does not take
        raise PageError(f"the snapshot was written by another query; its columns do not match: {error}") from error
    unwrap(inner, snapshots.KIND, fingerprint, snapshots.NAME)


# --- Several queries ---


class QueriesSnapshot(NamedTuple):
    """The content of a snapshot of several queries."""

    mode: Mode
    groups: list[list[str]]
    parts: list[bytes]


def pack_states(mode: str, groups: Sequence[Sequence[str]], parts: Sequence[bytes]) -> bytes:
    """The snapshots of states as one; `groups` are the names of their queries."""
    directory = json.dumps({"mode": mode, "groups": [list(names) for names in groups]}).encode()
    return wrap(SEVERAL, ANY, [directory, *parts])


def unpack_states(data: bytes) -> QueriesSnapshot:
    """Read a snapshot. Raises PageError if it is damaged."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"a snapshot is the bytes that snapshot() returns; got a {type(data).__name__}")
    directory, *parts = unwrap(bytes(data), SEVERAL, ANY, snapshots.NAME)
    with decoding(snapshots.NAME):
        meta = read_json(directory)
    check_meta(meta, {"mode": one_of(*MODES), "groups": list_of(list_of(text()))}, snapshots.NAME)
    if len(parts) != len(meta["groups"]):
        raise damaged(snapshots.NAME, f"it lists {len(meta['groups'])} operators and has {len(parts)}")
    return QueriesSnapshot(cast(Mode, meta["mode"]), meta["groups"], list(map(bytes, parts)))
