"""Pieces: every row goes to the piece of its key and time, once, and rows of a piece stay in the order they came in."""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.spark.arrow_ipc import BYTES, ROWS, batches_of, blob_array, cut
from sash.spark.batch.shuffle_routing import LargeKey, ShuffleRouting
from sash.spark.batch.time_ranges import TimeRange

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "id": pa.int64()})
TIMES = st.lists(st.one_of(st.none(), st.integers(0, 30)), max_size=40)


@given(times=TIMES, keys=st.lists(st.integers(0, 4), min_size=40, max_size=40), edges=st.sets(st.integers(1, 30)))
def test_every_row_is_in_its_piece(times: list[int | None], keys: list[int], edges: set[int]) -> None:
    for by in ((), ("k",)):
        for given_times in (times, sorted(time for time in times if time is not None)):
            _judge(by, given_times, keys[: len(given_times)], sorted(edges))


def _judge(by: tuple[str, ...], times: list[int | None], keys: list[int], edges: list[int]) -> None:
    large = [LargeKey([TimeRange(None, None, None)], edges)]
    if by:  # two keys are large, the second in one piece, and the others in three groups
        large.append(LargeKey([TimeRange(None, None, None)], []))
    pieces = ShuffleRouting.of((pa.array([2, 0]),) if by else (), large, 3 if by else 0)
    batch = pa.RecordBatch.from_pydict({"k": keys, "t": times, "id": range(len(times))}, schema=SCHEMA)
    bound_query = sash.Query(3, by=by, on="t", n=sash.count()).bind(SCHEMA)
    together, runs = pieces.runs(batch, bound_query)
    ids = together.column("id").to_pylist()
    assert sorted(ids) == list(range(len(times)))
    assert [run.start for run in runs] == [0, *[run.stop for run in runs[:-1]]][: len(runs)]
    assert (runs[-1].stop if runs else 0) == len(times)
    groups: dict[Any, set[int]] = {}
    for run in runs:
        mine = ids[run.start : run.stop]
        assert mine == sorted(mine)
        for row in mine:
            time = times[row]
            ranged = 0 if time is None else int(np.searchsorted(edges, time, side="right"))
            if not by or keys[row] == 2:
                assert run.piece == ranged
            elif keys[row] == 0:
                assert run.piece == len(edges) + 1
            else:
                assert len(edges) + 2 <= run.piece < len(edges) + 5
                groups.setdefault(keys[row], set()).add(run.piece)
    assert all(len(one) == 1 for one in groups.values())


def test_a_batch_is_cut_into_blobs_of_limited_size() -> None:
    batch = pa.record_batch({"x": np.arange(100_000), "text": ["a" * 50] * 100_000})
    parts = list(cut(batch))
    assert max(len(blob_array(part)[0].as_py()) for part in parts) < 1.1 * BYTES
    assert pa.Table.from_batches(parts).to_pydict() == batch.to_pydict()
    again = [one for part in parts for one in batches_of(blob_array(part)[0].as_buffer())]
    assert pa.Table.from_batches(again).to_pydict() == batch.to_pydict()
    assert all(len(blob_array(part)) == ROWS and not blob_array(part)[1].as_py() for part in parts)
    assert list(cut(batch.slice(0, 0))) == []
    assert [part.num_rows for part in cut(pa.record_batch({"x": [b"b" * 2 * BYTES] * 3}))] == [1, 1, 1]
