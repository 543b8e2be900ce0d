"""Codes of ordered categories: their places in the declared order, which never change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sash.engine.arrow_arrays import array
from sash.engine.chunk_log import CodeMapping, require_type
from sash.engine.input_encoding import category_codes
from sash.kernels.loops.array_types import Flags, Ints
from sash.plan.category_order import Categories


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
