"""A shard in one micro-batch: its operator takes rows, its results leave, its timer is set.

    pages ──▶ operator ──▶ advance(watermark) ──▶ process(rows) ──▶ results, rows put aside, counts
      ▲                                                                │
      └──────────────────── flush ◀── host page: timer ◀── due? ◀──────┘

Spark makes a new processor for each micro-batch. Python workers are used again, so an operator is left alive for the
next one, under the token of its state; a worker that does not have it reads the pages. Beside the operator's pages
there is one of the host's own, which says of which query and how many shards the state is, and which timer is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sash.engine import Operator
from sash.spark.blobs import batches_of, blob_of, cut
from sash.spark.stream.counts import Counts
from sash.spark.stream.host_page import HostPage
from sash.spark.stream.pages import StatePages
from sash.spark.stream.shards import labels
from sash.spark.stream.spec import Spec
from sash.spark.types import casts

ALIVE = 4
"""Operators that a worker keeps alive between micro-batches, at most."""

_alive: dict[str, Operator] = {}
"""By the token of their state: one is used only where Spark's state has the same. A cache, never the truth."""


@dataclass(frozen=True)
class Packed:
    """Rows of one partition of the input, as blobs, and when they were packed."""

    rows: bytes | None
    now: float | None
    aside: bytes | None
    malformed: int
    greatest: float | None


class Shard:
    """One shard: `label` is Spark's key of it, `timers` registers and deletes timers."""

    def __init__(self, spec: Spec, label: int, state: Any, timers: Any) -> None:
        self.spec, self.label, self.timers = spec, label, timers
        self.store = StatePages(state)
        self.host = HostPage(spec, self.store)
        self.now = 0.0

    def _open(self) -> None:
        query, schema = self.spec.resolved.query, self.spec.resolved.schema
        token = Operator.stored_token(query, schema, self.store)
        alive = _alive.pop(token, None) if token else None
        if alive is not None:  # this process had the shard before, and its state is the one that Spark has
            alive.reopen(self.store, lambda: self.now)
            self.operator = alive
        else:
            self.operator = Operator(query, schema, mode="given", store=self.store, clock=lambda: self.now)
        self.before = self.operator.metrics

    def run(self, packed: Sequence[Packed], milliseconds: int, fired: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Rows of Spark's for one micro-batch: blobs of results, blobs of rows put aside, and the counts.

        `milliseconds` is Spark's watermark, `fired` the timer that this call is for, if it is not for rows.
        """
        watermark = self.spec.clock.watermark(milliseconds)
        batches = list(self._batches(packed))
        counts = Counts()
        if batches or fired is not None or (self.host.timer is not None and self.host.timer <= milliseconds):
            self._open()
            yield from self._work(batches, watermark)
            self._set_timer(milliseconds, fired)
            counts = Counts.of(self.before, self.operator.metrics)
            self._keep_alive()
        yield from self._malformed(packed)
        self.host.keep(self.host.timer)
        self.store.flush()
        malformed = sum(one.malformed for one in packed)
        greatest = max((one.greatest for one in packed if one.greatest is not None), default=None)
        reached = None if watermark is None else float(watermark)
        counts = replace(counts.stored(self.store), malformed=malformed, greatest=greatest, watermark=reached)
        yield (self.label, None, None, *counts.values())

    def _keep_alive(self) -> None:
        """Leave the operator for the next micro-batch of this shard, should this process get it again."""
        if self.operator.token:
            _alive[self.operator.token] = self.operator
            while len(_alive) > ALIVE:
                _alive.pop(next(iter(_alive)), None)

    def _work(self, batches: list[tuple[float, pa.RecordBatch]], watermark: Any) -> Iterator[tuple[Any, ...]]:
        if watermark is not None:
            yield from self._results(self.operator.advance(watermark))
        for self.now, batch in batches:
            if self.spec.aside:
                yield from self._put_aside(batch)
            yield from self._results(self.operator.process(batch.select(self.spec.resolved.schema.names)))

    def _batches(self, packed: Sequence[Packed]) -> Iterator[tuple[float, pa.RecordBatch]]:
        """The rows as one batch; where the clock matters, a batch for each time they were packed at."""
        found = [(one.now, batch) for one in packed if one.rows is not None for batch in batches_of(one.rows)]
        if not found:
            return
        if self.spec.resolved.ahead is not None:
            yield from ((now or 0.0, batch) for now, batch in found)
        else:
            yield 0.0, pa.concat_batches([batch for _, batch in found])

    def _results(self, batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
        if not batch.num_rows:
            return
        batch = casts(self._numbered(batch), self.spec.results)
        for part in cut(batch):
            yield self.label, blob_of(part), None, *Counts.NONE

    def _numbered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Ids of rows count from 0 in each shard: made different, for the stream has them side by side."""
        if self.spec.shards == 1 or not self.spec.resolved.per_row or "_row" not in self.operator.output.schema.names:
            return batch
        place = batch.schema.names.index("_row")
        ids = batch.column(place).to_numpy() * self.spec.shards + labels(self.spec.shards).index(self.label)
        return batch.set_column(place, batch.schema.field(place), pa.array(ids))

    def _put_aside(self, batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
        """Rows that are late or untimed, with the reason."""
        known = batch.select(self.spec.resolved.schema.names)
        arrived = self.operator.arrivals.judge(known, self.operator.watermark, 0)
        chosen = np.flatnonzero(arrived.late | arrived.untimed)
        if len(chosen):
            reason = pa.array(np.where(arrived.late[chosen], "late", "untimed"))
            yield from self._aside(batch.take(pa.array(chosen)), reason)

    def _malformed(self, packed: Sequence[Packed]) -> Iterator[tuple[Any, ...]]:
        for one in packed:
            for batch in batches_of(one.aside) if one.aside is not None else ():
                yield from self._aside(batch, pa.array(["malformed"] * batch.num_rows))

    def _aside(self, batch: pa.RecordBatch, reason: pa.Array) -> Iterator[tuple[Any, ...]]:
        columns = [*batch.columns, reason]
        named = pa.RecordBatch.from_arrays(columns, names=self.spec.put_aside.names)
        for part in cut(casts(named, self.spec.put_aside)):
            yield self.label, None, blob_of(part), *Counts.NONE

    def _set_timer(self, milliseconds: int, fired: int | None) -> None:
        """Be called when the watermark has come to what is due next, whether rows come or not."""
        due = self.operator.due
        # one at the watermark would be lost: Spark forgets it together with the one that fires now
        wanted = None if due is None else max(self.spec.clock.timer(due), milliseconds + 1)
        if self.host.timer != wanted:
            # what has fired is gone already; any other would call the shard once more
            if self.host.timer is not None and self.host.timer != fired:
                self.timers.deleteTimer(self.host.timer)
            if wanted is not None:
                self.timers.registerTimer(wanted)
        self.host.keep(wanted)
