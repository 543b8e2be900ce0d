"""Checkpoints of streams: the header of a shard, the pages, and the check on the driver before a stream starts.

    start() ──▶ the stream header of a shard in the checkpoint ──same query──▶ Spark starts the stream
                                    │
                                    └── another query ──▶ StateMismatch, with what has changed; nothing is written

Spark's data source `statestore` reads the last committed state, in a classic session and over Connect, while the stream
runs or afterwards. If the header of the first shard is of this query, no other is read. Shards check their headers
again when they open their state: only they notice an interrupted migration, and results that were transformed before
they were written.

The engine is imported lazily: workers that only unpack results import this package, too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from sash.columns.keys import HASH_VERSION
from sash.plan.fingerprint import described_state, difference
from sash.plan.query import Query
from sash.spark.stream.map_state_store import unpacked
from sash.spark.stream.stream_spec import StreamSpec
from sash.state.root_page import ROOT, stored_description
from sash.stores.envelope import COUNTER, check_meta, decoding, integer, optional, read_json, text

if TYPE_CHECKING:
    from sash.spark.stream.map_state_store import MapStateStore
    from sash.stores import MemoryStore


# --- Checkpoint check ---

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

    try:
        shards = stored_pages(session, checkpoint, names)
    except PySparkException:
        return []
    return sorted(shards.values(), key=len, reverse=True)


# --- Checkpoint pages ---


class Checkpoint(NamedTuple):
    """The content of a checkpoint: the last micro-batch, Spark's watermark in milliseconds, and pages by shard."""

    batch: int
    watermark_ms: int | None
    shards: dict[int, dict[str, bytes]]


def read_checkpoint(session: SparkSession, path: Path) -> Checkpoint:
    """The pages of the last committed micro-batch.

    Raises ValueError if there is none, or if the state was not written by sash.
    """
    batches = [int(entry.name) for entry in (path / "commits").iterdir() if entry.name.isdigit()]
    if not batches:
        raise ValueError(f"the checkpoint {str(path)!r} has no micro-batch that was committed")
    try:
        shards = stored_pages(session, str(path.absolute()), batch=max(batches))
    except PySparkException as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"the checkpoint {str(path)!r} has no state of sash: {reason}") from None
    return Checkpoint(max(batches), _watermark(path, max(batches)), shards)


def stored_pages(
    session: Any, checkpoint: str, names: Sequence[str] = (), batch: int | None = None
) -> dict[int, dict[str, bytes]]:
    """Pages in a checkpoint, by shard: all, or those of these names. For a single name, that page of any one shard.

    batch: the micro-batch, by default the last committed one. Raises what Spark's state reader raises.
    """
    reader = session.read.format("statestore").option("stateVarName", "pages")
    reader = reader if batch is None else reader.option("batchId", batch)
    page = sf.col("user_map_key.page")
    rows = reader.load(checkpoint).select("key.shard", page.alias("page"), "user_map_value.bytes")
    rows = rows.where(sf.col("page").isin(*names)) if names else rows
    shards: dict[int, dict[str, bytes]] = {}
    for row in (rows.limit(1) if len(names) == 1 else rows).collect():
        shards.setdefault(row["shard"], {})[row["page"]] = unpacked(bytes(row["bytes"]), row["page"])
    return shards


def _watermark(path: Path, batch: int) -> int | None:
    """Spark's watermark of a micro-batch, from the log of offsets: a version, its metadata, a line for each source."""
    lines = (path / "offsets" / str(batch)).read_text("utf-8").splitlines()
    for line in lines[1:2]:
        found: Any = json.loads(line)
        return int(found["batchWatermarkMs"]) if isinstance(found, dict) and "batchWatermarkMs" in found else None
    return None


# --- Stream header ---

NAME = "host"  # older than the module: stored state has the page under this name
FORMAT = 1
FIELDS = {"format": COUNTER, "hash": COUNTER, "fingerprint": text(), "shards": COUNTER, "timer": optional(integer())}


class StreamHeader:
    """The page "host" of a shard, in addition to those of its operator.

    Raises StateMismatch if the stored page is not of this query and number of shards.
    """

    def __init__(self, spec: StreamSpec, store: MapStateStore | MemoryStore) -> None:
        self.store = store
        fingerprint, shards = spec.bound_query.fingerprint, spec.shards
        self.identity = {"format": FORMAT, "hash": HASH_VERSION, "fingerprint": fingerprint, "shards": shards}
        (data,) = store.get_many([NAME])
        self.stored = data is not None
        self.timer: int | None = None
        self.migrates = False
        """Is the state that of the previous query, and to be migrated?"""
        if data is not None:
            with decoding(f"page {NAME!r}"):
                found = read_json(data)
            check_meta(found, FIELDS, f"page {NAME!r}")
            if found["fingerprint"] != fingerprint:
                if spec.before is None or found["fingerprint"] != spec.before.fingerprint:
                    raise _another_query(spec, store, found["fingerprint"])
                self.migrates, self.stored = True, False
            _require_same(found, self.identity)
            self.timer = found["timer"]

    def store_timer(self, timer: int | None) -> None:
        """Store the timer, unless the page has it already."""
        if self.stored and timer == self.timer:
            return
        self.timer, self.stored = timer, True
        self.store.put_many({NAME: json.dumps(self.identity | {"timer": timer}).encode()})


def _another_query(spec: StreamSpec, store: MapStateStore | MemoryStore, found: str) -> StateMismatch:
    """The error for the state of another query, with what has changed if the state has a description of its query."""
    (root,) = store.get_many([ROOT])
    before = None if root is None else stored_description(root)
    changes = [] if before is None else difference(before, described_state(spec.bound_query))
    reason = "; ".join(changes) or (
        f"its fingerprint is {found}, and this query's is {spec.bound_query.fingerprint}. Windows, aggregates, keys, "
        "order, lateness or columns have changed"
    )
    return StateMismatch(
        f"the checkpoint holds the state of another query: {reason}. Go back to that query, migrate its state with "
        "query.migrate(stream, from_query=…), or start with a new checkpointLocation"
    )


def _require_same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    if found["shards"] != wanted["shards"]:
        raise StateMismatch(
            f"the checkpoint holds the state of {found['shards']} shards, and the query now has {wanted['shards']}: "
            "keys would be looked up in the wrong shard. Set "
            f"options=sash.Options(shards={found['shards']}), or start with a new checkpointLocation"
        )
    if (found["format"], found["hash"]) != (wanted["format"], wanted["hash"]):
        raise StateMismatch(
            f"the checkpoint was written by another version of sash: format {found['format']}, hash {found['hash']}; "
            f"this is {wanted['format']}, {wanted['hash']}: start with a new checkpointLocation"
        )
