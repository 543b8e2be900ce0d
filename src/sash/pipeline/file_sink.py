"""A directory of Parquet or CSV files that has each result exactly once.

    results/                       only files that are published: any reader of Parquet may read the directory
      000000000001.parquet         the results of step 1
      000000000003.parquet         step 2 had none
    results.pending/
      run.json                     the pipeline that owns the directory
      lock                         held by the process that writes
      000000000004.parquet         written, but the state of step 4 is not saved yet

A rename, which is atomic, makes a file visible: the names in the directory are the commit log. Pending files are in a
directory of their own, since some readers read every file below a directory, whatever its name.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from sash.pipeline.sink import SinkError, SinkTask
from sash.stores.store import sync_to_disk

# --- Parquet sink ---

SUFFIX = ".parquet"

RESULTS = re.compile(r"\d{12}\.(parquet|csv)")
"""Names of files that sinks publish: no other file is ever deleted."""


class ParquetSink:
    """Writes results to a directory of Parquet files, one for each step that has any: exactly once.

    path: the directory. It is created if it is missing, and belongs to one pipeline.
    compression: of the files, as for `pyarrow.parquet.write_table`.
    overwrite: replace results of earlier runs: all of them if this run begins anew, and those of later steps than that
        of the store, if an older copy of it was restored. Files that no pipeline wrote are not deleted.

    After a crash at any time, no result is missing or duplicated. No reader sees an incomplete step.
    """

    suffix = SUFFIX

    def __init__(self, path: str | os.PathLike[str], compression: str = "zstd", *, overwrite: bool = False) -> None:
        self.path, self.compression, self.overwrite = Path(path).absolute(), compression, overwrite
        self.pending = self.path.with_name(self.path.name + ".pending")
        self._lock_file: IO[str] | None = None
        self._prepared = 0
        self._created: list[Path] = []
        """Directories that `open` has created."""
        self._has_begun: Callable[[], bool] = lambda: True

    def open(self, task: SinkTask) -> None:
        """Publish or discard pending results. Raises SinkError if the directory has the output of another pipeline."""
        self._prepared, self._has_begun = 0, task.has_begun
        if self.path.exists() and not self.path.is_dir():
            raise SinkError(f"{self.path} is a file: a sink is a directory for files of results")
        self._created = [place for place in (self.pending, self.path) if not place.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        self.pending.mkdir(exist_ok=True)
        if self.path.stat().st_dev != self.pending.stat().st_dev:
            raise SinkError(f"{self.path} is a separate file system: use a directory below it, such as results")
        self._lock()
        self._require_own(task)
        later = [file for file in self._results() if int(file.stem) > task.epoch]
        if later and not self.overwrite:
            raise SinkError(
                f"{self.path} has the results of step {int(max(later).stem)}, and the state in the store is that of "
                f"step {task.epoch}: an older copy of the store was restored, or a power failure took its last writes. "
                "The later steps run again: replace their files with overwrite=True (sash run --overwrite)"
            )
        self._delete(later)
        for file in self.pending.iterdir():
            if file.name != self._name(task.epoch) and file.suffix in (self.suffix, ".new"):
                file.unlink()
        if (self.pending / self._name(task.epoch)).exists():
            self._prepared = task.epoch
            self.publish(task.epoch)

    def _lock(self) -> None:
        """Lock the directory until this process closes the sink, or ends. Raises SinkError if another has the lock."""
        self._lock_file = (self.pending / "lock").open("w")
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise SinkError(f"another pipeline is writing to {self.path}: stop it, or use another directory") from None

    def _require_own(self, task: SinkTask) -> None:
        """Raises SinkError if the directory has the output of another run. An empty directory is taken over."""
        columns = {field.name: str(field.type) for field in task.schema}
        mine = {"run": task.run, "query": task.query, "fingerprint": task.fingerprint, "columns": columns}
        owner = self._owner()
        if owner is not None and owner.get("run") == task.run:
            return
        results, entries = self._results(), [entry for entry in self.path.iterdir() if entry.name[0] != "."]
        can_replace = owner is not None and not task.epoch and len(results) == len(entries)
        if (entries or (task.epoch and owner is not None)) and not (can_replace and self.overwrite):
            more = ", or replace its files with overwrite=True (sash run --overwrite)" if can_replace else ""
            raise SinkError(f"{self.path} {_described_owner(owner, mine)}: use another directory{more}")
        self._delete(results)
        if task.epoch:
            raise SinkError(
                f"{self.path} is empty, and the state in the store is that of step {task.epoch}: earlier steps "
                "wrote to another place, or nowhere. Use the same directory as for them, or start with a new store"
            )
        fresh = self.pending / "run.json.new"
        fresh.write_text(json.dumps(mine, indent=1), "utf-8")
        sync_to_disk(fresh)
        fresh.replace(self.pending / "run.json")
        sync_to_disk(self.pending)

    def _owner(self) -> dict[str, Any] | None:
        try:
            return dict(json.loads((self.pending / "run.json").read_text("utf-8")))
        except FileNotFoundError:
            return None
        except ValueError:
            raise SinkError(
                f"{self.pending / 'run.json'} is damaged: whose output {self.path} has is unknown"
            ) from None

    def _results(self) -> list[Path]:
        """The published files."""
        return [file for file in self.path.iterdir() if RESULTS.fullmatch(file.name)]

    def _delete(self, files: list[Path]) -> None:
        for file in files:
            file.unlink()
        if files:
            sync_to_disk(self.path)

    def prepare(self, epoch: int, batch: pa.RecordBatch) -> None:
        """Write a file to the directory of pending files, and flush it to disk."""
        file = self.pending / self._name(epoch)
        self._write(batch, file)
        sync_to_disk(file)
        sync_to_disk(self.pending)
        self._prepared = epoch

    def _write(self, batch: pa.RecordBatch, file: Path) -> None:
        pq.write_table(pa.Table.from_batches([batch]), file, compression=self.compression)

    def _name(self, epoch: int) -> str:
        return f"{epoch:012d}{self.suffix}"

    def publish(self, epoch: int) -> None:
        """Rename the file into the directory."""
        if self._prepared == epoch:
            (self.pending / self._name(epoch)).rename(self.path / self._name(epoch))
            sync_to_disk(self.path)

    def close(self) -> None:
        """Release the lock: other processes may write to the directory. What a refused run has created is removed."""
        if self._lock_file is not None:
            if not self._has_begun():
                self._remove_created()
            self._lock_file.close()
            self._lock_file = None

    def _remove_created(self) -> None:
        if self.pending in self._created:
            for name in ("run.json", "run.json.new", "lock"):
                (self.pending / name).unlink(missing_ok=True)
        for place in self._created:
            with suppress(OSError):  # it is not empty
                place.rmdir()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"


def read(path: str | os.PathLike[str]) -> pa.Table:
    """The published results of a `ParquetSink`, in the order in which they were written.

    Any other reader of Parquet gives the same rows: `polars.read_parquet(path)`, `pyarrow.parquet.read_table(path)`.

    Raises FileNotFoundError if nothing was published.
    """
    found = sorted(file for file in Path(path).iterdir() if file.suffix == SUFFIX)
    if not found:
        raise FileNotFoundError(f"{str(path)!r} has no results yet")
    return pa.concat_tables([pq.read_table(file, partitioning=None) for file in found])


def _described_owner(owner: dict[str, Any] | None, mine: dict[str, Any]) -> str:
    if owner is None:
        return "has files that no pipeline wrote"
    if owner.get("fingerprint") != mine["fingerprint"]:
        return f"has the output of another query, {owner.get('query')}"
    if owner.get("columns", mine["columns"]) != mine["columns"]:
        return f"has the output of this query with other columns, {', '.join(owner['columns'])}"
    return "has the output of another run of this query, with another store or none"


# --- Csv sink ---


class CsvSink(ParquetSink):
    """Writes results to a directory of CSV files with a header, one for each step that has any: exactly once.

    path: the directory. It is created if it is missing, and belongs to one pipeline. Files appear as those of
        `ParquetSink` do, by a rename.
    """

    suffix = ".csv"

    def open(self, task: SinkTask) -> None:
        """Publish or discard pending results. Raises SinkError for a column whose type CSV cannot represent."""
        for column in task.schema:
            if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
                raise SinkError(
                    f"column {column.name!r} is of type {column.type}, which CSV cannot represent: write Parquet"
                )
        super().open(task)

    def _write(self, batch: pa.RecordBatch, file: Path) -> None:
        pyarrow.csv.write_csv(batch, file)
