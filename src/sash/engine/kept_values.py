"""Recover the values of single rows from live state: keys, times, and inputs that a state still contains.

    max(x)   x                    the state of one row is its value
    sum(x)   (x, 0.0)             so is its first scalar
    var(x)   (1, x, 0.0, 0.0)     its mean

Only values that are exactly those of the row, to the last bit, are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash import monoids as m
from sash.engine.arena import RingRanges
from sash.engine.arrow_arrays import array
from sash.engine.batch_columns import BatchColumns
from sash.engine.element_columns import count_columns
from sash.engine.input_encoding import numbers
from sash.engine.live_aggregate import LiveAggregate
from sash.engine.live_engine import LiveEngine
from sash.engine.row_assigner import RowAssigner
from sash.engine.window_assigner import WindowAssigner
from sash.expressions.tree import ColumnNode
from sash.monoids.algebra import Monoid
from sash.plan.bound_query import AggregateSpec

Stored = list[pa.Array]
"""The stored columns of states of single rows."""


def _scalar(i: int) -> Callable[[Stored], pa.Array]:
    return lambda columns: columns[i]


def _words(i: int) -> Callable[[Stored], pa.Array]:
    """An integer in two words, from scalar i on."""
    return lambda columns: array((numbers(columns[i]) << 32) + numbers(columns[i + 1]))


VALUES: Mapping[type[Monoid], tuple[Callable[[Stored], pa.Array], Callable[[Stored], pa.Array] | None]] = {
    m.Max: (_scalar(0), _scalar(0)),
    m.Min: (_scalar(0), _scalar(0)),
    m.First: (_scalar(1), _scalar(1)),
    m.Last: (_scalar(1), _scalar(1)),
    m.Sum: (_scalar(0), _words(0)),
    m.Mean: (_scalar(1), _words(1)),
    m.Var: (_scalar(1), None),
    m.Std: (_scalar(1), None),
}
"""By aggregate: the value of a row from its state, of a column of floats, and of any other; None: it is rounded."""


@dataclass(frozen=True)
class KeptColumns:
    """The columns whose values can be recovered from the elements of one assigner, by name."""

    types: Mapping[str, pa.DataType]
    sources: Mapping[str, LiveAggregate]
    """By column: an aggregate whose states contain its values."""
    readers: Mapping[str, Callable[[Stored], pa.Array]]
    assigner: WindowAssigner
    engine: LiveEngine

    @staticmethod
    def of(
        engine: LiveEngine, assigner: WindowAssigner, aggregates: Sequence[tuple[LiveAggregate, AggregateSpec]]
    ) -> KeptColumns:
        """The columns that can be recovered from an assigner's elements; none if these are not single rows."""
        sources: dict[str, LiveAggregate] = {}
        readers: dict[str, Callable[[Stored], pa.Array]] = {}
        types: dict[str, pa.DataType] = {}
        if isinstance(assigner, RowAssigner):
            schema, time = engine.bound_query.schema, engine.bound_query.time
            keys = zip(engine.bound_query.by, engine.keys.types, strict=True)
            types |= {name: kind for name, kind in keys if not pa.types.is_floating(kind)}  # -0.0 is 0.0 there
            if time is not None and _is_word(schema.field(time.column).type):
                types[time.column] = schema.field(time.column).type
            for aggregate, spec in aggregates:
                reader = _reader(aggregate, spec)
                if reader is not None and spec.columns[0] not in types:
                    name = spec.columns[0]
                    types[name], sources[name], readers[name] = spec.types[0], aggregate, reader
        return KeptColumns(types, sources, readers, assigner, engine)

    @property
    def names(self) -> list[str]:
        """The columns whose values are kept."""
        return list(self.types)

    def has(self, spec: AggregateSpec) -> bool:
        """Can all inputs of an aggregate be recovered?"""
        return isinstance(self.assigner, RowAssigner) and not self.missing(spec)

    def missing(self, spec: AggregateSpec) -> list[str]:
        """The columns that an aggregate reads and that are not kept."""
        derived = dict(spec.derived)
        lost = []
        for name in spec.columns:
            if name not in self.types:
                read = derived[name].columns() if name in derived else [name]
                lost += [column for column in read if column not in self.types]
        return list(dict.fromkeys(lost))

    def rows(self, spec: AggregateSpec, ranges: RingRanges) -> BatchColumns:
        """The columns that an aggregate reads, of the rows of some elements."""
        derived = dict(spec.derived)
        wanted: list[str] = []
        for name in spec.columns:
            tree = derived.get(name)
            is_read = tree is not None and name not in self.types and not isinstance(tree, ColumnNode)
            wanted += tree.columns() if is_read and tree is not None else [name]
        columns = {name: self._column(name, ranges) for name in dict.fromkeys(wanted)}
        columns["_row"] = array(np.zeros(ranges.total, np.bool_))  # determines the number of rows
        found = BatchColumns(pa.RecordBatch.from_pydict(columns))
        for name in columns:
            found.column(name)  # a derived column that is kept is not computed again
        return found

    def _column(self, name: str, ranges: RingRanges) -> pa.Array:
        bound_query = self.engine.bound_query
        if name in bound_query.by and name not in self.sources:
            keys = self.engine.keys.keys(ranges.slots)[bound_query.by.index(name)]
            return keys.take(array(ranges.entry))
        source, kind = self.sources.get(name), self.types[name]
        if source is None:
            return typed_words(array(ranges.take(ranges.arena.columns["time"])), kind)
        values = self.readers[name](source.store(ranges.take))
        (counts,) = count_columns(source).store(ranges)
        if counts.true_count < len(counts):  # before the cast: the state of a null row has no value of the column
            values = pc.if_else(counts, values, pa.scalar(None, values.type))
        return typed_words(values, kind)


def _reader(aggregate: LiveAggregate, spec: AggregateSpec) -> Callable[[Stored], pa.Array] | None:
    """A function that recovers the only input from the state of a single row; None if the state does not contain it."""
    known = VALUES.get(type(spec.monoid))
    if known is None or len(spec.columns) != 1 or spec.monoid.nullable or not aggregate.kernel.compiled:
        return None
    kind = spec.types[0]
    if pa.types.is_floating(kind):
        return known[0] if kind.bit_width > 16 else None
    is_number = (pa.types.is_integer(kind) and kind != pa.uint64()) or pa.types.is_boolean(kind)
    is_value = aggregate.values.aggregate.state_of and type(spec.monoid) not in (m.Sum, m.Mean)
    if is_number or is_value or (_is_word(kind) and type(spec.monoid) not in (m.Sum, m.Mean)):
        return known[1]
    return None


def _is_word(kind: pa.DataType) -> bool:
    """Is a value of this type one number of 64 bits?"""
    return bool(
        pa.types.is_int64(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_duration(kind)
    )


def typed_words(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values as a column of this type: unchanged, or numbers of 64 bits that stand for them."""
    if values.type == kind:
        return values
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return values.cast(pa.int64()).view(kind)
    return values.cast(kind)
