"""Files of a directory as a source, in the order of their names.

    position   {"file": name, "rows": 4000, "size": …, "modified": …, "seen": …}    in the middle of a file
               {"file": name, "rows": null,  …}                                      after the file

Files are read in the order of their names, so the last name determines which ones are done, and the position does not
grow. A file that appears later with a name before the position is not read, but reported.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from sash.pipeline.csv_files import CsvFiles
from sash.pipeline.file_format import FileFormat, FileRows
from sash.pipeline.json_files import JsonFiles
from sash.pipeline.parquet_files import ParquetFiles
from sash.pipeline.source import Reading, SourceRows, SourceWarning, foreign_position

FORMATS: dict[str, FileFormat] = {one.name: one for one in (ParquetFiles(), CsvFiles(), JsonFiles())}


@dataclass(frozen=True)
class FilePosition:
    """How far the files of a directory have been read."""

    file: str
    rows: int | None
    """The number of records of the file that were read; None: all."""
    size: int
    modified: int
    """Size in bytes and modification time in nanoseconds of the file when it was read."""
    seen: int
    """The latest change time, in nanoseconds, of all files so far. A file with a later one has appeared since."""

    @staticmethod
    def of(position: Any) -> FilePosition | None:
        """Convert a position from JSON. Raises ValueError if it is not one of files."""
        if position is None:
            return None
        try:
            return FilePosition(**position)
        except TypeError:
            raise foreign_position(position, "files") from None

    def has_done(self, name: str) -> bool:
        """Has the whole file been read, or skipped?"""
        return name < self.file or (name == self.file and self.rows is None)


class FileSource:
    """Reads files in the order of their names.

    path: a directory, whose files are read without subdirectories, or one file.
    layout: the format of the files. Files whose names have another suffix, or begin with "." or "_", are ignored.
    schema: the columns to read; by default those of the first file, which all files must then have.
    poll: seconds between two listings of a directory that is followed.
    types: the types of some columns of the first file, in place of its own.

    A file must be complete when it appears: write it under another name and rename it. Later files must have greater
    names in lexicographic order, so number them with leading zeros.
    """

    def __init__(
        self,
        path: Path,
        layout: FileFormat,
        schema: pa.Schema | None = None,
        poll: float = 1.0,
        types: Mapping[str, pa.DataType] | None = None,
    ) -> None:
        self.path, self.layout, self.poll, self.problems = path, layout, poll, list[str]()
        self.types = dict(types or {})
        self._shares = 0.0, dict[str, int]()
        """The share of the current file that was read, and the sizes of all files."""
        self._given, self._schema = schema is not None, schema
        self._known: dict[str, tuple[int, int]] = {}
        """Size and modification time of the files that were read or will not be read."""

    @property
    def schema(self) -> pa.Schema | None:
        """The columns: those given, or those of the first file."""
        if self._schema is None:
            for name in sorted(self._listing()):
                self._schema = self._inferred(self._file(name))
                break
        if self._schema is None and self.types:  # there is no file yet: these are all columns
            self._given, self._schema = True, pa.schema([*self.types.items()])
        return self._schema

    def _inferred(self, path: Path) -> pa.Schema:
        """The columns of a file, some with given types. Raises ValueError for the type of a missing column."""
        schema = self.layout.schema(path, self.types)
        found = {field.name: field for field in schema}
        for name, dtype in self.types.items():
            if name not in found and self.layout.columns(path) is not None:
                raise ValueError(
                    f"types= ([source.schema] in a job) names a column {name!r}, which the file {path} does not have; "
                    f"its columns are {', '.join(schema.names)}"
                )
            found[name] = pa.field(name, dtype)
        return pa.schema([*found.values()])

    def expect(self, schema: pa.Schema) -> None:
        """Read the columns of an earlier run, unless others were given: its first file may have been deleted."""
        if not self._given:
            self._schema = pa.schema([field.with_type(self.types.get(field.name, field.type)) for field in schema])

    @property
    def infers_types(self) -> bool:
        """Are the types inferred from the values of the first file?"""
        return not self._given and not isinstance(self.layout, ParquetFiles)

    def read(self, position: Any, reading: Reading) -> Iterator[SourceRows]:
        """The rows of all files after a position."""
        at = FilePosition.of(position)
        listing = self._listing()
        if at is not None:
            self._check_resume(at, listing)
        elif not listing:
            self._report_other_suffixes()
        while not reading.stop.is_set():
            seen = max([0 if at is None else at.seen, *(found.st_ctime_ns for found in listing.values())])
            names = [name for name in sorted(listing) if at is None or not at.has_done(name)]
            sizes = {name: found.st_size for name, found in listing.items()}
            self._shares = 0.0, {} if reading.follow else sizes  # a directory that is followed has no end
            for name in names:
                for chunk in self._chunks(name, at, reading.rows, seen):
                    at = FilePosition(**chunk.position)
                    yield chunk
                    if reading.stop.is_set():
                        return
                done = listing[name]
                at = FilePosition(name, None, done.st_size, done.st_mtime_ns, seen)  # also of a file without rows
                self._known[name] = done.st_size, done.st_mtime_ns
            if not names and not reading.follow:
                return
            if not names:
                reading.stop.wait(self.poll)
            listing = self._listing()
            if at is not None:
                self._report(at, listing)

    def share_read(self, position: Any) -> float | None:
        """About the share of the files' bytes before a position; None if it is unknown."""
        at, (share, sizes) = FilePosition.of(position), self._shares
        if at is None or not sum(sizes.values()) or (not share and len(sizes) == 1 and at.rows is not None):
            return None
        done = sum(size for name, size in sizes.items() if at.has_done(name))
        return (done + (0 if at.has_done(at.file) else share * sizes.get(at.file, 0))) / sum(sizes.values())

    def _chunks(self, name: str, at: FilePosition | None, rows: int, seen: int) -> Iterator[SourceRows]:
        """The rows of one file that were not read yet."""
        path = self._file(name)
        before = path.stat()
        done = (at.rows or 0) if at is not None and at.file == name else 0
        schema = self._file_schema(path)
        waiting: FileRows | None = None

        def chunk(found: FileRows, rows_done: int | None) -> SourceRows:
            self._shares = found.share, self._shares[1]
            position = FilePosition(name, rows_done, before.st_size, before.st_mtime_ns, seen)
            return SourceRows(found.batch, asdict(position), found.malformed)

        for found in self.layout.read(path, schema, done, rows):
            if waiting is not None:
                yield chunk(waiting, waiting.done)
            waiting = found
        after = path.stat()
        if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise ValueError(
                f"the file {path} was changed while it was read: {_changed(before.st_size, after.st_size)}. A file "
                "must be complete when it appears: write it under another name, and rename it"
            )
        if waiting is not None:
            yield chunk(waiting, None)

    def _file_schema(self, path: Path) -> pa.Schema:
        """The columns to read of a file. Raises ValueError if they are not those of the first file."""
        if self._schema is None:
            self._schema = self._inferred(path)
        elif not self._given:
            known = self._schema.names
            if more := [name for name in self.layout.columns(path) or () if name not in known]:
                raise ValueError(
                    f"the file {path} has a column {more[0]!r}, which the first file does not have; pass schema= with "
                    "the columns to read"
                )
        return self._schema

    # ---- files that appear too late ----

    def _check_resume(self, at: FilePosition, listing: dict[str, os.stat_result]) -> None:
        """Check the directory against the position of an earlier run, and report files that appeared before it."""
        if at.rows is not None:
            found = listing.get(at.file)
            if found is None:
                raise FileNotFoundError(
                    f"the file {self._file(at.file)} was read up to record {at.rows}, and no longer exists"
                )
            if (found.st_size, found.st_mtime_ns) != (at.size, at.modified):
                raise ValueError(
                    f"the file {self._file(at.file)} has changed since it was read up to record {at.rows}: "
                    f"{_changed(at.size, found.st_size)}. Put the file back as it was"
                )
        for name, found in listing.items():
            if at.has_done(name):
                self._known[name] = found.st_size, found.st_mtime_ns
                if found.st_ctime_ns > at.seen:
                    self._problem(f"{name} has appeared or changed after files up to {at.file} were read")
                elif name != at.file and not self.path.is_dir():
                    self._problem(f"the state is that of {at.file}, whose name comes after {name}")

    def _report(self, at: FilePosition, listing: dict[str, os.stat_result]) -> None:
        """Report files that have changed or appeared before the position, and forget those that were deleted."""
        self._known = {name: known for name, known in self._known.items() if name in listing}
        for name, found in listing.items():
            identity = found.st_size, found.st_mtime_ns
            if not at.has_done(name) or self._known.get(name) == identity:
                continue
            if name in self._known:
                self._problem(f"{name} has changed after it was read: {_changed(self._known[name][0], found.st_size)}")
            else:
                self._problem(f"{name} has appeared after files up to {at.file} were read")
            self._known[name] = identity

    def _report_other_suffixes(self) -> None:
        """Report a directory that has files, but none whose suffix is one of the format."""
        others = [entry.name for entry in self.path.iterdir() if _is_visible(entry.name) and entry.is_file()]
        if others:
            self._warn(
                f"{self.path} has no file with a suffix of the format {self.layout.name!r} "
                f"({', '.join(self.layout.suffixes)}); others, such as {min(others)}, are not read"
            )

    def _problem(self, what: str) -> None:
        self._warn(
            f"{self.path}: {what}; it is not read. Give files ascending names, and rename this one to have it read"
        )

    def _warn(self, text: str) -> None:
        self.problems.append(text)
        warnings.warn(text, SourceWarning, stacklevel=2)

    # ---- the directory ----

    def paths(self) -> list[Path]:
        """The files that are there now, in the order in which they are read."""
        return [self._file(name).absolute() for name in sorted(self._listing())]

    def _listing(self) -> dict[str, os.stat_result]:
        if not self.path.is_dir():
            return {self.path.name: self.path.stat()}
        found = {}
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.endswith(self.layout.suffixes) and _is_visible(entry.name) and entry.is_file():
                    with suppress(FileNotFoundError):  # deleted since: files that are done may be
                        found[entry.name] = entry.stat()
        return found

    def _file(self, name: str) -> Path:
        path = self.path / name if self.path.is_dir() else self.path
        try:
            str(path).encode()
        except UnicodeEncodeError:
            raise ValueError(f"the name of the file {str(path)!a} is not UTF-8: rename it") from None
        return path

    def close(self) -> None:
        """Do nothing: files are open only while they are read."""

    def __repr__(self) -> str:
        return f"files({str(self.path)!r}, format={self.layout.name!r})"


def _is_visible(name: str) -> bool:
    return name[0] not in "._"


def _changed(before: int, now: int) -> str:
    if now == before:
        return f"its contents differ, in {now} bytes as before"
    return f"it {'shrank' if now < before else 'has grown'} from {before} to {now} bytes"


def files(
    path: str | os.PathLike[str],
    format: Literal["parquet", "csv", "json"] | None = None,  # noqa: A002 - the usual name of this argument
    *,
    schema: pa.Schema | None = None,
    types: Mapping[str, pa.DataType] | None = None,
    delimiter: str = ",",
    poll: float = 1.0,
) -> FileSource:
    """Files of a directory, or one file, as a source: Parquet, CSV with a header, or JSON lines.

    path: a directory, whose files are read in the order of their names, or one file.
    format: by default determined by the suffixes of the files. Text files may be compressed: `.csv.gz`.
    schema: the columns to read; by default those of the first file, for CSV and JSON with types inferred from values.
    types: the types of some columns, in place of those that are inferred; the other columns stay.
    delimiter: the separator of values in CSV files.
    poll: seconds between two listings of a directory that is followed.

    Raises FileNotFoundError if there is no such path, ValueError if the format is not clear from the suffixes.
    """
    place = Path(path)
    if not place.exists():
        raise FileNotFoundError(f"there is no file or directory {str(place)!r} to read")
    if format is None:
        format = _format_of(place)  # noqa: A001
    if format not in FORMATS:
        raise ValueError(f"format= must be one of {', '.join(map(repr, FORMATS))}; got {format!r}")
    if not isinstance(delimiter, str) or len(delimiter) != 1:
        raise ValueError(f"delimiter= must be one character; got {delimiter!r}")
    if not poll > 0:
        raise ValueError(f"poll= must be a number of seconds above 0; got {poll!r}")
    if schema is not None and not isinstance(schema, pa.Schema):
        raise TypeError(f"schema= must be a pyarrow.Schema; got a {type(schema).__name__}")
    if schema is not None and types is not None:
        raise TypeError("files() takes schema= with all columns, or types= of some; got both")
    layouts: dict[str, FileFormat] = {"csv": CsvFiles(delimiter), "parquet": ParquetFiles(types or ())}
    return FileSource(place, layouts.get(format, FORMATS[format]), schema, poll, types)


def _format_of(place: Path) -> Any:
    """The format that the suffixes name. Raises ValueError if there is none, or more than one."""
    names = [entry.name for entry in place.iterdir() if _is_visible(entry.name)] if place.is_dir() else [place.name]
    found = {one.name for one in FORMATS.values() for name in names if name.endswith(one.suffixes)}
    if len(found) == 1:
        return found.pop()
    what = f"files of several formats ({', '.join(sorted(found))})" if found else "no file of a known format yet"
    raise ValueError(f"{str(place)!r} has {what}: pass format={' or '.join(map(repr, FORMATS))}")
