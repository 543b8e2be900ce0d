"""What was shown: results as records, kept with their keys, and compared with those to come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.operator.engine import Engine
from sash.operator.frame import Flags, Ints, Numbers


@dataclass
class Shown:
    """Results to be shown, or that were: whose, which, and what is in them. A row of it is one of the output."""

    key: Ints
    span: Ints
    ident: Ints
    revision: Ints
    start: Numbers
    end: Numbers
    on: Flags
    columns: list[pa.Array]
    low: list[Ints]
    high: list[Ints]

    def __len__(self) -> int:
        return len(self.key)


class Records:
    """How results that were shown lie in pages, the same for every emission."""

    def __init__(self, engine: Engine) -> None:
        resolved = engine.resolved
        self.per_row = resolved.per_row
        parts = [part for _ in (resolved.spans if self.per_row else (None,)) for part in resolved.parts]
        self.width = len(parts)
        self.exact = [engine.layouts[0].measures[i % len(resolved.parts)].lane.monoid.exact for i in range(self.width)]
        number = engine.shelf.number_type
        whole = [("span", pa.int32()), ("ident", pa.int64()), ("revision", pa.int64())]
        whole += [("start", number), ("end", number), ("on", pa.bool_())]
        results = [pa.field(f"r{i}", part.result) for i, part in enumerate(parts)]
        counts = [pa.field(f"{end}{i}", pa.int64()) for i in range(self.width) for end in ("low", "high")]
        totals = [pa.field(f"total{i}", pa.int64()) for i in range(len(resolved.parts))]
        self.schema = pa.schema([*whole, *results, *counts, *totals])
        self.totals = len(totals)

    def pack(self, shown: Shown, totals: Sequence[Ints]) -> pa.RecordBatch:
        """Records of what was shown, and of how many values each aggregate of the key has seen in all."""
        counts = [pa.array(count) for pair in zip(shown.low, shown.high, strict=True) for count in pair]
        number = self.schema.field("start").type
        whole = [pa.array(shown.span.astype(np.int32)), pa.array(shown.ident), pa.array(shown.revision)]
        bounds = [pa.array(part).cast(number) for part in (shown.start, shown.end)]
        arrays = [*whole, *bounds, pa.array(shown.on), *shown.columns, *counts, *map(pa.array, totals)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def unpack(self, batch: pa.RecordBatch, key: Ints) -> Shown:
        """What was shown."""

        def numbers(name: str) -> Any:
            return batch.column(name).to_numpy(zero_copy_only=False)

        return Shown(
            key,
            numbers("span").astype(np.int64),
            numbers("ident"),
            numbers("revision"),
            numbers("start"),
            numbers("end"),
            numbers("on"),
            [batch.column(f"r{i}") for i in range(self.width)],
            [numbers(f"low{i}") for i in range(self.width)],
            [numbers(f"high{i}") for i in range(self.width)],
        )


def taken(shown: Shown, places: Ints) -> Shown:
    """Some of what was shown."""
    rows = pa.array(places)
    return Shown(
        shown.key[places],
        shown.span[places],
        shown.ident[places],
        shown.revision[places],
        shown.start[places],
        shown.end[places],
        shown.on[places],
        [column.take(rows) for column in shown.columns],
        [count[places] for count in shown.low],
        [count[places] for count in shown.high],
    )


def differ(one: pa.Array, other: pa.Array) -> Flags:
    """Where two columns of one type differ; null is like null, NaN like NaN."""
    valid, others = (column.is_valid().to_numpy(zero_copy_only=False) for column in (one, other))
    if pa.types.is_null(one.type):
        return np.zeros(len(one), np.bool_)
    if pa.types.is_nested(one.type):
        pairs = zip(*(column.cast(_timeless(column.type)).to_pylist() for column in (one, other)), strict=True)
        return np.array([_like(a) != _like(b) for a, b in pairs], np.bool_)
    if pa.types.is_floating(one.type):
        a, b = (column.fill_null(0.0).to_numpy(zero_copy_only=False) for column in (one, other))
        return (valid != others) | ((a != b) & ~(np.isnan(a) & np.isnan(b)))
    same = pc.fill_null(pc.equal(one, other), False).to_numpy(zero_copy_only=False)
    return np.where(valid & others, ~same, valid != others)


def _timeless(kind: pa.DataType) -> pa.DataType:
    """A nested type with integers for times: those of Python have no nanoseconds."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_timeless(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _timeless(field.type)) for field in kind])
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return kind


def _like(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, dict):
        return tuple((name, _like(part)) for name, part in value.items())
    return tuple(map(_like, value)) if isinstance(value, list) else value


def joined_shown(parts: list[Shown]) -> Shown:
    """What was shown of several windows, in one."""
    if len(parts) == 1:
        return parts[0]

    def joined(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    columns = [pa.concat_arrays(pieces) for pieces in zip(*(part.columns for part in parts), strict=True)]
    low = [np.concatenate(pieces) for pieces in zip(*(part.low for part in parts), strict=True)]
    high = [np.concatenate(pieces) for pieces in zip(*(part.high for part in parts), strict=True)]
    names = ("key", "span", "ident", "revision", "start", "end", "on")
    return Shown(**{name: joined(name) for name in names}, columns=columns, low=low, high=high)
