"""What a step takes from the shelf and puts back: keys, cells, runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.operator.frame import Flags, Ints, Numbers


@dataclass
class Stored:
    """What is stored of a series, for the keys of a step: cells one by one, and runs that need not be opened."""

    cells: pa.RecordBatch
    cell_key: Ints
    cell_run: Ints
    """The run that a cell belongs to; -1 in a bucket or a tail."""
    runs: pa.RecordBatch
    run_key: Ints


@dataclass
class Loaded:
    """The keys of the buckets that a step touches, stored ones first, then new ones."""

    columns: list[pa.Array]
    hashes: NDArray[np.uint64]
    known: int
    rows: Ints
    elements: Ints
    """How many cells the pages of large keys hold."""
    last: Numbers
    due: Numbers
    ever: Flags
    expiry: Numbers
    expires: Flags
    held: dict[int, Ints]
    large: list[Ints]
    """By series and key: the number of a large key's pages, -1 for a small key."""
    codes: Ints
    """The keys that were asked for, in their order."""
    cells: list[pa.RecordBatch]
    cell_key: list[Ints]
    buckets: list[int]
    shown: pa.RecordBatch
    """What was last shown of the keys, see `emission`."""
    shown_key: Ints
    awake: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Keys without new rows of which something is due."""

    def __len__(self) -> int:
        return len(self.rows)


@dataclass
class Kept:
    """What a step leaves of a series, for its keys: cells in order, and which of the unopened runs stay."""

    cells: pa.RecordBatch
    key: Ints
    run: Ints
    """-1 for cells that are in no run yet."""
    sealed: Any
    """A function (starts, stops) of places among the cells: their ranges as items and states, to sum up a run."""
    runs: Flags


def together(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Batches as one."""
    batches = [batch for batch in batches if batch.num_rows]
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    columns = [pa.concat_arrays([batch.column(i) for batch in batches]) for i in range(len(schema))]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
