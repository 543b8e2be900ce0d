"""Mode "sorted": check the order of rows, and find the last rows of equal key and time, which may get more peers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.engine.key_values import format_row, key_column, keys_of, ranks
from sash.kernels.loops.array_types import Ints, Numbers
from sash.plan.bound_query import BoundQuery


class SortedRows:
    """Checks of rows that are ordered by key and time."""

    def __init__(self, bound_query: BoundQuery) -> None:
        self.bound_query = bound_query

    def codes(self, table: pa.RecordBatch) -> Ints:
        """The codes of the keys of rows."""
        return keys_of([key_column(table.column(name)) for name in self.bound_query.by], table.num_rows).codes

    def waiting(self, table: pa.RecordBatch, time: Numbers) -> int:
        """The number of rows with the key and time of the last."""
        if not len(time):
            return 0
        codes = self.codes(table)
        differs = np.flatnonzero((codes != codes[-1]) | (time != time[-1]))
        return len(time) - (int(differs[-1]) + 1 if len(differs) else 0)

    def check(self, table: pa.RecordBatch, time: Numbers) -> None:
        """Raises ValueError, naming the row, if rows are not ordered by key and time."""
        if len(time) < 2:
            return
        codes = self.codes(table)
        earlier, equal = time[1:] < time[:-1], time[1:] == time[:-1]
        for name in self.bound_query.ties:
            step = np.diff(ranks(table.column(name)))
            earlier, equal = earlier | (equal & (step < 0)), equal & (step == 0)
        back = np.flatnonzero((np.diff(codes) < 0) | ((np.diff(codes) == 0) & earlier))
        if len(back):
            at = int(back[0]) + 1
            order = ", ".join([*self.bound_query.by, *self.bound_query.query.on])
            raise ValueError(
                f"mode 'sorted' takes rows ordered by {order or 'arrival'}; "
                f"{format_row(table, at)} comes after {format_row(table, at - 1)}"
            )
