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
class Listed:
    """What the runs pages of large keys list, in order: runs, and chapters that no window begins in."""

    entries: pa.RecordBatch
    key: Ints
    chapter: Ints
    """The chapter that a run was found in, by its label; -1 for what stands in the runs page itself."""
    opened: Flags
    """Whether a window begins in it, so that its cells are read."""

    @property
    def labels(self) -> Ints:
        """By entry: the number of its run, or of the first in its chapter."""
        found: Ints = self.entries.column("run").to_numpy()
        return found

    @property
    def counts(self) -> Ints:
        """By entry: how many runs it stands for."""
        found: Ints = self.entries.column("runs").to_numpy()
        return found

    @property
    def following(self) -> int:
        """The number of the next run."""
        return int((self.labels + self.counts).max(initial=0))

    def of(self, key: int) -> Listed:
        """What is listed of one key."""
        start, stop = np.searchsorted(self.key, (key, key + 1)).tolist()
        mine = slice(start, stop)
        return Listed(self.entries.slice(start, stop - start), self.key[mine], self.chapter[mine], self.opened[mine])


@dataclass
class Stored:
    """What is stored of a series, for the keys of a step: cells one by one, and runs that need not be opened."""

    cells: pa.RecordBatch
    cell_key: Ints
    cell_run: Ints
    """The run that a cell belongs to; -1 in a bucket or a tail."""
    runs: pa.RecordBatch
    run_key: Ints
    listed: Listed
    """The runs that were opened, too, and where each was found."""


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
    cell_item: Ints
    """The item that a cell is, and `run_item` the one that an unopened run is."""
    run_item: Ints
    summed: Any
    """A function (starts, stops) of places among the items: their ranges as items and states, to sum up a run."""
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
