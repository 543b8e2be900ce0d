"""The root page: the schema of the input, and a description of the query. Written with the first header.

With it an operator can be opened on a store before its first batch, and a store that has lost its header is not taken
for an empty one. Another query is refused with a list of what has changed. A snapshot has a schema of its own; there
the root has only the query.
"""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa

from sash.plan.api_types import Mode
from sash.plan.bound_query import MODES, BoundQuery
from sash.plan.fingerprint import described, described_state, difference, is_description
from sash.plan.query import Query
from sash.state.page_checks import require
from sash.stores import PageError, Store
from sash.stores.envelope import check_meta, decoding, fingerprint_of, one_of, read_json, unwrap
from sash.stores.pages import read_batch

HEADER = "header"
ROOT = "root"

QUERY = "query"
"""The field of the root's meta with the description of the query."""

_LABEL = f"page {ROOT!r}"
_SCHEMA = pa.schema([pa.field("schema", pa.binary())])


def root_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch of a root page: a schema, as Arrow serializes it."""
    return pa.RecordBatch.from_arrays([pa.array([schema.serialize().to_pybytes()], pa.binary())], schema=_SCHEMA)


def stored_schema(query: Query, store: Store) -> pa.Schema | None:
    """The schema of the rows whose state a store has; None if the store is empty.

    Raises PageError if the state is damaged, or of another query.
    """
    header, root = store.get_many([HEADER, ROOT])
    schema = root_schema(root)
    if schema is None and header is not None:
        raise PageError(
            f"{_LABEL} with the schema of the rows is missing from the store {store!r}: its state is incomplete. Pass "
            "the schema to open it"
        )
    if root is not None and schema is not None:
        require_query(query, schema, root, _LABEL)
    return schema


def root_schema(root: bytes | None) -> pa.Schema | None:
    """The schema in a root page; None if there is no page, or it does not have one. Raises PageError for damage."""
    if root is None:
        return None
    items = unwrap(root, ROOT, fingerprint_of(root, _LABEL), _LABEL)
    if len(items) < 2:
        return None
    with decoding(_LABEL):
        found = read_batch(items[1], _SCHEMA).column(0)
        require(len(found) == 1 and not found.null_count, "it has no schema")
        return pa.ipc.read_schema(pa.py_buffer(found[0].as_py()))


def require_query(query: Query, schema: pa.Schema, root: bytes, label: str) -> None:
    """Raises PageError, with what has changed, if a root page is not of this query on rows of this schema."""
    try:
        bound_query = query.bind(schema)
    except Exception as error:  # columns or types that the query does not take
        changes = _changes(root, described(query))
        raise PageError(f"{label} was written by another query{changes}; its columns do not match: {error}") from error
    if fingerprint_of(root, label) != bound_query.fingerprint:
        raise another_query(bound_query, root, label)


def another_query(bound_query: BoundQuery, root: bytes | None, label: str) -> PageError:
    """The error for state of another query: with the differences if its root page has them, else with fingerprints."""
    changes = _changes(root, described_state(bound_query))
    if changes:
        return PageError(f"{label} was written by another query{changes}{_ADVICE}")
    found = "unknown" if root is None else fingerprint_of(root, label)
    return PageError(
        f"{label} was written by another query: its fingerprint is {found}, this query's is "
        f"{bound_query.fingerprint}. State belongs to one query, with its windows, aggregates and column types: use "
        "that query, migrate the state with query.migrate(), or start without it"
    )


def explained(error: PageError, bound_query: BoundQuery, store: Store) -> PageError:
    """The error of opening a store: with what has changed, if its state is that of another query."""
    header, root = store.get_many([HEADER, ROOT])
    try:
        is_other = header is not None and fingerprint_of(header, f"page {HEADER!r}") != bound_query.fingerprint
        return another_query(bound_query, root, f"page {HEADER!r}") if is_other else error
    except PageError:  # one of them is damaged
        return error


_ADVICE = (
    ". Use that query, migrate the state with query.migrate(state, from_query=…) (in jobs: sash migrate OLD NEW), or "
    "start without the state"
)


def _changes(root: bytes | None, now: dict[str, Any]) -> str:
    """The differences between the query of a root page and the current one; "" if the page does not describe it."""
    before = None if root is None else stored_description(root)
    changes = [] if before is None else difference(before, now)
    return f": {'; '.join(changes)}" if changes else ""


def stored_description(root: bytes) -> dict[str, Any] | None:
    """The description of the query in a root page; None if it has none."""
    items = unwrap(root, ROOT, fingerprint_of(root, _LABEL), _LABEL)
    with decoding(_LABEL):
        meta = read_json(items[0]) if items else {}
    found = meta.get(QUERY) if isinstance(meta, dict) else None
    return found if is_description(found) else None


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
    """Does a store have the state of an operator?"""
    return store.get_many([HEADER])[0] is not None
