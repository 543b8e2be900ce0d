"""Arrow frames: Table, RecordBatch, RecordBatchReader, and any other Arrow stream. NaN is a value, not null."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sash.columns.keys import encode_as
from sash.frames.adapter import FrameResult, Ints
from sash.plan.categories import ordered_categories


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
