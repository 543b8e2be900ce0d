"""Columns of order statistics as their whole-column kernels take them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash import monoids as m
from sash.engine.input_encoding import ValueDictionary, numbers
from sash.kernels.column.column_kernels import RangeBounds, as_kind
from sash.kernels.column.order_kernels import DistinctKernel, OrderKernel, order_kernel_of
from sash.kernels.loops.array_types import Flags, Numbers
from sash.plan.bound_query import AggregateSpec
from sash.plan.types import kind


@dataclass(frozen=True)
class OrderColumn:
    """A column with an order as numbers, the kernel over them, and the dictionary that decodes its results, if any."""

    kernel: OrderKernel | DistinctKernel
    x: Numbers
    dictionary: ValueDictionary | None = None


def order_column(spec: AggregateSpec, column: pa.Array) -> OrderColumn | None:
    """The column of an order statistic; None for other aggregates, and for types without a kernel.

    Numbers and times are numbers; other values are ranked, or numbered if only equality counts. Ordered categories are
    their places.
    """
    monoid = spec.monoid
    kernel = order_kernel_of(monoid)
    if kernel is None:
        return None
    number = kind(column.type) if spec.order(0) is None else None
    if number is not None:
        return OrderColumn(kernel, as_kind(numbers(column), number))
    if kernel.result == "float" and not isinstance(monoid, m.Rank):
        return None
    if spec.order(0) is None and pa.types.is_temporal(column.type) and not pa.types.is_interval(column.type):
        return OrderColumn(kernel, as_kind(numbers(column), "int"))
    if isinstance(kernel, DistinctKernel):
        codes = column.dictionary_encode().indices.fill_null(0)
        return OrderColumn(kernel, codes.to_numpy(zero_copy_only=False).astype(np.int64))
    dictionary = ValueDictionary("rank" if spec.order(0) is None else "category", column, spec.order(0))
    return OrderColumn(kernel, dictionary.codes, dictionary if kernel.result == "same" else None)


def newest_values(ranges: RangeBounds, non_nulls: Flags) -> Flags:
    """The windows whose newest row has a value: in others a rank is null."""
    return non_nulls[np.maximum(ranges.his, 1) - 1] & (ranges.his > ranges.los)
