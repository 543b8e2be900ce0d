"""Encode and decode the values of one aggregate in live state: inputs, results, and states at rest.

    rows' columns ──▶ inputs ──▶ states of elements ──▶ results
                                    │      ▲
                                    ▼      │
                                 columns of pages

Values other than numbers (text, payloads) are encoded by dictionaries that live as long as the aggregate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sash.engine.aggregate_batch import Aggregate
from sash.engine.arrow_arrays import array, word_type
from sash.engine.batch_columns import BatchColumns
from sash.engine.category_codes import CategoryCodes
from sash.engine.chunk_log import CodeMapping, PlaceLog
from sash.engine.input_encoding import CODED, Form, non_null, numbers, present, rows_as_objects, word_pairs
from sash.engine.rank_labels import RankLabels
from sash.kernels.jit.state_layout import scalars
from sash.kernels.loops.array_types import Flags, Ints, States
from sash.plan.bound_query import AggregateSpec
from sash.plan.category_order import Categories
from sash.plan.types import value_type
from sash.stores.state_objects import state_codec

LARGE = 4096
"""A dictionary, log or array of fewer entries is not compacted."""


def is_wasteful(length: int, used: int) -> bool:
    """Are most entries of a large dictionary or log unused?"""
    return length > LARGE and length > 4 * used


Dictionary = PlaceLog | RankLabels | CategoryCodes
"""Encodes the values of one input as codes, which are valid from call to call."""


def _dictionary(form: Form, kind: pa.DataType, order: Categories | None) -> Dictionary:
    """A new dictionary for one input."""
    if order is not None:
        return CategoryCodes(kind, order)
    return PlaceLog(kind) if form == "place" else RankLabels(kind)


class InputReader:
    """Reads the inputs of one aggregate, of these forms, from the columns of rows.

    `ours`: whether the aggregate is one of this package, which takes times as integers.
    """

    def __init__(self, spec: AggregateSpec, forms: Sequence[Form] | None, compiled: bool, ours: bool = True) -> None:
        self.spec, self.compiled, self.ours, self.forms = spec, compiled, ours, forms or ()
        self.presence, self.wide = forms == ("presence",), forms == ("wide",)
        self.words: list[np.dtype[Any] | None] = [
            word_type(value_type(kind)) if form in ("number", "temporal") else None
            for form, kind in zip(forms or (), spec.types, strict=False)
        ]
        """The types of inputs that are columns of 64-bit numbers, which need no conversion."""
        self.derived = spec.derived

    def non_null(self, rows: BatchColumns, count: int) -> Flags | None:
        """Which rows have a value in every column that needs one; None if all have."""
        if self.derived:
            rows.derive(self.derived)
        columns = [rows.column(name) for name in self.spec.columns]
        for column in columns:
            if column.null_count:
                found = non_null(columns, self.spec.monoid.nullable, count)
                return None if found.all() else found
        return None

    def columns(self, rows: BatchColumns, count: int) -> list[Any]:
        """The inputs of rows, column by column: numbers, or lists of objects."""
        names = self.spec.columns
        if self.derived:
            rows.derive(self.derived)
        if not self.compiled:
            columns = [rows.column(name) for name in names]
            return list(rows_as_objects(columns, self.spec, self.ours)) or [[None] * count]
        if self.presence:
            return [np.zeros(count, np.bool_)]
        if self.wide:
            return [*word_pairs(rows.column(names[0]))]
        ways = enumerate(zip(names, self.words, strict=True))
        return [self.encoded(j, rows.column(n)) if word is None else rows.words(n, word) for j, (n, word) in ways]

    def encoded(self, j: int, column: pa.Array) -> Any:
        """The values of an input as numbers."""
        return present(column) if self.forms[j] == "present" else numbers(column)


class ValueEncoder(InputReader):
    """Reads and writes the values of an aggregate. It calls `recode(input, mapping)` when codes have changed."""

    def __init__(self, aggregate: Aggregate, recode: Callable[[int, CodeMapping], None]) -> None:
        super().__init__(aggregate.spec, aggregate.forms, aggregate.kernel.compiled, aggregate.ours)
        self.aggregate, self.recode, self.kernel = aggregate, recode, aggregate.kernel
        self.dictionaries: dict[int, Dictionary] = {
            j: _dictionary(form, kind, aggregate.spec.order(j))
            for j, (form, kind) in enumerate(zip(aggregate.forms, aggregate.types, strict=False))
            if form in CODED
        }
        words = [word for word in self.words if word is not None]
        self._all_words = words if self.compiled and not self.presence and len(words) == len(self.words) else None
        """The types of the inputs if all are columns of 64-bit numbers, else None."""
        self.plain_result = self._plain_result()
        """The type of results that are one 64-bit number each and need no conversion; None for others."""

    def _plain_result(self) -> pa.DataType | None:
        if not self.compiled or self.aggregate.result_of:
            return None
        kind = {"int": pa.int64(), "float": pa.float64()}.get(self.kernel.layouts.result.shape)
        return kind if kind == self.spec.result else None

    # ---- inputs ----

    def inputs(self, rows: BatchColumns, count: int) -> Any:
        """The inputs of rows, as the loops take them. Codes of other values may change."""
        if self._all_words is not None:
            if self.derived:
                rows.derive(self.derived)
            return tuple(
                [rows.words(name, word) for name, word in zip(self.spec.columns, self._all_words, strict=True)]
            )
        columns = self.columns(rows, count)
        return self.kernel.typed(columns) if self.compiled else list(zip(*columns, strict=True))

    def encoded(self, j: int, column: pa.Array) -> Any:
        """The values of an input as numbers: unchanged, or codes."""
        dictionary = self.dictionaries.get(j)
        if dictionary is None:
            return super().encoded(j, column)
        codes = dictionary.encode(column)
        if isinstance(dictionary, RankLabels) and dictionary.relabelled is not None:
            self.recode(j, dictionary.relabelled)
        return codes

    # ---- results ----

    def plain_column(self, values: Any) -> pa.Array:
        """Results without nulls as a column, in the same memory."""
        return pa.Array.from_buffers(self.plain_result, len(values), [None, pa.py_buffer(values)])

    # ---- dictionaries ----

    def leaves_of(self, j: int) -> Iterator[int]:
        """The arrays of states that hold codes of an input."""
        return (i for i, of in self.aggregate.state_of.items() if of == j)

    def compact(self, used: int, live: Callable[[int], Sequence[Ints]]) -> None:
        """Drop values that no state holds, if most are unused.

        `used`: the approximate number of states; `live(i)`: the codes in array i of all of them.
        """
        for j, dictionary in self.dictionaries.items():
            if is_wasteful(len(dictionary), used):
                codes = [codes for i in self.leaves_of(j) for codes in live(i)]
                self.recode(j, dictionary.compact(np.concatenate(codes)))

    @property
    def nbytes(self) -> int:
        """The memory of the dictionaries."""
        return sum(dictionary.nbytes for dictionary in self.dictionaries.values())

    # ---- states at rest ----

    @property
    def fields(self) -> Mapping[str, pa.DataType]:
        """The columns in which a state is stored."""
        return self.aggregate.fields

    def store(self, states: States) -> list[pa.Array]:
        """States as columns to store, with values in place of codes."""
        if not self.compiled:
            dump, _ = state_codec(self.spec.monoid)
            return [pa.array([None if s is None else dump(s) for s in states[0].tolist()], pa.binary())]
        found = []
        for i, leaf in enumerate(states):
            j = self.aggregate.state_of.get(i)
            found.append(array(leaf) if j is None else self.dictionaries[j].decode(leaf))
        return found

    def load(self, states: States, places: Ints, columns: Sequence[pa.Array]) -> None:
        """Load stored states into these places."""
        if not self.compiled:
            _, load = state_codec(self.spec.monoid)
            for place, data in zip(places.tolist(), columns[0].to_pylist(), strict=True):
                states[0][place] = self.kernel.monoid.identity if data is None else load(data)
            return
        for i, (leaf, column) in enumerate(zip(states, columns, strict=True)):
            leaf[places] = self._coded(i, column)

    def _coded(self, i: int, column: pa.Array) -> Any:
        j = self.aggregate.state_of.get(i)
        if j is None:
            return numbers(column)
        codes = self.encoded(j, column)
        if self.aggregate.forms[j] == "place":
            return codes
        return np.where(codes < 0, scalars(self.kernel.monoid.identity)[i], codes)
