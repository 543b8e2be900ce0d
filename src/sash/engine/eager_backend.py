"""The state backend of operators with emit="eager": trees of rows in memory, and pages of a store."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.aggregators.catalogue import catalogue_name
from sash.columns.failed_rows import FailedResults
from sash.columns.time_numbers import Watermark, finite
from sash.engine.atomic import all_at_once, attributes
from sash.engine.backend import Backend
from sash.engine.emit.output import Output
from sash.engine.intake.progress import Progress
from sash.engine.intake.reorder_buffer import TimedRows
from sash.engine.keyed.lookup import Pairs
from sash.engine.revise.eager_engine import EagerEngine
from sash.engine.revise.eager_lookup import EagerLookup
from sash.plan.planner import Plan
from sash.state.eager_codec import EagerCodec
from sash.state.eager_pages import EagerPages
from sash.state.header_page import Header
from sash.stores import MemoryStore, Store
from sash.windows.arguments import Length
from sash.windows.specs import Closed


def _failures(engine: EagerEngine) -> list[FailedResults]:
    return [engine.state.failures, engine.results.projector.failures]


class EagerBackend(Backend):
    """Live state of one eager operator."""

    def __init__(self, plan: Plan, mode: str, output: Output, store: Store | None) -> None:
        super().__init__(plan, mode, output)
        self.engine = EagerEngine(plan, mode, plan.bound_query.query.retract)
        self.failures = _failures(self.engine)
        self.durable: EagerPages | None = None if store is None else EagerPages(self.engine, store, mode)

    # ---- a call ----

    def is_compiled(self, number: int) -> bool:
        return self.engine.state.aggregates[number].kernel.compiled

    def begin(self) -> None:
        """Begin a call. The engine has a journal of its own."""
        for one in self.failures:
            if one.count:
                one.clear()
        if self.durable is not None:
            self.durable.transaction.begin()

    def recover(self) -> None:
        """Undo a call that failed; does nothing if none has."""
        if self.durable is not None:
            self.durable.rollback()
        self.engine.rollback()

    def write(self, header: Header) -> None:
        """Write what the call has changed to the store."""
        if self.durable is not None:
            self.durable.write(header)

    def committed(self) -> None:
        """The call has succeeded."""
        if self.durable is not None:
            self.durable.committed()
        self.engine.commit()
        if self.durable is not None:
            self.durable.transaction.delete_garbage()
        try:
            self.engine.compact()
            if self.engine.is_sparse:
                self._rebuild()
        except MemoryError:  # a later call does it: this one must not fail any more
            pass

    def _rebuild(self) -> None:
        """Move the state into a new engine with smaller arrays: after a burst most of the old ones are unused.

        With a store the state is read from there. The call has succeeded already: if reading fails, the engine stays as
        it is.
        """
        engine = EagerEngine(self.plan, self.mode, self.bound_query.query.retract)
        engine.continue_from(self.engine.arrived)
        old, pages = self.durable, None
        if old is None:
            codec = EagerCodec(self.engine)
            EagerCodec(engine).load({"memory": codec.encode(codec.everything())}, None)
        else:
            pages = EagerPages(engine, old.transaction.store, self.mode)
            try:
                pages.open()
            except Exception:  # the call has succeeded, and the state in memory is correct: a later call tries again
                return
            pages.transaction.take_over(old.transaction)
            pages.transaction.claim()
        all_at_once(attributes(self, engine=engine, failures=_failures(engine), durable=pages))

    def step(self, given: TimedRows, now: Watermark) -> pa.RecordBatch:
        """Process rows, and return the results that are new or have changed."""
        return self.engine.process(given, now)

    def advance(self, now: Watermark, closing: bool) -> pa.RecordBatch:
        """Raise the watermark: results below it are final."""
        self.engine.settle(now, closing)
        return self.output.empty()

    # ---- state at rest ----

    def open(self) -> Header | None:
        """Load the state from the store; None if it is empty. Raises PageError."""
        assert self.durable is not None
        return self.durable.open()

    def held(self) -> TimedRows | None:
        """No rows wait: they are inserted into their trees at once."""
        return None

    def save(self, header: Header) -> MemoryStore:
        """Write all state to pages in memory."""
        store = MemoryStore()
        pages = EagerPages(self.engine, store, self.mode)
        pages.write_all(header)
        pages.detach()
        return store

    def into_memory(self) -> None:
        """Detach the state from its store."""
        if self.durable is not None:
            self.durable.detach()
        self.durable = None

    # ---- lookups ----

    def lookup(
        self,
        columns: list[pa.Array],
        at: Watermark,
        last: Length | None,
        now: Progress,
        closed: Closed | None,
    ) -> Pairs:
        """A column for each pair of window and aggregate, in the order of these keys; `at`: None without `on`."""
        return EagerLookup(self.engine, columns, finite(now.watermark), closed).results(at, last)

    def newest_waiting(self) -> Watermark:
        """The greatest time of a row of the keys that have not expired; None if there are none."""
        state = self.engine.state
        alive = np.flatnonzero(state.alive)
        return state.last[alive].max().item() if len(alive) and self.bound_query.time is not None else None

    @property
    def due(self) -> Watermark:
        """The least watermark at which a timer is due; None if none is."""
        return self.engine.due

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Keys, elements and bytes of the state."""
        nbytes = self.engine.nbytes if self.stored_bytes is None else self.stored_bytes
        return self.engine.keys, self.engine.elements, nbytes

    def executed(self) -> dict[tuple[int, int], str]:
        """By window and aggregate: the structure that computes it."""
        names = [catalogue_name(aggregate.trees.spec.structure) for aggregate in self.engine.state.aggregates]
        return {(w, p): names[p] for w, p in self.bound_query.projection.asked}
