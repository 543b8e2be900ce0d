"""An iterable of batches as a source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any

import pyarrow as pa

from sash.engine.input_checks import check_schema, record_batch
from sash.pipeline.source import Reading, SourceRows


class BatchSource:
    """Reads the batches of an iterable, in order. The position is the number of batches that were read.

    batches: RecordBatches or Tables of pyarrow, DataFrames of pandas or polars, or dicts of columns. After a restart
        the iterable must give the same batches again: those that are done are skipped.
    schema: the columns; by default those of the first batch.
    """

    def __init__(self, batches: Iterable[Any], schema: pa.Schema | None = None) -> None:
        self.batches, self.problems = batches, list[str]()
        self._schema = schema

    @property
    def schema(self) -> pa.Schema | None:
        """The given columns, else those of the first batch; None before there is one."""
        return self._schema

    def expect(self, schema: pa.Schema) -> None:
        """Expect the columns of an earlier run, unless a schema was given."""
        if self._schema is None:
            self._schema = schema

    def read(self, position: Any, reading: Reading) -> Iterator[SourceRows]:
        """Skip the batches that were processed already, and yield the others."""
        done = _checked(position)
        count = 0
        for given in self.batches:
            count += 1
            if count <= done:
                continue
            try:
                batch = given if isinstance(given, pa.RecordBatch) else record_batch(given, self._schema)
                if self._schema is None:
                    self._schema = batch.schema
                check_schema(batch.schema, self._schema)
            except TypeError as error:
                what = f"a {type(given).__name__}"
                raise TypeError(f"batch {count} of the source, {what}, is not a batch of rows: {error}") from None
            except ValueError as error:
                raise ValueError(f"batch {count} of the source does not fit: {error}") from None
            yield SourceRows(batch, count)
            if reading.stop.is_set():
                return
        if count < done:
            raise ValueError(
                f"{done} batches of the source are done, but it has only {count}: after a restart it must give the "
                "same batches again, from the first"
            )

    def share_read(self, position: Any) -> float | None:
        """The share of the batches before a position; None for an iterable that does not know its length."""
        return _checked(position) / len(self.batches) if isinstance(self.batches, Sized) and len(self.batches) else None

    def close(self) -> None:
        """Do nothing: an iterable has nothing to close."""

    def __repr__(self) -> str:
        return f"BatchSource({type(self.batches).__name__})"


def _checked(position: Any) -> int:
    if position is None:
        return 0
    if isinstance(position, bool) or not isinstance(position, int) or position < 0:
        raise ValueError(
            f"the state has the position {position!r}, which is not one of an iterable of batches: it belongs to "
            "another source. Use that source, or a new store"
        )
    return position
