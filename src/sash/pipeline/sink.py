"""The protocol of a sink, which writes each result exactly once, by two-phase commit.

A step of a pipeline has a number, its epoch. Its results are written in two phases around the commit of the state:

    prepare(epoch, results) ──▶ the state is saved, with the epoch ──▶ publish(epoch)
    durable, but not visible                                           visible

After a crash the epoch in the state decides: `open` publishes pending results of that epoch, and discards those of a
later one, whose step will run again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from sash.stores import Store


@dataclass(frozen=True)
class SinkTask:
    """The task that a sink is opened for.

    run: the identity of the pipeline: random, and saved with its state.
    epoch: the last step whose state is saved; 0 before the first.
    name: "results", or "side" for rows that enter no window.
    schema: the columns of the batches that the sink gets.
    fingerprint, query: the identity of the query, and its text.
    store: the store of the state, for sinks that cannot hold pending results themselves.
    has_begun: has the pipeline begun a step since? Else its sinks leave nothing behind when they are closed.
    """

    run: str
    epoch: int
    name: str
    schema: pa.Schema
    fingerprint: str
    query: str
    store: Store
    has_begun: Callable[[], bool] = lambda: True


@runtime_checkable
class Sink(Protocol):
    """Writes the results of a pipeline. Batches without rows are not written."""

    def open(self, task: SinkTask) -> None:
        """Publish pending results of the task's epoch, and discard those of later epochs."""

    def prepare(self, epoch: int, batch: pa.RecordBatch) -> None:
        """Make a step's results durable, but not visible. The state is not saved yet."""

    def publish(self, epoch: int) -> None:
        """Make a step's results visible: its state is saved. Does nothing for a step without results."""

    def close(self) -> None:
        """Close files and connections. Pending results stay."""


class SinkError(ValueError):
    """A sink that has the output of another pipeline, or does not agree with the state."""
