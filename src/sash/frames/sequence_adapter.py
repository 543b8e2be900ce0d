"""Dicts of sequences of Python: lists, tuples, and columns of other libraries among them. Results are lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sash.engine.arrow_arrays import array
from sash.engine.exact_columns import column_of
from sash.frames.adapter import FrameResult, Ints


class SequenceAdapter:
    """Columns by name. Raises TypeError or ValueError, naming the column, if they do not form a table."""

    def __init__(self, columns: dict[Any, Any]) -> None:
        self.columns = columns
        self.names: list[str] = list(columns)
        first = self.names[0]
        self.rows = len(columns[first])
        for name, column in columns.items():
            if not isinstance(name, str):
                raise TypeError(f"column names must be text; got the column {name!r}, a {type(name).__name__}")
            if len(column) != self.rows:
                raise ValueError(f"the column {name!r} has {len(column)} rows, and {first!r} has {self.rows}")

    def column(self, name: str) -> pa.Array:
        return column_of(name, self.columns[name], None)

    def with_results(self, results: Sequence[FrameResult], kept: Ints | None) -> dict[str, Any]:
        given = self.columns
        if kept is not None:
            given = {name: self._taken(name, kept) for name in self.names}
        return {**given, **self.of_slides(results)}

    def _taken(self, name: str, kept: Ints) -> Any:
        values = self.columns[name]
        if isinstance(values, list | tuple):
            return [values[place] for place in kept.tolist()]
        return _listed(self.column(name).take(array(kept)))

    def of_slides(self, results: Sequence[FrameResult]) -> dict[str, Any]:
        return {one.name: _listed(one.values) for one in results}


def _listed(values: pa.Array) -> list[Any]:
    """Values as objects of Python."""
    found: list[Any] = values.to_pylist()
    return found
