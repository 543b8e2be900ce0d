"""Parquet files, read row group by row group."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sash.columns.arrow_arrays import together
from sash.columns.exact_columns import exact_cast
from sash.pipeline.file_format import (
    FileRows,
    first_bytes,
    from_text,
    known_format,
    require_columns,
    require_text_types,
    text_format,
)
from sash.pipeline.source import MalformedRecord, decode_valid


class ParquetFiles:
    """Files of Apache Parquet.

    typed: names of columns whose values are converted to the types of the schema, for example text to times.
    """

    name = "parquet"
    suffixes: tuple[str, ...] = (".parquet", ".pq")

    def __init__(self, typed: Collection[str] = ()) -> None:
        self.typed = frozenset(typed)

    def schema(self, path: Path, _known: Collection[str] = ()) -> pa.Schema:
        """The columns of a file."""
        with _opened(path) as file:
            return file.schema_arrow.remove_metadata()

    def columns(self, path: Path) -> list[str]:
        """The names of a file's columns."""
        return list(self.schema(path).names)

    def read(self, path: Path, schema: pa.Schema, done: int, rows: int) -> Iterator[FileRows]:
        """The rows of a file. Row groups that were read already are skipped."""
        with _opened(path) as file:
            found = file.schema_arrow
            require_columns(path, found.names, schema)
            for field in schema:
                if field.name not in self.typed and found.field(field.name).type != field.type:
                    raise ValueError(
                        f"the column {field.name!r} of the file {path} is of type {found.field(field.name).type}; "
                        f"that of the source is {field.type}"
                    )
            group, before = 0, 0
            while group < file.num_row_groups and before + file.metadata.row_group(group).num_rows <= done:
                before += file.metadata.row_group(group).num_rows
                group += 1
            groups = range(group, file.num_row_groups)
            skip = done - before
            try:
                for batch in file.iter_batches(rows, row_groups=groups, columns=schema.names):
                    rest, skip = batch.slice(skip), max(skip - batch.num_rows, 0)
                    if rest.num_rows:
                        made, malformed = self._decoded(rest.select(schema.names), schema, path, done)
                        done += rest.num_rows
                        yield FileRows(made, done, malformed, share=done / file.metadata.num_rows)
            except (pa.ArrowException, OSError) as error:
                raise ValueError(f"the file {path} cannot be read after row {done}: {error}") from error

    def _decoded(
        self, batch: pa.RecordBatch, schema: pa.Schema, path: Path, done: int
    ) -> tuple[pa.RecordBatch, tuple[MalformedRecord, ...]]:
        """Rows with the types of the schema, and those whose text has no value of its type."""
        columns = []
        for column, field in zip(batch.columns, schema, strict=True):
            try:
                columns.append(column if _is_text(column.type) else exact_cast(column, field.name, field.type))
            except ValueError as error:
                raise ValueError(
                    f"the column {field.name!r} of the file {path} is of type {column.type}; that of the source is "
                    f"{field.type}, which cannot hold all values: use a type that can, or leave the column out of "
                    "types= ([source.schema] in a job)"
                ) from error
        batch = pa.RecordBatch.from_arrays(columns, schema.names)
        if batch.schema.types == schema.types:
            return batch.cast(schema), ()
        texts = [field for field, column in zip(schema, columns, strict=True) if column.type != field.type]
        require_text_types(pa.schema(texts), f"a column of text, as in {path},", "another type")
        made, bad = decode_valid(batch.num_rows, partial(_typed, batch, schema))
        malformed = (
            MalformedRecord(
                str(batch.slice(at, 1).to_pylist()[0]).encode(), reason, f"{path.name}, row {done + at + 1}"
            )
            for at, reason in bad
        )
        return together(made, schema), tuple(malformed)


def _typed(batch: pa.RecordBatch, schema: pa.Schema, start: int, stop: int) -> pa.RecordBatch:
    """A range of rows, with texts converted to the types of the schema. Raises ArrowInvalid for an invalid one."""
    columns = []
    for column, field in zip(batch.slice(start, stop - start).columns, schema, strict=True):
        try:
            columns.append(column if column.type == field.type else from_text(column, field.type))
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"column {field.name!r}: {error}") from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _opened(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        if first_bytes(path).startswith(b"PAR1"):
            raise ValueError(f"the file {path} is not a readable Parquet file: {error} Move it away") from error
        what = known_format(path) or text_format(path)
        why = f"is not a Parquet file but {what}" if what else "is not a Parquet file: move it away"
        raise ValueError(f"the file {path} {why}") from error
