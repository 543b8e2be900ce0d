"""Refuse a checkpoint that has the state of another query, on the driver, before the stream starts.

    start() ──▶ the stream header of a shard in the checkpoint ──same query──▶ Spark starts the stream
                                    │
                                    └── another query ──▶ StateMismatch, with what has changed; nothing is written

Spark's data source `statestore` reads the last committed state, in a classic session and over Connect. If the header of
the first shard is of this query, no other is read. Shards check their headers again when they open their state: only
they notice an interrupted migration, and results that were transformed before they were written.

The engine is imported lazily: workers that only unpack results import this package, too.
"""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException

from sash.plan.query import Query
from sash.spark.stream.stream_spec import StreamSpec

CHECK = "spark.sash.checkpoint.check"
"""The setting of a session that switches the check off, with "false"."""


class StateMismatch(ValueError):
    """The checkpoint holds the state of another query, number of shards, or version."""


def check_checkpoint(query: Query, stream: Any, checkpoint: Any, from_query: Query | None = None) -> None:
    """Raise StateMismatch if a checkpoint has the state of another query, with what has changed.

    The query of a stream is checked when the stream starts. Call this before, for example in a test of a deployment, or
    if the results are transformed before they are written. `from_query` is that of `Query.migrate`.

    A checkpoint that does not exist, or has no state yet, fits any query.
    """
    from sash.spark.stream.plan_stream import stream_spec

    if not getattr(stream, "isStreaming", False):
        raise TypeError("check_checkpoint() takes the stream of the query: a streaming DataFrame")
    _, spec = stream_spec(query, stream, False, from_query)
    require_state_of(spec, stream.sparkSession, str(checkpoint))


def require_state_of(spec: StreamSpec, session: Any, checkpoint: str) -> None:
    """Raises StateMismatch if the state in a checkpoint is neither of this query nor of the one before it."""
    from sash.engine.root_page import ROOT
    from sash.spark.stream.stream_header import NAME, StreamHeader
    from sash.stores import MemoryStore

    if session.conf.get(CHECK, "true").lower() == "false":
        return
    for pages in _stored(session, checkpoint, [NAME]):
        try:
            StreamHeader(spec, MemoryStore(pages))
        except ValueError:
            # the root page describes the stored query; the first shard may not have one
            for found in _stored(session, checkpoint, [NAME, ROOT]):
                StreamHeader(spec, MemoryStore(found))
            raise


def _stored(session: Any, checkpoint: str, names: list[str]) -> list[dict[str, bytes]]:
    """Pages in the last committed state of a checkpoint, by shard, those with more of them first.

    Empty if there is no state, and if Spark cannot read it: then starting the stream raises Spark's own error.
    """
    from sash.spark.stream.checkpoint_pages import stored_pages

    try:
        shards = stored_pages(session, checkpoint, names)
    except PySparkException:
        return []
    return sorted(shards.values(), key=len, reverse=True)
