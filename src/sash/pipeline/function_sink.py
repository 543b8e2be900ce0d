"""Sinks that cannot hold pending results: they are in an outbox until they are sent. The first is a function.

The outbox has the pending results of a step, as a page of the store. Each step overwrites it. It has the epoch of its
step, and is pending only if that is the epoch of the state.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from sash.pipeline.sink import SinkTask
from sash.stores.envelope import decoding, unwrap, wrap

# --- Outbox ---

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


class OutboxSink:
    """The base of sinks whose results are in an outbox until they are sent."""

    def __init__(self) -> None:
        self._outbox: Outbox | None = None
        self._waiting: tuple[int, pa.RecordBatch] | None = None
        """The step that was prepared and not published yet, and its results."""

    def prepare(self, epoch: int, batch: pa.RecordBatch) -> None:
        """Save the results in the store."""
        assert self._outbox is not None
        self._outbox.put(epoch, batch, self._notes())
        self._waiting = epoch, batch

    def _notes(self) -> Any:
        """A JSON value that is saved with the results."""

    def publish(self, epoch: int) -> None:
        """Send the results."""
        if self._outbox is not None and self._waiting is not None and self._waiting[0] == epoch:
            self._deliver(epoch, self._waiting[1])
            self._waiting = None

    def _deliver(self, epoch: int, batch: pa.RecordBatch) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Clear the outbox if everything was sent."""
        if self._outbox is not None and self._waiting is None:
            self._outbox.delete()
        self._outbox = self._waiting = None


# --- Function sink ---


class FunctionSink(OutboxSink):
    """Calls a function with results: at least once, with an id by which the receiver can detect repeated calls.

    function: called as `function(batch, id)`, with a RecordBatch and a string. After a crash it may be called again
        with the last id; the batch is then the same, row by row. No call is left out, and ids ascend lexicographically.

    To process each result exactly once, save the id together with the rows, and ignore calls with an id already saved.
    """

    def __init__(self, function: Callable[[pa.RecordBatch, str], object]) -> None:
        if not callable(function):
            raise TypeError(f"a sink is called as sink(batch, id); got a {type(function).__name__}")
        super().__init__()
        self.function = function

    def open(self, task: SinkTask) -> None:
        """Call the function again with pending results."""
        outbox = Outbox(task)
        pending = outbox.pending()
        self._outbox = outbox
        if pending is not None:
            self._waiting = task.epoch, pending.batch
            self.publish(task.epoch)

    def _deliver(self, epoch: int, batch: pa.RecordBatch) -> None:
        assert self._outbox is not None
        self.function(batch, f"{self._outbox.task.run}-{epoch:012d}")

    def __repr__(self) -> str:
        return f"FunctionSink({self.function!r})"
