"""A kernel: one aggregate on whole columns, as the engine runs it: compiled where it can be, else on Python objects.

    columns ──lift──▶ states ──fold──▶ states of ranges          stored, and used again
                         └────slide──▶ results of spans          leave

States are a tuple of arrays, one per scalar of the layout; interpreted, one array of objects. So both are cut,
joined and reordered alike, and only the four loops of `spans` know which it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sash.aggregators.in_order import InOrder, require
from sash.aggregators.suffix_query import SuffixQuery
from sash.kernels.jit.code_fingerprint import NotKeyed
from sash.kernels.jit.compile import NotCompiled, machine_code
from sash.kernels.jit.numba_struct import StructSpec
from sash.kernels.jit.state_layout import DTYPES, Layout, NotColumnar
from sash.kernels.loops import range_loops
from sash.kernels.loops.runner import Interpreted, specify, warn_once
from sash.monoids.algebra import Kind, Monoid

States = tuple[NDArray[Any], ...]
Share = Callable[[Callable[[int, int], None], int], Any]
"""Runs a task for ranges of so many rows: `Crew.run` of `sweeps`, or `whole`."""
Bounds = NDArray[np.int64]
Wanted = NDArray[np.bool_]


def all_rows(task: Callable[[int, int], None], rows: int) -> None:
    """A task for all rows at once."""
    task(0, rows)


class AggregateError(Exception):
    """A monoid raised on a row or a result: which one, and what."""

    def __init__(self, place: int, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.place, self.error = place, error


class Columnar:
    """An aggregate whose states and results lie in columns where its loops compile, else are Python objects."""

    why_interpreted: str
    """Why its loops do not compile; empty if they do."""
    layouts: Any
    """How its inputs, states and results lie in columns, where they do."""

    @property
    def compiled(self) -> bool:
        """Does it run compiled?"""
        return not self.why_interpreted

    @property
    def leaves(self) -> tuple[Kind, ...]:
        """The kinds of a state's arrays; none interpreted, where it is one array of objects."""
        return self.layouts.state.leaves if self.compiled else ()

    @property
    def result(self) -> Layout | None:
        """How results lie in columns; None if they are objects."""
        return self.layouts.result if self.compiled else None

    def nothing(self, length: int) -> States:
        """Room for states."""
        return self.layouts.state.allocate(length) if self.compiled else (np.empty(length, object),)


class AggregateKernel(Columnar):
    """An aggregate with its loops, for the structures it will run on.

    `kinds` are those of its columns, or None for columns of Python objects; `several` are the structures that will be
    asked for several sizes at once. What does not compile runs interpreted;
    `why_interpreted` says why, and for a monoid of the user's there is a warning.

    >>> import numpy as np
    >>> from sash.aggregators import TwoStacksLite
    >>> from sash.monoids import Max
    >>> kernel = AggregateKernel(Max(), ("float",), (TwoStacksLite,))
    >>> states = kernel.lift((np.array([3.0, 1.0, 2.0]),), np.array([True, True, True]))
    >>> kernel.slide(TwoStacksLite, states, np.array([0, 0, 1]), np.array([1, 2, 3]), np.array([True] * 3))[0]
    (array([3., 3., 2.]),)
    """

    def __init__(
        self,
        monoid: Monoid,
        kinds: tuple[Kind, ...] | None,
        structures: Sequence[type[InOrder]],
        several: Sequence[type[SuffixQuery]] = (),
        warn: bool = True,
    ) -> None:
        self.why_interpreted = ""
        self.kinds: tuple[Kind, ...] | None = None
        self._specs: dict[type[InOrder], Any] = {}
        try:
            if kinds is None:
                raise NotColumnar(monoid.interpreted_only or "its input is a column of Python objects")
            self._compile(monoid, kinds, structures, several)
        except (NotColumnar, NotKeyed, NotCompiled) as error:
            self.why_interpreted = str(error)
            self.monoid, self.kinds = monoid, None
            for structure in structures:
                require(structure, monoid)
                self._specs[structure] = Interpreted(structure, monoid)
            if warn:
                warn_once(monoid, self.why_interpreted)

    def _compile(
        self,
        monoid: Monoid,
        kinds: tuple[Kind, ...],
        structures: Sequence[type[InOrder]],
        several: Sequence[type[SuffixQuery]],
    ) -> None:
        """Compile every loop, so that none fails half-way through the data."""
        self.kinds = kinds
        for structure in structures:
            spec = self._specs[structure] = specify(structure, monoid, kinds)
            self.monoid, self.layouts = spec.monoid, spec.layouts
        none, nobody = np.zeros(0, np.int64), np.zeros(0, np.bool_)
        states = self.lift(tuple(np.zeros(0, DTYPES[kind]) for kind in kinds), nobody)
        for structure in structures:
            if structure not in several:
                self.slide(structure, states, none, none, nobody)
        for shorter in several:
            if shorter in structures:
                self.slide_sizes(shorter, states, none, none, nobody)

    def lift(self, columns: Sequence[Any], seen: Wanted, share: Share = all_rows) -> States:
        """The states of rows; the identity for those that are not seen. Raises Failed."""
        out = self.nothing(len(seen))
        if self.compiled:
            kinds = self.kinds or ()
            inputs = tuple(np.ascontiguousarray(c, DTYPES[k]) for c, k in zip(columns, kinds, strict=True))
            layouts, kernel = self.layouts, cast(Any, range_loops.lift_rows)

            def task(first: int, stop: int) -> None:
                cut = slice(first, stop)
                mine, room = tuple(column[cut] for column in inputs), tuple(leaf[cut] for leaf in out)

                def call(n: int) -> None:
                    arguments = (self.monoid, layouts.inputs, mine, seen[cut][:n], layouts.state, room)
                    machine_code(kernel, (self.monoid_type, self.kinds), arguments)(*arguments)

                _located(call, stop - first)

            share(task, len(seen))
            return out
        found: list[Any] = [None] * len(seen)
        rows = list(zip(*columns, strict=True)) if columns else [()] * len(seen)
        _located(lambda n: range_loops.lift_rows(self.monoid, None, rows, seen[:n].tolist(), None, found), len(seen))
        return _objects(out, found)

    @property
    def monoid_type(self) -> Any:
        """The compiler's type of the typed monoid: a key for its code."""
        return next(iter(self._specs.values())).compiled_as.state.monoid

    def slide(
        self, structure: type[InOrder], states: States, los: Any, his: Any, wanted: Wanted, share: Share = all_rows
    ) -> tuple[Any, Wanted]:
        """The results over the states [lo, hi) where wanted, and which are valid. Raises Failed.

        What runs interpreted is not shared: threads would only take turns.
        """
        spec = self._specs[structure]
        if not isinstance(spec, StructSpec):
            return self._slide(range_loops.slide_spans, structure, states, (los, his, wanted), len(wanted))
        out, valid = spec.layouts.result.allocate(len(wanted)), np.zeros(len(wanted), np.bool_)

        def task(first: int, stop: int) -> None:
            cut = slice(first, stop)
            bounds = los[cut].astype(np.int64, copy=False), his[cut].astype(np.int64, copy=False), wanted[cut]
            room = tuple(leaf[cut] for leaf in out), valid[cut]
            self._slide(range_loops.slide_spans, structure, states, bounds, stop - first, room)

        share(task, len(wanted))
        return out, valid

    def slide_sizes(
        self, structure: type[SuffixQuery], states: States, los: Bounds, his: Bounds, wanted: Wanted
    ) -> tuple[Any, Wanted]:
        """The same for several starts to each end: `los` and `wanted` have as many in a row as there are sizes."""
        sizes = len(los) // max(len(his), 1)
        least = los.reshape(len(his), sizes).min(axis=1) if len(his) else his
        return self._slide(range_loops.slide_sizes, structure, states, (least, los, his, wanted), len(wanted))

    def _slide(
        self, kernel: Any, structure: type[InOrder], states: States, bounds: Any, results: int, room: Any = None
    ) -> tuple[Any, Wanted]:
        """The results, in `room` if there is one. The first of the bounds are the least starts."""
        spec = self._specs[structure]
        his = bounds[-2]
        ends = len(his)
        if isinstance(spec, StructSpec):
            out, valid = room or (spec.layouts.result.allocate(results), np.zeros(results, np.bool_))
            storage = spec.allocate(max(int((his - bounds[0]).max(initial=0)), 1))

            def call(n: int) -> None:
                arguments = (spec, storage, states, _cut(bounds, n, ends), out, valid)
                machine_code(kernel, spec.compiled_as, arguments)(*arguments)

            _located(call, ends)
            return out, valid
        found: list[Any] = [None] * results
        flags: list[Any] = [False] * results
        given = states[0].tolist()
        lists = tuple(part.tolist() for part in bounds)
        _located(lambda n: kernel(spec, None, given, _cut(lists, n, ends), found, flags), ends)
        return found, np.array(flags, np.bool_)


def _cut(bounds: Any, n: int, ends: int) -> Any:
    """The bounds of the first n of all ends, however many belong to each."""
    return bounds if n == ends else tuple(part[: n * len(part) // ends] for part in bounds)


def _located(call: Callable[[int], Any], length: int) -> None:
    """Run a loop over its first n places, for n all. If it raises, find the place by halving and raise Failed."""
    try:
        call(length)
    except (NotCompiled, NotKeyed):
        raise
    except Exception as error:
        good, bad = 0, length
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                call(middle)
            except Exception:
                bad = middle
            else:
                good = middle
        raise AggregateError(max(bad - 1, 0), error) from error


def _objects(out: States, found: list[Any]) -> States:
    for i, value in enumerate(found):  # one by one: NumPy would take a list of tuples for a table
        out[0][i] = value
    return out
