"""An aggregate of a query as the engine runs it, between Arrow columns and the loops of the kernels.

    rows' columns ──▶ states (one call) ──▶ results ──▶ an Arrow column

A stored state is one column per scalar, with values in place of codes. States of interpreted aggregates are stored as
one column of bytes, by the monoid's `dump` or our codec.

What lies between two columns of decimals, durations or times (`monoids/rank_statistics.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.columns.arrow_arrays import word_type
from sash.columns.batch_columns import BatchColumns
from sash.columns.input_encoding import (
    CODED,
    Decoder,
    Form,
    ValueDictionary,
    decimals,
    encodings_of,
    kind_of,
    kinds_of,
    non_null,
    numbers,
    present,
    rows_as_objects,
    to_arrow,
    word_pairs,
)
from sash.kernels.jit.state_layout import scalars
from sash.kernels.loops.array_types import Flags, States
from sash.kernels.loops.bound_kernel import LOWER, BoundKernel, Share, Use
from sash.monoids.custom import Custom
from sash.monoids.null_rows import Unlowered
from sash.monoids.rank_statistics import ONE, AroundForm
from sash.plan.bound_query import AggregateSpec
from sash.plan.types import has_objects, value_type

# --- Between columns ---

_DIGITS = 18
"""The decimal places of a fraction."""


class AroundColumns(NamedTuple):
    """The values around quantiles, null where there is no result, and the fractions of the way between them."""

    low: pa.Array
    high: pa.Array
    fraction: NDArray[np.float64]


def between_column(around: AroundColumns, kind: pa.DataType, name: str) -> pa.Array:
    """The quantiles as a column of this type. Raises OverflowError, naming the aggregate, for too many digits."""
    low, high = (_decimals(end, kind) for end in around[:2])
    whole = np.zeros((len(low), 2), np.int64)
    whole[:, 0] = np.rint(around.fraction * ONE)
    words = [None, pa.py_buffer(whole)]
    fraction = pa.Array.from_buffers(pa.decimal128(19, _DIGITS), len(low), words).cast(pa.decimal256(19, _DIGITS))
    exact = pc.add(low, pc.multiply(pc.subtract(high, low), fraction))
    places = kind.scale if pa.types.is_decimal(kind) else 0
    rounded = pc.round(exact, ndigits=places, round_mode="half_towards_infinity")
    if not pa.types.is_decimal(kind):
        return as_times(rounded.cast(pa.int64()), kind)
    try:
        return rounded.cast(kind)
    except pa.ArrowInvalid:
        raise OverflowError(
            f"a result of {name} has more than {kind.precision} digits: cast the column to fewer decimal places"
        ) from None


def as_times(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Integers in units of a type of times as a column of it; values of another type unchanged."""
    if not pa.types.is_integer(column.type):
        return column
    return (column.cast(pa.int32()) if kind.bit_width == 32 else column).view(kind)


def _decimals(column: Any, kind: pa.DataType) -> Any:
    """A column as decimals of 256 bits, whose products with fractions are exact; times in units of the result."""
    given = column.cast(kind) if pa.types.is_date(column.type) else column
    if pa.types.is_decimal(given.type):
        return given.cast(pa.decimal256(given.type.precision, given.type.scale))
    return given.view(pa.int32() if given.type.bit_width == 32 else pa.int64()).cast(pa.decimal256(19, 0))


# --- Aggregate batch ---

_MARK = 1_000_003
_KINDS = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64()}


def is_exact(spec: AggregateSpec) -> bool:
    """Is the aggregate exact on columns of these types? A sum of integers is, a sum of floats is not.

    Only the types decide, not the form that runs: emitted results must not depend on whether the aggregate compiles.
    """
    tests = (("bool", pa.types.is_boolean), ("int", pa.types.is_integer), ("float", pa.types.is_floating))
    kinds: list[Any] = [kind for column in spec.types for kind, holds in tests if holds(column)]
    if len(kinds) < len(spec.types) or spec.monoid.interpreted_only:
        return spec.monoid.exact
    return spec.monoid.typed(*kinds).exact


class Aggregate:
    """An aggregate on its columns, with the kernel that it runs on.

    `lowers_apart`: the kernel's results are states; then it compiles only if `lower` compiles, too. `objects`: it runs
    interpreted. `warn`: a user's aggregate that does not compile issues a warning.
    """

    def __init__(
        self, spec: AggregateSpec, use: Use, lowers_apart: bool = False, objects: bool = False, warn: bool = True
    ) -> None:
        self.spec = spec
        self.types = tuple(map(value_type, spec.types))
        self.ours = not isinstance(spec.monoid, Custom)
        for name, kind in zip(spec.columns, self.types, strict=True):
            if not self.ours and getattr(kind, "unit", None) == "ns" and not has_objects(kind):
                raise TypeError(
                    f"the aggregate {spec.name!r} takes the column {name!r} of type {kind} as objects of Python, which "
                    "have no nanoseconds (those of pandas have): cast it to microseconds"
                )
        forms = encodings_of(spec)
        kinds = None if forms is None or objects else kinds_of(forms, self.types or (pa.bool_(),))
        monoid, warn = spec.monoid, warn and not self.ours
        if lowers_apart:
            if not BoundKernel(monoid, kinds, LOWER, warn).compiled:
                kinds, warn = None, False
            monoid = Unlowered(monoid)
        self.kernel = BoundKernel(monoid, kinds, use, warn)
        as_objects: tuple[Form, ...] = tuple("object" for _ in self.types)
        self.forms = forms if forms and self.kernel.compiled else as_objects
        self.state_of, self.result_of = self._traced(self.forms)
        if not self.kernel.compiled and spec.categories:  # places of categories are its only codes
            places = range(len(self.types))
            self.result_of = self._traced(["number" if spec.categories_of(j) is None else "category" for j in places])[
                1
            ]

    def _traced(self, forms: Sequence[Form]) -> tuple[dict[int, int], dict[int, int]]:
        """Find the scalars of a state and of a result that are an unchanged input, by marking the inputs."""
        monoid = self.kernel.monoid
        marks = {_MARK + j: j for j, form in enumerate(forms) if form in CODED}
        if not marks:
            return {}, {}
        inputs = zip(forms, self.types, strict=True)
        row = [_MARK + j if form in CODED else _sample(form, kind) for j, (form, kind) in enumerate(inputs)]
        state = functools.reduce(monoid.combine, [monoid.lift(*row)] * monoid.sample_rows)
        return _marked(state, marks), _marked(monoid.lower(state), marks)

    @property
    def fields(self) -> dict[str, pa.DataType]:
        """The columns in which a state is stored."""
        if not self.kernel.compiled:
            return {"state": pa.binary()}
        leaves = enumerate(self.kernel.leaves)
        return {f"s{i}": self.types[self.state_of[i]] if i in self.state_of else _KINDS[kind] for i, kind in leaves}

    def column(self, out: Any, valid: Flags, empty: Flags, dictionaries: Mapping[int, Decoder]) -> pa.Array:
        """Results as a column of the aggregate's type; its empty result where there was no value.

        `dictionaries` decode values, by input.
        """
        spec, kernel = self.spec, self.kernel
        nothing = spec.monoid.empty
        if isinstance(kernel.monoid, AroundForm):
            return between_column(self._around(out, valid, dictionaries), spec.result, spec.name)
        if not kernel.compiled:
            values = [self._decoded(x) if ok else None for x, ok in zip(out[0], valid.tolist(), strict=True)]
            return spec.array(values if nothing is None else _filled(values, empty, nothing))
        shape = kernel.layouts.result.shape
        has_empty = nothing is not None and bool(empty.any())
        if has_empty and not isinstance(nothing, tuple) and len(out) == 1:
            out, valid = (np.where(empty, nothing, out[0]).astype(out[0].dtype),), valid | empty
            has_empty = False
        made = self._built(iter(enumerate(out)), valid, spec.result, shape, dictionaries)
        return spec.array(_filled(made.to_pylist(), empty, nothing)) if has_empty else made

    def _around(self, out: Any, valid: Flags, dictionaries: Mapping[int, Decoder]) -> AroundColumns:
        """The values around quantiles, and the fractions of the way from one to the other."""
        kind = self.types[0]
        if not self.kernel.compiled:
            found = [x if ok else (None, None, 0.0) for x, ok in zip(out[0], valid.tolist(), strict=True)]
            low, high, fraction = zip(*found, strict=True) if found else ((), (), ())
            stored = pa.int64() if self.ours and pa.types.is_temporal(kind) else kind
            ends = [as_times(pa.array(end, stored), kind) for end in (low, high)]
            return AroundColumns(ends[0], ends[1], np.array(fraction, np.float64))
        leaves = enumerate(out[:2])
        ends = [self._built(iter([leaf]), valid, kind, "", dictionaries) for leaf in leaves]
        return AroundColumns(ends[0], ends[1], np.where(valid, out[2], 0.0))

    def _decoded(self, value: Any) -> Any:
        """A result of Python objects, with categories in place of their codes."""
        if not self.result_of or value is None:
            return value
        leaves = [value] if not isinstance(value, tuple) else list(value)
        for i, j in self.result_of.items():
            categories = self.spec.categories_of(j)
            if categories is not None and leaves[i] is not None:
                leaves[i] = categories[leaves[i]]
        return tuple(leaves) if isinstance(value, tuple) else leaves[0]

    def _built(
        self, leaves: Any, valid: Flags, kind: pa.DataType, shape: Any, dictionaries: Mapping[int, Decoder]
    ) -> pa.Array:
        """A column of this type from scalars of this shape; one scalar may stand for a value of any type."""
        if isinstance(shape, tuple) and pa.types.is_decimal(kind):
            return decimals([next(leaves)[1] for _ in shape], valid, kind)
        if isinstance(shape, tuple):
            fields = list(kind)
            parts = zip(fields, shape, strict=True)
            made = [self._built(leaves, valid, field.type, part, dictionaries) for field, part in parts]
            return pa.StructArray.from_arrays(made, fields=fields, mask=pa.array(~valid))
        i, leaf = next(leaves)
        j = self.result_of.get(i)
        if j is not None:
            made = dictionaries[j].decode(leaf, valid)
            return made if made.type == kind else made.cast(kind)
        return to_arrow(leaf, valid, kind)


def _filled(values: list[Any], empty: Flags, nothing: Any) -> list[Any]:
    return [nothing if is_empty else x for x, is_empty in zip(values, empty.tolist(), strict=True)]


def _sample(form: Form, kind: pa.DataType) -> Any:
    return {"bool": True, "int": 1, "float": 1.5}[kind_of(form, kind)]


def _marked(value: Any, marks: dict[int, int]) -> dict[int, int]:
    return {i: marks[leaf] for i, leaf in enumerate(scalars(value)) if not isinstance(leaf, bool) and leaf in marks}


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
        names = self.spec.columns
        for name in names:
            if rows.column(name).null_count:
                found = non_null([rows.column(name) for name in names], self.spec.monoid.nullable, count)
                return None if found.all() else found
        return None

    def columns(self, rows: BatchColumns, count: int) -> list[Any]:
        """The inputs of rows, column by column: numbers, or lists of objects."""
        names = self.spec.columns
        if self.derived:
            rows.derive(self.derived)
        if not self.compiled or self.presence or self.wide:
            return self.read([rows.column(name) for name in names], count)
        ways = enumerate(zip(names, self.words, strict=True))
        return [self.encoded(j, rows.column(n)) if word is None else rows.words(n, word) for j, (n, word) in ways]

    def read(self, columns: Sequence[pa.Array], count: int) -> list[Any]:
        """The inputs in these columns: numbers, or lists of objects."""
        if not self.compiled:
            return list(rows_as_objects(columns, self.spec, self.ours)) or [[None] * count]
        if self.presence or not columns:
            return [np.zeros(count, np.bool_)]
        if self.wide:
            return [*word_pairs(columns[0])]
        return [self.encoded(j, column) for j, column in enumerate(columns)]

    def encoded(self, j: int, column: pa.Array) -> Any:
        """The values of an input as numbers."""
        return present(column) if self.forms[j] == "present" else numbers(column)


class AggregateBatch(InputReader):
    """An aggregate over all rows of a table: their states, and the values that codes stand for.

    Raises AggregateError.
    """

    def __init__(self, aggregate: Aggregate, columns: Sequence[pa.Array], rows: int, share: Share) -> None:
        super().__init__(aggregate.spec, aggregate.forms, aggregate.kernel.compiled, aggregate.ours)
        self.aggregate, coded = aggregate, [j for j, form in enumerate(self.forms) if form in CODED]
        self.dictionaries = {j: ValueDictionary(self.forms[j], columns[j], self.spec.categories_of(j)) for j in coded}
        self.has_value = non_null(columns, self.spec.monoid.nullable, rows)
        self.states: States = aggregate.kernel.lift(self.read(columns, rows), self.has_value, share)

    def encoded(self, j: int, column: pa.Array) -> Any:
        return self.dictionaries[j].codes if j in self.dictionaries else super().encoded(j, column)

    def column(self, out: States, valid: Flags, empty: Flags) -> pa.Array:
        """Results as a column of the aggregate's type; its empty result where there was no value."""
        return self.aggregate.column(out, valid, empty, self.dictionaries)
