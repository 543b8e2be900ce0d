"""StreamHeader: the page of a shard's state with the query's fingerprint, the number of shards, and the timer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sash.engine.key_values import HASH_VERSION
from sash.engine.root_page import ROOT, stored_description
from sash.plan.query_difference import described_state, difference
from sash.spark.stream.checkpoint_check import StateMismatch
from sash.spark.stream.stream_spec import StreamSpec
from sash.stores.checks import COUNTER, check_meta, integer, optional, text
from sash.stores.envelope import decoding, read_json

if TYPE_CHECKING:
    from sash.spark.stream.map_state_store import MapStateStore
    from sash.stores import MemoryStore

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
