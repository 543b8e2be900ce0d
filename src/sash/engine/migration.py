"""Migrate the state of one query to another: `Query.migrate`; count the elements of keys in a store.

    snapshot, store ──▶ state of the old query ──transfer──▶ state of the new query ──▶ snapshot, store

All state is loaded into memory. A store is written with one `put_many`, so that it has the old state or the new
one.

Count the elements of each key in a store: reads the pages of buckets, without their segments.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
import pyarrow as pa

from sash.columns.time_numbers import finite
from sash.engine.intake.progress import Progress, replace
from sash.engine.intake.reorder_buffer import TimedRows
from sash.engine.live_backend import LiveBackend
from sash.engine.operator import Operator
from sash.engine.query_state import QueryState
from sash.kernels.loops.array_types import Ints
from sash.plan.options import Options
from sash.plan.queries import ALONE
from sash.plan.query import Query
from sash.state.header_page import StoredState
from sash.state.root_page import HEADER, has_state, stored_mode, stored_schema
from sash.state.transfer import matched, matched_cells, move_emitted, refusal, settle, transfer
from sash.stores import Store
from sash.stores.envelope import decoding
from sash.stores.store import checked_store

# --- Migration ---


def migrate(query: Query, state: bytes | Store, from_query: Query, to: Store | None = None) -> bytes | Store:
    """See `Query.migrate`."""
    if not isinstance(from_query, Query):
        raise TypeError(f"from_query= of migrate() must be the query that the state is of; got {from_query!r:.80}")
    if isinstance(state, bytes | bytearray | memoryview):
        if to is not None:
            raise TypeError("to= of migrate() is for state in a store: a snapshot is returned as bytes")
        old = QueryState.restored(_plain(from_query), [ALONE], bytes(state), None)
        return migrated(old, query).snapshot()
    store = checked_store("state of migrate()", state)
    target = store if to is None else checked_store("to= of migrate()", to)
    if target is not store and has_state(target):
        raise ValueError(f"to= of migrate() must be an empty store: {target!r} has state already")
    migrate_store(query, store, from_query, target)
    return target


def migrate_store(
    query: Query, store: Store, from_query: Query, target: Store, schemas: tuple[pa.Schema, pa.Schema] | None = None
) -> None:
    """Migrate the state of a store, in place or to another one; `schemas` are those of both queries, if they differ."""
    if not has_state(store):
        raise ValueError(f"the store {store!r} has no state to migrate: open the new query on it")
    plain = _plain(from_query)
    schema = stored_schema(plain, store) if schemas is None else schemas[0]
    header = store.get_many([HEADER])[0]
    assert schema is not None
    assert header is not None
    mode = stored_mode(plain.fingerprint(schema), header)
    old = QueryState(plain, [ALONE], schema, mode=mode, store=store)
    pages = cast(StoredState, old.backend.durable).transaction
    _require_live(old, query)
    cast(LiveBackend, old.backend).into_memory()
    made = migrated(old, query, None if schemas is None else schemas[1])
    replaced = [*pages.names, *pages.garbage] if target is store else []
    cast(LiveBackend, made.backend).save_to(target, made.header(), replaced)


def check_migration(old: Query, old_schema: pa.Schema, new: Query, schema: pa.Schema) -> None:
    """Raises ValueError, with the reasons, if no state of one query can be migrated to another."""
    migrated(QueryState(_plain(old), [ALONE], old_schema), new, schema)


def migrated(old: QueryState, query: Query, schema: pa.Schema | None = None) -> QueryState:
    """The state of another query, made from that of `old`, which is in memory and must not be used any more.

    Raises ValueError, with the changes and the reasons, if the state lacks what the query needs.
    """
    assert old.schema is not None
    _require_live(old, query)
    new = QueryState(_plain(query), [ALONE], old.schema if schema is None else schema, mode=old.mode)
    theirs, mine = cast(LiveBackend, old.backend), cast(LiveBackend, new.backend)
    matches = matched(theirs.engine, mine.engine)
    cells = None
    if theirs.emitter is not None and mine.emitter is not None:
        cells = matched_cells(old.bound_query, theirs.emitter.cells, new.bound_query, mine.emitter.cells)
    slots = transfer(theirs.engine, mine.engine, matches)
    if theirs.emitter is not None and mine.emitter is not None and cells is not None:
        move_emitted(theirs.emitter, mine.emitter, cells, slots)
    is_timed = new.bound_query.time is not None and new.mode != "sorted"
    settle(mine.engine, finite(old.progress.watermark) if is_timed else None)
    if theirs.buffer is not None and mine.buffer is not None and len(theirs.buffer):
        waiting = _rows(theirs.buffer.rows(), new)
        new.opened.checks.failures(waiting.table)
        mine.buffer.push_and_release(waiting, None)
    new.continue_from(_progress(old.progress, new))
    return new


def _require_live(old: QueryState, query: Query) -> None:
    """Raises ValueError for state of emit="eager", which has another engine."""
    if not isinstance(old.backend, LiveBackend) or query.emit == "eager":
        new = query.bind(old.bound_query.schema)
        raise refusal(
            old.bound_query,
            new,
            ["state of emit='eager' contains results that later rows may revise, and cannot be used by another query"],
        )


def _progress(now: Progress, new: QueryState) -> Progress:
    assert new.schema is not None
    held = None if now.held is None else _rows(now.held, new)
    late = tuple(batch.select(new.schema.names) for batch in now.late_rows)
    failed = tuple(one._replace(rows=one.rows.select(new.schema.names)) for one in now.failed_rows)
    return replace(now, {"held": held, "late_rows": late, "failed_rows": failed})


def _rows(rows: TimedRows, new: QueryState) -> TimedRows:
    return TimedRows(rows.table.select(new.opened.plain.names), rows.time, rows.arrival)


def _plain(query: Query) -> Query:
    """The query without options: neither a store nor a bound on memory."""
    return query.rewritten(options=Options())


# --- Key sizes ---


def key_sizes(operator: Operator) -> Iterator[tuple[list[pa.Array], Ints]]:
    """For each bucket of an operator on a store: the values of its keys, column by column, and their elements.

    Yields nothing for eager state, which has no buckets. Raises PageError for damaged pages.
    """
    backend = operator.state.backend
    if not isinstance(backend, LiveBackend) or backend.durable is None:
        return
    durable, codec = backend.durable, backend.durable.codec
    running = len(backend.engine.assigners) - len(codec.arenas)
    for i in np.flatnonzero(durable.buckets.keys).tolist():
        name = durable.buckets.name(i)
        ((meta, batches),) = durable.transaction.read("bucket", [name], codec.stored_schemas)
        with decoding(f"page {name!r}"):
            stored = codec.read(meta, batches)
        durable.transaction.forget_reads([name])
        counts = np.full(stored.count, running, np.int64)
        for a in range(len(codec.arenas)):
            front, back = stored.ring(a)
            counts += back - front
        yield stored.keys, counts
