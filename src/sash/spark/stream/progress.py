"""Counts: what a shard did in a micro-batch, and what it holds, as columns that Spark adds up for its progress."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from sash.engine.metrics import Metrics

OBSERVED = "sash"
"""What names of observed metrics begin with."""


@dataclass(frozen=True)
class ShardProgress:
    """What one shard did in one micro-batch."""

    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    untimed: int = 0
    malformed: int = 0
    pages_read: int = 0
    pages_written: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    greatest: float | None = None
    """The greatest time among the rows, in units of the time column."""
    watermark: float | None = None
    keys: int | None = None
    """None, as the next two, if it was not looked at: there was nothing to do."""
    elements: int | None = None
    state_bytes: int | None = None

    NONE: ClassVar[tuple[None, ...]] = (None,) * 14
    """For rows that carry no counts."""

    @staticmethod
    def of(before: Metrics, now: Metrics) -> ShardProgress:
        """What happened between two looks at an operator, and what it holds."""
        return ShardProgress(
            now.rows_in - before.rows_in,
            now.rows_out - before.rows_out,
            now.late - before.late,
            now.untimed - before.untimed,
            keys=now.keys,
            elements=now.elements,
            state_bytes=now.state_bytes,
        )

    def stored(self, store: Any) -> ShardProgress:
        """With what a store has read and written."""
        names = ("pages_read", "pages_written", "bytes_read", "bytes_written")
        return replace(self, **{name: getattr(store, name) for name in names})

    def values(self) -> tuple[Any, ...]:
        return astuple(self)


NAMES = tuple(field.name for field in fields(ShardProgress))
FLOWS, TIMES, LEVELS = NAMES[:9], NAMES[9:11], NAMES[11:]
"""Those that add up over shards, those of which the greatest counts, and what a shard holds."""

COLUMNS = ", ".join(f"{name} {'double' if name in TIMES else 'long'}" for name in NAMES)
