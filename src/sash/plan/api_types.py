"""The types of the public API: literals of arguments, and protocols of frames.

Frames are protocols, not classes of their packages: a user's type checker then needs neither pandas nor polars nor
pyspark, and a package that is not installed does not turn every call into `Any`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    Protocol,
    SupportsIndex,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

import numpy as np

from sash.monoids.algebra import Monoid
from sash.monoids.arithmetic import Aggregated
from sash.windows.duration import DurationLike
from sash.windows.specs import Count, WindowKind

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from sash.plan.options import Options
    from sash.windows.specs import Closed

Emit = Literal["final", "changes", "eager"]
"""When results are emitted."""

Late = Literal["drop", "flag", "error"]
"""What to do with late rows."""

Mode = Literal["rows", "given", "sorted"]
"""How an operator gets its watermark: from its rows, from `advance` alone, or not at all."""

Prefer = Literal["throughput", "latency"]
Failed = Literal["error", "side"]
"""What the choice of a structure optimizes."""

StructureName = Literal[
    "Recalc", "SubtractOnEvict", "TwoStacks", "TwoStacksLite", "ABA", "DABA", "DABALite", "FlatFAT", "BInt", "FlatFIT",
    "SlickDequeInv", "SlickDequeNonInv", "LogMTA", "AMTA", "CountedTree", "FrequencyTree", "AugmentedBTree", "FiBA",
]  # fmt: skip
"""The structures of `sash.aggregators`, by name, in the order of the catalogue."""

Columns = str | list[str] | tuple[str, ...]
"""One column or several, by name."""

Rows = SupportsIndex | Count
"""A window that is a number of rows."""

OneWindow = WindowKind | SupportsIndex | DurationLike
"""A window, or its short form: a number of rows, a duration such as "1h"."""

Windows = OneWindow | Mapping[str, OneWindow]
"""A window, or several by name."""

Aggregate = Aggregated | Monoid
"""An aggregate of a `Window`: an aggregate of columns, or a monoid that takes whole events."""

EventTime = SupportsIndex | float | date
"""A time: a datetime (also that of pandas), a date, or for a column of numbers a number."""


EagerT_co = TypeVar("EagerT_co", covariant=True)
"""The type of the DataFrame of a LazyFrame."""


class PandasFrame(Protocol):
    """A DataFrame of pandas."""

    @property
    def columns(self) -> Any:
        """The names of the columns."""

    @property
    def iloc(self) -> Any:
        """Rows and columns by position."""


class SchemaFrame(Protocol):
    """A frame with a schema: of polars (eager or lazy), pyarrow or Spark."""

    @property
    def schema(self) -> Any:
        """The names and types of the columns."""


class LazyFrame(SchemaFrame, Protocol[EagerT_co]):
    """A LazyFrame of polars; `EagerT_co`: the type of its DataFrame."""

    @property
    def sink_parquet(self) -> Any:
        """Compute it to a file. No other frame has this method."""

    def describe(self) -> EagerT_co:
        """Statistics of the columns, as a DataFrame."""


class ArrowReader(SchemaFrame, Protocol):
    """A RecordBatchReader of pyarrow."""

    @property
    def read_next_batch(self) -> Any:
        """Read a batch. Tables and batches do not have this method."""


class ArrowStream(Protocol):
    """Anything else that exports an Arrow stream, such as a relation of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The stream, as a capsule."""


class Series(Protocol):
    """A Series of pandas or polars."""

    @property
    def name(self) -> Any:
        """Its name."""

    @property
    def to_frame(self) -> Any:
        """The Series as a frame of one column."""


Frame = PandasFrame | SchemaFrame
FrameT = TypeVar("FrameT", bound=PandasFrame | SchemaFrame)
"""A frame; results have the same type."""

SeriesT = TypeVar("SeriesT", bound=Series)
"""A Series; results have the same type."""

ArrayT = TypeVar("ArrayT", bound=np.ndarray[Any, Any])
"""The arrays of a dict of columns; each may have a dtype of its own."""

EventFrame = PandasFrame | SchemaFrame | ArrowStream | Mapping[str, np.ndarray[Any, Any]] | Mapping[str, Sequence[Any]]
"""A frame of any kind, such as the events of `as_of`."""


class SpineArguments(TypedDict, total=False):
    """How a query runs on a spine."""

    closed: Closed
    spine_by: Columns | None
    spine_on: str | None


class ArrayArguments(TypedDict, total=False):
    """How one aggregate of an array is computed."""

    min_periods: int
    options: Options | None


# --- Functions of frames: what they take is declared once, and the types of their results by kind of frame ---

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")


class OfFrame(Protocol[P]):
    """A function of data: the same kind of frame comes back; one aggregate of an array gives an array."""

    @overload
    def __call__(
        self, data: NDArray[Any], windows: Rows | None, aggregate: Aggregated, /, **how: Unpack[ArrayArguments]
    ) -> NDArray[Any]: ...
    @overload
    def __call__(
        self, data: SeriesT, windows: Rows | None, aggregate: Aggregated, /, **how: Unpack[ArrayArguments]
    ) -> SeriesT: ...
    @overload
    def __call__(self, data: dict[str, ArrayT], *args: P.args, **named: P.kwargs) -> dict[str, NDArray[Any]]: ...
    @overload
    def __call__(self, data: Mapping[str, Sequence[Any]], *args: P.args, **named: P.kwargs) -> dict[str, list[Any]]: ...
    @overload
    def __call__(self, data: FrameT, *args: P.args, **named: P.kwargs) -> FrameT: ...
    @overload
    def __call__(
        self, data: Iterator[pa.RecordBatch], *args: P.args, **named: P.kwargs
    ) -> Iterator[pa.RecordBatch]: ...
    @overload
    def __call__(self, data: ArrowStream, *args: P.args, **named: P.kwargs) -> pa.Table: ...


class _TakesSpine(Protocol[P]):
    def __call__(self, spine: Any, *args: P.args, **named: P.kwargs) -> Any: ...


class OfSpine(Protocol[P]):
    """A function of a spine: the same kind of frame comes back."""

    @overload
    def __call__(self, spine: dict[str, ArrayT], *args: P.args, **named: P.kwargs) -> dict[str, NDArray[Any]]: ...
    @overload
    def __call__(
        self, spine: Mapping[str, Sequence[Any]], *args: P.args, **named: P.kwargs
    ) -> dict[str, list[Any]]: ...
    @overload
    def __call__(self, spine: FrameT, *args: P.args, **named: P.kwargs) -> FrameT: ...
    @overload
    def __call__(self, spine: ArrowStream, *args: P.args, **named: P.kwargs) -> pa.Table: ...


def of_frame(query: Callable[P, Any]) -> Callable[[Callable[..., Any]], OfFrame[P]]:
    """Give a function of data, windows and unnamed aggregates the signature of a query for its other arguments."""

    def decorate(function: Any) -> OfFrame[P]:
        own = inspect.signature(function)
        data, _, unnamed, _ = own.parameters.values()
        windows, *others = inspect.signature(query).parameters.values()
        function.__signature__ = own.replace(parameters=[data, windows, unnamed, *others])
        return function  # type: ignore[no-any-return]

    return decorate


def of_spine(function: _TakesSpine[P]) -> OfSpine[P]:
    """The function, with the types of its results."""
    return function


def arguments_of(
    function: OfFrame[P] | OfSpine[P],
) -> Callable[[Callable[Concatenate[S, ...], R]], Callable[Concatenate[S, P], R]]:
    """Give a method the arguments of a function, whose first one is the object of the method."""

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        given = inspect.signature(function).parameters.values()
        _, *parameters = (one for one in given if one.kind is not one.VAR_POSITIONAL)  # aggregates of an array
        own = inspect.signature(method)
        this = next(iter(own.parameters.values()))
        method.__signature__ = own.replace(parameters=[this, *parameters])  # type: ignore[attr-defined]
        return method

    return decorate
