"""Read and write tables in files: Parquet, CSV and JSON lines, by suffix."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from sash.cli.main import WrongUsage
from sash.pipeline.file_source import files
from sash.pipeline.json_files import encode_json
from sash.pipeline.source import Reading

CHUNK = 65_536
"""Rows that are decoded at a time."""

OUTPUTS = (".parquet", ".csv", ".jsonl", ".json")


def read_table(path: str) -> pa.Table:
    """All rows of a file or a directory. Raises ValueError, with its place, for a record that cannot be decoded."""
    source = files(path)
    batches = []
    for chunk in source.read(None, Reading(CHUNK, follow=False, stop=threading.Event())):
        for record in chunk.malformed:
            raise record.error()
        batches.append(chunk.batch)
    if source.schema is None:
        raise ValueError(f"{path} has no file to read")
    return pa.Table.from_batches(batches, source.schema)


def require_output(path: str) -> None:
    """Raises WrongUsage unless the suffix is that of a supported format."""
    if not path.endswith(OUTPUTS):
        raise WrongUsage(f"--out {path}: the name must end in one of {', '.join(OUTPUTS)}")


def write_file(table: pa.Table, path: str) -> None:
    """Write a table to a file, in the format of its suffix; an existing file is replaced."""
    new = Path(f"{path}.new")
    if path.endswith(".parquet"):
        pq.write_table(table, new)
    elif path.endswith(".csv"):
        pyarrow.csv.write_csv(table, new)
    else:
        with new.open("wb") as file:
            for batch in table.to_batches():
                file.writelines(row + b"\n" for row in encode_json(batch))
    new.replace(path)
