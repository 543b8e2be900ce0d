"""Bind a query to a schema: a BoundQuery, or an error that names the column.

Bind the calendar lengths of a window to a time column: months, and with `tz=` days.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import isclose
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sash.expressions.tree import ColumnNode, Node, with_text
from sash.monoids.algebra import Bound
from sash.monoids.custom import Custom, require_pure
from sash.monoids.direct_product import DirectProduct
from sash.monoids.null_rows import NullRows
from sash.plan import types, validation
from sash.plan.bound_query import AggregateSpec, BoundQuery, WindowSpec, wide_type
from sash.plan.categories import Categories, UnknownCategories, categories_of, is_ordered
from sash.plan.derived_columns import derived_type, input_names, inputs_of, source_column
from sash.plan.projection import project
from sash.plan.time_axis import Number, TimeAxis
from sash.plan.types import type_samples, typed_aggregate
from sash.plan.validation import halflife_in_units
from sash.windows.calendar import CalendarGrid, CalendarLength, LocalClock
from sash.windows.duration import Duration
from sash.windows.specs import WindowKind

if TYPE_CHECKING:
    from sash.plan.query import Query


# --- Window calendar ---


class WindowCalendar:
    """The sizes and slides of a window in units of its time column; `of` names the window in errors."""

    def __init__(self, window: WindowKind, time: TimeAxis, of: str) -> None:
        self.window, self.time, self.of = window, time, of
        by = window if window.is_calendar else window.every
        self.zone: str | None = by.tz if isinstance(by, WindowKind) else None

    def _calendar(self, value: object, what: str) -> CalendarLength | None:
        """A calendar length; None if the value is a fixed one. Raises TypeError for a column of numbers."""
        if not isinstance(value, Duration):
            return None
        days = (value.days or 0) if self.zone is not None else 0
        if not value.calendar and not days:
            return None
        if not self.time.timed:
            raise TypeError(
                f"{what}{self.of} is {str(value)!r}, a length of the calendar, and the column {self.time.column!r} is "
                f"of type {self.time.type}: cast it to timestamp"
            )
        zone = "UTC" if self.zone is None or self.time.has_dates else self.zone  # a date is local in any zone
        return CalendarLength(LocalClock(zone, self.time.unit), value.months, days)

    @property
    def size(self) -> CalendarLength | None:
        """The size of a Time window, if it is a calendar length."""
        return self._calendar(self.window.length, "size=") if self.window.is_calendar else None

    @property
    def shift(self) -> CalendarLength | None:
        """How far a Time window ends before its row, if that is a calendar length."""
        by = self.window.shift
        return self._calendar(Duration(-by.nanoseconds, -by.months), "shift=") if isinstance(by, Duration) else None

    @property
    def every(self) -> CalendarLength | None:
        """The distance of slides in time, if it is a calendar length."""
        return self._calendar(self.window.step, "every=") if self.window.slide == "time" else None

    def number(self, length: CalendarLength | None, value: object, what: str) -> Number:
        """A length in units; of a calendar length the greatest."""
        if length is None:
            return self.time.number(value, f"{what}{self.of}")
        return self.time.within(length.longest, f"{what}{self.of}", str(value))

    @property
    def _by_start(self) -> bool:
        return bool(self.window.align == "start")

    @property
    def offset(self) -> Number:
        """The shift of the ends of slides, without months: with `align="start"` their starts are shifted by `offset`.

        For slides of the calendar it is in local time.
        """
        if not self.window.is_calendar:
            return 0
        offset, size, every = self.window.offset, self.size, self.every
        given = 0 if isinstance(offset, Duration) and offset.calendar else self.number(None, offset, "offset=")
        if not self._by_start:
            return given
        if every is None:
            return _of_ends(
                given, self.number(None, self.window.length, "size="), self.number(None, self.window.step, "every=")
            )
        if size is None:
            return given  # after a change of the clock the end is not at a fixed local time: `after`
        return given + (size.days % every.days if every.days else size.days) * size.clock.day

    @property
    def grid(self) -> CalendarGrid | None:
        """The slides in time, if they follow the calendar."""
        size, every = self.size, self.every
        if self.window.slide != "time" or (size is None and every is None):
            return None
        step = int(self.number(None, self.window.step, "every=")) if every is None else every
        wide: CalendarLength | int | None = size
        if size is None and self.window.is_calendar:
            wide = int(self.number(None, self.window.length, "size="))
        months = self.window.offset.months if isinstance(self.window.offset, Duration) else 0
        after = 0
        if self._by_start and every is not None:
            months += size.months % every.months if size is not None and every.months else 0
            after = 0 if isinstance(wide, CalendarLength) else int(wide or 0)
        return CalendarGrid(step, wide, int(self.offset), months, after)


def _of_ends(offset: Number, size: Number, every: Number) -> Number:
    """The shift of the ends of slides that start at multiples of `every`, shifted by `offset`.

    Floats are the decimals that are written, as for the slides themselves, and 1.0 is a multiple of 1 / 3.
    """
    first, length, step = (Fraction(str(one)) for one in (offset, size, every))
    slides = length / step
    divides = not length % step or (isinstance(size, float) and isclose(slides, round(slides), rel_tol=1e-15))
    return offset if divides else type(size)((first + length) % step)


# --- Binder ---


def require_schema(given: Any) -> pa.Schema:
    """The schema itself. Raises TypeError, with how to get one, for a frame or anything else."""
    if not isinstance(given, pa.Schema):
        raise TypeError(
            f"schema must be a pyarrow Schema; got a {type(given).__name__}. A pyarrow table has it as table.schema; "
            "for a frame of pandas write pyarrow.Schema.from_pandas(frame), for one of polars frame.to_arrow().schema"
        )
    return given


def bind(query: Query, schema: pa.Schema) -> BoundQuery:
    """The query bound to columns of these types.

    Raises KeyError for a missing column, TypeError or ValueError for one that does not fit.
    """
    for name, count in Counter(schema.names).items():
        if count > 1:
            raise ValueError(f"the data has the column {name!r} twice: rename one")
    for what, names in (("by=", query.by), ("on=", query.on)):
        for name in names:
            known(schema, name, what)
    if query.retract is not None and not types.admits("bool", known(schema, query.retract, "retract=")):
        found = schema.field(query.retract).type
        raise TypeError(
            f"retract= names the column {query.retract!r} of type {found}; it must be boolean: compare it first"
        )
    time = TimeAxis.of(query.on[0], schema.field(query.on[0]).type) if query.on else None
    for name in query.on[1:]:
        type_ = known(schema, name, "on=")
        _require_own_order(schema, name, "on=")
        if not types.admits("ordered", type_):
            raise TypeError(f"on= names the tie-breaker {name!r} of type {type_}, which has no order")
    if query.ahead is not None and time is not None and not time.timed:
        raise TypeError(
            f"ahead= compares times with the clock, and the column {time.column!r} of type {time.type} has no dates or "
            "timestamps: cast it to timestamp"
        )
    windows = tuple(_window(name, window, schema, time) for name, window in query.all_windows.items())
    aggregates, projection = project(
        query, windows, lambda name, one, label: _aggregate(name, one, schema, time, label)
    )
    validation.require_free(query, schema.names)
    return BoundQuery(
        query=query,
        schema=schema,
        by=query.by,
        time=time,
        ties=query.on[1:],
        lateness=_length(time, query.lateness, "lateness="),
        forget=_length(time, query.forget, "forget="),
        ahead=_length(time, query.ahead, "ahead="),
        windows=windows,
        aggregates=tuple(aggregates),
        per_row=query.per_row,
        projection=projection,
    )


def known(schema: pa.Schema, name: str, what: str, tree: Node | None = None) -> pa.DataType:
    """The type of a column, which an expression may name. Raises KeyError, with the nearest name, if there is none."""
    if name not in schema.names:
        same = [one for one in schema.names if one.casefold() == name.casefold()]
        near = same or difflib.get_close_matches(name, schema.names, 1, 0.5)
        meant = f": did you mean {near[0]!r}?" if near else "."
        quoted = "" if tree is None else with_text(tree, name)
        if quoted and not same:
            meant = f": texts take single quotes: {quoted}."
        elif not name.replace(" ", "_").isidentifier():
            meant = f". If it is an expression, write sash.expr({name!r})."
        raise UnknownColumn(f"{what} names the column {name!r}, which does not exist{meant} {_listed(schema)}")
    return types.value_type(schema.field(name).type)


def known_columns(tree: Node, schema: pa.Schema, what: str) -> None:
    """Raises KeyError, as `known`, unless all columns of an expression exist."""
    for name in dict.fromkeys(tree.columns()):
        known(schema, name, what, tree)


class UnknownColumn(KeyError, ValueError):
    """A query names a column that the data does not have: a KeyError and, like other bad arguments, a ValueError."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError shows its argument in quotes


def _listed(schema: pa.Schema) -> str:
    names = [repr(name) for name in schema.names[:12]]
    if not names:
        return "There are no columns"
    return "The columns are " + ", ".join(names) + (", …" if len(schema.names) > 12 else "")


def _require_own_order(schema: pa.Schema, name: str, label: str) -> None:
    """Raises TypeError for ordered categories: values would be compared by name, not by category."""
    field = schema.field(name)
    if is_ordered(field.type) or categories_of(field) is not None:
        raise TypeError(
            f"{label} would compare the ordered categories of the column {name!r} by name, not by their order: give "
            "their codes, or cast them to text"
        )


def _length(time: TimeAxis | None, value: Any, what: str) -> Number | None:
    return None if value is None or time is None else time.number(value, what)


def _window(name: str, window: WindowKind, schema: pa.Schema, time: TimeAxis | None) -> WindowSpec:
    of = f" of {type(window).__name__}" + (f", the window {name!r}," if name else "")
    axis = time
    if window.unit == "column":
        known(schema, str(window.reads), f"column={of}")
        axis = TimeAxis.of(str(window.reads), schema.field(str(window.reads)).type, f"column={of}")
    elif window.reads is not None:
        _require_boolean(window.reads, schema, f"column={of}")
    lengths = None if time is None else WindowCalendar(window, time, of)
    size, shift = _size(window, axis, lengths, of), _shift(window, lengths)
    if time is not None and time.kind == "int" and window.unit == "time":
        time.within(int((size or 0) - shift), f"size= less shift={of}", window)
    return WindowSpec(
        name=name,
        window=window,
        numbers=np.dtype(np.int64 if axis is None or axis.kind == "int" else np.float64),
        size=size,
        slide=window.slide,
        every=_every(window, lengths),
        offset=lengths.offset if lengths else 0,
        closed=window.closed or ("left" if window.slide == "time" else "right"),
        full=window.full,
        axis=axis,
        column=window.reads,
        over=tuple(
            _aggregate(f"over[{i}]", bound, schema, time, f"over={bound!r}{of}")
            for i, bound in enumerate(window.decides_by)
        ),
        shift=shift,
        calendar_size=lengths.size if lengths else None,
        calendar_shift=lengths.shift if lengths else None,
        grid=lengths.grid if lengths else None,
    )


def _every(window: WindowKind, lengths: WindowCalendar | None) -> Number | None:
    """The distance of slides, in rows or in units of the time; the greatest value of a calendar length."""
    step: Number | None = window.step
    return lengths.number(lengths.every, step, "every=") if lengths is not None and window.slide == "time" else step


def _shift(window: WindowKind, lengths: WindowCalendar | None) -> Number:
    """The shift of a window; the least value of a calendar length."""
    if window.unit != "time" or lengths is None or not window.shift:
        return window.shift  # type: ignore[no-any-return]
    by = lengths.shift
    found = lengths.number(by, window.shift, "shift=")
    return found if by is None else -found


def _size(window: WindowKind, axis: TimeAxis | None, lengths: WindowCalendar | None, of: str) -> Number | None:
    if window.unit == "rows" or window.unit is None or axis is None:
        return window.length  # type: ignore[no-any-return]
    what = f"{window.length_name}="
    if window.unit == "column" or lengths is None:
        return axis.number(window.length, what + of)
    return lengths.number(lengths.size, window.length, what)


def _require_boolean(column: str, schema: pa.Schema, what: str) -> None:
    found = known(schema, column, what)
    if not types.admits("bool", found):
        raise TypeError(f"{what} names {column!r} of type {found}; it must be boolean: compare it first")


def _aggregate(name: str, bound: Bound, schema: pa.Schema, time: TimeAxis | None, label: str) -> AggregateSpec:
    trees = inputs_of(bound)
    names = input_names(trees, schema.names)
    found = tuple(_input_type(tree, schema, label) for tree in trees)
    typed = typed_aggregate(bound.monoid, found)
    if typed is not None:
        read = slice(None) if typed.reads is None else slice(typed.reads, typed.reads + 1)
        return AggregateSpec(name, typed.monoid, names[read], found[read], typed.result, trees[read])
    types.check(label, bound.monoid, names, found)
    if isinstance(bound.monoid, Custom):
        require_pure(bound.monoid, type_samples(found), label)
    sources = [source_column(tree) for tree in trees]
    ordered = _categories(bound, sources, schema, label)
    encoding = None
    if types.selects(bound.monoid) and (last := sources[-1]) and types.is_dictionary(schema.field(last).type):
        encoding = wide_type(schema.field(last).type)
    try:
        result = types.result(bound.monoid, found)
    except TypeError as error:
        raise TypeError(f"{label}: {error}") from None
    plain = AggregateSpec(name, bound.monoid, names, found, result, trees, ordered, encoding)
    return _with_added_inputs(plain, time, label)


def _with_added_inputs(spec: AggregateSpec, time: TimeAxis | None, label: str) -> AggregateSpec:
    """Add inputs that the user does not name: the time of the row, or whether the first input is null."""
    monoid = spec.monoid
    if monoid.reads_time:
        assert time is not None  # `validation` refuses it without on=
        monoid = monoid.by_time(halflife_in_units(monoid, time, label))
        column, kind = time.column, types.value_type(time.type)
        tree: Node = ColumnNode(column)
    elif monoid.counts_nulls:
        monoid, column, kind, tree = NullRows(monoid), spec.columns[0], pa.bool_(), spec.trees[0]
    else:
        return spec
    return dataclasses.replace(
        spec,
        monoid=monoid,
        columns=(*spec.columns, column),
        types=(*spec.types, kind),
        trees=(*spec.trees, tree),
    )


def _input_type(tree: Node, schema: pa.Schema, label: str) -> pa.DataType:
    if isinstance(tree, ColumnNode):
        return known(schema, tree.name, label)
    known_columns(tree, schema, label)
    return derived_type(tree, lambda column: known(schema, column, label), label)


def _categories(
    bound: Bound, sources: Sequence[str | None], schema: pa.Schema, label: str
) -> tuple[Categories | None, ...]:
    """The categories of compared columns, from the least; () if no column has ordered ones."""
    found: list[Categories | None] = []
    for column, domain in zip(sources, bound.monoid.domain, strict=False):
        own = None
        if domain == "ordered" and column is not None:
            field = schema.field(column)
            categories = categories_of(field)
            if isinstance(bound.monoid, DirectProduct):
                _require_own_order(schema, column, label)
            elif categories is not None:
                own = tuple(categories.to_pylist())
            elif is_ordered(field.type):
                raise UnknownCategories(
                    f"{label} compares the column {column!r} by the order of its categories, which a schema does not "
                    "have: run the query on data, or open the operator without a schema"
                )
        found.append(own)
    return tuple(found) if any(one is not None for one in found) else ()
