"""Counts: what a shard did in a micro-batch, and what it holds, as columns that Spark adds up for its progress."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from sash.operator.metrics import Metrics


@dataclass(frozen=True)
class Counts:
    """What one shard did in one micro-batch: the first ones add up over shards, the last three are what it holds."""

    rows_in: int
    rows_out: int
    late: int
    untimed: int
    malformed: int
    pages_read: int
    pages_written: int
    bytes_read: int
    bytes_written: int
    keys: int
    elements: int
    state_bytes: int

    NONE: ClassVar[tuple[None, ...]] = (None,) * 12
    """For rows that carry no counts."""

    @staticmethod
    def of(before: Metrics, now: Metrics, store: Any, malformed: int) -> Counts:
        """What happened between two looks at an operator, and what its store did."""
        return Counts(
            now.rows_in - before.rows_in,
            now.rows_out - before.rows_out,
            now.late - before.late,
            now.untimed - before.untimed,
            malformed,
            store.pages_read,
            store.pages_written,
            store.bytes_read,
            store.bytes_written,
            now.keys,
            now.elements,
            now.state_bytes,
        )

    def values(self) -> tuple[int, ...]:
        return astuple(self)


NAMES = tuple(field.name for field in fields(Counts))
FLOWS, LEVELS = NAMES[:9], NAMES[9:]
