"""LiveState: caches a shard's state between micro-batches, in memory of the worker or in a file of the executor.

    token in Spark's state ──▶ the operator in this worker ──else──▶ pages of the file ──else──▶ pages of Spark's state

Spark creates a new processor for each micro-batch and gives a shard to any of its Python workers. The worker that had
the shard last keeps the operator; the others find its pages in a file (`local_pages`), and load them. Either is
used only if it has the token of Spark's state, which stays the source of truth. A task that fails leaves neither.
"""

from __future__ import annotations

from sash.engine import Operator
from sash.spark.stream.local_pages import ClaimedFile, LocalDirectory
from sash.spark.stream.map_state_store import MapStateStore

ALIVE = 4
"""The maximum number of operators that a worker keeps between micro-batches."""

_alive: dict[str, Operator] = {}
"""Operators by the token of their state."""


class LiveState:
    """The cached state of a shard. `limit`: the maximum bytes of the files of an executor."""

    def __init__(self, limit: int, shard: int, store: MapStateStore) -> None:
        self.limit, self.shard, self.store = limit, shard, store
        self._directory: LocalDirectory | None = None
        self._file: ClaimedFile | None = None

    def take(self, token: str | None) -> Operator | None:
        """The operator whose state has this token, if this worker has it. The store reads from the file from now on."""
        self._directory = LocalDirectory.of_worker(self.limit, self.shard)
        if self._directory is not None:
            self._file = self._directory.claim(token) if token else None
            self._file = self._file or self._directory.create()
            self.store.use_local(None if self._file is None else self._file.pages)
        return _alive.pop(token, None) if token else None

    def keep(self, operator: Operator) -> None:
        """Keep the operator for the next micro-batch, and publish its pages, which are in Spark's state by now."""
        if operator.state.token:
            _alive[operator.state.token] = operator
            while len(_alive) > ALIVE:
                _alive.pop(next(iter(_alive)), None)
        if self._file is not None:
            self._file.publish(operator.state.committed_token)
        self.close()

    def close(self) -> None:
        """Delete the file unless it was published; a second call does nothing."""
        self.store.use_local(None)
        if self._file is not None:
            self._file.discard()
        if self._directory is not None:
            self._directory.close()
