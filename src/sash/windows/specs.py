"""The kinds of windows: immutable data, validated when it is created.

                       a window that ends at row ▼ contains

    Count(4)              · · · [■ ■ ■ ▼]             the last rows
    Time("1h")            · ·(──■──■─■─▼]             the rows of a length of time
    Delta("km", 5)        · · [■ ■ ■ ■ ▼]             the rows less than 5 km behind
    Session("10m")        ■ ■       [■ ■ ▼]           the rows without a gap
    Punctuation("end")    · ■✓[■ ■ ■ ■ ▼]             the rows since the last mark
    Lifetime()           [■ ■ ■ ■ ■ ■ ■ ▼]            all rows
    Policy(evict, over)   · · · ·[■ ■ ■ ▼]            the rows that a function does not evict

Without `every` there is a window for each row. With it there is one per slide: every k rows, every length of
time, or at the close of a session or a punctuated window. `slide` is the kind, `step` the distance.

Advice for arguments that windows of other libraries have: what to write instead.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import tzinfo
from typing import Any, ClassVar, Literal, Protocol, Self, SupportsIndex, get_args

from sash.expressions.source_text import function_name, function_text
from sash.windows.arguments import (
    Length,
    aligned,
    column_name,
    length,
    row_shift,
    rows,
    same_calendar,
    shift,
    time_shift,
    time_zone,
)
from sash.windows.duration import Duration, DurationLike, amount, counted, is_duration
from sash.windows.rules import MOST_ROWS, BoundLengths, Measure, WindowRule

# --- Window advice ---

_SIZE = "it is called size, the first argument"
_SLIDE = "it is called every="
_SIZES = ("window", "windows", "window_size", "length", "width", "period", "freq", "n", "rows", "rule")
_BY = "by= is an argument of sash.rolling and sash.Query"
_ON = "on= is an argument of sash.rolling and sash.Query"
_ADVICE: dict[str, str] = {
    "center": "shift= moves a window: sash.Count(5, shift=2) is centred on its row",
    "win_type": "windows are not weighted: write the aggregate with sash.monoid(...)",
    **dict.fromkeys(("step", "slide", "hop", "stride", "advance"), _SLIDE),
    **dict.fromkeys((*_SIZES, "duration", "range", "interval", "preceding"), _SIZE),
    "following": "shift= moves a window ahead: sash.Count(5, shift=2) is ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING",
    **dict.fromkeys(("timeout", "inactivity"), "it is called gap: sash.Session('10m')"),
    "gap": "windows with a gap are sessions: sash.Session('10m')",
    "size": "a window of a number of rows is sash.Count(5), one of a length of time sash.Time('1h')",
    "closed": "only windows measured in time have ends that may be open: sash.Time('1h', closed='left')",
    "offset": "only windows that slide in time have it: sash.Time('1d', every='1d', offset='6h')",
    "align": "only windows that slide in time have it: sash.Time('10s', every='3s', align='start')",
    "full": "only windows of a number of rows are ever full: sash.Count(10, full=True)",
    "shift": "only windows of a number of rows or a length of time move: sash.Count(5, shift=-1)",
    "every": "sash.Count, sash.Time and sash.Lifetime slide: sash.Time('1h', every='10m')",
    **dict.fromkeys(("tz", "timezone", "time_zone"), "days of a time zone are sash.Time('1d', every='1d', tz='UTC')"),
    **dict.fromkeys(("min_samples", "min_periods"), "min_periods= is an argument of sash.rolling and sash.Query"),
    **dict.fromkeys(("by", "group_by", "groupby", "partition_by", "partitionBy", "keys", "key"), _BY),
    **dict.fromkeys(("on", "order_by", "orderBy", "sort_by", "index_column", "time_column", "timestamp"), _ON),
    "axis": "windows are windows of rows",
    **dict.fromkeys(("lateness", "allowed_lateness"), "lateness= is an argument of sash.Query"),
    "include_boundaries": "results of windows with every= always have window_start and window_end",
    "label": "results of windows with every= always have window_start and window_end",
    "start_by": "slides are multiples of every= since the epoch; align= and offset= of sash.Time move them",
}


_EVERY: dict[str, str] = {
    "Count": f"{_SLIDE}: sash.Count(10, every=5)",
    "Time": f"{_SLIDE}: sash.Time('1h', every='10m')",
    "Lifetime": f"{_SLIDE}: sash.Lifetime(every='1h')",
    "Session": "every='close' gives one window for each session",
    "Punctuation": "every='close' gives one window for each mark",
}
_CALLED = "it is called "


def _advice(window: str, name: str, known: list[str]) -> str:
    """What to write instead of an argument: its name if the window has it, else the window that does."""
    found = _ADVICE.get(name, "")
    if found == _SLIDE:
        found = _EVERY.get(window, _ADVICE["every"])
    elif found.startswith(_CALLED) and not found.removeprefix(_CALLED).startswith(tuple(known)):
        found = _ADVICE["size"] if found == _SIZE else ""
    near = difflib.get_close_matches(name, known, 1, 0.75)
    return f": {found}" if found else f": did you mean {near[0]}=?" if near else ""


def require_known(cls: type, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Raises TypeError, with advice, for unknown arguments of a window and for too many positional ones."""
    if len(positional) < 2 and not named:
        return  # most windows are written so: it saves the cost of a signature
    parameters = [one for one in inspect.signature(cls.__init__).parameters.values() if one.name != "self"]  # type: ignore[misc]
    known = [one.name for one in parameters]
    for name in named:
        if name not in known:
            advice = _advice(cls.__name__, name, known)
            raise TypeError(f"{cls.__name__}() has no argument {name!r}{advice}; it takes {', '.join(known)}")
    first = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
    if len(positional) > len(first):
        others = ", ".join(f"{one}=" for one in known[len(first) :])
        more = f"name the others: {others}" if others else "and no more"
        raise TypeError(
            f"{cls.__name__}() takes {' and '.join(first) or 'no argument'} without a name, {more}; "
            f"got {', '.join(map(repr, positional))}"
        )


# --- Specs ---

Slide = Literal["row", "rows", "time", "close"]
"""How a window slides: at each row, every k rows, at multiples of a length of time, or when it closes."""

Closed = Literal["right", "left", "both", "neither"]
"""Which ends belong to a window."""

CLOSED: tuple[str, ...] = get_args(Closed)

Align = Literal["end", "start"]
"""Which end of the windows that slide in time lies at multiples of `every`."""


class WindowKind:
    """The base class of windows: immutable values, compared by their fields.

    A kind says what its lengths are, and gives the rule of its bounds; everything else derives from both.
    """

    every: Any = None

    kind: ClassVar[str]
    """The name in stored state, which must not change."""
    unit: ClassVar[Literal["rows", "time", "column"] | None] = None
    """What its length is measured in: rows, the time, or its column; None: it has no length."""
    length_name: ClassVar[str] = "size"
    """The argument that is its length."""
    is_calendar: ClassVar[bool] = False
    """May its lengths be those of a calendar?"""

    # what a kind without such an argument has
    closed: Any = None
    offset: Any = 0
    shift: Any = 0
    full: Any = False
    align: Any = "end"
    tz: Any = None

    @property
    def reads(self) -> str | None:
        """The column that it is measured on, or that marks rows."""
        return getattr(self, "column", None)

    @property
    def is_marked(self) -> bool:
        """Does its column mark the last rows of windows?"""
        return self.reads is not None and self.unit is None

    @property
    def decides_by(self) -> tuple[Any, ...]:
        """The aggregates that decide what it evicts."""
        return getattr(self, "over", ())

    def rule(self, lengths: BoundLengths) -> WindowRule:
        """Where the window begins and ends, given its lengths in units of what it is measured in."""
        raise NotImplementedError

    def _rule(self, measure: Measure, lengths: BoundLengths, **bounds: Any) -> WindowRule:
        """A rule with the slides of these lengths."""
        every = lengths.every or 1
        return WindowRule(
            measure,
            lengths.numbers,
            every=min(every, MOST_ROWS) if self.slide == "rows" else every,
            offset=lengths.offset,
            slides_in_time=self.slide == "time",
            calendar_grid=lengths.grid,
            **({"closed_end": lengths.closed in ("right", "both")} | bounds),
        )

    @property
    def holds(self) -> str:
        """The rows that it holds, as a plan shows them."""
        return f"the rows of {self!r}"

    @property
    def length(self) -> Any:
        """Its size or gap; None if it has none."""
        return None if self.unit is None else getattr(self, self.length_name)

    def __new__(cls, *positional: Any, **named: Any) -> Self:
        require_known(cls, positional, named)
        return super().__new__(cls)

    @property
    def slide(self) -> Slide:
        """When there is a window."""
        if self.every is None:
            return "row"
        if self.every == "close":
            return "close"
        return "rows" if isinstance(self.every, int) else "time"

    @property
    def step(self) -> Any:
        """How far a window slides: rows, or a length of time; None at each row and at a close."""
        if self.slide == "close":
            return None
        return self.every.size if isinstance(self.every, Count | Time) else self.every

    @property
    def timed(self) -> bool:
        """Does it need a time, that is, `on`?"""
        return self.unit == "time" or self.slide == "time"

    def __repr__(self) -> str:
        arguments = []
        for one in fields(self):  # type: ignore[arg-type]
            value, required = getattr(self, one.name), one.default is MISSING
            text = repr(str(value)) if isinstance(value, Duration) else repr(value)
            if required or value != self.default(one.name):
                arguments.append(text if required else f"{one.name}={text}")
        return f"{type(self).__name__}({', '.join(arguments)})"

    def default(self, field: str) -> Any:
        """The default of a field."""
        return getattr(WindowKind, field, None)


@dataclass(frozen=True, repr=False)
class Count(WindowKind):
    """A window of the last `size` rows of the key (ROWS in SQL).

    size: how many rows.
    every: how far the window slides. A number of rows k gives a window after each k-th row, without a remainder at the
        end; a duration such as "1m" gives one a minute, `Time("1d", tz="Europe/Berlin")` one a local day. By default
        there is a window for each row.
    full: with True the aggregates are null until there are `size` rows.
    shift: moves the window by a number of rows against the row it belongs to. -1: up to the row before; 2: up to two
        rows later. Not with `every`.

    >>> Count(1000), Count(10, every=5), Count(10, every="1m")
    (Count(1000), Count(10, every=5), Count(10, every='1m'))
    >>> before, centred = Count(10, shift=-1), Count(5, shift=2)

    Raises TypeError or ValueError, naming the argument that does not fit.
    """

    size: int
    every: Any = None
    full: bool = False
    shift: int = 0

    kind = "count"
    unit = "rows"

    def __init__(
        self,
        size: SupportsIndex,
        *,
        every: SupportsIndex | DurationLike | Count | Time | None = None,
        full: bool = False,
        shift: SupportsIndex = 0,
    ) -> None:
        set_fields(self, size=rows("size= of Count", size), every=every, full=full)
        set_fields(self, every=_rows_or_time(self))
        set_fields(self, shift=row_shift(shift, self.every))
        if not isinstance(self.full, bool):
            raise TypeError(f"full= of Count must be True or False; got {self.full!r}")

    def rule(self, lengths: BoundLengths) -> WindowRule:
        # start and end are limited each: a large size and a large shift may differ by a few rows
        shift, behind = (
            max(min(by, MOST_ROWS), -MOST_ROWS) for by in (lengths.shift, (lengths.size or 1) - lengths.shift)
        )
        return self._rule("rows", lengths, size=behind + shift, shift=shift, full=behind + shift if self.full else 0)

    @property
    def holds(self) -> str:
        last = f"{counted(abs(self.shift))} {'after' if self.shift > 0 else 'before'} it"
        held = f"{counted(self.size)} up to {last}" if self.shift else f"the last {counted(self.size)}"
        return held + ("; null until there are as many" if self.full else "")


@dataclass(frozen=True, repr=False)
class Time(WindowKind):
    """A window of the rows of a length of time (RANGE in SQL): sliding, hopping or tumbling.

    size: a duration such as "1h" or a timedelta; on a column of numbers, a number in its units.
    every: how far the window slides. By default there is a window for each row: `(t - size, t]`. A length of time
        gives hopping windows, or tumbling ones if it is `size`: `[end - size, end)` for each `end` that is a multiple
        of it, counted from the epoch in UTC. A number of rows k slides by k rows; where `size` is a number, this is
        written `every=Count(k)`.
    closed: which ends belong to the window: "right" (the default for a window for each row), "left" (the default with
        `every` in time), "both" or "neither".
    offset: shifts hopping windows by a length of time. With an `every` of months or local days it is a local time: "6h"
        for days that begin at 06:00, "3mo" for years that begin in April.
    align: with "end", the default, hopping windows end at multiples of `every`. With "start" they start there, as those
        of SQL, Spark, Flink and polars do. Both are the same where `every` divides the size.
    tz: a time zone such as "Europe/Berlin". Days and weeks are then those of its calendar: a window of "1d" every "1d"
        begins at local midnight, weeks begin on Monday. Months, quarters and years are calendar lengths in any case,
        without `tz` those of UTC. Lengths that are no whole number of days stay as they are.
    shift: moves the window of a row by a length of time: `(t + shift - size, t + shift]`. "-1h": it ends an hour before
        the row; "1h": an hour after it. Back, it may be a length of the calendar: "-1mo", with `tz` "-7d". Not with
        `every`.

    >>> Time("1h"), Time("24h", every="1m"), Time(60, every=10, closed="right"), Time("1h", every=100).slide
    (Time('1h'), Time('1d', every='1m'), Time(60, every=10, closed='right'), 'rows')
    >>> Time("1d", every="1d", tz="America/New_York"), Time("1q", every="1mo")
    (Time('1d', every='1d', tz='America/New_York'), Time('3mo', every='1mo'))
    >>> an_hour_earlier, the_next_hour = Time("1h", shift="-1h"), Time("1h", shift="1h")
    >>> Time("10s", every="3s", align="start")  # [0, 10), [3, 13), [6, 16), …
    Time('10s', every='3s', align='start')

    Raises TypeError or ValueError, naming the argument that does not fit.
    """

    size: Any
    every: Any = None
    closed: Any = None
    offset: Any = 0
    tz: Any = None
    shift: Any = 0
    align: Any = "end"

    kind = "time"
    unit = "time"
    is_calendar = True

    def __init__(
        self,
        size: Length,
        *,
        every: Length | Count | None = None,
        closed: Closed | None = None,
        offset: Length = 0,
        align: Align = "end",
        tz: str | tzinfo | None = None,
        shift: Length = 0,
    ) -> None:
        set_fields(
            self, size=length("size= of Time", size, calendar=True), every=every, closed=closed, offset=offset, tz=tz
        )
        set_fields(self, every=self._every())
        set_fields(
            self, closed=self._closed(), offset=self._offset(), tz=time_zone(self.tz, self.size, self.step, shift)
        )
        set_fields(self, shift=time_shift(shift, self.size, self.every, self.tz))
        set_fields(self, align=aligned(align, self.size, self.step if self.slide == "time" else None, self.tz))

    def rule(self, lengths: BoundLengths) -> WindowRule:
        return self._rule(
            "values",
            lengths,
            size=lengths.size or 0,
            shift=lengths.shift,
            closed_start=lengths.closed in ("left", "both"),
            calendar_size=lengths.calendar_size,
            calendar_shift=lengths.calendar_shift,
        )

    def _every(self) -> Any:
        every = self.every
        if every is None or isinstance(every, Count):
            _require_only_size("every= of Time", every)
            return every
        if isinstance(self.size, Duration):
            if is_duration(every):
                return length("every= of Time", every, calendar=True)
            return Count(rows("every= of Time, a number of rows,", every))
        if is_duration(every):
            raise TypeError(
                f"every={every!r} of Time is a duration and size={self.size!r} a number: give both as durations for "
                "a column of timestamps, both as numbers for a column of numbers"
            )
        return length("every= of Time", every)

    def _closed(self) -> str:
        if self.closed is None:
            return self.default("closed")  # type: ignore[no-any-return]
        if self.closed not in CLOSED:
            raise ValueError(f"closed= of Time must be one of {', '.join(map(repr, CLOSED))}; got {self.closed!r}")
        if self.slide == "time" and self.closed not in ("left", "right"):
            raise ValueError(
                f"closed={self.closed!r} of Time: windows that slide in time are closed 'left' or 'right', so that "
                "neighbours neither overlap nor leave a gap"
            )
        return str(self.closed)

    def _offset(self) -> Any:
        offset = shift("offset= of Time", self.offset, calendar=True)
        if not offset or self.slide == "time":
            same_calendar(offset, self.every)
            if offset and isinstance(offset, Duration) != isinstance(self.size, Duration):
                raise TypeError(
                    f"offset={self.offset!r} of Time and size={self.size!r}: give both as durations or both as numbers"
                )
            return offset
        raise ValueError(f"offset={self.offset!r} of Time shifts windows that slide in time: add every=, a duration")

    def default(self, field: str) -> Any:
        if field == "closed":
            return "left" if self.slide == "time" else "right"
        return super().default(field)

    @property
    def slide(self) -> Slide:
        if self.every is None:
            return "row"
        return "rows" if isinstance(self.every, Count) else "time"


@dataclass(frozen=True, repr=False)
class Delta(WindowKind):
    """A window of the rows whose `column` is less than `size` behind that of the current row.

    column: a column of numbers or times that does not decrease.
    size: how far back the window reaches, in units of the column, or a duration.

    >>> Delta("odometer", 100)
    Delta('odometer', 100)

    Raises TypeError or ValueError, naming the argument that does not fit.
    """

    column: str
    size: Any

    kind = "delta"
    unit = "column"

    def __init__(self, column: str, size: Length) -> None:
        set_fields(self, column=column_name("column= of Delta", column), size=length("size= of Delta", size))

    def rule(self, lengths: BoundLengths) -> WindowRule:
        return self._rule("values", lengths, column=self.column, size=lengths.size or 0)

    @property
    def holds(self) -> str:
        return f"rows less than {amount(self.size)} behind in {self.column!r}"


@dataclass(frozen=True, repr=False)
class Session(WindowKind):
    """A session window: rows belong together while the time to the previous one is at most `gap`.

    gap: the longest time between two rows of a session: a duration, or a number in units of the column.
    every: "close" gives one window for each session, when it closes. By default there is a window for each row, from
        the start of its session to the row.

    >>> Session("30m", every="close")
    Session('30m', every='close')

    Raises TypeError or ValueError, naming the argument that does not fit.
    """

    gap: Any
    every: Any = None

    kind = "session"
    unit = "time"
    length_name = "gap"

    def __init__(self, gap: Length, *, every: Literal["close"] | None = None) -> None:
        set_fields(self, gap=length("gap= of Session", gap), every=every)
        _only_close(self)

    def rule(self, lengths: BoundLengths) -> WindowRule:
        return self._rule("restarts", lengths, gap=lengths.size or 0)

    @property
    def holds(self) -> str:
        return f"rows at most {amount(self.gap)} apart"


@dataclass(frozen=True, repr=False)
class Punctuation(WindowKind):
    """A window that ends with a marked row: one whose boolean `column` is true.

    column: the boolean column of marks.
    every: "close" gives one window for each mark. By default there is a window for each row, from the row after the
        last mark to the row.

    >>> Punctuation("checkout", every="close")
    Punctuation('checkout', every='close')

    Raises TypeError or ValueError, naming the argument that does not fit.
    """

    column: str
    every: Any = None

    kind = "punctuation"

    def __init__(self, column: str, *, every: Literal["close"] | None = None) -> None:
        set_fields(self, column=column_name("column= of Punctuation", column), every=every)
        _only_close(self)

    def rule(self, lengths: BoundLengths) -> WindowRule:
        return self._rule("restarts", lengths, column=self.column)

    @property
    def holds(self) -> str:
        return f"rows up to one with {self.column!r} true"


@dataclass(frozen=True, repr=False)
class Lifetime(WindowKind):
    """All rows of the key since its start: an expanding window (UNBOUNDED PRECEDING in SQL).

    every: a number of rows k gives a result after each k-th row, a duration such as "1h" one for each hour with new
        rows, `Time("1d", tz="Europe/Berlin")` one for each local day. By default there is a result for each row.

    >>> Lifetime(), Lifetime(every="1h").slide
    (Lifetime(), 'time')

    Raises TypeError or ValueError, naming the argument that does not fit.
    """

    every: Any = None

    kind = "lifetime"

    def __init__(self, *, every: SupportsIndex | DurationLike | Count | Time | None = None) -> None:
        set_fields(self, every=every)
        set_fields(self, every=_rows_or_time(self))

    def rule(self, lengths: BoundLengths) -> WindowRule:
        return self._rule("restarts", lengths)

    @property
    def holds(self) -> str:
        return "all rows since the key's start"


class BoundAggregate(Protocol):
    """An aggregate of columns, such as `sash.sum("x")`."""

    @property
    def monoid(self) -> Any:
        """The monoid."""

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns that it reads, or expressions over them."""

    def state_text(self) -> str:
        """The text that identifies it in stored state."""

    def require_columns(self) -> None:
        """Raises TypeError if it has no column."""


@dataclass(frozen=True, repr=False)
class Policy(WindowKind):
    """A window whose oldest elements a user-defined function evicts: a slide policy, as in the AMTA paper.

    evict: a function `evict(total, prefix) -> bool` that decides whether the window evicts a prefix, its oldest
        elements. It gets the states (before `lower`) of the aggregates in `over`, of the whole window and of the
        prefix: a tuple each, or, if `over` is a single aggregate, its state. It must be monotone: if it evicts a
        prefix, it evicts every shorter one.
    over: the aggregates that `evict` looks at: one, or a list.

    >>> import sash
    >>> window = Policy(lambda t, p: t - p > 10, over=sash.sum("x"))
    >>> window.evicts((15,), (3,))
    True

    Raises TypeError if `evict` is no function or `over` no bound aggregate.
    """

    evict: Callable[[Any, Any], bool]
    over: Any
    alone: bool = field(init=False, default=False)
    """Was `over` a single aggregate?"""

    kind = "policy"

    def __init__(self, evict: Callable[[Any, Any], bool], over: BoundAggregate | Sequence[BoundAggregate]) -> None:
        if not callable(evict):
            raise TypeError(f"evict= of Policy must be a function of (total, prefix); got {evict!r}")
        alone = _is_aggregate(over)
        aggregates = (over,) if alone else over
        if not isinstance(aggregates, tuple | list) or not aggregates or not all(map(_is_aggregate, aggregates)):
            raise TypeError(
                f"over= of Policy must be an aggregate of columns, such as sash.sum('x'), or several; got {over!r}"
            )
        for one in aggregates:
            one.require_columns()
        set_fields(self, evict=evict, over=tuple(aggregates), alone=alone)

    def rule(self, lengths: BoundLengths) -> WindowRule:
        return self._rule("policy", lengths)

    @property
    def holds(self) -> str:
        return f"rows that {self.evict_name} does not evict, by {', '.join(map(repr, self.over))}"

    def evicts(self, total: tuple[Any, ...], prefix: tuple[Any, ...]) -> bool:
        """Call `evict` with a value for each aggregate of `over`."""
        return bool(self.evict(total[0], prefix[0]) if self.alone else self.evict(total, prefix))

    @property
    def evict_name(self) -> str:
        """The name of the function, without the scopes around it."""
        return function_name(self.evict)

    def state_text(self) -> str:
        """The text that identifies it in stored state, and must not change; code and parameters have their own key."""
        return f"Policy({self.evict_name}, over={self._over([one.state_text() for one in self.over])})"

    def __repr__(self) -> str:
        return f"Policy({function_text(self.evict)}, over={self._over([*map(repr, self.over)])})"

    def _over(self, texts: list[str]) -> str:
        return texts[0] if self.alone else f"({', '.join(texts)})"


# ---- checks of arguments ----


def set_fields(window: Any, **values: Any) -> None:
    """Set fields of a frozen window."""
    for name, value in values.items():
        object.__setattr__(window, name, value)


def _rows_or_time(window: Any) -> Any:
    """`every` of a window that is not measured in time: an int is rows, a duration is time."""
    every, what = window.every, f"every= of {type(window).__name__}"
    if every is None or isinstance(every, Count | Time):
        _require_only_size(what, every)
        if isinstance(every, Time) and (every.tz is not None or not isinstance(every.size, Duration)):
            return every
        return None if every is None else every.size
    if is_duration(every):
        return length(what, every, calendar=True)
    return rows(f"{what}, a number of rows (or a duration),", every)


def _require_only_size(what: str, every: Count | Time | None) -> None:
    """Raises ValueError for a Count or a Time with more arguments than a size and a time zone."""
    zone = {"tz": every.tz} if isinstance(every, Time) else {}
    if every is not None and every != type(every)(every.size, **zone):
        raise ValueError(f"{what} must be a {type(every).__name__} with only a size; got {every!r}")


def _only_close(window: Any) -> None:
    if window.every not in (None, "close"):
        raise ValueError(
            f"every= of {type(window).__name__} must be None (a window for each row) or 'close' (one when it closes); "
            f"got {window.every!r}"
        )


def _is_aggregate(value: Any) -> bool:
    # this package cannot import the class
    return hasattr(value, "monoid") and hasattr(value, "columns")
