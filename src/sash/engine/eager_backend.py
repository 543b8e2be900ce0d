"""The state behind an operator with emit="eager": trees of rows, whose results leave at once.

With a store, the whole state of the operator is one page, written at the end of each call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sash.aggregators.by_position import catalogue_name
from sash.engine.eager import EagerEngine
from sash.engine.eager_snapshot import dump, load
from sash.engine.output import Output
from sash.engine.page_transaction import Pages
from sash.engine.reorder_buffer import TimedRows
from sash.engine.state_header import Header, directories, read_header, write_header
from sash.query.planner import Plan
from sash.stores import MemoryStore, PageError, Store
from sash.stores.frame import seal, unseal

NAME = "eager"


class EagerBackend:
    """Live state of one eager operator."""

    def __init__(self, plan: Plan, mode: str, output: Output, store: Store | None) -> None:
        self.resolved, self.mode, self.output, self.store = plan.resolved, mode, output, store
        self.engine = EagerEngine(plan, mode, plan.resolved.query.retract)
        self.transaction = None if store is None else Pages(store, self.resolved.fingerprint)

    @property
    def numbers(self) -> np.dtype[Any]:
        """The type of times."""
        return self.engine.numbers

    def require_room(self, batch: pa.RecordBatch, time: Any, taken: Any) -> None:
        """Refuse rows whose windows would have no place."""
        self.engine.require_room(batch, time, taken)

    # ---- a call ----

    def begin(self) -> None:
        """The engine keeps its own journal."""

    def recover(self) -> None:
        """Undo a call that failed; does nothing if none has."""
        if self.transaction is not None:
            self.transaction.rollback()
        self.engine.rollback()

    def write(self, header: Header) -> None:
        """Hand the state to the store."""
        if self.transaction is not None:
            _write(self.transaction, header, self.engine, self.mode)

    def committed(self) -> None:
        """The call has succeeded."""
        self.engine.commit()
        self.engine.compact()

    def step(self, given: TimedRows, now: Any, closing: bool, rows: bool = True) -> pa.RecordBatch:
        """Take rows, and give the results that are new or have changed; without `rows` only the watermark moves."""
        if rows:
            return self.engine.process(given, now, closing)
        self.engine.settle(now, closing)
        return self.output.empty()

    # ---- state at rest ----

    def open(self) -> Header | None:
        """Take up the state that the store has; None if it is empty. Raises PageError."""
        assert self.transaction is not None
        found = read_header(self.transaction, self.mode, _number_type(self.engine))
        if found is None:
            return None
        if not found[0].eager:
            raise PageError("the state was written with another emit=, and emit='eager' keeps a state of its own")
        self.transaction.opened()
        (data,) = self.transaction.store.get_many([NAME])
        if data is None:
            raise PageError(f"page {NAME!r} is missing from the store {self.store!r}: its state is incomplete")
        parts = unseal(data, NAME, self.resolved.fingerprint, f"page {NAME!r}")
        try:
            batches = [pa.ipc.open_stream(pa.py_buffer(part)).read_next_batch() for part in parts]
        except (pa.ArrowException, OSError) as error:
            raise PageError(f"page {NAME!r} is damaged: {error}") from error
        load(self.engine, batches)
        return found[0]

    def held(self) -> TimedRows | None:
        """Rows are in their trees at once."""
        return None

    def save(self, header: Header) -> MemoryStore:
        """All state in pages of their own."""
        store = MemoryStore()
        _write(Pages(store, self.resolved.fingerprint), header, self.engine, self.mode)
        return store

    def into_memory(self) -> None:
        """Keep the state in memory from now on."""
        self.store, self.transaction = None, None

    # ---- looks ----

    def lookup(self, columns: list[pa.Array], at: Any, last: Any, watermark: Any) -> list[pa.Array]:
        """Raises ValueError: the newest result of every row has been emitted."""
        raise ValueError("lookup() answers for emit='final' and 'changes'; with 'eager' results leave as rows come")

    @property
    def due(self) -> Any:
        """The least watermark at which there is something to do; None if nothing waits."""
        return self.engine.due

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Keys, elements and bytes of the state."""
        nbytes = self.engine.nbytes if self.transaction is None else self.transaction.nbytes + self.transaction.header
        return self.engine.keys, self.engine.elements, nbytes

    @property
    def pages(self) -> tuple[int, int]:
        """Pages read and written."""
        return (0, 0) if self.transaction is None else (self.transaction.read_count, self.transaction.written_count)

    def executed(self) -> dict[tuple[int, int], str]:
        """By window and aggregate: the structure that computes it."""
        names = [catalogue_name(aggregate.lane.spec.structure) for aggregate in self.engine.state.aggregates]
        return {(w, p): name for w in range(len(self.resolved.spans)) for p, name in enumerate(names)}


def _write(pages: Pages, header: Header, engine: EagerEngine, mode: str) -> None:
    parts = []
    for batch in dump(engine):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        parts.append(memoryview(sink.getvalue()))
    pages.put(NAME, seal(NAME, pages.fingerprint, parts))
    none = [pa.RecordBatch.from_pylist([], schema=schema) for schema in directories(_number_type(engine))]
    write_header(pages, header, mode, none[0], none[1])
    pages.commit()


def _number_type(engine: EagerEngine) -> pa.DataType:
    return pa.int64() if engine.numbers.kind == "i" else pa.float64()
