"""The outbox: the pending results of a step as a page of the store, for sinks that cannot hold pending results.

Each step overwrites it. It has the epoch of its step, and is pending only if that is the epoch of the state.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pyarrow as pa

from sash.pipeline.sink import SinkTask
from sash.stores.envelope import decoding, unwrap, wrap

KIND = "outbox"


class PendingResults(NamedTuple):
    """The results of a step that may not have been delivered, and the notes that the sink saved with them."""

    batch: pa.RecordBatch
    notes: Any


class Outbox:
    """The pending results of one sink, as a page of the store."""

    def __init__(self, task: SinkTask) -> None:
        self.task = task
        self.page = f"outbox-{task.name}"

    def put(self, epoch: int, batch: pa.RecordBatch, notes: Any = None) -> None:
        """Save results as pending. `notes` is a JSON value that the sink gets back."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        meta = {"run": self.task.run, "epoch": epoch, "notes": notes}
        items: list[Any] = [json.dumps(meta).encode(), memoryview(sink.getvalue())]
        self.task.store.put_many({self.page: wrap(KIND, self.task.fingerprint, items)})

    def pending(self) -> PendingResults | None:
        """The results of the state's epoch with their notes, which may not have been delivered yet; None: nothing
        pending.

        Results of any other epoch are discarded: that step runs again, perhaps with other rows. Raises PageError.
        """
        (data,) = self.task.store.get_many([self.page])
        if data is None:
            return None
        name = f"page {self.page!r}"
        items = unwrap(data, KIND, self.task.fingerprint, name)
        with decoding(name):
            meta = json.loads(bytes(items[0]))
            is_pending = (meta["run"], meta["epoch"]) == (self.task.run, self.task.epoch)
            with pa.ipc.open_stream(items[1]) as reader:
                batch = reader.read_next_batch()
            batch.validate(full=True)
        if not is_pending:
            self.delete()
            return None
        return PendingResults(batch, meta["notes"])

    def delete(self) -> None:
        """Delete the page: all that was pending has been delivered."""
        self.task.store.delete_many([self.page])
