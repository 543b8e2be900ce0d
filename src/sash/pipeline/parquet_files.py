"""Parquet files, read row group by row group."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sash.pipeline.file_format import FileRows, first_bytes, require_columns


class ParquetFiles:
    """Files of Apache Parquet."""

    name = "parquet"
    suffixes: tuple[str, ...] = (".parquet", ".pq")

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
                if found.field(field.name).type != field.type:
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
                        done += rest.num_rows
                        yield FileRows(
                            rest.select(schema.names).cast(schema), done, share=done / file.metadata.num_rows
                        )
            except (pa.ArrowException, OSError) as error:
                raise ValueError(f"the file {path} cannot be read after row {done}: {error}") from error


def _opened(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        found = first_bytes(path)
        why = error if found.startswith(b"PAR1") else f"it begins with {found!r}"
        more = "" if found.startswith(b"PAR1") else ", or if it is text, give its format: csv or json (kind = in a job)"
        raise ValueError(f"the file {path} is not a readable Parquet file: {why}. Move it away{more}") from error
