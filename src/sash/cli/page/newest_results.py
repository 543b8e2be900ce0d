"""NewestResults: keeps the newest results of a query and of chosen keys in bounded memory, and gives them as JSON.

    a call of the query ──add──▶ batches, by reference ──since──▶ rows of a chosen key
    (its own thread)             at most ROWS rows                (threads of the server)

A call adds a reference to its batch. Rows are read only when someone asks for a key, for the chart and the table of a
page. A key is JSON text.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sash.columns.keys import has_key
from sash.pipeline.json_files import encode_json
from sash.windows.duration import UNITS

# --- Result keys ---


def key_texts(batches: list[pa.RecordBatch], by: Sequence[str], most: int) -> dict[str, tuple[pa.Scalar, ...]]:
    """The keys of some results, the newest first: a JSON array of the values of `by`, and the values themselves."""
    columns = [pa.chunked_array([_plain(batch.column(name)) for batch in batches]) for name in by]
    places = pa.array(range(len(columns[0])), pa.int64())
    table = pa.table([*columns, places], names=[*map(str, range(len(by))), "at"])
    keys = table.group_by(table.column_names[:-1]).aggregate([("at", "max")]).sort_by([("at_max", "descending")])
    keys = keys.slice(0, most).select(table.column_names[:-1]).combine_chunks()
    found: dict[str, tuple[pa.Scalar, ...]] = {}
    for batch in keys.to_batches():
        for i, row in enumerate(encode_json(batch)):
            scalars = tuple(column[i] for column in batch.columns)
            values = [_named(*one) for one in zip(json.loads(row).values(), scalars, strict=True)]
            found[json.dumps(values, ensure_ascii=False)] = scalars
    return found


def _named(value: Any, scalar: pa.Scalar) -> Any:
    """A JSON value; NaN and infinities, which are null in JSON, by name."""
    is_float = value is None and scalar.is_valid and pa.types.is_floating(scalar.type)
    return str(scalar.as_py()) if is_float else value


def key_of(text: str, by: Sequence[str], schema: pa.Schema) -> tuple[pa.Scalar, ...]:
    """Parse a key. Raises ValueError if its values do not fit the columns of `by`."""
    try:
        values = json.loads(text)
    except (RecursionError, ValueError):
        values = None
    if not isinstance(values, list) or len(values) != len(by):
        wanted = json.dumps([f"a {name}" for name in by])
        raise ValueError(f"key= takes a JSON array with a value for each of by, such as {wanted}; got {text[:100]!r}")
    return tuple(_value(value, name, schema) for value, name in zip(values, by, strict=True))


def _value(value: Any, name: str, schema: pa.Schema) -> pa.Scalar:
    dtype = schema.field(name).type
    dtype = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
    try:
        return pa.scalar(value, dtype)
    except (pa.ArrowException, TypeError, ValueError):
        try:
            return pa.scalar(str(value)).cast(dtype)
        except (pa.ArrowException, TypeError, ValueError):
            raise ValueError(f"{value!r} is not a value of the key column {name!r} of type {dtype}") from None


def _plain(column: Any) -> Any:
    """A column with its values, without dictionary encoding."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


# --- Newest results ---

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
        found = [batch for batch in map(self._rows, batches) if batch.num_rows]
        if not batches or (not found and self.table is not None):
            return
        table = pa.Table.from_batches(found, batches[0].schema)
        table = _last_revisions(table if self.table is None else pa.concat_tables([self.table, table]))
        self.table = table.take(pa.array(range(max(table.num_rows - POINTS, 0), table.num_rows), pa.int64()))

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [_plain(batch.column(name)) for name in self.by]
        return batch.filter(has_key(columns, self.values)) if columns else batch


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


# --- Result rows ---

EXACT = 2**53
"""Integers from here on are sent as strings: a browser would round them."""


def results_json(chosen: ChosenKey, by: tuple[str, ...], on: str | None, inputs: Sequence[str]) -> dict[str, Any]:
    """Rows of a key, with the positions on the axis and the numeric columns of a chart.

    chosen: the key and its rows.
    by, on: the key columns and the time column of the query.
    inputs: the columns of its rows; aggregates come before them.
    """
    table = chosen.table
    assert table is not None
    names = [name for name in table.column_names if name not in by]
    axis = next((name for name in ("window_end", on) if name in names), None)
    rows = [_row(row) for batch in table.select(names).to_batches() for row in encode_json(batch)]
    positions = None if axis is None else _positions(table[axis])
    others = {axis, on, "window", "window_start", "window_end", "_row", "_revision", "_late"}
    measures = [name for name in names if name not in others and _is_number(table.schema.field(name))]
    measures.sort(key=lambda name: name in inputs)
    return {
        "columns": names,
        "rows": rows,
        "axis": axis,
        "axis_kind": "order" if positions is None else "time" if _is_time(table.schema.field(axis).type) else "number",
        "positions": [*range(len(rows))] if positions is None else positions,
        "measures": measures,
        "series": "window" if "window" in names else None,
        "skipped": chosen.skipped,
    }


def _row(text: bytes) -> list[Any]:
    return [
        str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= EXACT else value
        for value in json.loads(text).values()
    ]


def _is_number(field: pa.Field) -> bool:
    dtype = field.type
    return bool(pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype))


def _is_time(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(dtype) or pa.types.is_date(dtype))


def _positions(column: pa.ChunkedArray) -> list[float | None] | None:
    """Times in milliseconds since the epoch, numbers unchanged; None if the column is neither."""
    dtype = column.type
    if pa.types.is_date(dtype):
        column, dtype = column.cast(pa.timestamp("ms")), pa.timestamp("ms")
    if pa.types.is_timestamp(dtype):
        return [
            None if value is None else value * UNITS[dtype.unit] / 1e6 for value in column.cast(pa.int64()).to_pylist()
        ]
    return column.cast(pa.float64(), safe=False).to_pylist() if _is_number(column) else None
