"""The state behind an operator with emit="eager": trees of rows, whose results leave at once, and pages of a store."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sash.aggregators.by_position import catalogue_name
from sash.engine.atomic import all_at_once, attributes
from sash.engine.backend import Backend
from sash.engine.eager_codec import EagerCodec
from sash.engine.eager_engine import EagerEngine
from sash.engine.eager_lookup import EagerLookup
from sash.engine.eager_pages import EagerPages
from sash.engine.output import Output
from sash.engine.reorder_buffer import TimedRows
from sash.engine.state_header import Header
from sash.plan.planner import Plan
from sash.stores import MemoryStore, Store


class EagerBackend(Backend):
    """Live state of one eager operator."""

    def __init__(self, plan: Plan, mode: str, output: Output, store: Store | None) -> None:
        super().__init__(plan, mode, output)
        self.engine = EagerEngine(plan, mode, plan.bound_query.query.retract)
        self.durable: EagerPages | None = None if store is None else EagerPages(self.engine, store, mode)

    # ---- a call ----

    def begin(self) -> None:
        """The engine keeps its own journal."""
        if self.durable is not None:
            self.durable.transaction.begin()

    def recover(self) -> None:
        """Undo a call that failed; does nothing if none has."""
        if self.durable is not None:
            self.durable.rollback()
        self.engine.rollback()

    def write(self, header: Header) -> None:
        """Hand what the call has changed to the store."""
        if self.durable is not None:
            self.durable.write(header)

    def committed(self) -> None:
        """The call has succeeded."""
        if self.durable is not None:
            self.durable.committed()
        self.engine.commit()
        if self.durable is not None:
            self.durable.transaction.delete_garbage()
        self.engine.compact()
        if self.engine.is_sparse:
            self._rebuild()

    def _rebuild(self) -> None:
        """Move the state into an engine of its own size: after a burst most of the arrays are unused.

        With a store it is read from there. The call has succeeded already: a store that does not give back what it was
        given leaves the engine as it is.
        """
        engine = EagerEngine(self.plan, self.mode, self.bound_query.query.retract)
        engine.arrived = self.engine.arrived
        old, pages = self.durable, None
        if old is None:
            codec = EagerCodec(self.engine)
            EagerCodec(engine).load({"memory": codec.encode(codec.everything())}, None)
        else:
            pages = EagerPages(engine, old.transaction.store, self.mode)
            try:
                pages.open()
            except Exception:  # the call has succeeded, and what is in memory is right: a later call tries again
                return
            pages.transaction.take_over(old.transaction)
            pages.transaction.claim()
        all_at_once(attributes(self, engine=engine, durable=pages))

    def step(self, given: TimedRows, now: Any) -> pa.RecordBatch:
        """Take rows, and give the results that are new or have changed."""
        return self.engine.process(given, now)

    def advance(self, now: Any, closing: bool) -> pa.RecordBatch:
        """Raise the watermark: results below it are final."""
        self.engine.settle(now, closing)
        return self.output.empty()

    # ---- state at rest ----

    def open(self) -> Header | None:
        """Take up the state that the store has; None if it is empty. Raises PageError."""
        assert self.durable is not None
        return self.durable.open()

    def held(self) -> TimedRows | None:
        """Rows are in their trees at once."""
        return None

    def save(self, header: Header) -> MemoryStore:
        """All state in pages of their own."""
        store = MemoryStore()
        pages = EagerPages(self.engine, store, self.mode)
        pages.write_all(header)
        pages.detach()
        return store

    def into_memory(self) -> None:
        """Keep the state in memory from now on."""
        if self.durable is not None:
            self.durable.detach()
        self.durable = None

    # ---- looks ----

    def lookup(self, columns: list[pa.Array], at: Any, last: Any, watermark: Any) -> list[pa.Array]:
        """For each window and aggregate a column, in the order of these keys."""
        return self.look(EagerLookup(self.engine, columns, watermark), at, last, watermark)

    @property
    def due(self) -> Any:
        """The least watermark at which there is something to do; None if nothing waits."""
        return self.engine.due

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Keys, elements and bytes of the state."""
        nbytes = self.engine.nbytes if self.stored_bytes is None else self.stored_bytes
        return self.engine.keys, self.engine.elements, nbytes

    def executed(self) -> dict[tuple[int, int], str]:
        """By window and aggregate: the structure that computes it."""
        names = [catalogue_name(aggregate.kernel.spec.structure) for aggregate in self.engine.state.aggregates]
        return {(w, p): name for w in range(len(self.bound_query.windows)) for p, name in enumerate(names)}
