"""Find the key with the most rows of a shard in a micro-batch, for the monitor.

All rows of a key go to one shard, so a key with most rows of a stream limits its throughput.

    rows ──▶ a random sample ──▶ its most frequent key ──▶ count all rows of that key

A sample is enough, since only a key with a large share matters, and its cost does not grow with the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.engine.key_values import key_column, key_text, keys_of
from sash.spark.stream.progress import ShardProgress
from sash.spark.stream.sharding import FIRST
from sash.spark.stream.stream_spec import PackedRow

SAMPLE = 2048
"""Rows of a sample. A key with a tenth of the rows has 205 ± 14 of them."""
LENGTH = 200
"""The maximum length of a key's text."""


def with_rows(
    progress: ShardProgress, packed: Sequence[PackedRow], batches: Sequence[pa.RecordBatch], by: tuple[str, ...]
) -> ShardProgress:
    """The progress with what is known of the rows of the micro-batch: malformed ones, the latest row, the hot key."""
    latest = max((row for row in packed if row.greatest is not None), key=_greatest, default=PackedRow(FIRST))
    key, rows, keys = hot_key(batches, by)
    return replace(
        progress,
        malformed=sum(row.malformed for row in packed),
        greatest=latest.greatest,
        latest_key=latest.latest_key,
        latest_shard=latest.latest_shard,
        hot_key=key,
        hot_rows=rows,
        sampled_keys=keys,
    )


def _greatest(row: PackedRow) -> float:
    assert row.greatest is not None
    return row.greatest


def hot_key(batches: Sequence[pa.RecordBatch], by: tuple[str, ...]) -> tuple[str | None, int | None, int | None]:
    """The most frequent key of a sample of the rows, as text, the number of all its rows, and the keys of the sample.

    >>> hot_key([pa.record_batch({"k": ["A", "B", "A"], "x": [1, 2, 3]})], ("k",))
    ("k='A'", 2, 2)
    """
    rows = [batch.select(by) for batch in batches if batch.num_rows]
    if not rows or not by:
        return None, None, None
    batch = rows[0] if len(rows) == 1 else pa.concat_batches(rows)
    count = batch.num_rows
    # random rows: with every n-th row, a key that occurs periodically would be all of the sample, or missing
    places = None if count <= SAMPLE else np.random.default_rng(count).integers(0, count, SAMPLE)
    sample = batch if places is None else batch.take(pa.array(places))
    keys = keys_of([key_column(column) for column in sample.columns], sample.num_rows)
    found = np.bincount(keys.codes)
    code = int(found.argmax())
    columns = [column.slice(code, 1) for column in keys.columns]
    counted = int(found[code]) if places is None else _rows_of(batch, columns)
    if counted is None:
        counted = round(int(found[code]) / SAMPLE * count)
    return _name(by, columns), counted, keys.count


def key_name(row: pa.RecordBatch, by: tuple[str, ...]) -> str | None:
    """The key of a batch of one row as text; None without keys."""
    return _name(by, [row.column(name) for name in by])


def _name(by: tuple[str, ...], columns: Sequence[pa.Array]) -> str | None:
    text = key_text(by, columns)
    return (text if len(text) <= LENGTH else f"{text[: LENGTH - 1]}…") or None


def _rows_of(batch: pa.RecordBatch, key: Sequence[pa.Array]) -> int | None:
    """The number of rows of a key; None for values that Arrow does not compare."""
    matches = np.ones(batch.num_rows, np.bool_)
    for column, value in zip(batch.columns, key, strict=True):
        if value.null_count:
            matches &= column.is_null().to_numpy(zero_copy_only=False)
        elif pa.types.is_floating(value.type) and np.isnan(value[0].as_py()):
            matches &= pc.is_nan(column).fill_null(False).to_numpy(zero_copy_only=False)
        elif pa.types.is_nested(value.type):
            return None
        else:
            matches &= pc.equal(column, value[0]).fill_null(False).to_numpy(zero_copy_only=False)
    return int(np.count_nonzero(matches))
