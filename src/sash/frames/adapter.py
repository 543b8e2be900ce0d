"""The protocol of a frame adapter, and the results that it converts.

frame ──column(name)──▶ Arrow ──▶ operator ──▶ FrameResult, … ──with_results──▶ frame, per row
                                          └──▶ FrameResult, … ──of_slides────▶ frame, per slide
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.columns.column_inputs import ResultColumn

Ints = NDArray[np.int64]

A = TypeVar("A")


class FrameResult(NamedTuple):
    """A column of results.

    source: the column whose values the results are, if any; the results get its type.
    frame: the frame that has the source, if it is not the frame that gets the results.
    """

    name: str
    column: ResultColumn
    source: str | None = None
    frame: Adapter | None = None

    def source_in(self, adapter: A) -> tuple[A, str] | None:
        """The adapter of the frame with the source, and the source; None without one, or for another kind of frame."""
        frame: Any = adapter if self.frame is None else self.frame
        return None if self.source is None or type(frame) is not type(adapter) else (frame, self.source)


class Adapter(Protocol):
    """Converts a kind of frame to Arrow, and results to frames of this kind."""

    @property
    def names(self) -> list[str]:
        """The columns, in order."""

    @property
    def rows(self) -> int:
        """The number of rows."""

    def column(self, name: str) -> pa.Array | pa.ChunkedArray:
        """A column in Arrow. Raises TypeError, naming it, if Arrow has no such type."""

    def with_results(self, results: Sequence[FrameResult], kept: Ints | None) -> Any:
        """The frame, or only the rows `kept`, with the results as more columns."""

    def of_slides(self, results: Sequence[FrameResult]) -> Any:
        """A new frame of the same kind, with a row for each slide."""


def not_in_arrow(name: str, kind: Any, error: Exception) -> TypeError:
    """The error for a column that Arrow cannot hold."""
    return TypeError(f"the column {name!r} is of type {kind}, which is not an Arrow type ({error}): cast it")


def series_hint(data: Any) -> str:
    """What to write for a Series in place of a frame; empty for other data."""
    if type(data).__name__ != "Series":
        return ""
    return ": write series.to_frame(), or for one aggregate sash.rolling(series, 64, sash.mean())"
