"""polars frames, eager and lazy. NaN is a value, not null."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from sash.frames.adapter import FrameResult, Ints, not_in_arrow, series_hint


def polars_adapter(data: Any) -> PolarsAdapter:
    """An adapter for polars. Raises TypeError for other data."""
    if not isinstance(data, pl.DataFrame):
        raise TypeError(
            f"a query runs on a polars DataFrame or LazyFrame; got a {type(data).__qualname__}{series_hint(data)}"
        )
    return PolarsAdapter(data)


def lazy_frame(data: Any, run: Callable[[Any], Any]) -> Any:
    """Add a function of eager frames to a LazyFrame.

    The function runs once without rows, which determines the schema and raises errors of the query immediately.
    """
    schema = run(pl.DataFrame(schema=data.collect_schema())).schema
    return data.map_batches(run, schema=schema)


class PolarsAdapter:
    """A DataFrame of polars."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.names: list[str] = frame.columns
        self.rows: int = frame.height

    def column(self, name: str) -> pa.Array:
        column = self.frame.get_column(name)
        try:
            return column.to_arrow()
        except (pa.ArrowException, TypeError, pl.exceptions.PolarsError) as error:
            raise not_in_arrow(name, column.dtype, error) from error

    def with_results(self, results: Sequence[FrameResult], kept: Ints | None) -> Any:
        frame = self.frame if kept is None else self.frame[kept]
        return frame.with_columns([self._as_polars(one) for one in results])

    def of_slides(self, results: Sequence[FrameResult]) -> Any:
        return pl.DataFrame([self._as_polars(one) for one in results])

    def _as_polars(self, result: FrameResult) -> Any:
        """Results as a series; with the type of their source column, if they have one."""
        values: Any = pl.from_arrow(result.column.arrow())
        found = result.source_in(self)
        if found is not None:
            values = values.cast(found[0].frame.schema[found[1]])
        return values.alias(result.name)


class PolarsSeriesAdapter(PolarsAdapter):
    """A Series of polars, whose results are a Series."""

    def __init__(self, series: Any, name: str) -> None:
        super().__init__(series.to_frame(name))
        self.given = series

    def with_results(self, results: Sequence[FrameResult], kept: Ints | None) -> Any:
        assert kept is None
        return self._as_polars(results[0]).alias(self.given.name)
