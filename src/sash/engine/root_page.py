"""The root page: the schema of the rows whose state a store has. Written once, with the first header.

It makes a store complete by itself: an operator can be opened before its first batch. It also tells a store that has
lost its header from an empty one. In a snapshot, which has a schema of its own, and in state of earlier versions the
root is empty.
"""

from __future__ import annotations

from typing import cast

import pyarrow as pa

from sash.engine.state_checks import require
from sash.plan.api_types import Mode
from sash.plan.bound_query import MODES
from sash.plan.query import Query
from sash.stores import PageError, Store
from sash.stores.batches import read_batch
from sash.stores.checks import check_meta, one_of
from sash.stores.envelope import decoding, fingerprint_of, read_json, unwrap

HEADER = "header"
ROOT = "root"

_LABEL = f"page {ROOT!r}"
_SCHEMA = pa.schema([pa.field("schema", pa.binary())])


def root_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch of a root page: a schema, as Arrow serializes it."""
    return pa.RecordBatch.from_arrays([pa.array([schema.serialize().to_pybytes()], pa.binary())], schema=_SCHEMA)


def stored_schema(query: Query, store: Store) -> pa.Schema | None:
    """The schema of the rows whose state a store has; None if the store is empty, or its root does not say it.

    Raises PageError if the state is damaged, or of another query.
    """
    (root,) = store.get_many([ROOT])
    if root is None:
        return None
    items = unwrap(root, ROOT, fingerprint_of(root, _LABEL), _LABEL)
    if len(items) < 2:
        return None
    with decoding(_LABEL):
        found = read_batch(items[1], _SCHEMA).column(0)
        require(len(found) == 1 and not found.null_count, "it has no schema")
        schema = pa.ipc.read_schema(pa.py_buffer(found[0].as_py()))
    try:
        fingerprint = query.bind(schema).fingerprint
    except Exception as error:  # types that no query has ever seen
        raise PageError(f"{_LABEL} was written by another query; its columns do not match: {error}") from error
    unwrap(root, ROOT, fingerprint, _LABEL)
    return schema


def stored_mode(fingerprint: str, header: bytes) -> Mode:
    """The mode of the operator that wrote a header. Raises PageError if it is damaged, or of another query."""
    label = f"page {HEADER!r}"
    items = unwrap(header, HEADER, fingerprint, label)
    with decoding(label):
        require(len(items) > 0, "it has no parts")
        meta = read_json(items[0])
    check_meta(meta, {"mode": one_of(*MODES)}, label)
    return cast(Mode, meta["mode"])


def has_state(store: Store) -> bool:
    """Has a store the state of an operator?"""
    return store.get_many([HEADER])[0] is not None
