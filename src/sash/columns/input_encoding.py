"""Encode the columns of an aggregate as numbers, in one of these forms, and decode its results.

    number     unchanged: bool, 64-bit int, 64-bit float
    temporal   a date, time or duration as its integer
    rank       an ordered value: its rank among all values of this call
    category   an ordered category: its place among the declared ones
    place      any value: its row number; for payloads, nulls included
    presence   whether there is a value: all that `count` needs
    present    the same, beside the value of an aggregate whose null rows count
    wide       a decimal of 128 bits as two 64-bit words, the high one first
    object     a Python object; the aggregate then runs interpreted

With ranks and places, aggregates that only choose among values, or carry them, run compiled on text, decimals and
lists. They are valid within one call: state at rest has the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.columns.arrow_arrays import array, null_mask, words_of
from sash.kernels.loops.array_types import Flags
from sash.monoids.algebra import Kind
from sash.monoids.custom import Custom
from sash.monoids.decimals import OfDecimals
from sash.monoids.direct_product import DirectProduct
from sash.monoids.null_rows import NullRows
from sash.monoids.sums import Count
from sash.plan.bound_query import AggregateSpec
from sash.plan.categories import Categories
from sash.plan.types import kind as number_kind
from sash.plan.types import value_type

Form = Literal["number", "temporal", "rank", "category", "place", "presence", "present", "wide", "object"]

CODED = ("rank", "category", "place")


def encodings_of(spec: AggregateSpec) -> tuple[Form, ...] | None:
    """The form of each input of an aggregate; None if it takes Python objects and runs interpreted."""
    monoid, types = spec.monoid, spec.types
    if isinstance(monoid, Count):
        return ("presence",)
    if monoid.interpreted_only:
        return None
    if isinstance(monoid, OfDecimals):
        return ("wide",) if value_type(types[0]).bit_width == 128 else None
    if isinstance(monoid, NullRows):
        return ("number", "present") if number_kind(value_type(types[0])) is not None else None
    ours = type(monoid).__module__.startswith("sash.monoids.") and not isinstance(monoid, Custom | DirectProduct)
    found = []
    for position, kind in enumerate(types):
        domain = monoid.domain[min(position, len(monoid.domain) - 1)] if ours else "own"
        form = _form(value_type(kind), domain, ours and position in monoid.nullable)
        form = form if spec.categories_of(position) is None else "category"
        if form is None:
            return None
        found.append(form)
    return tuple(found)


def _form(kind: pa.DataType, domain: str, nullable: bool) -> Form | None:
    if nullable:
        return "place"
    if number_kind(kind) is not None:
        return "number"
    if domain == "own":
        return None
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return "temporal"
    if domain == "ordered":
        return "rank"
    return "place" if domain == "any" else None


def kinds_of(forms: Sequence[Form], types: Sequence[pa.DataType]) -> tuple[Kind, ...]:
    """The kinds of numbers that encode inputs in these forms; a decimal is encoded as two."""
    found: list[Kind] = []
    for form, kind in zip(forms, types, strict=False):
        found += ("int", "int") if form == "wide" else (kind_of(form, kind),)
    return tuple(found)


def kind_of(form: Form, kind: pa.DataType) -> Kind:
    """The kind of numbers of an input in this form."""
    if form == "presence":
        return "bool"
    return "int" if form != "number" else number_kind(kind) or "float"


def word_pairs(column: pa.Array) -> tuple[NDArray[Any], NDArray[Any]]:
    """The high and the low words of a column of decimals of 128 bits; nulls are any value."""
    words = words_of(column, np.dtype("i8,i8")).view(np.int64).reshape(-1, 2)
    return np.ascontiguousarray(words[:, 1]), np.ascontiguousarray(words[:, 0])


def numbers(column: pa.Array) -> NDArray[Any]:
    """A column of numbers, or of temporal values, as an array; nulls are any value."""
    kind = column.type
    if pa.types.is_boolean(kind):
        if column.null_count:
            column = column.fill_null(False)  # 30 µs
        return column.to_numpy(zero_copy_only=False)
    if pa.types.is_temporal(kind):
        kind = pa.int32() if kind.bit_width == 32 else pa.int64()
        column = column.view(kind)
    buffer = column.buffers()[1]
    if buffer is None or not len(column):
        return np.zeros(len(column), kind.to_pandas_dtype())
    values: NDArray[Any] = np.frombuffer(buffer, kind.to_pandas_dtype())
    return values[column.offset : column.offset + len(column)]


def non_null(columns: Sequence[pa.Array], nullable: Sequence[int], rows: int) -> Flags:
    """The rows that an aggregate reads: those without a null in a column that must not have one."""
    found = np.ones(rows, np.bool_)
    for position, column in enumerate(columns):
        if position not in nullable and column.null_count:
            found &= present(column)
    return found


def present(column: pa.Array) -> Flags:
    """Which values are not null."""
    return column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else np.ones(len(column), np.bool_)


def rows_as_objects(columns: Sequence[pa.Array], spec: AggregateSpec, ours: bool) -> list[list[Any]]:
    """The columns of an aggregate as Python objects; for one whose null rows count, the second is their presence."""
    if isinstance(spec.monoid, NullRows):
        return [objects(columns[0], ours), present(columns[1]).tolist()]
    return [objects(column, ours, spec.categories_of(j)) for j, column in enumerate(columns)]


def objects(column: pa.Array, ours: bool, categories: Categories | None = None) -> list[Any]:
    """A column as Python objects. The package's own aggregates take temporal values as integers, without limits, and
    ordered categories as their places.
    """
    if categories is not None:
        return pc.index_in(column, pa.array(categories, column.type)).to_pylist()
    if ours and pa.types.is_temporal(column.type) and not pa.types.is_interval(column.type):
        return [x if ok else None for x, ok in zip(numbers(column).tolist(), present(column).tolist(), strict=True)]
    return column.to_pylist()


class Decoder(Protocol):
    """Decodes the codes of one input."""

    def decode(self, codes: NDArray[Any], valid: Flags | None = None, /) -> pa.Array:
        """The values of codes; null for an invalid code, and where not valid."""
        ...


class ValueDictionary:
    """Decodes the codes of one input, within one call. `categories`: ordered ones, from the least."""

    def __init__(self, form: Form, values: pa.Array, categories: Categories | None = None) -> None:
        self.values = values
        total = len(values)
        if categories is not None:
            self.values = pa.array(categories, values.type)
            self.codes = category_codes(values, self.values)
            self.places = np.arange(len(categories))
        elif form == "place":
            self.codes = np.arange(total)
            self.places = self.codes
        else:
            ranks = pc.rank(self.values, sort_keys="ascending", tiebreaker="dense")
            self.codes = ranks.to_numpy(zero_copy_only=False).astype(np.int64) - 1
            self.places = np.zeros(int(self.codes.max(initial=-1)) + 1, np.int64)
            self.places[self.codes[::-1]] = np.arange(total - 1, -1, -1)
        if form == "rank" and self.values.null_count:
            self.codes = np.where(self.values.is_null().to_numpy(zero_copy_only=False), -1, self.codes)

    def decode(self, codes: NDArray[Any], valid: Flags | None = None) -> pa.Array:
        """The values of codes; null for an invalid code."""
        good = (codes >= 0) & (codes < len(self.places))
        if valid is not None:
            good &= valid
        if not len(self.places):
            return pa.nulls(len(codes), self.values.type)
        places = self.places[np.where(good, codes, 0)]
        return self.values.take(array(places, good))


def category_codes(column: pa.Array, categories: pa.Array) -> NDArray[np.int64]:
    """The places of values among their categories, -1 for nulls."""
    found = pc.index_in(column, categories)
    codes: NDArray[np.int64] = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def decimals(words: Sequence[NDArray[Any]], valid: Flags | None, kind: pa.DataType) -> pa.Array:
    """Three words of each value (`monoids/decimals.py`) as a column of decimals of 128 bits."""
    high, middle, low = words
    found = np.empty((len(low), 2), np.int64)
    found[:, 0] = low | middle << 48
    found[:, 1] = middle >> 16 | high << 32
    return pa.Array.from_buffers(kind, len(low), [null_mask(valid), pa.py_buffer(found)])


def to_arrow(leaf: NDArray[Any], valid: Flags | None, kind: pa.DataType) -> pa.Array:
    """An array of numbers as a column of this type."""
    if pa.types.is_temporal(kind):
        stored = np.int32 if kind.bit_width == 32 else np.int64
        return array(leaf.astype(stored, copy=False), valid).view(kind)
    if pa.types.is_float16(kind):
        return array(leaf.astype(np.float16), valid)
    made = array(leaf, valid)
    return made if made.type == kind else made.cast(kind)
