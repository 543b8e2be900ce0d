"""Leave out columns of a batch that repeat: one value in every row, or the values of another column.

    columns     time   high   total.0   total.1   n         layout
    rows        1      7.5    7.5       0.0       True      [-1, -1, 1, "0", "1"]
                2      3.0    3.0       0.0       True      -1: stored; 1: as column 1; "0": this value, as 64 bits
    stored      time, high

The states of single rows repeat each other: the maximum and the sum of one value are that value, and the correction of
the sum is 0. Without them a page has half the bytes, and every copy of it takes half the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array
from sash.columns.input_encoding import numbers
from sash.kernels.loops.array_types import Ints
from sash.stores.envelope import Check, integer, text

Layout = list[Any]
"""For each column: -1 if it is stored, the number of the column that it equals, or its only value as text."""

STORED = -1
_NUMBER, _VALUE = integer(STORED, 10_000), text(r"-?[0-9]{1,19}")
COLUMN = Check(
    "-1, the number of a column or the text of an integer",
    lambda x: (_VALUE if isinstance(x, str) else _NUMBER).holds(x),
)
"""An entry of a layout."""

_FEW = 16
"""Rows to compare first: columns that differ usually do so there."""

_WORDS = (pa.int64(), pa.float64())


def layout_of(columns: Sequence[pa.Array]) -> Layout:
    """The layout of columns. At least one is stored: it determines the number of rows.

    >>> ints = pa.array([5, 6]), pa.array([7, 7]), pa.array([5, 6]), pa.array([True, True])
    >>> layout_of(ints)
    [-1, '7', 0, '1']
    """
    words = [_words(column) for column in columns]
    found: Layout = []
    for place, (column, bits) in enumerate(zip(columns, words, strict=True)):
        found.append(STORED)
        if column.type == pa.bool_() and not column.null_count and len(column) and _is_constant(column):
            found[place] = str(int(column[0].as_py()))
        elif bits is not None and bits[0] == bits[-1] and (bits == bits[0]).all():
            found[place] = str(int(bits[0]))
        elif bits is not None:
            for other in range(place):
                known = words[other]
                is_like = found[other] == STORED and known is not None and columns[other].type == column.type
                if is_like and _are_equal(bits, known):
                    found[place] = other
                    break
    if found and STORED not in found:
        found[0] = STORED
    return found


def _words(column: pa.Array) -> Ints | None:
    """The values as 64-bit integers; None for columns of other types or with nulls."""
    if column.type not in _WORDS or column.null_count or not len(column):
        return None
    return numbers(column).view(np.int64)


def _is_constant(column: Any) -> bool:
    return column.true_count in (0, len(column))


def _are_equal(values: Ints, others: Any) -> bool:
    return bool(
        (values[:_FEW] == others[:_FEW]).all() and (values == others).all()
    )  # in half the time of `array_equal`


def stored_fields(schema: pa.Schema, layout: Layout) -> pa.Schema:
    """The schema of the columns that are stored. Raises ValueError for a layout of another schema."""
    kinds = schema.types
    if len(layout) != len(kinds) or (kinds and STORED not in layout):
        raise ValueError("its layout is not one of its columns")
    for place, how in enumerate(layout):
        if isinstance(how, str):
            is_valid = (kinds[place] in _WORDS and -(2**63) <= int(how) < 2**63) or kinds[place] == pa.bool_()
        else:
            is_valid = how == STORED or (how < place and layout[how] == STORED and kinds[how] == kinds[place])
        if not is_valid:
            raise ValueError(f"its column {schema.names[place]!r} is neither stored nor equal to another")
    return pa.schema([field for field, how in zip(schema, layout, strict=True) if how == STORED])


def restored(batch: pa.RecordBatch, schema: pa.Schema, layout: Layout) -> pa.RecordBatch:
    """The batch of all columns, from those that were stored."""
    stored, columns = iter(batch.columns), list[pa.Array]()
    for field, how in zip(schema, layout, strict=True):
        if isinstance(how, str):
            columns.append(_constant(int(how), batch.num_rows, field.type))
        else:
            columns.append(next(stored) if how == STORED else columns[how])
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def restored_column(batch: pa.RecordBatch, schema: pa.Schema, layout: Layout, name: str) -> pa.Array:
    """One column of all, from those that were stored."""
    place = schema.get_field_index(name)
    how = layout[place]
    if isinstance(how, str):
        return _constant(int(how), batch.num_rows, schema.field(place).type)
    return batch.column(layout[: place if how == STORED else how].count(STORED))


def _constant(value: int, rows: int, kind: pa.DataType) -> pa.Array:
    return _few_constants(value, rows, kind) if rows <= _FEW else _constants(value, rows, kind)


@lru_cache(maxsize=1024)
def _few_constants(value: int, rows: int, kind: pa.DataType) -> pa.Array:
    """The columns of single keys, which repeat: 0.5 µs instead of 10."""
    return _constants(value, rows, kind)


def _constants(value: int, rows: int, kind: pa.DataType) -> pa.Array:
    if kind == pa.bool_():
        return array(np.full(rows, value != 0))
    return array(np.full(rows, value).view(np.float64 if kind == pa.float64() else np.int64))
