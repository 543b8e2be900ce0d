"""Every row goes to the piece of its key and time, once, and rows of a piece stay in the order they came in."""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.spark.batch.pack_ranges import LargeKey, ShuffleRouting
from sash.spark.batch.time_ranges import TimeRange
from sash.spark.worker_io import BLOB_BYTES, BLOB_ROWS, batches_of, blob_array, blob_slices, grouped

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "id": pa.int64()})
TIMES = st.lists(st.one_of(st.none(), st.integers(0, 30)), max_size=40)


@given(times=TIMES, keys=st.lists(st.integers(0, 4), min_size=40, max_size=40), edges=st.sets(st.integers(1, 30)))
def test_every_row_is_in_its_piece(times: list[int | None], keys: list[int], edges: set[int]) -> None:
    for by in ((), ("k",)):
        for given_times in (times, sorted(time for time in times if time is not None)):
            _check(by, given_times, keys[: len(given_times)], sorted(edges))


def _check(by: tuple[str, ...], times: list[int | None], keys: list[int], edges: list[int]) -> None:
    large = [LargeKey([TimeRange(None, None, None)], edges)]
    if by:  # two keys are large, the second in one piece, and the others in three groups
        large.append(LargeKey([TimeRange(None, None, None)], []))
    routing = ShuffleRouting.of((pa.array([2, 0]),) if by else (), large, 3 if by else 0)
    batch = pa.RecordBatch.from_pydict({"k": keys, "t": times, "id": range(len(times))}, schema=SCHEMA)
    pieces = routing.piece_of(batch, sash.Query(3, by=by, on="t", n=sash.count()).bind(SCHEMA))
    groups: dict[Any, set[int]] = {}
    for time, key, piece in zip(times, keys, pieces.tolist(), strict=True):
        if not by or key == 2:
            assert piece == (0 if time is None else int(np.searchsorted(edges, time, side="right")))
        elif key == 0:
            assert piece == len(edges) + 1
        else:
            assert len(edges) + 2 <= piece < len(edges) + 5
            groups.setdefault(key, set()).add(piece)
    assert all(len(one) == 1 for one in groups.values())
    found = [
        (piece, row) for piece, rows in grouped(batch, pieces, len(routing.readers)) for row in rows["id"].to_pylist()
    ]
    assert found == sorted(zip(pieces.tolist(), range(len(times)), strict=True)), "grouped, in the order they came"


def test_a_batch_is_cut_into_blobs_of_limited_size() -> None:
    batch = pa.record_batch({"x": np.arange(100_000), "text": ["a" * 50] * 100_000})
    slices = list(blob_slices(batch))
    assert max(len(blob_array(rows)[0].as_py()) for rows in slices) < 1.1 * BLOB_BYTES
    assert pa.Table.from_batches(slices).to_pydict() == batch.to_pydict()
    again = [one for rows in slices for one in batches_of(blob_array(rows)[0].as_buffer())]
    assert pa.Table.from_batches(again).to_pydict() == batch.to_pydict()
    assert all(len(blob_array(rows)) == BLOB_ROWS and not blob_array(rows)[1].as_py() for rows in slices)
    assert list(blob_slices(batch.slice(0, 0))) == []
    assert [rows.num_rows for rows in blob_slices(pa.record_batch({"x": [b"b" * 2 * BLOB_BYTES] * 3}))] == [1, 1, 1]
