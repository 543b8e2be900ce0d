"""CSV files with a header.

Arrow splits the file into text columns; each is then converted to its type, so that a bad value makes one row
malformed, not the file unreadable.
"""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from sash.columns.arrow_arrays import together
from sash.pipeline.file_format import (
    COMPRESSIONS,
    FileRows,
    from_text,
    naming,
    null_texts,
    opened,
    require_columns,
    require_text_types,
    share_of,
    text_format,
)
from sash.pipeline.source import MalformedRecord, decode_valid

Ints = NDArray[np.int64]

BLOCK = 4 << 20
"""Bytes that are parsed at a time."""


class CsvFiles:
    """Text files with values separated by a delimiter, whose first record has the names of the columns.

    delimiter: the separator of values.
    """

    name = "csv"
    suffixes: tuple[str, ...] = (".csv", *(f".csv{more}" for more in COMPRESSIONS))

    def __init__(self, delimiter: str = ",") -> None:
        self.delimiter = delimiter

    def schema(self, path: Path, known: Collection[str] = ()) -> pa.Schema:
        """The columns of a file, with the types that the values of its first megabyte seem to have."""
        parse = pyarrow.csv.ParseOptions(
            delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=lambda _: "skip"
        )
        convert = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(known, pa.binary()))
        with naming(path):
            try:
                with opened(path) as file, pyarrow.csv.open_csv(file, None, parse, convert) as reader:
                    found = reader.schema
            except pa.ArrowInvalid as error:
                raise ValueError(
                    f"the columns of the file {path} cannot be inferred: {error}. "
                    "Pass schema= ([source.schema] in a job)"
                ) from error
        if found.names[0].startswith('{"') and not path.name.endswith(COMPRESSIONS):
            raise ValueError(f"the file {path} is not CSV but {text_format(path)}")
        return pa.schema([field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in found])

    def read(self, path: Path, schema: pa.Schema, done: int, rows: int) -> Iterator[FileRows]:
        """The rows of a file. A row with too few or too many values, or a value of another type, is malformed."""
        require_text_types(schema, "a CSV file")
        header = self.columns(path)
        require_columns(path, header, schema)
        invalid: deque[Any] = deque()

        def collect(row: Any) -> str:
            invalid.append(row)
            return "skip"

        parse = pyarrow.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=collect)
        convert = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.binary()),  # all of them: a malformed record is reported as a whole
            check_utf8=False,
            strings_can_be_null=False,
        )
        # with one thread, Arrow gives invalid rows their numbers
        read = pyarrow.csv.ReadOptions(use_threads=False, block_size=BLOCK)
        end = 0
        try:
            with opened(path) as file, pyarrow.csv.open_csv(file, read, parse, convert) as reader:
                for records in _numbered(reader, invalid, path, rows):
                    end = records.end
                    if end > done:
                        yield replace(self._decoded(records, schema, done, path), share=share_of(file, path))
        except (pa.ArrowException, OSError) as error:
            why: object = error
            if "straddl" in str(error):
                why = f"a record is longer than {BLOCK >> 20} MiB; perhaps a quote is not closed"
            elif "columns, got" in str(error):  # Arrow does not report invalid rows that it cannot decode
                why = f"{error}. This record is not UTF-8 either: correct it, or move the file away"
            raise ValueError(f"the file {path} cannot be read after record {end}: {why}") from error

    def columns(self, path: Path) -> list[str]:
        """The names of a file's columns, in its first record."""
        with (
            naming(path),
            opened(path) as file,
            io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline="") as text,
        ):
            try:
                names = next(csv.reader(text, delimiter=self.delimiter), [])
            except csv.Error as error:
                raise ValueError(f"the file {path} has no header: {error}") from error
        for name in names:
            if not name.isprintable():
                raise ValueError(f"the file {path} has no header in UTF-8: a column is named {name!a}")
        return names

    def _decoded(self, records: NumberedRecords, schema: pa.Schema, done: int, path: Path) -> FileRows:
        """The rows after the first `done` records, converted to their types."""
        texts, numbers, malformed, end = records
        first = int(np.searchsorted(numbers, done))
        numbers, malformed = numbers[first:], [entry for entry in malformed if entry[0] >= done]
        if texts is None:
            return FileRows(together([], schema), end, tuple(record for _, record in malformed))
        texts = texts.slice(first)
        places = [texts.schema.names.index(name) for name in schema.names]

        def decode(start: int, stop: int) -> pa.RecordBatch:
            some = texts.slice(start, stop - start)
            columns = [_column(some.column(place), field) for place, field in zip(places, schema, strict=True)]
            return pa.RecordBatch.from_arrays(columns, schema=schema)

        good, bad = decode_valid(texts.num_rows, decode)
        for row, reason in bad:
            where = f"{path.name}, record {numbers[row] + 1}"
            given = self._encoded([column[row].as_py() for column in texts.columns])
            malformed.append((int(numbers[row]), MalformedRecord(given, reason, where)))
        ordered = sorted(malformed, key=lambda entry: entry[0])
        return FileRows(together(good, schema), end, tuple(record for _, record in ordered))

    def _encoded(self, values: list[bytes]) -> bytes:
        """A record as text. Arrow gives only its values: those that need quotes have them, the others none."""
        delimiter = self.delimiter.encode()
        special = (delimiter, b'"', b"\n", b"\r")
        quoted = (b'"' + value.replace(b'"', b'""') + b'"' for value in values)
        return delimiter.join(
            quote if any(mark in value for mark in special) else value
            for value, quote in zip(values, quoted, strict=True)
        )


class NumberedRecords(NamedTuple):
    """Some records of a file, as text, with their numbers."""

    texts: pa.RecordBatch | None
    """The valid rows; None: there are none."""
    numbers: Ints
    """By valid row: the number of its record."""
    malformed: list[tuple[int, MalformedRecord]]
    """The invalid rows among them, by number."""
    end: int
    """The number of records of the file up to here."""


def _numbered(reader: Any, invalid: deque[Any], path: Path, rows: int) -> Iterator[NumberedRecords]:
    """The records of a file, about `rows` at a time."""
    end = 0
    for block in reader:
        while len(invalid) >= rows and _number(invalid[rows - 1]) == end + rows - 1:  # a run without valid rows
            records = _run(end, invalid, path, rows)
            yield records
            end = records.end
        for start in range(0, block.num_rows, rows):
            records = _merged(block.slice(start, rows), end, invalid, path)
            yield records
            end = records.end
    while invalid:
        records = _run(end, invalid, path, rows)
        yield records
        end = records.end


def _merged(texts: pa.RecordBatch, start: int, invalid: deque[Any], path: Path) -> NumberedRecords:
    """Number rows from `start` on, together with the invalid ones between them, which leave the queue."""
    malformed: list[tuple[int, MalformedRecord]] = []
    while invalid and _number(invalid[0]) < start + texts.num_rows + len(malformed):
        malformed.append(_malformed(invalid.popleft(), path))
    end = start + texts.num_rows + len(malformed)
    numbers = np.arange(start, end)
    numbers = np.delete(numbers, [number - start for number, _ in malformed]) if malformed else numbers
    return NumberedRecords(texts, numbers, malformed, end)


def _run(start: int, invalid: deque[Any], path: Path, most: int) -> NumberedRecords:
    """Consecutive invalid rows from `start` on."""
    malformed = [_malformed(invalid.popleft(), path) for _ in range(min(most, len(invalid)))]
    return NumberedRecords(None, np.empty(0, np.int64), malformed, start + len(malformed))


def _malformed(row: Any, path: Path) -> tuple[int, MalformedRecord]:
    reason = f"it has {row.actual_columns} values, not {row.expected_columns}"
    number = _number(row)
    return number, MalformedRecord(row.text.encode(), reason, f"{path.name}, record {number + 1}")


def _number(row: Any) -> int:
    """The number of an invalid row among the records, from 0. Arrow counts from 1, and includes the header."""
    return int(row.number) - 2


def _column(texts: pa.Array, field: pa.Field) -> pa.Array:
    """Convert bytes to the field's type. Raises ArrowInvalid, naming the column, for an invalid value."""
    try:
        column = texts.cast(pa.string())
        if not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
            column = pc.if_else(pc.is_in(column, null_texts()), pa.scalar(None, pa.string()), column)
        return from_text(column, field.type)
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(f"column {field.name!r}: {error}") from None
