"""Where windows begin and end: every executor, and every search, holds the rows that the window's rule says.

The rule is read here in whole numbers of Python and in comparisons of all rows. Times and values lie near the limits of
64-bit integers, or are floats.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash.windows import WindowKind, rules
from sash.windows.rules import LIMIT, BoundLengths, WindowRule
from tests.shared.effort import share

CLOSED = ("right", "left", "both", "neither")
AROUND = (-LIMIT - 1, -(2**62), 0, 2**62, LIMIT)
SIZES = (1, 2, 3, 7, 2**62, LIMIT - 1, LIMIT)

Rows = list[dict[str, Any]]


# ---- the definition ----


def held(rule: WindowRule, rows: Rows, i: int) -> list[int]:
    """The rows of the window of a row."""
    if rule.measure == "rows":
        behind, ahead = rule.rows
        return list(range(len(rows)))[max(0, i + 1 - behind) : max(0, i + 1 + ahead)]
    if rule.measure == "restarts":
        begin = max((j for j in range(1, i + 1) if restarted(rule, rows, j)), default=0)
        return [j for j in range(begin, len(rows)) if j <= i or (rule.peers and rows[j]["t"] == rows[i]["t"])]
    name = rule.column or "t"
    low, high = (origin.tolist()[0] for origin in rule.origins(np.array([rows[i][name]])))
    high += 0 if rule.calendar_shift else rule.shift
    low += 0 if rule.calendar_size else -rule.size if rule.calendar_shift else -rule.behind
    values = [row[name] for row in rows]
    return [
        j
        for j, value in enumerate(values)
        if (value > low or (rule.closed_start and value == low))
        and (value < high or (rule.closed_end and value == high))
        and (rule.peers or j <= i)
    ]


def restarted(rule: WindowRule, rows: Rows, j: int) -> bool:
    """Does a window begin with row j?"""
    if rule.column is not None:
        return bool(rows[j - 1][rule.column])
    return rule.gap is not None and rows[j]["t"] - rows[j - 1]["t"] > rule.gap


# ---- kinds that no module names ----


@dataclass(frozen=True, repr=False)
class Within(WindowKind):
    """The rows at most `size` behind on a column: unlike Delta, with the row at its start."""

    column: str
    size: int

    kind = "within"
    unit = "column"

    def rule(self, lengths: BoundLengths) -> WindowRule:
        return self._rule("values", lengths, column=self.column, size=lengths.size, closed_start=True)


@dataclass(frozen=True, repr=False)
class Between(WindowKind):
    """The times from `first` to `last` before a row, both excluded."""

    first: int
    last: int

    kind = "between"
    unit = "time"

    @property
    def length(self) -> int:
        return self.first - self.last

    @property
    def shift(self) -> int:  # type: ignore[override]
        return -self.last

    def rule(self, lengths: BoundLengths) -> WindowRule:
        return self._rule("values", lengths, size=lengths.size, shift=lengths.shift, closed_end=False)


# ---- what runs a window ----

SCHEMA = {"t": pa.int64(), "d": pa.int64(), "p": pa.bool_(), "i": pa.int64()}
HELD = {"held": sash.collect("i")}


def of_frame(window: WindowKind, table: pa.Table) -> list[list[int]]:
    return sash.rolling(table, window, on="t", **HELD)["held"].to_pylist()


def in_column_kernels(window: WindowKind, table: pa.Table) -> list[list[int]]:
    """Several windows that differ in size alone are searched together."""
    found = sash.rolling(table, {"a": window, "b": window, "c": window, "d": window}, on="t", **HELD)
    return found["held_b"].to_pylist()


def of_operator(window: WindowKind, table: pa.Table, emit: Any = "final") -> list[list[int]]:
    operator = sash.Query(window, on="t", emit=emit, **HELD).operator(table.schema)
    made = [operator.process(batch) for i in range(table.num_rows) for batch in table.slice(i, 1).to_batches()]
    last = {row["i"]: row["held"] for row in pa.Table.from_batches([*made, operator.finish()]).to_pylist()}
    return [last[i] for i in range(table.num_rows)]


def of_eager(window: WindowKind, table: pa.Table) -> list[list[int]]:
    return of_operator(window, table, "eager")


HOSTS: dict[str, Callable[[WindowKind, pa.Table], list[list[int]]]] = {
    "frame": of_frame,
    "several": in_column_kernels,
    "operator": of_operator,
    "eager": of_eager,
}


def rule_of(window: WindowKind, schema: pa.Schema) -> WindowRule:
    return sash.Query(window, on="t", **HELD).bind(schema).windows[0].rule


def sets(found: Sequence[Sequence[int] | None]) -> list[list[int]]:
    return [sorted(one or []) for one in found]


# ---- drawn windows and rows ----


@st.composite
def rising(draw: Any, count: int, numbers: str) -> list[Any]:
    if numbers == "floats":
        return sorted(draw(st.lists(st.integers(-40, 40).map(lambda x: x / 10), min_size=count, max_size=count)))
    near = st.builds(lambda at, by: min(max(at + by, -LIMIT - 1), LIMIT), st.sampled_from(AROUND), st.integers(-3, 3))
    return sorted(draw(st.lists(near | st.integers(-9, 9), min_size=count, max_size=count)))


@st.composite
def rows(draw: Any, numbers: str = "ints") -> Rows:
    count = draw(st.integers(1, 14))
    times, values = draw(rising(count, numbers)), draw(rising(count, numbers))
    marks = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    return [{"t": times[i], "d": values[i], "p": marks[i], "i": i} for i in range(count)]


def table_of(given: Rows) -> pa.Table:
    kind = pa.float64() if isinstance(given[0]["t"], float) else pa.int64()
    return pa.Table.from_pylist(given, pa.schema(SCHEMA | {"t": kind, "d": kind}))


sizes = st.sampled_from(SIZES)
shifts = st.integers(-9, 9) | st.sampled_from((-(2**62), 2**62))


def is_within(window: sash.Time) -> bool:
    """Is the distance of its start from a row a number of 64 bits?"""
    return bool(window.size - window.shift <= LIMIT)


fixed = st.one_of(
    st.builds(sash.Count, st.integers(1, 6)),
    st.builds(sash.Time, sizes, closed=st.sampled_from(CLOSED)),
    st.builds(sash.Delta, st.just("d"), sizes),
    st.builds(sash.Session, sizes),
    st.builds(sash.Lifetime),
    st.builds(Within, st.just("d"), sizes),
)

marked = st.just(sash.Punctuation("p"))
shifted = st.one_of(
    st.builds(sash.Count, st.integers(1, 6), shift=st.integers(-9, 9)),
    st.builds(sash.Time, sizes, closed=st.sampled_from(CLOSED), shift=shifts).filter(is_within),
    st.builds(Between, st.integers(5, 9), st.integers(1, 4)),
)
KINDS = {"eager": fixed}


@pytest.mark.parametrize("host", HOSTS)
@given(data=st.data())
@settings(max_examples=share(150))
def test_every_executor_holds_the_rows_of_the_rule(host: str, data: st.DataObject) -> None:
    window = data.draw(KINDS.get(host, fixed | marked | shifted))
    given_rows = data.draw(rows())
    table = table_of(given_rows)
    rule = rule_of(window, table.schema)
    expected = [held(rule, given_rows, i) for i in range(len(given_rows))]
    assert sets(HOSTS[host](window, table)) == expected, window


@pytest.mark.parametrize("host", HOSTS)
@given(given_rows=rows("floats"), size=st.integers(1, 30).map(lambda x: x / 10), data=st.data())
@settings(max_examples=share(60))
def test_on_floats(host: str, given_rows: Rows, size: float, data: st.DataObject) -> None:
    """x - size is one rounded number, whatever searches for it: -0.9 - 0.1 is -1, and -0.9 + 1 is less than 0.1."""
    kinds = [*(sash.Time(size, closed=closed) for closed in CLOSED), sash.Delta("d", size), Within("d", size)]  # type: ignore[arg-type]
    window = data.draw(st.sampled_from([*kinds, sash.Session(size)]))
    table = table_of(given_rows)
    rule = rule_of(window, table.schema)
    expected = [held(rule, given_rows, i) for i in range(len(given_rows))]
    assert sets(HOSTS[host](window, table)) == expected, window


@given(given_rows=rows(), data=st.data(), floats=st.booleans())
@settings(max_examples=share(150))
def test_a_loop_holds_the_rows_of_the_rule(given_rows: Rows, data: st.DataObject, floats: bool) -> None:
    """Those that were pushed; peers may follow."""
    window = data.draw(fixed | marked | shifted)
    if sash.plan.validation.looks_ahead(window):
        window = replace(window, shift=-window.shift)  # type: ignore[type-var]
    if floats:
        given_rows = data.draw(rows("floats"))
    rule = rule_of(window, table_of(given_rows).schema)
    loop = sash.Window(window, sash.collect("i"))
    found = [loop.push(row, row["t"]) for row in given_rows]
    expected = [[j for j in held(rule, given_rows, i) if j <= i] for i in range(len(given_rows))]
    assert sets(found) == expected, window


@pytest.mark.parametrize("emit", ["final", "eager"])
@given(given_rows=rows(), data=st.data())
@settings(max_examples=share(100))
def test_a_lookup_holds_the_rows_of_the_rule(emit: Any, given_rows: Rows, data: st.DataObject) -> None:
    window = data.draw(fixed if emit == "eager" else fixed | shifted)
    table = table_of(given_rows)
    operator = sash.Query(window, on="t", emit=emit, **HELD).operator(table.schema)
    operator.process(table.combine_chunks().to_batches()[0])
    last = len(given_rows) - 1
    found = operator.lookup({}, at=given_rows[last]["t"])["held"].to_pylist()
    assert sets(found) == [held(rule_of(window, table.schema), given_rows, last)], window


@given(given_rows=rows(), data=st.data(), closed=st.sampled_from(CLOSED))
@settings(max_examples=share(100))
def test_as_of_holds_the_rows_of_the_rule(given_rows: Rows, data: st.DataObject, closed: Any) -> None:
    """A spine at the times of the rows: windows of rows end at the last row that `closed` admits."""
    window = data.draw(st.builds(sash.Time, sizes, shift=st.integers(-9, 0)).filter(is_within))
    table = table_of(given_rows)
    found = sash.as_of(table.select(["t"]), table, window, on="t", closed=closed, **HELD)["held"].to_pylist()
    rule = replace(rule_of(window, table.schema), closed_start=closed in ("left", "both"))
    rule = replace(rule, closed_end=closed in ("right", "both"))
    assert sets(found) == [held(rule, given_rows, i) for i in range(len(given_rows))], window


def test_a_start_beyond_64_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="size= less shift= of Time is Time"):
        sash.rolling(pa.table({"t": [1], "i": [1]}), sash.Time(LIMIT, shift=-1), on="t", **HELD)


def of_spine(window: WindowKind, table: pa.Table) -> list[list[int]]:
    closed: Any = window.closed
    return sash.as_of(table.select(["t"]), table, window, on="t", closed=closed, **HELD)["held"].to_pylist()


def of_finer_spine(window: WindowKind, table: pa.Table) -> list[list[int]]:
    """As of half a unit after each row, which the row is before."""
    half = pc.add(table["t"].cast(pa.timestamp("us", "UTC")), pa.scalar(500, pa.duration("us")))
    spine = pa.table({"t": half.cast(pa.timestamp("us", "Europe/Berlin"))})
    closed: Any = window.closed
    return sash.as_of(spine, table, window, on="t", closed=closed, **HELD)["held"].to_pylist()


DAY = 86_400_000
OF_CALENDAR = {name: HOSTS[name] for name in ("frame", "operator", "eager")} | {"spine": of_spine}
berlin_days = st.lists(st.integers(0, 90 * 8), min_size=1, max_size=14)
months = st.sampled_from(["1mo", "2mo", "7d"])


def in_berlin(days: list[int]) -> tuple[Rows, pa.Table]:
    """Rows at multiples of three hours of the spring of 2024."""
    begin = int(dt.datetime(2024, 2, 1, tzinfo=dt.UTC).timestamp() * 1000)
    found = [{"t": begin + day * DAY // 8, "d": 0, "p": False, "i": i} for i, day in enumerate(sorted(days))]
    table = pa.Table.from_pylist(found, pa.schema(SCHEMA))
    return found, table.set_column(0, "t", table["t"].cast(pa.timestamp("ms", "Europe/Berlin")))


@pytest.mark.parametrize("host", OF_CALENDAR)
@given(days=berlin_days, size=months, closed=st.sampled_from(CLOSED), shift=st.sampled_from([0, "-1mo", "-3d"]))
@settings(max_examples=share(60))
def test_by_the_calendar(host: str, days: list[int], size: str, closed: Any, shift: Any) -> None:
    window = sash.Time(size, closed=closed, shift=0 if host == "eager" else shift, tz="Europe/Berlin")
    given_rows, table = in_berlin(days)
    rule = rule_of(window, table.schema)
    expected = [held(rule, given_rows, i) for i in range(len(given_rows))]
    assert sets(OF_CALENDAR[host](window, table)) == expected, window


@given(days=berlin_days, size=months, closed=st.sampled_from(CLOSED), shift=st.sampled_from([0, "-1mo", "-3d"]))
@settings(max_examples=share(60))
def test_as_of_times_between_two_units(days: list[int], size: str, closed: Any, shift: Any) -> None:
    """Half a millisecond later a window holds a row at its own end, and none at its own start, however it is closed."""
    window = sash.Time(size, closed=closed, shift=shift, tz="Europe/Berlin")
    given_rows, table = in_berlin(days)
    rule = replace(rule_of(window, table.schema), closed_start=False, closed_end=True)
    expected = [held(rule, given_rows, i) for i in range(len(given_rows))]
    assert sets(of_finer_spine(window, table)) == expected, window


# ---- new kinds, by brute force ----


@given(given_rows=rows(), size=st.integers(1, 9))
@settings(max_examples=share(60))
def test_a_new_kind_on_a_column_runs_everywhere(given_rows: Rows, size: int) -> None:
    window, table, values = Within("d", size), table_of(given_rows), [row["d"] for row in given_rows]
    expected = [[j for j in range(i + 1) if values[j] >= values[i] - size] for i in range(len(values))]
    for run in HOSTS.values():
        assert sets(run(window, table)) == expected
    loop = sash.Window(window, sash.collect("i"))
    assert sets([loop.push(row, row["t"]) for row in given_rows]) == expected
    for emit in ("final", "eager"):
        operator = sash.Query(window, on="t", emit=emit, **HELD).operator(table.schema)
        operator.process(table.combine_chunks().to_batches()[0])
        assert sets(operator.lookup({}, at=given_rows[-1]["t"])["held"].to_pylist()) == expected[-1:]


@given(given_rows=rows(), first=st.integers(3, 9), last=st.integers(1, 2))
@settings(max_examples=share(60))
def test_a_new_kind_with_its_own_ends_runs_wherever_windows_move(given_rows: Rows, first: int, last: int) -> None:
    window, table, times = Between(first, last), table_of(given_rows), [row["t"] for row in given_rows]
    expected = [[j for j, t in enumerate(times) if now - first < t < now - last] for now in times]
    for run in (of_frame, of_operator):
        assert sets(run(window, table)) == expected
    loop = sash.Window(window, sash.collect("i"))
    assert sets([loop.push(row, row["t"]) for row in given_rows]) == expected
    operator = sash.Query(window, on="t", **HELD).operator(table.schema)
    operator.process(table.combine_chunks().to_batches()[0])
    assert sets(operator.lookup({}, at=times[-1])["held"].to_pylist()) == expected[-1:]


# ---- the searches themselves ----


def kept(los: Any, his: Any) -> list[list[int]]:
    return [list(range(lo, hi)) for lo, hi in zip(los, his, strict=True)]


@given(
    x=st.lists(st.sampled_from(AROUND) | st.integers(-9, 9), min_size=1, max_size=6),
    by=st.sampled_from(SIZES) | st.integers(-9, 9) | st.sampled_from((-LIMIT, -(2**62))),
    inclusive=st.booleans(),
)
def test_a_bound_does_not_overflow(x: list[int], by: int, inclusive: bool) -> None:
    given_bound = rules.bound(by, np.dtype(np.int64), inclusive)
    values = sorted({*AROUND, *(at + step for at in x for step in (-1, 0, 1) if abs(at) < 2**62)})
    column = np.array(values)
    for at, moved in zip(x, rules.moved(np.array(x), given_bound).tolist(), strict=True):
        place = rules.first_moved(column, 0, len(column), np.int64(at), given_bound)
        assert values[place:] == [v for v in values if v > at + by or (inclusive and v == at + by)]
        assert moved == min(max(at + by + (not inclusive), -LIMIT - 1), LIMIT)
