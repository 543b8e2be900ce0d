"""The inputs of one aggregate in stateless execution, by key and time, and its results in the order of the table.

columns ──▶ in order, without nulls, as numbers ──▶ kernel ──▶ results in the order of the rows

Columns of order statistics as their whole-column kernels take them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from sash import monoids as m
from sash.columns.arrow_arrays import array
from sash.columns.batch_columns import BatchColumns
from sash.columns.input_encoding import Form, ValueDictionary, encodings_of, kinds_of, non_null, numbers, to_arrow
from sash.columns.keys import decode
from sash.columns.row_order import RowOrder, counts_before
from sash.kernels.column.column_kernels import (
    ColumnKernel,
    CountBounds,
    Places,
    RangeBounds,
    RowThreads,
    as_kind,
    column_kernel_of,
)
from sash.kernels.loops.array_types import NO_INTS, Flags, Ints, Numbers
from sash.monoids.algebra import Kind
from sash.plan.bound_query import AggregateSpec
from sash.plan.types import kind

if TYPE_CHECKING:
    from sash.aggregators.in_order import InOrder
    from sash.columns.aggregate_batch import AggregateBatch
    from sash.kernels.column.rank_kernels import DistinctKernel, RankKernel

# --- Ranked columns ---

RANKED = (m.CountDistinct, m.Median, m.Mode, m.PercentRank, m.Quantile, m.Rank)
"""The aggregates with kernels of their own kind (`rank_kernels.py`)."""


def rank_column(
    spec: AggregateSpec, kernel: RankKernel | DistinctKernel | None, column: pa.Array
) -> tuple[RankKernel | DistinctKernel, ValueDictionary | None, Numbers] | None:
    """The kernel of an order statistic, what decodes its results, if anything, and the column as it reads it.

    None for other aggregates, and for types without a kernel.

    Numbers and times are numbers; other values are ranked, or numbered if only equality counts. Ordered categories are
    their places.
    """
    if kernel is None:
        return None
    from sash.kernels.column.rank_kernels import DistinctKernel

    number = kind(column.type) if spec.categories_of(0) is None else None
    if number is not None:
        return kernel, None, as_kind(numbers(column), number)
    if kernel.result == "float" and not isinstance(spec.monoid, m.Rank):
        return None
    if spec.categories_of(0) is None and pa.types.is_temporal(column.type) and not pa.types.is_interval(column.type):
        return kernel, None, as_kind(numbers(column), "int")
    if isinstance(kernel, DistinctKernel):
        codes = column.dictionary_encode().indices.fill_null(0)
        return kernel, None, codes.to_numpy(zero_copy_only=False).astype(np.int64)
    dictionary = ValueDictionary("rank" if spec.categories_of(0) is None else "category", column, spec.categories_of(0))
    return kernel, dictionary if kernel.result == "same" else None, dictionary.codes


def newest_values(ranges: RangeBounds, non_nulls: Flags) -> Flags:
    """The windows whose newest row has a value: in others a rank is null."""
    return non_nulls[np.maximum(ranges.his, 1) - 1] & (ranges.his > ranges.los)


# --- Column inputs ---


@dataclass
class ResultColumn:
    """Results in the order of the rows: numbers and which are valid (None: all), or an Arrow column."""

    type: pa.DataType
    numbers: Numbers | None = None
    valid: Flags | None = None
    made: pa.Array | None = None

    def arrow(self) -> pa.Array:
        """The results as an Arrow column."""
        if self.made is None:
            assert self.numbers is not None
            self.made = to_arrow(self.numbers, self.valid, self.type)
        return self.made

    def take_numbers(self) -> Numbers | None:
        """Take over the array: floats, in which nulls are overwritten with NaN, or integers without a null; else None.

        `arrow` still returns the same results, until the new owner of the array changes it.
        """
        numbers, valid = self.numbers, self.valid
        if numbers is None or self.type not in (pa.float64(), pa.int64()):
            return None
        if valid is not None and not valid.all():
            if numbers.dtype.kind != "f":
                return None
            numbers[~valid] = np.nan
        return numbers


class InputKernels(NamedTuple):
    """What depends on an aggregate and the types of its columns alone."""

    forms: tuple[Form, ...] | None
    kinds: tuple[Kind, ...]
    column: ColumnKernel | None
    ranked: RankKernel | DistinctKernel | None

    @classmethod
    def of(cls, spec: AggregateSpec) -> InputKernels:
        """The kernels of an aggregate."""
        forms = encodings_of(spec)
        numbered = forms is not None and forms != ("presence",)
        kinds = kinds_of(forms, spec.types) if forms is not None and numbered else ()
        kernel = column_kernel_of(spec.monoid, kinds) if numbered else None
        if not isinstance(spec.monoid, RANKED):
            return cls(forms, kinds, kernel, None)
        from sash.kernels.column.rank_kernels import rank_kernel_of

        return cls(forms, kinds, kernel, rank_kernel_of(spec.monoid))


class Inputs:
    """The columns of an aggregate, in order, as its kernels take them; created at first use."""

    def __init__(
        self,
        spec: AggregateSpec,
        columns: BatchColumns,
        rows: RowOrder,
        threads: RowThreads,
        results: RowOrder | None = None,
    ) -> None:
        """`results`: the order of the results, if they are those of other rows (`as_of_columns.py`)."""
        self.spec, self.rows, self.threads = spec, rows, threads
        self.results = rows if results is None else results
        if spec.derived:
            columns.derive(spec.derived)
        self.columns = [decode(columns.column(name)) for name in spec.columns]
        kernels = spec.prepared.get_or(InputKernels, lambda: InputKernels.of(spec))
        self.forms = kernels.forms
        self.kernel: ColumnKernel | RankKernel | DistinctKernel | None = None
        self.dictionary: ValueDictionary | None = None
        self.x: Numbers = NO_INTS
        """The numbers that the kernel reads, in order; empty without a kernel."""
        self._batches: dict[tuple[type[InOrder], bool], AggregateBatch] = {}
        non_nulls: Flags | None = None
        ranked = rank_column(spec, kernels.ranked, self.columns[0]) if self.columns else None
        nullable = () if ranked is not None else spec.monoid.nullable
        for i, column in enumerate(self.columns):
            if column.null_count and i not in nullable:
                non_nulls = rows.scatter(non_null(self.columns, nullable, rows.rows))
                break
        self.non_nulls = non_nulls
        if ranked is not None:
            self.kernel, self.dictionary, x = ranked
            self.x = self._read(x)
        elif kernels.column is not None:
            self.kernel, self.dictionary, self.x = self._prepare(kernels, kernels.column)
        self.places: Places | None = None if non_nulls is None else counts_before(non_nulls)
        """The number of rows that the aggregate reads before each place; None if it reads all."""
        self.back_places: Ints = NO_INTS if non_nulls is None else np.flatnonzero(non_nulls)
        """The places of the rows that it reads, if it does not read all."""

    def _prepare(
        self, kernels: InputKernels, kernel: ColumnKernel
    ) -> tuple[ColumnKernel | None, ValueDictionary | None, Numbers]:
        """The column kernel, None if there is none for these values; the dictionary of its codes; what it reads."""
        forms, kinds = kernels.forms or (), kernels.kinds
        dictionary = None
        if forms[0] in ("rank", "category"):
            dictionary = ValueDictionary(forms[0], self.columns[0], self.spec.categories_of(0))
        x: Any = dictionary.codes if dictionary is not None else numbers(self.columns[0])
        if kernel.result == "float" and isinstance(self.spec.monoid, m.Var) and kinds[0] != "float":
            if len(x) and max(abs(int(x.min())), abs(int(x.max()))) > 2**53:
                return None, dictionary, NO_INTS
            x = x.astype(np.float64)
        else:
            x = as_kind(x, kinds[0])
        return kernel, dictionary, self._read(x)

    def _read(self, x: Numbers) -> Numbers:
        """The numbers of the rows that the aggregate reads, in order."""
        x = self.rows.scatter(x)
        return x if self.non_nulls is None else x[self.non_nulls]

    def batch(self, cls: type[InOrder], lowers_apart: bool = False) -> AggregateBatch:
        """The aggregate's kernel with the states of the rows in order; `lowers_apart`: results are states."""
        if (cls, lowers_apart) not in self._batches:
            from sash.columns.aggregate_batch import Aggregate, AggregateBatch
            from sash.kernels.loops.bound_kernel import columns_use

            spec = replace(self.spec, monoid=cls.form(self.spec.monoid))
            aggregate = Aggregate(spec, columns_use(cls), lowers_apart)
            columns = self.columns
            source = self.rows.source
            if source is not None:
                columns = [column.take(array(source)) for column in columns]
            batch = AggregateBatch(aggregate, columns, len(self.rows), self.threads.run)
            self._batches[cls, lowers_apart] = batch
        return self._batches[cls, lowers_apart]

    def among(self, given: CountBounds | RangeBounds) -> CountBounds | RangeBounds:
        """Bounds among the rows that the aggregate reads."""
        if self.places is None:
            return given
        return self.threads.among(self.places, self.threads.as_ranges(given, len(self.rows)))

    # ---- the way back ----

    def lowered(self, found: Numbers, valid: Flags | None) -> ResultColumn:
        """Results of a column kernel."""
        assert self.kernel is not None
        if self.kernel.result == "place":
            return self.payload(found, valid, 1)
        return self._decoded(self.back(self.spec.result, found, valid))

    def in_rows_order(self, found: Numbers) -> ResultColumn:
        """Results of a column kernel that are in the order of the rows."""
        return self._decoded(ResultColumn(self.spec.result, found, self.rows.timed))

    def _decoded(self, back: ResultColumn) -> ResultColumn:
        if self.dictionary is not None and back.numbers is not None:
            return self._as_result(self.dictionary.decode(back.numbers, back.valid))
        return back

    def payload(self, found: Numbers, valid: Flags | None, column: int) -> ResultColumn:
        """The values of a column at the found rows, given by their places among those that the aggregate reads."""
        if valid is not None:
            found = np.where(valid, found, 0)
        at = found if self.places is None else self.back_places[found] if len(self.back_places) else found
        source = self.rows.source
        back = self.back(pa.int64(), at if source is None or not len(source) else source[at], valid)
        assert back.numbers is not None
        return self._as_result(self.columns[column].take(array(back.numbers, back.valid)))

    def _as_result(self, column: pa.Array) -> ResultColumn:
        kind = self.spec.result
        return ResultColumn(kind, made=column if column.type == kind else column.cast(kind))

    def back(self, kind: pa.DataType, found: Numbers, valid: Flags | None) -> ResultColumn:
        """Numbers in the order of the rows."""
        rows = self.results
        if rows.place is None:
            return ResultColumn(kind, found, valid)
        if valid is not None:
            flags = rows.gather(valid)
            return ResultColumn(kind, rows.gather(found), flags if rows.timed is None else flags & rows.timed)
        return ResultColumn(kind, rows.gather(found), rows.timed)

    def restored(self, column: pa.Array) -> ResultColumn:
        """A column in the order of the rows; null for those without a time."""
        rows = self.results
        if rows.place is None:
            return ResultColumn(column.type, made=column)
        return ResultColumn(column.type, made=column.take(array(rows.place, rows.timed)))
