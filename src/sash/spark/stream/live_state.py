"""LiveState: the state of a shard between micro-batches, in memory of this worker or in a file of the executor.

    token in Spark's state ──▶ the operator in this worker ──else──▶ pages of the file ──else──▶ pages of Spark's state

Spark creates a new processor for each micro-batch and gives a shard to any of its Python workers. The worker that has
had it last keeps the operator; the others find its pages in a file (`local_directory`), and insert the elements again.
Either is used only if it has the token of Spark's state, so it is a cache and never the truth. A task that fails leaves
neither.
"""

from __future__ import annotations

from sash.engine import Operator
from sash.spark.stream.local_directory import ClaimedFile, LocalDirectory
from sash.spark.stream.map_state_store import MapStateStore

ALIVE = 4
"""The greatest number of operators that a worker keeps between micro-batches."""

_alive: dict[str, Operator] = {}
"""Operators by the token of their state."""


class LiveState:
    """What there is of a shard's state besides Spark's. `limit`: the bytes of the files of an executor."""

    def __init__(self, limit: int, shard: int, store: MapStateStore) -> None:
        self.limit, self.shard, self.store = limit, shard, store
        self._directory: LocalDirectory | None = None
        self._file: ClaimedFile | None = None

    def take(self, token: str | None) -> Operator | None:
        """The operator whose state has this token, if this worker has it. Its store reads from the file from now on."""
        self._directory = LocalDirectory.of_worker(self.limit, self.shard)
        if self._directory is not None:
            self._file = self._directory.claim(token) if token else None
            self._file = self._file or self._directory.create()
            self.store.local = None if self._file is None else self._file.pages
        return _alive.pop(token, None) if token else None

    def keep(self, operator: Operator) -> None:
        """Keep the operator for the next micro-batch, and pass its pages on, which Spark's state has by now."""
        if operator.token:
            _alive[operator.token] = operator
            while len(_alive) > ALIVE:
                _alive.pop(next(iter(_alive)), None)
        if self._file is not None:
            self._file.publish(operator.committed_token)
        self.close()

    def close(self) -> None:
        """Delete the file unless it was passed on; a second call does nothing."""
        self.store.local = None
        if self._file is not None:
            self._file.discard()
        if self._directory is not None:
            self._directory.close()
