"""The protocol of a source, and an iterable as one: batches of rows, each with the position after it.

    position ──read──▶ SourceRows(batch, position, malformed), SourceRows, …

A position is a JSON value. A pipeline saves it with the operator's state, in one commit, and resumes from it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from sash.engine.intake.input_checks import check_schema, record_batch

# --- Source ---


@dataclass(frozen=True)
class MalformedRecord:
    """A record that could not be decoded: its bytes, the reason, and where it was."""

    given: bytes
    reason: str
    where: str

    def error(self) -> ValueError:
        """The error for a record that must not be malformed."""
        return ValueError(f"malformed record at {self.where}: {self.reason}; it is {self.given[:200]!r}")


@dataclass(frozen=True)
class SourceRows:
    """Some rows, the position of the source after them, and the records that could not be decoded."""

    batch: pa.RecordBatch
    position: Any
    malformed: tuple[MalformedRecord, ...] = ()


@dataclass(frozen=True)
class Reading:
    """Options for reading a source.

    rows: the maximum number of records in a chunk.
    follow: at the end wait for more records, until `stop` is set.
    stop: set when the pipeline is to stop.
    """

    rows: int
    follow: bool
    stop: threading.Event


@runtime_checkable
class Source(Protocol):
    """Reads the rows of a pipeline."""

    problems: list[str]
    """Data that was skipped, such as files that appeared too late; each also raises a warning."""

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the rows; None while there is no data."""

    def read(self, position: Any, reading: Reading) -> Iterator[SourceRows]:
        """Chunks after the position of an earlier chunk; None: from the beginning."""

    def close(self) -> None:
        """Close files and connections."""


def foreign_position(position: Any, what: str) -> ValueError:
    """The error for a position in the state that another kind of source has saved."""
    return ValueError(
        f"the state has the position {position!r}, which is not one of {what}: it belongs to another source. Use that "
        "source, or a new store"
    )


def share_read(source: Source, position: Any) -> float | None:
    """The share of a source before a position, from 0 to 1; None if it does not know its end."""
    found: float | None = source.share_read(position) if hasattr(source, "share_read") else None
    return found


class SourceWarning(UserWarning):
    """A source has skipped some data."""


DECODE_ERRORS = (pa.ArrowException, ValueError, TypeError, OverflowError, KeyError, RecursionError)
"""Errors that decoding a record may raise."""


def decode_valid(
    count: int, decode: Callable[[int, int], pa.RecordBatch]
) -> tuple[list[pa.RecordBatch], list[tuple[int, str]]]:
    """Decode records. Returns the rows, and the numbers of the records that could not be decoded, with reasons.

    `decode(start, stop)` decodes a range of the `count` records. If it fails, both halves are tried, so that a bad
    record costs a number of calls that is logarithmic in `count`.

    >>> texts = ["1", "x", "3"]
    >>> good, bad = decode_valid(3, lambda a, b: pa.record_batch({"n": [int(text) for text in texts[a:b]]}))
    >>> [batch["n"].to_pylist() for batch in good], bad
    ([[1], [3]], [(1, "invalid literal for int() with base 10: 'x'")])
    """
    good: list[pa.RecordBatch] = []
    bad: list[tuple[int, str]] = []
    waiting = [(0, count)] if count else []
    while waiting:
        start, stop = waiting.pop()
        try:
            good.append(decode(start, stop))
        except DECODE_ERRORS as error:
            if stop - start == 1:
                bad.append((start, str(error) or type(error).__name__))
            else:
                middle = (start + stop) // 2
                waiting += [(middle, stop), (start, middle)]
    return good, bad


# --- Batch source ---


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
        raise foreign_position(position, "an iterable of batches")
    return position
