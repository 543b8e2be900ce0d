"""JSON lines files: an object in each line."""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from sash.pipeline.file_format import COMPRESSIONS, FileRows, naming, opened, share_of, text_format
from sash.pipeline.json_rows import decode_json, require_json_types
from sash.pipeline.source import MalformedRecord

SAMPLE = 1000
"""The number of lines from which types are inferred."""

_ENDINGS = (".jsonl", ".ndjson", ".json")


class JsonFiles:
    """Text files with a JSON object in each line; empty lines are skipped."""

    name = "json"
    suffixes: tuple[str, ...] = (*_ENDINGS, *(f"{ending}{more}" for ending in _ENDINGS for more in COMPRESSIONS))

    def schema(self, path: Path, known: Collection[str] = ()) -> pa.Schema:
        """The fields in the first thousand lines of a file, with types inferred from their values."""
        with naming(path), opened(path) as raw, _lines(raw) as file:
            objects = [_object(line) for line in islice(file, SAMPLE)]
        names = dict.fromkeys(name for found in objects for name in found)
        try:
            columns = {
                name: pa.array([None if name in known else found.get(name) for found in objects]) for name in names
            }
        except (pa.ArrowException, OverflowError) as error:
            raise ValueError(
                f"the columns of the file {path} cannot be inferred: {error}. Pass schema= ([source.schema] in a job)"
            ) from error
        if not columns and not known:
            what = "" if path.name.endswith(COMPRESSIONS) else text_format(path)
            more = f"It seems to be {what}" if what else "Pass schema= ([source.schema] in a job)"
            raise ValueError(f"the file {path} has no JSON object in its first {SAMPLE} lines. {more}")
        types = {name: pa.string() if pa.types.is_null(made.type) else made.type for name, made in columns.items()}
        return pa.schema(list(types.items()))

    def columns(self, _path: Path) -> None:
        """None: each line has its own fields."""

    def read(self, path: Path, schema: pa.Schema, done: int, rows: int) -> Iterator[FileRows]:
        """The rows of a file. A line that is not an object, or has a value of another type, is malformed."""
        require_json_types(schema, "a JSON file", "Parquet")
        with naming(path), opened(path) as raw, _lines(raw) as file:
            for _ in islice(file, done):
                pass
            while lines := list(islice(file, rows)):
                numbers = [number for number, line in enumerate(lines) if line.strip()]
                batch, bad = decode_json([lines[number] for number in numbers], schema)
                malformed = tuple(
                    MalformedRecord(lines[numbers[at]], reason, f"{path.name}, line {done + numbers[at] + 1}")
                    for at, reason in bad
                )
                done += len(lines)
                yield FileRows(batch, done, malformed, share_of(raw, path))


def _lines(file: pa.NativeFile) -> io.BufferedReader:
    return io.BufferedReader(cast(io.RawIOBase, file))


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
