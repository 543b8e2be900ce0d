"""The columns in which elements and states of slots are stored, with functions that store and load them.

    coordinates    "time", "low", "first", …          as they are in the arena
    states         "a0.1.s0", …                       with values in place of codes
    counts         "a0.1.n"                           how many values an element has; of a row: whether it has one

In memory, elements have the number of values before them. It follows from the counts and the total of the slot, once
all elements of a slot are loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.engine.arena import Arena, RingRanges
from sash.engine.arrow_arrays import array
from sash.engine.input_encoding import numbers
from sash.engine.live_aggregate import LiveAggregate
from sash.engine.policy_windows import PolicyWindow
from sash.engine.slot_table import ColumnName
from sash.engine.waiting_rows import WaitingRows
from sash.kernels.loops.array_types import Ints


class Selection(Protocol):
    """Selects elements or slots from a column."""

    def take(self, values: NDArray[Any]) -> NDArray[Any]:
        """Their values."""
        ...


class StoredColumns(NamedTuple):
    """Columns of a batch, by name, and the functions that store and load them."""

    fields: Mapping[str, pa.DataType]
    store: Callable[[Any], list[pa.Array]]
    load: Callable[[Ints, Sequence[pa.Array]], None]


def arena_columns(arena: Arena, names: Sequence[ColumnName]) -> StoredColumns:
    """Columns of an arena, stored unchanged."""

    def store(some: Selection) -> list[pa.Array]:
        return [array(some.take(arena.columns[name])) for name in names]

    def load(places: Ints, columns: Sequence[pa.Array]) -> None:
        for name, column in zip(names, columns, strict=True):
            arena.put(name, places, numbers(column))

    kinds = {column_text(name): pa.from_numpy_dtype(arena.columns[name].dtype) for name in names}
    return StoredColumns(kinds, store, load)


def state_columns(aggregate: LiveAggregate) -> StoredColumns:
    """The states of an aggregate."""
    fields = {f"{aggregate.name}.{name}": kind for name, kind in aggregate.fields.items()}
    return StoredColumns(fields, lambda some: aggregate.store(some.take), aggregate.load)


def owned_columns(owner: PolicyWindow | WaitingRows) -> StoredColumns:
    """The columns that a Policy window, or waiting rows, store with each element.

    A row that has left since its element was written is loaded again, but not used: the slot has the position of the
    first row that waits.
    """
    return StoredColumns(owner.fields, lambda some: owner.store(some.take), owner.load)


def count_columns(aggregate: LiveAggregate) -> StoredColumns:
    """The number of values of each element; after `load`, call `restore_counts`."""

    def store(ranges: RingRanges) -> list[pa.Array]:
        found = aggregate.value_counts(ranges)
        return [array(found.astype(np.bool_) if is_row else found)]

    def load(places: Ints, columns: Sequence[pa.Array]) -> None:
        aggregate.set_before(places, numbers(columns[0]))

    is_row = aggregate.kernel.elements == "rows"
    return StoredColumns({count_name(aggregate): pa.bool_() if is_row else pa.int64()}, store, load)


def count_name(aggregate: LiveAggregate) -> str:
    """The name of the column with an aggregate's counts."""
    return f"{aggregate.name}.n"


def column_text(name: ColumnName) -> str:
    """The name of an array in a batch."""
    return ".".join(map(str, name)) if isinstance(name, tuple) else str(name)
