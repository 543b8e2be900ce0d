"""The protocol of a frame adapter, the results that it converts, and the adapter of Arrow data.

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
from sash.columns.keys import encode_as
from sash.plan.categories import ordered_categories

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


# ---- Arrow: Table, RecordBatch, RecordBatchReader, and any other Arrow stream; NaN is a value, not null ----


def arrow_adapter(data: Any) -> ArrowAdapter:
    """An adapter for Arrow data. A stream is read to its end. Raises TypeError for other data."""
    if isinstance(data, pa.Table):
        return ArrowAdapter(data, pa.Table)
    if isinstance(data, pa.RecordBatch):
        return ArrowAdapter(pa.Table.from_batches([data]), pa.RecordBatch)
    if isinstance(data, pa.RecordBatchReader):
        return ArrowAdapter(data.read_all(), pa.RecordBatchReader)
    if hasattr(data, "__arrow_c_stream__") and not isinstance(data, pa.ChunkedArray):
        return ArrowAdapter(pa.RecordBatchReader.from_stream(data).read_all(), pa.Table)
    raise TypeError(
        f"a query runs on a pyarrow Table, RecordBatch or RecordBatchReader; got a {type(data).__qualname__}"
    )


class ArrowAdapter:
    """A table, and the kind of frame that it was given as."""

    def __init__(self, table: pa.Table, kind: type) -> None:
        self.table, self.kind = table, kind
        self.names: list[str] = table.schema.names
        self.rows: int = table.num_rows

    def column(self, name: str) -> pa.ChunkedArray:
        # by position: the query reports duplicate names
        return self.table.column(self.names.index(name))

    def with_results(self, results: Sequence[FrameResult], kept: Ints | None) -> Any:
        table = self.table if kept is None else self.table.take(pa.array(kept))
        for one in results:
            values = self._as_arrow(one)
            table = table.append_column(pa.field(one.name, values.type), values)
        return self._as_given(table)

    def of_slides(self, results: Sequence[FrameResult]) -> Any:
        return self._as_given(pa.table({one.name: self._as_arrow(one) for one in results}))

    def _as_arrow(self, result: FrameResult) -> pa.Array:
        """Results as a column; dictionary-encoded if their source is."""
        values, found = result.column.arrow(), result.source_in(self)
        if found is None or pa.types.is_dictionary(values.type):
            return values
        frame, name = found
        source = frame.column(name)
        if not pa.types.is_dictionary(source.type):
            return values
        return encode_as(values, source.type, ordered_categories(name, source))

    def _as_given(self, table: pa.Table) -> Any:
        if self.kind is pa.Table:
            return table
        if self.kind is pa.RecordBatchReader:
            return table.to_reader()
        columns = [column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in table.columns]
        return pa.RecordBatch.from_arrays(columns, schema=table.schema)
