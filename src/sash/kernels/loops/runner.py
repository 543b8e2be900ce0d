"""Run a structure on columns: compiled if the monoid and the data allow it, else interpreted, with the reason.

columns ──▶ kinds ──▶ typed monoid ──▶ layouts ──▶ machine code (memory, disk, or compiled now)
              │             │              │              │
              └─────────────┴── any of these refuses ─────┴──▶ interpreted, one warning with the reason
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.aggregators.base import Aggregator, require
from sash.aggregators.in_order import INSERT, InOrder
from sash.aggregators.suffix_query import RegisteredRanges, SuffixQuery, checked_ranges
from sash.kernels.jit.code_fingerprint import NotKeyed, fingerprint_and_origin
from sash.kernels.jit.compile import NotCompiled, is_switched_off, machine_code
from sash.kernels.jit.numba_intrinsics import rebuild
from sash.kernels.jit.numba_monoid import MonoidType, monoid_type
from sash.kernels.jit.numba_struct import StructSpec, struct_spec_type, structure_key
from sash.kernels.jit.state_layout import DTYPES, Layouts, NotColumnar, layouts
from sash.kernels.loops import structure_loops
from sash.monoids.algebra import Kind, Monoid

Columns = tuple[Sequence[Any] | NDArray[Any], ...]


class InterpretedWarning(UserWarning):
    """An aggregate runs interpreted, a thousand times slower than compiled; the message has the reason."""


def kind_of(column: Sequence[Any] | NDArray[Any]) -> Kind:
    """The kind of a column. Raises NotColumnar if it holds anything but numbers of at most 64 bits."""
    if not isinstance(column, np.ndarray):
        raise NotColumnar(f"the input is a {type(column).__name__} of Python objects, not an array of numbers")
    kind = _KINDS.get(column.dtype.str[1:])
    if kind is None or isinstance(column, np.ma.MaskedArray):
        raise NotColumnar(f"the input is {_article(column)} of {column.dtype}, which does not fit a 64-bit column")
    return kind


def time_kind(times: Sequence[Any] | NDArray[Any]) -> Kind:
    """The kind of a column of times: ints or floats. Raises NotColumnar for others."""
    kind = kind_of(times)
    if kind == "bool":
        raise NotColumnar("the times are of type bool, which cannot be a time")
    return kind


_KINDS: dict[str, Kind] = {
    "b1": "bool",
    **dict.fromkeys(("i1", "i2", "i4", "i8", "u1", "u2", "u4"), "int"),
    **dict.fromkeys(("f2", "f4", "f8"), "float"),
}


def _article(column: NDArray[Any]) -> str:
    return "a masked array" if isinstance(column, np.ma.MaskedArray) else "an array"


def specify(structure: type[Aggregator], monoid: Monoid, kinds: tuple[Kind, ...], time: Kind = "int") -> StructSpec:
    """The specification to compile for; `time` is the kind of times, if the structure has any.

    Raises TypeError if the typed monoid lacks a property, NotColumnar if it has no layout, NotKeyed if it
    depends on something without a key.
    """
    require(structure, monoid)
    monoid = structure.form(monoid)
    if monoid.interpreted_only:
        raise NotColumnar(monoid.interpreted_only)
    key, ours = fingerprint_and_origin(monoid)
    if ours and (structure, key, kinds, time) in _specs:
        return _specs[structure, key, kinds, time]
    monoid(*(f"column {i}" for i in range(len(kinds))))  # raises TypeError, if it takes more columns or fewer
    typed = monoid.typed(*kinds)
    require(structure, typed)
    typed_as = monoid_type(typed, key if typed is monoid else "")
    if (typed_as, kinds) not in _layouts:
        _layouts[typed_as, kinds] = layouts(typed, kinds)
    found = _layouts[typed_as, kinds]
    spec = StructSpec(structure, typed, found, struct_spec_type(structure_key(structure), typed_as, found, time))
    if ours:
        _specs[structure, key, kinds, time] = spec
    return spec


_specs: dict[tuple[type[Aggregator], str, tuple[Kind, ...], Kind], StructSpec] = {}
"""Specs of our own monoids only: a user's may behave differently at the next call."""

_layouts: dict[tuple[MonoidType, tuple[Kind, ...]], Layouts] = {}


@dataclass(frozen=True)
class Results:
    """The results of a run: columns and which of their rows are valid, or lists if it ran interpreted."""

    out: Any
    valid: Any
    spec: StructSpec | None
    rebuilt: Callable[[], Any]
    why_interpreted: str = ""

    @functools.cached_property
    def structure(self) -> Any:
        """The window at the end."""
        return self.rebuilt()

    def to_list(self) -> list[Any]:
        """The results as Python objects, None where there is none."""
        layout = self.spec.layouts.result if self.spec else None
        value = (lambda i: layout.value(self.out, i)) if layout else self.out.__getitem__
        return [value(i) if ok else None for i, ok in enumerate(self.valid)]


def slide(structure: type[InOrder], monoid: Monoid, columns: Columns, width: int) -> Results:
    """The aggregate of the last `width` rows at each row.

    >>> import numpy as np
    >>> from sash.aggregators import DABA
    >>> from sash.monoids import Max
    >>> slide(DABA, Max(), (np.array([3.0, 1.0, 2.0, 0.0]),), 2).to_list()
    [3.0, 3.0, 2.0, 2.0]

    Raises ValueError for a width below 1 and for columns of different lengths.
    """
    rows, width = rows_of(columns), operator.index(width)
    if width < 1:
        raise ValueError(f"a window must have at least one row; got a width of {width}")
    width = min(width, rows + 1)  # a wider window never evicts either, and this width fits 64 bits
    return run(structure, monoid, columns, LoopCall(structure_loops.slide, min(width, rows), width, rows))


def slide_many(structure: type[SuffixQuery], monoid: Monoid, columns: Columns, ranges: Iterable[int]) -> Results:
    """The aggregates of the last n rows at each row, for each n in `ranges`, row by row.

    >>> import numpy as np
    >>> from sash.aggregators import SlickDequeNonInv
    >>> from sash.monoids import Max
    >>> slide_many(SlickDequeNonInv, Max(), (np.array([3.0, 1.0, 2.0]),), (1, 2)).to_list()
    [3.0, 3.0, 1.0, 3.0, 2.0, 2.0]

    Raises TypeError if the structure does not answer shorter windows, ValueError without ranges.
    """
    if not issubclass(structure, SuffixQuery):
        raise TypeError(
            f"slide_many needs a structure that supports shorter windows; {structure.__name__} has no last(n)"
        )
    wanted = np.array(checked_ranges(ranges), np.int64)
    if not len(wanted):
        raise ValueError("slide_many needs at least one range")
    rows = rows_of(columns)
    wanted = np.minimum(wanted, max(rows, 1))  # a longer range also contains all rows
    places = np.argsort(-wanted, kind="stable")
    longest_first = wanted[places]
    ranks = np.cumsum(np.diff(longest_first, prepend=longest_first[0]) != 0)
    plan = (longest_first, ranks, places)
    call = LoopCall(structure_loops.slide_many, int(longest_first[0]), plan, rows * len(longest_first))
    results = run(structure, monoid, columns, call)
    if isinstance(results.structure, RegisteredRanges):
        results.structure.register_tracked(wanted.tolist())
    return results


def steady(structure: type[InOrder], monoid: Monoid, columns: Columns, width: int) -> Results:
    """As `slide`, on a window that is full from the start: results from row `width` on."""
    rows, width = rows_of(columns), operator.index(width)
    if not 1 <= width < rows:
        raise ValueError(f"a steady window needs 1 to {rows - 1} rows here; got a width of {width}")
    return run(structure, monoid, columns, LoopCall(structure_loops.steady, width, width, rows - width))


def bulk(structure: type[InOrder], monoid: Monoid, columns: Columns, width: int, step: int) -> Results:
    """Bulk operations on a full window: insert `step` rows, evict as many at once, query, repeatedly.

    >>> import numpy as np
    >>> from sash.aggregators import AMTA
    >>> from sash.monoids import Max
    >>> bulk(AMTA, Max(), (np.array([5.0, 1.0, 4.0, 2.0, 3.0, 0.0]),), 2, 2).to_list()
    [4.0, 3.0]

    Raises ValueError if there are fewer rows than the window and one batch have.
    """
    rows, width, step = rows_of(columns), operator.index(width), operator.index(step)
    if width < 1 or step < 1 or width + step > rows:
        raise ValueError(f"{rows} rows do not fill a window of {width} and batches of {step}")
    call = LoopCall(structure_loops.bulk, width + step, (width, step), (rows - width) // step)
    return run(structure, monoid, columns, call)


def replay(structure: type[InOrder], monoid: Monoid, columns: Columns, operations: NDArray[np.int8]) -> Results:
    """The aggregate after each operation, `INSERT` (of the next row) or `EVICT`.

    Raises IndexError if an operation evicts from the empty window, or inserts beyond the last row.
    """
    rows, operations = rows_of(columns), np.ascontiguousarray(operations, np.int8)
    inserts = operations == INSERT
    sizes = np.cumsum(np.where(inserts, 1, -1))
    if len(sizes) and sizes.min() < 0:
        raise IndexError(f"operation {int((sizes < 0).argmax())} evicts from an empty window")
    if inserts.sum() > rows:
        raise IndexError(f"the operations insert {inserts.sum()} rows; there are {rows}")
    largest = int(sizes.max(initial=0))
    return run(structure, monoid, columns, LoopCall(structure_loops.replay, largest, operations, len(operations)))


def rows_of(columns: Columns) -> int:
    """The number of rows. Raises ValueError if the columns differ in length: compiled code does not check it."""
    if not isinstance(columns, tuple) or not columns:
        raise TypeError(f"columns must be a tuple of at least one column; got {type(columns).__name__}")
    for column in columns:
        if isinstance(column, np.ndarray) and column.ndim != 1:
            raise ValueError(f"a column must have one dimension; got an array of shape {column.shape}")
    lengths = [len(column) for column in columns]
    if len({*lengths}) > 1:
        raise ValueError(f"the columns differ in length: {', '.join(map(str, lengths))} rows")
    return lengths[0]


@dataclass(frozen=True)
class LoopCall:
    """A loop of `structure_loops` or `timed_loops` with its arguments besides the rows."""

    kernel: Any
    capacity: int
    """The largest size of the window."""
    argument: Any
    results: int
    times: Sequence[Any] | NDArray[Any] | None = None
    """The times of rows, if any: the first part of the argument."""


def run(structure: type[Aggregator], monoid: Monoid, columns: Columns, call: LoopCall) -> Results:
    """Run a loop, compiled or interpreted."""
    require(structure, monoid)
    times, argument = call.times, call.argument
    try:
        time = "int" if times is None else time_kind(times)
        spec = specify(structure, monoid, tuple(kind_of(column) for column in columns), time)
        plan = argument if times is None else (_contiguous(times, time), *argument)
        inputs = tuple(map(_contiguous, columns, spec.layouts.inputs.leaves))
        storage = spec.allocate(call.capacity)
        out, valid = spec.layouts.result.allocate(call.results), np.zeros(call.results, np.bool_)
        arguments = (spec, storage, inputs, plan, out, valid)
        code = machine_code(call.kernel, spec.compiled_as, arguments)
    except (NotColumnar, NotKeyed, NotCompiled) as error:
        plan = argument if times is None else (_objects(times), *argument)
        why = str(error)
        warn_once(monoid, why)
        rows = list(zip(*(_objects(column) for column in columns), strict=True))
        results, flags = [None] * call.results, [False] * call.results
        window = call.kernel(Interpreted(structure, structure.form(monoid)), None, rows, plan, results, flags)
        return Results(results, flags, None, lambda: window, why)
    left = code(*arguments)
    return Results(out, valid, spec, lambda: rebuild(spec, storage, left))


def _contiguous(column: Any, kind: Kind) -> NDArray[Any]:
    return np.ascontiguousarray(column, DTYPES[kind])


@dataclass(frozen=True)
class Interpreted:
    """A StructSpec for an interpreted run, without layouts."""

    structure: type[Aggregator]
    monoid: Monoid
    inputs: None = None
    state: None = None
    result: None = None


def _objects(column: Sequence[Any] | NDArray[Any]) -> Sequence[Any]:
    return column.tolist() if isinstance(column, np.ndarray) else column


_warned: set[str] = set()


def warn_once(what: Any, why: str) -> None:
    """Warn once per process and reason that an aggregate or a policy runs interpreted, unless Numba is disabled."""
    if is_switched_off():
        return
    message = f"{what!r} runs interpreted: {why}"
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, InterpretedWarning, stacklevel=4)
