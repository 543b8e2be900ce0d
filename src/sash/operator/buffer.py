"""The reorder buffer: rows at or above the watermark, in pages that follow each other in time.

    W
    ▼
    ├─ page 3 ─┼──── page 7 ────┼─ page 4 ─┤        a row goes to the page of its time; a full page is cut
      4096 rows       …              …

When W rises, the rows below it leave: whole pages, and the first part of one more. What arrives below the new W at
once passes through without being written. The numbers of pages that have left are taken again: to write over a page
costs a store less than to drop one and make another. Where very many rows come at once, pages are larger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sash.operator.frame import Ints, Numbers
from sash.operator.keys import plain, plain_schema
from sash.operator.loaded import together
from sash.operator.pages import Pages
from sash.query.resolved import Axis

PAGE = 4096
"""Rows of a page, where it is cut."""

BULK = 4
"""As many times larger it may be, where rows for many of them come at once."""


@dataclass
class Entry:
    """A page of the buffer: the least and the greatest time in it, and how many rows it has."""

    number: int
    low: Any
    high: Any
    rows: int


class Buffer:
    """Rows that wait for the watermark."""

    def __init__(self, pages: Pages, axis: Axis, schema: pa.Schema) -> None:
        self.pages, self.axis = pages, axis
        self.number = pa.int64() if axis.kind == "int" else pa.float64()
        self.schema = plain_schema(schema)
        self.stored = pa.schema([*self.schema, pa.field("_arrival", pa.int64())])
        self.directory = pa.schema(
            [("page", pa.int64()), ("low", self.number), ("high", self.number), ("rows", pa.int64())]
        )
        self.entries: list[Entry] = []
        self.next = 0

    def to_batch(self) -> pa.RecordBatch:
        """The directory as a batch."""
        columns = list(zip(*((e.number, e.low, e.high, e.rows) for e in self.entries), strict=True)) or [()] * 4
        arrays = [pa.array(c, f.type) for c, f in zip(columns, self.directory, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.directory)

    def from_batch(self, batch: pa.RecordBatch, following: int) -> None:
        """Take the directory from a batch."""
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        self.entries = [Entry(*row) for row in rows]
        self.next = following

    @property
    def due(self) -> Any:
        """The least watermark that lets a row out; None if no row waits."""
        if not self.entries:
            return None
        least = self.entries[0].low
        return least + 1 if self.axis.kind == "int" else math.nextafter(least, math.inf)

    def __len__(self) -> int:
        return sum(entry.rows for entry in self.entries)

    def pass_through(
        self, table: pa.RecordBatch, time: Numbers, arrival: Ints, until: Any, everything: bool = False
    ) -> tuple[pa.RecordBatch, Numbers, Ints]:
        """Take rows; give all rows below `until` (everything: all), of these and of those that waited."""
        below = np.ones(len(time), np.bool_) if everything else _below(time, until)
        given = [(_taken(table, below), time[below], arrival[below])]
        given += self._leaving(until, everything)
        stay = np.flatnonzero(~below)
        if len(stay):
            order = stay[np.argsort(time[stay], kind="stable")]
            self._insert(_taken(table, order), time[order], arrival[order])
        batch = together([part for part, _, _ in given], self.schema)
        return batch, np.concatenate([t for _, t, _ in given]), np.concatenate([a for _, _, a in given])

    def rows(self) -> tuple[pa.RecordBatch, Numbers, Ints]:
        """All rows that wait, which stay."""
        batch = together([self._read(entry) for entry in self.entries], self.stored)
        time, _ = self.axis.numbers(batch.column(self.axis.column))
        return batch.select(self.schema.names), time, batch.column("_arrival").to_numpy()

    # ---- pages ----

    def _leaving(self, until: Any, everything: bool) -> list[tuple[pa.RecordBatch, Numbers, Ints]]:
        found, left = [], []
        for entry in self.entries:
            if not everything and (until is None or entry.low >= until):
                left.append(entry)
                continue
            batch = self._read(entry)
            time, _ = self.axis.numbers(batch.column(self.axis.column))
            below = np.ones(len(time), np.bool_) if everything else _below(time, until)
            gone = _taken(batch, below)
            found.append((gone.select(self.schema.names), time[below], gone.column("_arrival").to_numpy()))
            if below.all():
                self.pages.drop([f"q{entry.number}"])
            else:
                left.append(self._write(entry.number, _taken(batch, ~below), time[~below]))
        self.entries = left
        return found

    def _insert(self, table: pa.RecordBatch, time: Numbers, arrival: Ints) -> None:
        """Rows in order of time to the pages of their times."""
        columns = [*(plain(column) for column in table.columns), pa.array(arrival)]
        batch = pa.RecordBatch.from_arrays(columns, schema=self.stored)
        if not self.entries:
            self._spread(batch, time, 0)
            return
        lows = np.array([entry.low for entry in self.entries], time.dtype)
        page = np.maximum(np.searchsorted(lows, time, "right") - 1, 0)
        firsts = np.append(True, page[1:] != page[:-1])  # in order, as the times are
        for i in reversed(page[firsts].tolist()):
            mine = slice(*np.searchsorted(page, (i, i + 1)))
            self._merge(i, batch.slice(mine.start, mine.stop - mine.start), time[mine])

    def _merge(self, i: int, batch: pa.RecordBatch, time: Numbers) -> None:
        entry = self.entries[i]
        if entry.rows >= PAGE and (time >= entry.high).all() and i + 1 == len(self.entries):
            self._spread(batch, time, i + 1)  # beyond a full last page: it need not be read
            return
        old = self._read(entry)
        before, _ = self.axis.numbers(old.column(self.axis.column))
        both = together([old, batch], self.stored)
        times = np.concatenate([before, time])
        order = np.argsort(times, kind="stable")
        both, times = both.take(pa.array(order)), times[order]
        del self.entries[i]
        self._spread(both, times, i, entry.number)

    def _spread(self, batch: pa.RecordBatch, time: Numbers, at: int, number: int | None = None) -> None:
        """Write rows in order of time to as many pages as they need."""
        size = PAGE * min(BULK, max(1, len(time) // (8 * PAGE)))
        pages = max(1, round(len(time) / size)) if len(time) > 2 * size else 1
        edges = np.linspace(0, len(time), pages + 1).astype(int).tolist()
        for k, (start, stop) in enumerate(pairwise(edges)):
            if k or number is None:
                number = self._free()
            entry = self._write(number, batch.slice(start, stop - start), time[start:stop])
            self.entries.insert(at + k, entry)

    def _free(self) -> int:
        """A number that no page has."""
        taken = {entry.number for entry in self.entries}
        found = next((number for number in range(self.next) if number not in taken), self.next)
        self.next = max(self.next, found + 1)
        return found

    def _write(self, number: int, batch: pa.RecordBatch, time: Numbers) -> Entry:
        self.pages.write("buffer", f"q{number}", {}, [batch])
        return Entry(number, time.min().item(), time.max().item(), len(time))

    def _read(self, entry: Entry) -> pa.RecordBatch:
        ((_, (batch,)),) = self.pages.read("buffer", [f"q{entry.number}"], [self.stored])
        return batch


def _below(time: Numbers, until: Any) -> Any:
    return np.zeros(len(time), np.bool_) if until is None else time < until


def _taken(batch: pa.RecordBatch, chosen: Any) -> pa.RecordBatch:
    if chosen.dtype == np.bool_:
        if chosen.all():
            return batch
        return batch.filter(pa.array(chosen))
    return batch.take(pa.array(chosen))
