"""A function as a sink: it is called with the results of each step and an id."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from sash.pipeline.outbox import Outbox
from sash.pipeline.sink import SinkTask


class FunctionSink:
    """Calls a function with results: at least once, with an id by which the receiver can detect repeated calls.

    function: called as `function(batch, id)`, with a RecordBatch and a string. After a crash it may be called again
        with the last id; the batch is then the same, row by row. No call is left out, and ids ascend lexicographically.

    To process each result exactly once, save the id together with the rows, and ignore calls with an id already saved.
    """

    def __init__(self, function: Callable[[pa.RecordBatch, str], object]) -> None:
        if not callable(function):
            raise TypeError(f"a sink is called as sink(batch, id); got a {type(function).__name__}")
        self.function = function
        self._outbox: Outbox | None = None
        self._waiting: tuple[int, pa.RecordBatch] | None = None

    def open(self, task: SinkTask) -> None:
        """Call the function again with pending results."""
        outbox = Outbox(task)
        pending = outbox.pending()
        self._outbox = outbox
        if pending is not None:
            self._waiting = task.epoch, pending.batch
            self.publish(task.epoch)

    def prepare(self, epoch: int, batch: pa.RecordBatch) -> None:
        """Save the results in the store."""
        assert self._outbox is not None
        self._outbox.put(epoch, batch)
        self._waiting = epoch, batch

    def publish(self, epoch: int) -> None:
        """Call the function."""
        assert self._outbox is not None
        if self._waiting is not None and self._waiting[0] == epoch:
            self.function(self._waiting[1], f"{self._outbox.task.run}-{epoch:012d}")
            self._waiting = None

    def close(self) -> None:
        """Clear the outbox if every call has returned."""
        if self._outbox is not None and self._waiting is None:
            self._outbox.delete()
        self._outbox = self._waiting = None

    def __repr__(self) -> str:
        return f"FunctionSink({self.function!r})"
