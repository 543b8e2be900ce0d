"""ProgressFeed: passes on the progress of a streaming query, from a listener or by polling.

A classic session calls a listener for each micro-batch. Over Connect the progress is polled, because removing a
listener can deadlock in Spark 4.3: the client waits for its thread while it holds a lock that this thread needs for the
remaining events.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

from sash.spark.session import is_connect


class ProgressListener(StreamingQueryListener):  # type: ignore[misc]
    """Passes on the progress of one query."""

    def __init__(self, query: Any, take: Callable[[Any], None]) -> None:
        self.run, self.take = str(query.runId), take

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Does nothing: the query has started already."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        if str(event.progress.runId) == self.run:
            self.take(event.progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Does nothing: a monitor has its own clock."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Does nothing: the monitor is closed by its user."""


class ProgressFeed:
    """Calls `take` with each progress of a query, from a thread, until it is closed."""

    SECONDS = 0.5
    """Seconds between two reads of the progress, where it is polled."""

    def __init__(self, query: Any, take: Callable[[Any], None]) -> None:
        self.query, self.take = query, take
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._listener: ProgressListener | None = None
        self._streams = _classic_streams()
        if self._streams is not None:
            self._listener = ProgressListener(query, take)
            self._streams.addListener(self._listener)
        else:
            self._thread = threading.Thread(target=self._poll, name="sash monitor", daemon=True)
            self._thread.start()

    def _poll(self) -> None:
        last = None
        while not self._closed.wait(self.SECONDS):
            try:
                progress = self.query.lastProgress
                if progress is not None and progress["batchId"] != last:
                    for one in self.query.recentProgress:
                        self.take(one)
                    last = progress["batchId"]
            except Exception:  # the session has ended, and `close` of the monitor reports it
                return

    def close(self) -> None:
        """Stop: a listener is removed, a thread ends."""
        self._closed.set()
        if self._listener is not None:
            self._streams.removeListener(self._listener)
            self._listener = None
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def _classic_streams() -> Any:
    """The streams of the active classic session; None if there is none, or it is one of Connect."""
    session = SparkSession.getActiveSession()
    return None if session is None or is_connect(session) else session.streams
