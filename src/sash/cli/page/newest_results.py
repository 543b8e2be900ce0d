"""NewestResults: keeps the newest results of a query, and those of chosen keys, in bounded memory.

    a call of the query ──add──▶ batches, by reference ──since──▶ rows of a chosen key
    (its own thread)             at most ROWS rows                (threads of the server)

A call adds a reference to its batch. Rows are read only when someone asks for a key.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sash.cli.page.result_keys import key_of, key_texts, rows_of

ROWS = 200_000
"""The maximum number of results that are kept, of all keys."""

BYTES = 64_000_000
"""The maximum bytes of these results."""

SMALL = 256
"""Small batches are merged when there are this many: a batch of one row takes kilobytes."""

LARGE = 65_536
"""Batches of up to this many bytes are kept without a check."""

SHARED = 4
"""A larger batch whose buffers have more than this many times its bytes is copied, to free the buffers."""

POINTS = 400
"""The maximum number of results of a chosen key."""

CHOSEN = 32
"""The maximum number of chosen keys; the least recently requested one is dropped."""

LISTED, LOOKED_AT = 200, 5_000
"""The maximum number of listed keys, and of newest results from which they are taken."""


class NewestResults:
    """The newest results of a query, whose key columns are `by`."""

    def __init__(self, by: Sequence[str]) -> None:
        self.by = tuple(by)
        self.end = 0
        """The number of results so far."""
        self._blocks: deque[pa.RecordBatch] = deque()
        self._small: list[pa.RecordBatch] = []
        self._start, self._bytes = 0, 0
        self._chosen: OrderedDict[str, ChosenKey] = OrderedDict()
        self._known: OrderedDict[str, tuple[pa.Scalar, ...]] = OrderedDict()
        self._listed: tuple[int, list[str]] = (-1, [])
        self._lock, self._readers = threading.Lock(), threading.Lock()

    # ---- in the thread of the query ----

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep a reference to the results of a call."""
        count = batch.num_rows
        if not count:
            return
        kept = _bounded(batch)
        size = kept.get_total_buffer_size()
        with self._lock:
            if kept.num_rows < count:  # a gap would follow the results before
                self._blocks.clear()
                self._small.clear()
                self._bytes = 0
                self._start = self.end + count - kept.num_rows
            self._small.append(kept)
            self._bytes += size
            self.end += count
            if len(self._small) >= SMALL or kept.num_rows >= ROWS // SMALL or size >= BYTES // SMALL:
                self._merge()
            while len(self._blocks) > 1 and (self.end - self._start > ROWS or self._bytes > BYTES):
                oldest = self._blocks.popleft()
                self._start += oldest.num_rows
                self._bytes -= oldest.get_total_buffer_size()

    def _merge(self) -> None:
        """Merge the small batches at the end into one."""
        merged = self._small[0] if len(self._small) == 1 else pa.concat_batches(self._small)
        self._bytes += merged.get_total_buffer_size() - sum(one.get_total_buffer_size() for one in self._small)
        self._blocks.append(merged)
        self._small.clear()

    # ---- in threads of the server ----

    def since(self, row: int) -> tuple[list[pa.RecordBatch], int]:
        """The batches of the results from number `row` on, and how many of them were dropped already."""
        with self._lock:
            batches, at = [*self._blocks, *self._small], self._start
        skipped, found = max(at - row, 0), []
        for batch in batches:
            if at + batch.num_rows > row:
                found.append(batch.slice(max(row - at, 0)))
            at += batch.num_rows
        return found, skipped

    def keys(self) -> list[str]:
        """The keys of the newest results as JSON text, the newest first."""
        if not self.by:
            return ["[]"] if self.end else []
        with self._readers:
            end = self.end
            if self._listed[0] != end:
                batches, _ = self.since(max(end - LOOKED_AT, 0))
                found = key_texts(batches, self.by, LISTED) if batches else {}
                for text, values in found.items():
                    self._known[text] = values
                    self._known.move_to_end(text)
                while len(self._known) > 2 * LISTED:
                    self._known.popitem(last=False)
                self._listed = end, [*found]
            return self._listed[1]

    def of_key(self, text: str) -> ChosenKey | None:
        """The newest results of a key; None before there is any result. Raises ValueError if `text` is not a key."""
        with self._readers:
            if not self.end:
                return None
            chosen = self._chosen.get(text)
            if chosen is None:
                values = self._known.get(text) or key_of(text, self.by, self.since(self.end - 1)[0][-1].schema)
                chosen = self._chosen[text] = ChosenKey(self.by, values)
            self._chosen.move_to_end(text)
            while len(self._chosen) > CHOSEN:
                self._chosen.popitem(last=False)
            chosen.add(*self.since(chosen.seen))
            return chosen

    def catch_up(self) -> None:
        """Add the newest results to those of the chosen keys."""
        with self._readers:
            for chosen in self._chosen.values():
                chosen.add(*self.since(chosen.seen))


class ChosenKey:
    """The newest results of a key that someone looks at."""

    def __init__(self, by: tuple[str, ...], values: tuple[pa.Scalar, ...]) -> None:
        self.by, self.values = by, values
        self.seen = 0
        """The number of results, of any key, that were read so far."""
        self.skipped = 0
        """Results, of any key, that were dropped before they were read."""
        self.table: pa.Table | None = None

    def add(self, batches: list[pa.RecordBatch], skipped: int) -> None:
        """Add the rows of this key among the newest results; `skipped` results before them were dropped."""
        self.skipped += skipped if self.table is not None else 0
        self.seen += skipped + sum(batch.num_rows for batch in batches)
        found = [rows_of(batch, self.by, self.values) for batch in batches]
        found = [batch for batch in found if batch.num_rows]
        if not batches or (not found and self.table is not None):
            return
        table = pa.Table.from_batches(found, batches[0].schema)
        table = _last_revisions(table if self.table is None else pa.concat_tables([self.table, table]))
        self.table = table.take(pa.array(range(max(table.num_rows - POINTS, 0), table.num_rows), pa.int64()))


def _bounded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The last rows of a batch, within the limits; copied if the batch would keep much more memory than its own.

    `nbytes` takes 10 µs, the size of all buffers 0.2 µs: so the former is computed only for large batches.
    """
    count, held = batch.num_rows, batch.get_total_buffer_size()
    if count <= ROWS and held <= LARGE:
        return batch
    own = max(batch.nbytes, 1)
    rows = min(count, ROWS, max(count * BYTES // own, 1))
    if rows == count and held <= SHARED * own:
        return batch
    return batch.take(pa.array(range(count - rows, count), pa.int64()))


def _last_revisions(table: pa.Table) -> pa.Table:
    """The last revision of each result: with `emit="eager"`, a result is emitted again when it changes."""
    if not {"_row", "_revision"} <= {*table.column_names}:
        return table
    names = [name for name in ("_row", "window") if name in table.column_names]
    numbered = table.select(names).append_column("at", pa.array(range(table.num_rows), pa.int64()))
    last = numbered.group_by(names).aggregate([("at", "max")])["at_max"]
    return table.take(last.take(pc.sort_indices(last)))
