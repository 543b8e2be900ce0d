"""The pages of buffered rows: those of the reorder buffer, and in mode "sorted" rows whose peers may still follow.

    q<n>      rows of the reorder buffer, usually of one call
    held      the last rows of equal key and time: more of them may follow

Pages of the reorder buffer are read when the watermark passes their first row. Small pages are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array
from sash.columns.keys import decoded_schema
from sash.columns.row_errors import RowLimits
from sash.columns.time_numbers import Watermark, after
from sash.engine.atomic import all_at_once, attributes
from sash.engine.intake.reorder_buffer import ReorderBuffer, SortedRows, TimedRows, joined_rows
from sash.plan.bound_query import BoundQuery
from sash.plan.time_axis import Number
from sash.state.header_page import Header, PageEntry
from sash.state.page_checks import require
from sash.state.page_transaction import Pages
from sash.stores.envelope import decoding

ROWS = 1 << 14
"""The most rows in a page of the reorder buffer."""

MERGE = 16
"""Small pages of the reorder buffer that are merged into one."""


@dataclass(frozen=True)
class BufferPage:
    """A page of the reorder buffer: the least and the greatest time in it, and whether its rows are in memory."""

    number: int
    low: Number
    high: Number
    rows: int
    in_memory: bool


class BufferMark(NamedTuple):
    """The state of the pages before a call, for `rollback`."""

    waiting: tuple[BufferPage, ...]
    next_page: int
    settled: Watermark
    holds: bool


class BufferPages:
    """The pages of buffered rows of one operator."""

    def __init__(self, transaction: Pages, bound_query: BoundQuery, limits: RowLimits) -> None:
        self.transaction, self.bound_query, self.limits = transaction, bound_query, limits
        self.plain = decoded_schema(bound_query.schema)
        self.schema = pa.schema([*self.plain, pa.field("_arrival", pa.int64())])
        self.waiting: tuple[BufferPage, ...] = ()
        self.next_page = 0
        self.holds = False
        """Whether there is a page of rows that wait for peers."""
        self.settled: Watermark = None
        """The watermark at the last commit: rows below it have been released."""

    def open(self, header: Header, listed: pa.RecordBatch) -> None:
        """Open the pages that the header lists."""
        rows = [PageEntry(*row) for row in zip(*(column.to_pylist() for column in listed.columns), strict=True)]
        self.waiting = tuple(BufferPage(row.page, row.low, row.high, row.rows, False) for row in rows)
        self.transaction.expect({f"q{row.page}": row.generation for row in rows})
        self.transaction.expect({"held": header.held_generation} if header.has_held else {})
        self.next_page, self.holds, self.settled = header.page, header.has_held, header.watermark

    def entries(self) -> list[PageEntry]:
        """The pages for the header to list."""
        generation = self.transaction.generation_of
        return [
            PageEntry(page.number, page.low, page.high, page.rows, generation(f"q{page.number}"))
            for page in self.waiting
        ]

    # ---- reading ----

    def held(self) -> TimedRows | None:
        """The rows that wait for their peers, in mode "sorted"."""
        found = self._read_rows("held", "held")
        with decoding("page 'held'"):
            peers = SortedRows(self.bound_query).waiting(found.table, found.time)
            require(len(found) and peers == len(found), "it has rows that are not of one key and time")
        return found

    def _read_rows(self, kind: str, name: str) -> TimedRows:
        ((_, (batch,)),) = self.transaction.read(kind, [name], [self.schema])
        axis = self.bound_query.time
        assert axis is not None
        with decoding(f"page {name!r}"):
            time, valid = axis.numbers(batch.column(axis.column))
            arrival = batch.column(batch.num_columns - 1)
            require(valid, "it has a row without a time")
            require(not arrival.null_count, "it has a row without an arrival number")
            self.limits.require(batch, time, valid)
        return TimedRows(
            pa.RecordBatch.from_arrays(batch.columns[:-1], schema=self.plain),
            np.ascontiguousarray(time),
            arrival.to_numpy(),
        )

    def release(self, watermark: Watermark, everything: bool) -> list[TimedRows]:
        """Load the buffered rows that are due from the store."""
        due = {
            page.number
            for page in self.waiting
            if not page.in_memory and (everything or (watermark is not None and page.low < watermark))
        }
        if not due:
            return []
        self.read_together([page for page in self.waiting if page.number in due])
        found = [self._read_page(page) for page in self.waiting if page.number in due]
        self.waiting = tuple(replace(page, in_memory=True) if page.number in due else page for page in self.waiting)
        return found

    def read_together(self, pages: Sequence[BufferPage]) -> None:
        """Read pages in one round trip; `read_all` finds them in the transaction."""
        self.transaction.read("buffer", [f"q{page.number}" for page in pages], [self.schema])

    def unload(self, buffer: ReorderBuffer) -> None:
        """Remove all buffered rows from memory, after a commit: the store has them."""
        waiting = tuple(replace(page, in_memory=False) for page in self.waiting)
        all_at_once(attributes(self, waiting=waiting), buffer.emptied())

    def _read_page(self, page: BufferPage) -> TimedRows:
        """The rows of a page that have not been released yet."""
        rows = self.read_all(page)
        return rows.slice(self.released(rows), len(rows))

    def released(self, rows: TimedRows) -> int:
        """How many rows of a page have been released."""
        return 0 if self.settled is None else int(np.searchsorted(rows.time, self.settled))

    def read_all(self, page: BufferPage) -> TimedRows:
        """The rows of a page, those that have been released, too."""
        name = f"q{page.number}"
        rows = self._read_rows("buffer", name)
        with decoding(f"page {name!r}"):
            require(len(rows) == page.rows > 0, f"it has {len(rows)} rows, and by the header {page.rows}")
            require(rows.time[1:] >= rows.time[:-1], "its rows are not in order")
            require(rows.time[0] == page.low and rows.time[-1] == page.high, "its times are not those of the header")
        return rows

    # ---- writing ----

    def write(self, given: TimedRows | None, held: TimedRows | None, watermark: Watermark) -> None:
        """Write the buffered rows of the call, sorted by time, and drop pages whose rows have all been released."""
        if held is not None:
            self.transaction.write("held", "held", {}, [self._batch(held)])
        elif self.holds:
            self.transaction.drop(["held"])
        self.holds = held is not None
        waiting = []
        for page in self.waiting:
            if watermark is not None and page.high < watermark:
                self.transaction.drop([f"q{page.number}"])
            else:
                waiting.append(page)
        if given is not None:
            left = 0 if watermark is None else np.count_nonzero(given.time < watermark)
            starts = range(left, len(given), ROWS)
            waiting += [self._write_page(given.slice(start, min(start + ROWS, len(given)))) for start in starts]
        self.waiting = tuple(waiting)
        small = [page for page in waiting if page.rows < ROWS // MERGE]
        if len(small) >= MERGE:
            self._merge(small)
        self.settled = watermark

    def _merge(self, small: list[BufferPage]) -> None:
        """Merge small pages; those that are only in the store stay out of memory."""
        for in_memory in (True, False):
            mine = [page for page in small if page.in_memory == in_memory]
            if len(mine) < MERGE // 2:
                continue
            self.read_together(mine)
            rows = [self._read_page(page) for page in mine]
            joined = joined_rows(rows)
            joined = joined.take(np.lexsort((joined.arrival, joined.time)))
            self.transaction.drop([f"q{page.number}" for page in mine])
            waiting = [page for page in self.waiting if page not in mine]
            if len(joined):
                waiting.append(replace(self._write_page(joined), in_memory=in_memory))
            self.waiting = tuple(waiting)

    def _write_page(self, rows: TimedRows) -> BufferPage:
        number, self.next_page = self.next_page, self.next_page + 1
        self.transaction.write("buffer", f"q{number}", {}, [self._batch(rows)])
        return BufferPage(number, rows.time[0].item(), rows.time[-1].item(), len(rows), True)

    def _batch(self, rows: TimedRows) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([*rows.table.columns, array(rows.arrival)], schema=self.schema)

    # ---- what is not in memory ----

    @property
    def absent(self) -> int:
        """The number of rows that are only in the store."""
        return sum(page.rows for page in self.waiting if not page.in_memory)

    @property
    def due(self) -> list[Number]:
        """The watermarks at which pages that are only in the store are due."""
        left = self.settled  # rows below it have been released, even if their page is not in memory
        lows = [page.low if left is None else max(page.low, left) for page in self.waiting if not page.in_memory]
        return [after(low) for low in lows]

    def mark(self) -> BufferMark:
        """Return the state that `rollback` needs."""
        return BufferMark(self.waiting, self.next_page, self.settled, self.holds)

    def rollback(self, mark: BufferMark) -> None:
        """Restore the state at `mark`."""
        self.waiting, self.next_page, self.settled, self.holds = mark
