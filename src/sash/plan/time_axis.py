"""TimeAxis: a column that windows are measured on, as numbers.

    timestamp[ms]    int64, in ms            date32    int64, in days       date64   int64, in ms
    (u)int8 … 64     int64, unchanged        float16 … 64   float64, unchanged

Sizes are durations for columns of times and numbers for columns of numbers; neither is rounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sash.windows.duration import UNITS, Duration

if TYPE_CHECKING:
    import pyarrow as pa

    from sash.kernels.loops.array_types import Flags, Numbers

Number = int | float
"""A time or a distance of times, in units of the time column."""

INT64 = 2**63 - 1


@dataclass(frozen=True)
class TimeAxis:
    """A column of times, or the column of a Delta window.

    >>> import pyarrow as pa
    >>> TimeAxis.of("ts", pa.timestamp("ms")).number(Duration.of("10s"), "size= of Time")
    10000

    Raises TypeError, naming the column, if it is neither time nor number.
    """

    column: str
    type: pa.DataType
    kind: Literal["int", "float"]

    @staticmethod
    def of(column: str, type_: pa.DataType, what: str = "on=") -> TimeAxis:
        """The axis of a column; `what` is the argument that names it."""
        import pyarrow.types as is_

        if is_.is_dictionary(type_):
            type_ = type_.value_type
        if is_.is_floating(type_):
            return TimeAxis(column, type_, "float")
        if is_.is_timestamp(type_) or is_.is_date(type_) or is_.is_integer(type_):
            return TimeAxis(column, type_, "int")
        is_text = is_.is_string(type_) or is_.is_large_string(type_) or is_.is_string_view(type_)
        how = f": {as_times(column)}" if is_text else ": cast it"
        raise TypeError(
            f"{what} names the column {column!r} of type {type_}; it must be a timestamp, a date, an integer or a "
            f"float{how}"
        )

    @property
    def timed(self) -> bool:
        """Is it a column of timestamps or dates, so that sizes are durations?"""
        import pyarrow.types as is_

        return bool(is_.is_timestamp(self.type) or is_.is_date(self.type))

    @property
    def has_dates(self) -> bool:
        """Is it a column of dates?"""
        import pyarrow.types as is_

        return bool(is_.is_date(self.type))

    @property
    def unit(self) -> int:
        """Nanoseconds in one unit of a column of timestamps or dates."""
        import pyarrow.types as is_

        if is_.is_timestamp(self.type):
            return UNITS[self.type.unit]
        return UNITS["d"] if is_.is_date32(self.type) else UNITS["ms"]

    def number(self, value: Any, what: str) -> Number:
        """A length (a Duration or a number) in the column's units.

        Raises TypeError if the column takes the other of the two, ValueError if the length is no whole number of
        units or beyond 64 bits; both name `what`.
        """
        if isinstance(value, Duration):
            return self._of_duration(value, what)
        if self.timed and value:
            raise TypeError(
                f"{what} is {value!r}, and the column {self.column!r} is of type {self.type}: give a duration, such "
                "as '10s'"
            )
        if self.kind == "float":
            return float(value)
        if value != math.floor(value):
            raise ValueError(
                f"{what} is {value!r}, and the column {self.column!r} is of type {self.type}: give a whole number"
            )
        return self.within(int(value), what, value)

    def _of_duration(self, value: Duration, what: str) -> int:
        if not self.timed:
            raise TypeError(
                f"{what} is the duration {str(value)!r}, and the column {self.column!r} is of type {self.type}: give a "
                "number in the column's units, or cast the column to timestamp"
            )
        if value.calendar:
            raise ValueError(f"{what} is {str(value)!r}, a calendar length: give days or hours")
        # dates in milliseconds are whole days, too
        step, name = (UNITS["d"], "days") if self.has_dates else (self.unit, self.type.unit)
        if value.nanoseconds % step:
            raise ValueError(
                f"{what} is {str(value)!r}, not a whole number of {name}, and the column {self.column!r} is of type "
                f"{self.type}: cast it to timestamp('ns')"
            )
        return self.within(value.nanoseconds // self.unit, what, str(value))

    def within(self, number: int, what: str, value: Any) -> int:
        """A number in the column's units. Raises ValueError, naming `what`, if it is beyond 64 bits."""
        if abs(number) > INT64:
            raise ValueError(
                f"{what} is {value!r}, beyond 64 bits in the units of the column {self.column!r} of type {self.type}: "
                "use sash.Lifetime() for an unbounded window"
            )
        return number

    def numbers(self, array: Any) -> tuple[Numbers, Flags]:
        """The column as int64 or float64, and which are valid: null, NaN and infinities are not, and are 0.

        Raises ValueError, naming the column, for unsigned integers beyond int64.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        complete = not array.null_count
        valid = np.ones(len(array), np.bool_) if complete else pc.is_valid(array).to_numpy(zero_copy_only=False)
        if self.kind == "float":
            array = array.cast(pa.float64())
            numbers = _viewed(array if complete else array.fill_null(0.0), np.float64)
            finite = np.isfinite(numbers)
            return (numbers, valid) if finite.all() else (np.where(finite, numbers, 0.0), valid & finite)
        if pa.types.is_date32(array.type):
            array = array.cast(pa.int32())
        try:
            array = array.cast(pa.int64())
        except pa.ArrowInvalid:
            raise ValueError(
                f"the column {self.column!r} of type {self.type} holds integers beyond 2**63 - 1: cast it to int64"
            ) from None
        return _viewed(array if complete else array.fill_null(0), np.int64), valid

    def array(self, numbers: Numbers, valid: Flags | None = None) -> Any:
        """Numbers as a column of the axis's type.

        Raises ValueError, naming the column, if one does not fit.
        """
        import pyarrow as pa

        numbers = np.asarray(numbers)
        mask = None if valid is None else ~np.asarray(valid, np.bool_)
        if self.kind == "float":
            return pa.array(numbers.astype(np.float64), mask=mask).cast(self.type, safe=False)
        found = pa.array(numbers.astype(np.int64, copy=False), mask=mask)
        try:
            if pa.types.is_date32(self.type):
                return found.cast(pa.int32()).cast(self.type)
            return found.cast(self.type)
        except pa.ArrowInvalid:
            raise ValueError(
                f"a time measured on the column {self.column!r} does not fit its type, {self.type}: cast the column "
                "to int64"
            ) from None


def as_times(column: str) -> str:
    """How to make times of a column of text, wherever it comes from."""
    return (
        f"convert the text, in pandas with df[{column!r}] = pd.to_datetime(df[{column!r}]), in polars with "
        f"df.with_columns(pl.col({column!r}).str.to_datetime()), in SQL with CAST({column} AS TIMESTAMP), in a job "
        f'with {column} = "timestamp[us]" under [source.schema]'
    )


def _viewed(array: Any, kind: type[np.generic]) -> Numbers:
    """The values of a column without nulls, not copied. Arrow's `to_numpy` would import pandas."""
    buffer = array.buffers()[1]
    values = np.zeros(0, kind) if buffer is None else np.frombuffer(buffer, kind)
    return values[array.offset : array.offset + len(array)]
