"""Encode and decode the values of one aggregate in live state: inputs, results, and states at rest.

    rows' columns ──▶ inputs ──▶ states of elements ──▶ results
                                    │      ▲
                                    ▼      │
                                 columns of pages

Values other than numbers (text, payloads) are encoded by dictionaries that live as long as the aggregate.

Codes of ordered categories: their places in the declared order, which never change.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sash.columns.aggregate_batch import Aggregate, InputReader
from sash.columns.arrow_arrays import array
from sash.columns.batch_columns import BatchColumns
from sash.columns.input_encoding import (
    CODED,
    Form,
    category_codes,
    numbers,
)
from sash.engine.keyed.chunk_log import CodeMapping, PlaceLog, require_type
from sash.engine.keyed.rank_labels import RankLabels
from sash.kernels.jit.state_layout import scalars
from sash.kernels.loops.array_types import Flags, Ints, States
from sash.plan.categories import Categories
from sash.stores.codec import state_codec

# --- Category codes ---


class CategoryCodes:
    """Codes for the values of a column with ordered categories, -1 for nulls. It has no state of its own.

    >>> codes = CategoryCodes(pa.string(), ("small", "large"))
    >>> codes.encode(pa.array(["large", None, "small"])).tolist()
    [1, -1, 0]
    >>> codes.decode(np.array([1, -1])).to_pylist()
    ['large', None]
    """

    nbytes = 0

    def __init__(self, type: pa.DataType, order: Categories) -> None:  # noqa: A002
        self.type = type
        self.values = pa.array(order, type)

    def __len__(self) -> int:
        """0: there is nothing to compact."""
        return 0

    def encode(self, column: pa.Array) -> Ints:
        """The places of values. Raises TypeError if they are not of the categories' type."""
        require_type(column, self.type)
        return category_codes(column, self.values)

    def decode(self, codes: Ints, valid: Flags | None = None) -> pa.Array:
        """The values of places; null for other numbers, and where not valid."""
        good = (codes >= 0) & (codes < len(self.values))
        if valid is not None:
            good &= valid
        return (
            self.values.take(array(np.where(good, codes, 0), good)) if good.any() else pa.nulls(len(codes), self.type)
        )

    def compact(self, _live: Ints) -> CodeMapping:
        """All values stay."""
        return lambda codes: codes

    def mark(self) -> Any:
        """Nothing changes."""
        return None

    def rollback(self, mark: Any) -> None:
        """Nothing has changed."""


# --- Value encoder ---

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


class ValueEncoder(InputReader):
    """Reads and writes the values of an aggregate. It calls `recode(input, mapping)` when codes have changed."""

    def __init__(self, aggregate: Aggregate, recode: Callable[[int, CodeMapping], None]) -> None:
        super().__init__(aggregate.spec, aggregate.forms, aggregate.kernel.compiled, aggregate.ours)
        self.aggregate, self.recode, self.kernel = aggregate, recode, aggregate.kernel
        self.dictionaries: dict[int, Dictionary] = {
            j: _dictionary(form, kind, aggregate.spec.categories_of(j))
            for j, (form, kind) in enumerate(zip(aggregate.forms, aggregate.types, strict=False))
            if form in CODED
        }
        words = [word for word in self.words if word is not None]
        self._all_words = words if self.compiled and not self.presence and len(words) == len(self.words) else None
        """The types of the inputs if all are columns of 64-bit numbers, else None."""
        self.plain_inputs: Hashable = None
        """Equal for aggregates whose inputs are the same columns of 64-bit numbers; None if they are others."""
        if self._all_words is not None:
            self.plain_inputs = self.spec.columns, self.spec.monoid.nullable
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
        return self.kernel.inputs(self.columns(rows, count))

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
