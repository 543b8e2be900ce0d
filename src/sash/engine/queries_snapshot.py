"""Snapshots of several queries: pack and unpack the snapshots of their operators."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple, cast

from sash.plan.api_types import Mode
from sash.plan.bound_query import MODES
from sash.stores import PageError
from sash.stores.checks import check_meta, list_of, one_of, text
from sash.stores.envelope import damaged, decoding, read_json, unwrap, wrap

KIND = "queries"
ANY = "0" * 32
_NAME = "the snapshot"


class QueriesSnapshot(NamedTuple):
    """The content of a snapshot of several queries."""

    mode: Mode
    groups: list[list[str]]
    parts: list[bytes]


def pack_operators(mode: str, groups: Sequence[Sequence[str]], parts: Sequence[bytes]) -> bytes:
    """The snapshots of operators as one; `groups` are the names of their queries."""
    directory = json.dumps({"mode": mode, "groups": [list(names) for names in groups]}).encode()
    return wrap(KIND, ANY, [directory, *parts])


def unpack_operators(data: bytes) -> QueriesSnapshot:
    """Read a snapshot. Raises PageError if it is damaged."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"a snapshot is the bytes that snapshot() returns; got a {type(data).__name__}")
    directory, *parts = unwrap(bytes(data), KIND, ANY, _NAME)
    with decoding(_NAME):
        meta = read_json(directory)
    check_meta(meta, {"mode": one_of(*MODES), "groups": list_of(list_of(text()))}, _NAME)
    if len(parts) != len(meta["groups"]):
        raise damaged(_NAME, f"it lists {len(meta['groups'])} operators and has {len(parts)}")
    return QueriesSnapshot(cast(Mode, meta["mode"]), meta["groups"], list(map(bytes, parts)))


def require_groups(what: str, found: Sequence[Sequence[str]], expected: Sequence[Sequence[str]]) -> None:
    """Raises PageError for state of other queries, or of the same in other groups."""
    if [list(names) for names in found] != [list(names) for names in expected]:
        raise PageError(
            f"{what} has the state of other queries, or of queries that do not share state as these do: it has "
            f"{_listed(found)}; expected {_listed(expected)}"
        )


def _listed(groups: Sequence[Sequence[str]]) -> str:
    return "; ".join(", ".join(names) for names in groups)
