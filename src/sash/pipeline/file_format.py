"""The protocol of a file format, and helpers that the formats share."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from sash.pipeline.source import MalformedRecord

COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4")
"""Suffixes of compressed files, after the suffix of a text format."""


@dataclass(frozen=True)
class FileRows:
    """Some rows of a file, the number of its records up to here, and the records that could not be decoded."""

    batch: pa.RecordBatch
    done: int
    malformed: tuple[MalformedRecord, ...] = ()
    share: float = 0.0
    """About the share of the file that has been read; 0 if it is unknown, because it is compressed."""


class FileFormat(Protocol):
    """Reads files of one format."""

    name: str
    suffixes: tuple[str, ...]

    def schema(self, path: Path, known: Collection[str] = ()) -> pa.Schema:
        """The columns of a file, with inferred types if the format has none; any types for the `known` ones."""

    def columns(self, path: Path, /) -> list[str] | None:
        """The names of a file's columns; None if each record has fields of its own."""

    def read(self, path: Path, schema: pa.Schema, done: int, rows: int) -> Iterator[FileRows]:
        """The records of a file after the first `done`, at most `rows` at a time, with the columns of the schema."""


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn errors of Arrow and of decompression into a ValueError that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"the file {path} cannot be read: {error}") from error


_FORMATS = {
    b"PAR1": "a Parquet file: its format is 'parquet' (kind = 'parquet' in a job)",
    b"ARROW1": "an Arrow file: convert it to Parquet",
    b"PK\3\4": "a zip archive or a spreadsheet: convert it to CSV or Parquet",
    b"\x1f\x8b": "compressed with gzip: its name must end in .gz",
    b"\x28\xb5\x2f\xfd": "compressed with Zstandard: its name must end in .zst",
    b"ORC": "an ORC file: convert it to Parquet",
    b"Obj\1": "an Avro file: convert it to Parquet",
    b"SQLite format 3": "a database of SQLite: export its table as CSV or Parquet",
}
"""By the first bytes of files that are no text: what they are, and what to do."""


def first_bytes(path: Path) -> bytes:
    """The first bytes of a file."""
    with path.open("rb") as file:
        return file.read(16)


def known_format(path: Path) -> str:
    """What a file is, and what to do, if its first bytes are those of a known format that is no text; else ""."""
    found = first_bytes(path)
    return next((what for magic, what in _FORMATS.items() if found.startswith(magic)), "")


def text_format(path: Path) -> str:
    """What a text file seems to be, and what to do; "" if its first bytes are those of no text."""
    found = first_bytes(path).lstrip()
    if found.startswith(b"{"):
        return "JSON lines: its format is 'json' (kind = 'jsonl' in a job)"
    if found.startswith(b"["):
        return "a JSON array: write each object in a line of its own, as format 'json' (kind = 'jsonl' in a job)"
    if found and all(byte >= 32 or byte in b"\t\n\r" for byte in found):
        return "text: if it has a header and values, its format is 'csv' (kind = 'csv' in a job)"
    return ""


def opened(path: Path) -> pa.NativeFile:
    """Open a text file, decompressed according to its suffix. Raises ValueError for a file of a known other format."""
    if not path.name.endswith(COMPRESSIONS):
        if what := known_format(path):
            raise ValueError(f"the file {path} is not text but {what}")
        if first_bytes(path).startswith((b"\xff\xfe", b"\xfe\xff")):
            raise ValueError(f"the file {path} is text in UTF-16: convert it to UTF-8")
    return pa.input_stream(str(path), compression="detect")


def share_of(file: pa.NativeFile, path: Path) -> float:
    """About the share of a text file that has been read; 0 for a compressed one."""
    return 0.0 if path.name.endswith(COMPRESSIONS) else min(file.tell() / max(path.stat().st_size, 1), 1.0)


def require_columns(path: Path, found: list[str], schema: pa.Schema) -> None:
    """Raises ValueError, naming file and column, if a file lacks a column of the schema or has one twice."""
    for name in schema.names:
        if found.count(name) != 1:
            what = "has no column" if name not in found else "has more than one column"
            raise ValueError(f"the file {path} {what} {name!r}; its columns are {', '.join(found)}")


def from_text(column: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Convert text to a type. Raises ArrowInvalid for an invalid value."""
    if pa.types.is_dictionary(dtype):
        return from_text(column, dtype.value_type).dictionary_encode().cast(dtype)
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_binary(dtype):
        return column.cast(dtype)
    column = pc.utf8_trim_whitespace(column)
    if pa.types.is_floating(dtype):
        return _floats_of_text(column, dtype)
    if not pa.types.is_timestamp(dtype):
        return column.cast(dtype)
    try:
        return column.cast(dtype)
    except pa.ArrowInvalid:  # more digits than the unit has: valid if they are zeros
        return column.cast(pa.timestamp("ns", dtype.tz)).cast(dtype)


def _floats_of_text(column: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Text as floats. Raises ArrowInvalid for integers that lose a digit, and for numbers beyond the type's range."""
    integers = rf"^[+-]?\d{{{_DIGITS[dtype.bit_width]},}}$"
    for text in column.filter(pc.match_substring_regex(column, integers)).to_pylist():
        try:
            whole_float(int(text), dtype)
        except ValueError as error:
            raise pa.ArrowInvalid(str(error)) from None
    made = column.cast(dtype)
    infinite = pc.is_inf(made.cast(pa.float64()))
    if pc.any(infinite).as_py():
        beyond = column.filter(pc.and_(infinite, pc.invert(pc.match_substring(column, "inf", ignore_case=True))))
        if len(beyond):
            raise pa.ArrowInvalid(f"{beyond[0].as_py()} is beyond the range of the type {dtype}")
    return made


_DIGITS = {16: 4, 32: 8, 64: 16}
"""By the bits of a float: the digits of the least integer that it does not hold."""

_EXACT = {16: "2**11", 32: "2**24", 64: "2**53"}
"""By the bits of a float: the integers up to here are exact."""


def whole_float(value: int, dtype: pa.DataType) -> float:
    """An integer as a float of a type, with all its digits; trailing zeros may be those of a float written as text.

    >>> whole_float(12345678901234567000, pa.float64())
    1.2345678901234567e+19

    Raises ValueError if a digit would be lost: such integers are often ids, and two of them could become equal.
    """
    try:
        with np.errstate(over="ignore"):
            found = np.dtype(dtype.to_pandas_dtype()).type(value)
        if int(found) == value or int(Decimal(str(found))) == value:
            return float(found)
    except OverflowError:  # it is infinite, or beyond all floats
        pass
    most = _EXACT[dtype.bit_width]
    raise ValueError(f"{value} is an integer beyond {most} that no {dtype} holds exactly: give the column type int64")


def require_text_types(schema: pa.Schema, what: str, instead: str = "Parquet") -> None:
    """Raises TypeError, naming the column, for a type that text cannot be converted to."""
    for field in schema:
        try:
            from_text(pa.array([], pa.string()), field.type)
        except pa.ArrowNotImplementedError:
            raise TypeError(
                f"the column {field.name!r} is of type {field.type}, which {what} cannot have; use {instead}"
            ) from None


@cache
def null_texts() -> pa.Array:
    """The texts that stand for null in a CSV file, except in text columns: "", "NA", "null" and others."""
    return pa.array(pyarrow.csv.ConvertOptions().null_values)
