"""A shard in one micro-batch: its operator takes rows, its results leave, its timer is set.

    pages ──▶ operator ──▶ advance(watermark) ──▶ process(rows) ──▶ results, rows put aside, counts
      ▲                                                                │
      └──────────────────── flush ◀── host page: timer ◀── due? ◀──────┘

Nothing is kept in memory between micro-batches: Spark makes a new processor for each. Beside the operator's pages there
is one of the host's own, which says of which query and how many shards the state is, and which timer is set.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sash.operator import Operator
from sash.operator.keys import HASH_VERSION
from sash.spark.stream.blobs import batches_of, blob_of
from sash.spark.stream.counts import Counts
from sash.spark.stream.pages import StatePages
from sash.spark.stream.shards import labels
from sash.spark.stream.spec import Spec
from sash.spark.types import casts

PAGE = "host"
FORMAT = 1
ROWS = 1 << 16
"""Rows of a blob of results."""


class StateMismatch(ValueError):
    """The checkpoint holds the state of something else."""


@dataclass(frozen=True)
class Packed:
    """Rows of one partition of the input, as blobs, and when they were packed."""

    rows: bytes | None
    now: float | None
    aside: bytes | None
    malformed: int


class Shard:
    """One shard: `label` is Spark's key of it, `timers` registers and deletes timers."""

    def __init__(self, spec: Spec, label: int, state: Any, timers: Any) -> None:
        self.spec, self.label, self.timers = spec, label, timers
        self.store = StatePages(state)
        self.timer = self._host()
        self.now = 0.0
        query, schema = spec.resolved.query, spec.resolved.schema
        self.operator = Operator(query, schema, mode="given", store=self.store, clock=lambda: self.now)
        self.before = self.operator.metrics

    def _host(self) -> int | None:
        """The timer that is set. Raises StateMismatch if the state is not of this query and number of shards."""
        (data,) = self.store.get_many([PAGE])
        if data is None:
            return None
        host = json.loads(data)
        wanted = self._identity()
        if host["fingerprint"] != wanted["fingerprint"]:
            raise StateMismatch(
                f"the checkpoint holds the state of another query: its fingerprint is {host['fingerprint']}, and this "
                f"query's is {wanted['fingerprint']}. Windows, aggregates, keys, order, lateness or columns have "
                "changed: start with a new checkpointLocation, or go back to that query"
            )
        if host["shards"] != wanted["shards"]:
            raise StateMismatch(
                f"the checkpoint holds the state of {host['shards']} shards, and the query now has "
                f"{wanted['shards']}: keys would be looked for in the wrong place. Set "
                f"options=sash.Options(shards={host['shards']}), or start with a new checkpointLocation"
            )
        if (host["format"], host["hash"]) != (wanted["format"], wanted["hash"]):
            raise StateMismatch(
                f"the checkpoint was written by another version of sash: format {host['format']}, hash {host['hash']}; "
                f"this is {wanted['format']}, {wanted['hash']}: start with a new checkpointLocation"
            )
        timer: int | None = host["timer"]
        return timer

    def _identity(self) -> dict[str, Any]:
        fingerprint = self.spec.resolved.fingerprint
        return {"format": FORMAT, "hash": HASH_VERSION, "fingerprint": fingerprint, "shards": self.spec.shards}

    def run(self, packed: Sequence[Packed], milliseconds: int, fired: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Rows of Spark's for one micro-batch: blobs of results, blobs of rows put aside, and the counts.

        `milliseconds` is Spark's watermark, `fired` the timer that this call is for, if it is not for rows.
        """
        watermark = self.spec.clock.watermark(milliseconds)
        batches = list(self._batches(packed))
        if watermark is not None:
            yield from self._results(self.operator.advance(watermark))
        for self.now, batch in batches:
            if self.spec.aside:
                yield from self._put_aside(batch)
            yield from self._results(self.operator.process(batch.select(self.spec.resolved.schema.names)))
        yield from self._malformed(packed)
        self._set_timer(milliseconds, fired)
        self.store.flush()
        counts = Counts.of(self.before, self.operator.metrics, self.store, sum(one.malformed for one in packed))
        yield (self.label, None, None, *counts.values())

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
        for start in range(0, batch.num_rows, ROWS):
            yield self.label, blob_of(batch.slice(start, ROWS)), None, *Counts.NONE

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
            yield self._aside(batch.take(pa.array(chosen)), reason)

    def _malformed(self, packed: Sequence[Packed]) -> Iterator[tuple[Any, ...]]:
        for one in packed:
            for batch in batches_of(one.aside) if one.aside is not None else ():
                yield self._aside(batch, pa.array(["malformed"] * batch.num_rows))

    def _aside(self, batch: pa.RecordBatch, reason: pa.Array) -> tuple[Any, ...]:
        columns = [*batch.columns, reason]
        named = pa.RecordBatch.from_arrays(columns, names=self.spec.put_aside.names)
        return self.label, None, blob_of(casts(named, self.spec.put_aside)), *Counts.NONE

    def _set_timer(self, milliseconds: int, fired: int | None) -> None:
        """Be called when the watermark has come to what is due next, whether rows come or not."""
        due = self.operator.due
        # one at the watermark would be lost: Spark forgets it together with the one that fires now
        wanted = None if due is None else max(self.spec.clock.timer(due), milliseconds + 1)
        if self.timer == wanted and self.store.known.get(PAGE) is not None:
            return
        if self.timer != wanted:
            # what has fired is gone already; any other would call the shard once more
            if self.timer is not None and self.timer != fired:
                self.timers.deleteTimer(self.timer)
            if wanted is not None:
                self.timers.registerTimer(wanted)
            self.timer = wanted
        host = self._identity() | {"timer": self.timer}
        self.store.put_many({PAGE: json.dumps(host).encode()})
