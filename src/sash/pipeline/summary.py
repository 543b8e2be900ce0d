"""The summary of a pipeline, and the position that it saves with its state."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sash.engine.time_numbers import Watermark
from sash.pipeline.source import MalformedRecord


@dataclass(frozen=True)
class Summary:
    """Counters of a pipeline, over all its runs with this store."""

    steps: int
    """Batches that were processed, and one step for the end."""
    rows_in: int
    rows_out: int
    late: int
    """Rows below the watermark."""
    untimed: int
    """Rows whose time is null, NaN, infinite, or too far ahead."""
    malformed: int
    """Records that could not be decoded."""
    watermark: Watermark | dict[str, Watermark]
    """In units of the time column; infinity when the pipeline has finished."""
    offset: Any
    """The position of the source after the last row."""
    finished: bool
    """Has the source ended, and was every result emitted?"""
    problems: tuple[str, ...] = ()
    """Data that the source skipped in this run, and why."""
    examples: tuple[MalformedRecord, ...] = field(default=(), repr=False)
    """The first malformed records of this run."""
    share: float | None = None
    """About the share of the source that has been read, from 0 to 1; None if its end is unknown."""
    failed: int = 0
    """Rows on which an aggregate failed, with `Options(failed="side")`."""
    failed_results: int = 0
    """Results that are null because an aggregate failed on them."""
    last_failure: str = ""
    """The message of the last of them in this run."""


@dataclass(frozen=True)
class PipelinePosition:
    """The `offset` in the state of a pipeline: its identity and progress."""

    run: str
    """The identity of the pipeline: the same in all runs with one store."""
    epoch: int = 0
    source: Any = None
    malformed: int = 0
    finished: bool = False
    output: str = ""
    """The identity of what the sinks get: of the query and the columns of its results."""

    def writing(self, output: str) -> PipelinePosition:
        """The position for this output: that of a new run if it is another one, after a migration of the state.

        A new run continues the source, and begins its output from step 1, in another place.
        """
        if self.output in ("", output):
            return replace(self, output=output)
        return replace(self, run=secrets.token_hex(8), epoch=0, output=output)

    @staticmethod
    def of(offset: Any) -> PipelinePosition:
        """The position in a state; a new one if there is none. Raises ValueError if another program saved it."""
        if offset is None:
            return PipelinePosition(secrets.token_hex(8))
        try:
            return PipelinePosition(**offset)
        except TypeError:
            raise ValueError(
                f"the state in the store has the offset {offset!r}, which no pipeline saved: it belongs to another "
                "program. Use a new store"
            ) from None

    def to_json(self) -> dict[str, Any]:
        """As a JSON value."""
        return asdict(self)
