"""sash.Window: a window for a Python loop that takes one event at a time and returns the aggregates.

    push(x, time) ──▶ validate ──▶ lift ──▶ insert ──▶ evict the oldest ──▶ the aggregates
                      (an error changes nothing)       └─ evictor.py ─┘

Each aggregate has its own structure, chosen as for a query: a running total if the monoid has an exact inverse, else
`TwoStacksLite`, or `DABALite` for bounded latency. Session, Punctuation and Lifetime windows never evict single events:
their aggregates are folded.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Self, overload

from sash.aggregators.base import State, require
from sash.aggregators.catalogue import IN_ORDER, sequential
from sash.aggregators.in_order import InOrder, Running
from sash.expressions.row_evaluation import row_value
from sash.expressions.tree import Node
from sash.loop.evictor import EventClock, Evictor, Length, event_inputs, evictor_of, length
from sash.monoids.algebra import Bound, Monoid
from sash.monoids.arithmetic import Aggregated, Formula
from sash.plan import validation
from sash.plan.api_types import Aggregate, EventTime, OneWindow, Prefer, StructureName
from sash.plan.options import PREFERENCES, Options
from sash.plan.planner import FOLD, choose
from sash.plan.time_axis import Number
from sash.plan.validation import halflife_of, loop_advice
from sash.windows import WindowKind
from sash.windows.duration import Duration

_HINT = (
    "a Window takes events in the order of their times. Sort them first, or give them to an operator: "
    "sash.Query(…, on=…, lateness=…).operator() sorts out-of-order events"
)


class Window:
    """A sliding window for a Python loop: push events one at a time; old ones are evicted automatically.

    window: a number of events, a duration such as "1h", or a window such as `sash.Session("10m")`.
    aggregate, aggregates: one aggregate, or several by name. A monoid such as `sash.monoids.Max()` takes each event as
        it is; an aggregate of columns such as `sash.max("price")` takes events that are dicts.
    prefer: what the choice of structures optimizes. "throughput": the least total time. "latency": only structures
        whose every single step has a constant cost.
    structure: the name of the structure of `sash.aggregators` to use instead, such as "DABA".
    options: as for a query; `failed`, `prefer` and `structure` apply. With `sash.Options(failed="side")` an event on
        which an expression, a condition or `lift` fails does not enter the window, and `push` returns None in place of
        each result; a result whose `lower` fails is None. `failed`, `failed_results` and `last_failure` of the window
        count and show them. By default the exception is passed on.

    >>> import sash
    >>> highest = sash.Window(3, sash.monoids.Max())
    >>> [highest.push(x) for x in (5, 3, 4, 1, 2)]
    [5, 5, 5, 4, 4]

    >>> from datetime import datetime
    >>> trades = sash.Window("1h", high=sash.max("price"), who=sash.arg_max("price", "trader"))
    >>> trades.push({"price": 7, "trader": "ada"}, datetime(2024, 5, 1, 9, 30))
    {'high': 7, 'who': 'ada'}
    >>> trades.push({"price": 5, "trader": "bob"}, datetime(2024, 5, 1, 10, 30))
    {'high': 5, 'who': 'bob'}

    Nulls (None) are skipped: a window without values gives the `empty` result of the aggregate, None by default. The
    result of an event includes events of equal time only if they were pushed before it.

    Raises TypeError or ValueError, naming the argument that does not fit: among others a window with `every`, which
    `sash.Query` serves, and a structure that needs a property which an aggregate does not declare.
    """

    @overload
    def __init__(
        self,
        window: OneWindow,
        aggregate: Aggregate,
        /,
        *,
        prefer: Prefer = "throughput",
        structure: StructureName | None = None,
        options: Options | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        window: OneWindow,
        /,
        *,
        prefer: Prefer = "throughput",
        structure: StructureName | None = None,
        options: Options | None = None,
        **aggregates: Aggregate,
    ) -> None: ...
    def __init__(
        self,
        window: OneWindow,
        aggregate: Aggregate | None = None,
        /,
        *,
        prefer: Prefer = "throughput",
        structure: StructureName | None = None,
        options: Options | None = None,
        **aggregates: Aggregate,
    ) -> None:
        self._window = _checked_window(window)
        for name, value in (("prefer", prefer), ("structure", structure), ("options", options)):
            if isinstance(value, Aggregated | Monoid):
                raise TypeError(f"an aggregate cannot be named {name!r}, which is a parameter of Window: rename it")
        how = _checked_options(options)
        prefer, structure = how.prefer if prefer == "throughput" else prefer, structure or how.structure
        self._tolerant = how.failed == "side"
        self.failed = self.failed_results = 0
        self.last_failure = ""
        self._evictor: Evictor[Any] = evictor_of(self._window)
        self._single = aggregate is not None
        named = _named_aggregates(aggregate, aggregates)
        self._results = [LoopResult(name, one) for name, one in named.items()]
        self._has_formulas = any(result.tree is not None for result in self._results)
        self._aggregates = [
            LoopAggregate(name, leaf, self._evictor, prefer, structure)
            for result in self._results
            for name, leaf in result.leaves
        ]
        self._timed = self._window.unit == "time"
        self._clock = EventClock("time", *self._measured(), _HINT, self._window.tz)
        self._broken = ""
        """The exception that a change raised, as text."""
        self._entered = self._held = 0
        self._waiting: deque[list[tuple[bool, State]]] = deque()

    def push(self, x: Any, time: EventTime | None = None) -> Any:
        """Insert an event, evict what has left the window that ends at it, and return the aggregates of that window.

        The result of the aggregate, or a dict of them by name. Amortized constant time for each aggregate.

        Raises ValueError for a time before the last one, TypeError if a time is missing or of another kind than the
        sizes, KeyError for a missing column; the window is then unchanged. Exceptions of aggregates and policies are
        passed on; if one was raised while the window changed, further calls are refused until `clear`.
        """
        self._require_intact()
        now = self._read(time)
        place = self._evictor.place(x, now)
        try:
            lifted = [aggregate.lifted(x, now) for aggregate in self._aggregates]
        except AggregateFailed as failed:
            self._require_tolerant(failed)
            self.failed += 1
            return None if self._single else {result.name: None for result in self._results}
        try:
            if time is not None and now is not None:
                self._clock.move(time, now)
            if self._evictor.enter(place):
                self._drop_all()
            if self._evictor.waits:
                self._waiting.append(lifted)
                self._insert_waiting(now)
            else:
                self._insert(lifted)
            self._evict(now)
        except Exception as error:
            self._broken = f"{type(error).__name__}: {error}"
            raise
        return self.query()

    def advance(self, time: EventTime) -> Any:
        """Evict what has left the window that ends at this time, without an event, and return the aggregates.

        >>> import sash
        >>> recent = sash.Window(sash.Time(10), sash.monoids.Sum())
        >>> recent.push(5, 100), recent.push(7, 105), recent.advance(112), recent.advance(200)
        (5, 12, 7, None)

        Raises as `push` does.
        """
        self._require_intact()
        if time is None:
            raise TypeError("advance(time) takes a time; got None")
        now = self._clock.read(time)
        try:
            self._clock.move(time, now)
            if self._timed and self._evictor.ended(now):
                self._evictor.clear()
                self._drop_all()
            if self._timed:
                self._insert_waiting(now)
                self._evict(now)
        except Exception as error:
            self._broken = f"{type(error).__name__}: {error}"
            raise
        return self.query()

    def query(self) -> Any:
        """The aggregates now: what the last `push` or `advance` returned."""
        self._require_intact()
        full = self._evictor.full(self._held)
        oldest = self._entered - self._held
        if not self._has_formulas:
            if self._single:
                return self._result(self._aggregates[0], oldest) if full else None
            return {one.name: self._result(one, oldest) if full else None for one in self._aggregates}
        values = iter([self._result(one, oldest) if full else None for one in self._aggregates])
        found = {result.name: self._formula(result, values) for result in self._results}
        return found[""] if self._single else found

    def clear(self) -> None:
        """Empty the window and forget the time."""
        self._broken = ""
        self._entered = self._held = 0
        self._waiting = deque()
        self._clock.clear()
        self._evictor.clear()
        for aggregate in self._aggregates:
            aggregate.clear()

    def copy(self) -> Self:
        """An independent window with the same events, which are not copied."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        twin._clock, twin._evictor = self._clock.copy(), self._evictor.copy()
        twin._aggregates = [aggregate.copy() for aggregate in self._aggregates]
        twin._waiting = self._waiting.copy()
        return twin

    @property
    def structures(self) -> dict[str, str]:
        """The structure of each aggregate, by name; a single one has the name ""."""
        return {aggregate.name: aggregate.structure_name for aggregate in self._aggregates}

    def __len__(self) -> int:
        return self._held

    def __bool__(self) -> bool:
        return True  # `if window:` tests for None

    def __copy__(self) -> Self:
        return self.copy()

    def __repr__(self) -> str:
        named = (f"{one.name}={one!r}" if one.name else repr(one) for one in self._results)
        arguments = [repr(self._window), *named]
        return f"<Window({', '.join(arguments)}): {self._held} event{'s' * (self._held != 1)}>"

    def _result(self, aggregate: LoopAggregate, oldest: int) -> Any:
        try:
            return aggregate.result(oldest)
        except AggregateFailed as failed:
            self._require_tolerant(failed)
            self.failed_results += 1
            return None

    def _formula(self, result: LoopResult, values: Iterator[Any]) -> Any:
        try:
            return result.value(values)
        except ValueError as error:
            self._require_tolerant(AggregateFailed(result.name, error))
            self.failed_results += 1
            return None

    def _require_tolerant(self, failed: AggregateFailed) -> None:
        """Note why an aggregate has failed. Raises its exception unless what fails is set aside."""
        if not self._tolerant:
            raise failed.error from failed.error.__cause__
        label = f"the aggregate {failed.name!r}" if failed.name else "the aggregate"
        self.last_failure = f"{label} failed with {type(failed.error).__name__}: {failed.error}"

    # ---- the steps of a push ----

    def _measured(self) -> tuple[str, Length | None]:
        """The window or aggregate that is measured in time, and its size.

        Raises TypeError if one is a duration and the other a number.
        """
        found: list[tuple[str, Length]] = []
        if self._timed:
            found.append((repr(self._window), self._window.length))
        found += [(repr(one), one.halflife) for one in self._aggregates if one.halflife is not None]
        for of, size in found[1:]:
            if isinstance(size, Duration) != isinstance(found[0][1], Duration):
                raise TypeError(
                    f"{of} is measured in {size!s} and {found[0][0]} in {found[0][1]!s}: give durations for times that "
                    "are datetimes, or numbers for times that are numbers"
                )
        return found[0] if found else (repr(self._window), None)

    def _require_intact(self) -> None:
        if self._broken:
            raise RuntimeError(
                f"this Window is incomplete: a change raised {self._broken}. Call clear() and push again"
            )

    def _read(self, time: EventTime | None) -> Number | None:
        if time is not None:
            return self._clock.read(time)
        if self._timed:
            raise TypeError(f"{self._window!r} is measured in time: push(x, time)")
        return None

    def _insert_waiting(self, now: Number | None) -> None:
        for _ in range(self._evictor.entering(len(self._waiting), now) if self._waiting else 0):
            self._insert(self._waiting.popleft())

    def _insert(self, lifted: list[tuple[bool, State]]) -> None:
        for aggregate, (present, state) in zip(self._aggregates, lifted, strict=True):
            aggregate.insert(self._entered, present, state)
        self._entered += 1
        self._held += 1

    def _evict(self, now: Number | None) -> None:
        gone = self._evictor.leaving(self._held, now)
        if not gone:
            return
        if gone == self._held:
            self._drop_all()
            return
        for aggregate in self._aggregates:
            aggregate.evict(gone)
        self._held -= gone

    def _drop_all(self) -> None:
        self._held = 0
        for aggregate in self._aggregates:
            aggregate.evict_all()


def _checked_window(window: Any) -> WindowKind:
    """The window. Raises TypeError or ValueError if it has no result at each event, or needs later ones."""
    if isinstance(window, Mapping):
        raise TypeError("sash.Window takes one window: make one for each, or a sash.Query for all of them")
    found = validation.window(validation.not_an_aggregate("window", window), "the window")
    if found.slide != "row":
        raise ValueError(
            f"every={found.every!s} of {found!r}: a Window gives a result at each event. For one "
            "result per slide use sash.Query(…).operator(), or call query() when you need it"
        )
    if validation.looks_ahead(found):
        raise ValueError(
            f"shift={found.shift!s} of {found!r}: the window holds events after the last one, which a "
            "loop does not have yet. Use sash.rolling(…), or sash.Query(…).operator(), which waits for them"
        )
    return found


def _checked_options(options: Any) -> Options:
    """The options. Raises TypeError or ValueError for others, and for a store, which a Window would not write to."""
    found = validation.options(options)
    if found.store is not None:
        raise ValueError(
            "store= of Options is not supported by a Window, whose state is in memory: use "
            "sash.Query(…).operator(), or pickle the Window"
        )
    return found


def _named_aggregates(aggregate: Any, aggregates: Mapping[str, Any]) -> dict[str, Any]:
    """The aggregates by name; a single one has the name ""."""
    if aggregate is None and not aggregates:
        raise TypeError("a Window needs an aggregate: sash.Window(10, sash.monoids.Max()), or high=sash.max('price')")
    for name, value in aggregates.items():
        if not isinstance(value, Aggregated | Monoid) and (advice := loop_advice(name)):
            raise TypeError(f"{name}= must be an aggregate: sash.Window has no such argument{advice}")
    if aggregate is not None and aggregates:
        raise TypeError(f"give one aggregate, or several by name, not both: {aggregate!r} and {', '.join(aggregates)}=")
    return {"": aggregate} if aggregate is not None else dict(aggregates)


# ---- one aggregate: the monoid, the columns that it reads, and a structure ----


class AggregateFailed(Exception):
    """An expression, `lift` or `lower` of an aggregate has raised an exception."""

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(str(error))
        self.name, self.error = name, error


class LoopResult:
    """A result of a window in a loop: an aggregate, or a formula of several.

    Raises ValueError for an aggregate with a window of its own.
    """

    def __init__(self, name: str, result: Any) -> None:
        self.name, self.result = name, result
        self.tree: Node | None = None
        self.leaves: list[tuple[str, Any]] = [(name, result)]
        """The aggregates that it needs, by name."""
        if isinstance(result, Formula):
            found = list(result.leaves())
            self.leaves = [(f"{name}: {leaf!r}" if name else repr(leaf), leaf) for leaf in found]
            self.tree = result.tree(iter(range(len(found))))
        for _, leaf in self.leaves:
            if isinstance(leaf, Bound):
                leaf.require_columns()
            if isinstance(leaf, Bound) and leaf.window is not None:
                raise ValueError(
                    f"{leaf!r} has a window of its own, and sash.Window has one for all: make a Window for each, or a "
                    "sash.Query"
                )

    def value(self, values: Iterator[Any]) -> Any:
        """The result, from the next values of aggregates."""
        if self.tree is None:
            return next(values)
        operands = [next(values) for _ in self.leaves]
        return row_value(self.tree, lambda number: operands[int(number)])

    def __repr__(self) -> str:
        return repr(self.result)


class LoopAggregate:
    """One aggregate of a window.

    Raises TypeError if it is not an aggregate, or the forced structure does not accept it; ValueError for a sketch if
    the window needs one for each event.
    """

    def __init__(
        self, name: str, aggregate: Any, evictor: Evictor[Any], prefer: Prefer, structure: StructureName | None
    ) -> None:
        if not isinstance(aggregate, Bound | Monoid):
            label = f"{name}=" if name else "the aggregate of a Window"
            raise TypeError(
                f"{label} must be a monoid such as sash.monoids.Max(), or bound to columns, such as sash.max('price'); "
                f"got {aggregate!r}, a {type(aggregate).__name__}"
            )
        self.name, self.aggregate = name, aggregate
        self.bound = aggregate if isinstance(aggregate, Bound) else None
        self.monoid: Monoid = aggregate.monoid if isinstance(aggregate, Bound) else aggregate
        self.inputs = self.monoid.arity[0]
        self.halflife = halflife_of(self.monoid, repr(aggregate))
        """The half-life of the aggregate, if it is measured in time."""
        if self.halflife is not None:
            self.monoid = self.monoid.by_time(length(self.halflife))
        if not evictor.folds and validation.is_sketch(self.monoid):
            raise ValueError(
                f"{aggregate!r} keeps a sketch, and {evictor.window!r} would need one for each event: here sketches "
                "need Lifetime, Session or Punctuation, in a sash.Query windows with every=; use the exact "
                f"{validation.exact_instead(self.monoid)}"
            )
        chosen = _structure(self.monoid, prefer, structure)
        self.structure: InOrder = Running(self.monoid) if evictor.folds else chosen(self.monoid)
        self.monoid = self.structure.monoid
        self.nullable = self.monoid.nullable
        self.last = -1
        """The number of the last event with a value: the window has a value if it is not older than the window."""

    @property
    def structure_name(self) -> str:
        return FOLD if isinstance(self.structure, Running) else type(self.structure).__name__

    def lifted(self, x: Any, now: Number | None) -> tuple[bool, State]:
        """Whether the event has a value for this aggregate, and its lifted state.

        Raises TypeError if the aggregate reads the time and there is none, AggregateFailed if it fails on the event.
        """
        if self.bound is not None:
            try:
                values = event_inputs(x, self.bound)
            except ValueError as error:  # of an expression; a missing column is a KeyError
                raise AggregateFailed(self.name, error) from None
        else:
            values = x if self.inputs > 1 and isinstance(x, tuple) else (x,)
        if self.halflife is not None:
            if now is None:
                raise TypeError(f"{self.aggregate!r} has its halflife= in time: push(x, time)")
            values = (*values, now)
        for position, value in enumerate(values):
            if value is None and position not in self.nullable:
                return False, self.monoid.identity
        try:
            return True, self.monoid.lift(*values)
        except Exception as error:
            raise AggregateFailed(self.name, error) from None

    def result(self, oldest: int) -> Any:
        """The aggregate, lowered; `empty` if no event from the oldest on has a value. Raises AggregateFailed."""
        if self.last < oldest:
            return self.monoid.empty
        found = self.structure.aggregate()
        try:
            return self.monoid.lower(found)
        except Exception as error:
            raise AggregateFailed(self.name, error) from None

    def insert(self, number: int, present: bool, state: State) -> None:
        """Insert the event of this number, as `lifted` returned it."""
        self.structure.push(state)
        if present:
            self.last = number

    def evict(self, count: int) -> None:
        """Evict the n oldest events."""
        self.structure.drop(count)

    def evict_all(self) -> None:
        """Drop all events."""
        self.structure.clear()

    def clear(self) -> None:
        """Reset to an empty window."""
        self.last = -1
        self.structure.clear()

    def copy(self) -> Self:
        twin = copy.copy(self)
        twin.structure = self.structure.copy()
        return twin

    def __repr__(self) -> str:
        return repr(self.aggregate)


def _structure(monoid: Monoid, prefer: Prefer, structure: str | type[InOrder] | None) -> type[InOrder]:
    if prefer not in PREFERENCES:
        raise ValueError(f"prefer= must be 'throughput' or 'latency'; got {prefer!r}")
    if structure is None:
        return sequential(choose(monoid, prefer).structure)
    if isinstance(structure, type) and issubclass(structure, InOrder):
        structure = structure.__name__
    if structure not in IN_ORDER:
        raise ValueError(f"structure= must be one of {', '.join(IN_ORDER)}; got {structure!r}")
    record = IN_ORDER[structure]
    require(record.cls, monoid)
    if prefer == "latency" and not record.constant:
        raise ValueError(
            f"structure={structure!r} has steps that are not of constant cost, which prefer='latency' requires"
        )
    return sequential(structure)
