"""Hypothesis strategies for whole cases: a query, a schema, and a stream of events for it, cut into calls.

    case = (query, schema, mode, steps)        steps: process(batch) · advance(w) · snapshot · … · finish

Streams have ties, late rows, untimed rows, keys that fall silent, bursts, empty batches, nulls and NaN everywhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from sash import Query
from sash.testing.window_oracle import alike, in_order, rows_of
from tests.shared.queries import EMITS, LATES, SCALES, Scale, columns_read, queries

# ---- events ----

_EPOCH = datetime(2024, 2, 29, tzinfo=UTC).replace(tzinfo=None)
_tame = [0.0, 1.0, -1.0, 0.25, 2.5, -3.75, 4.0, float("nan")]
_wild = [0.0, -0.0, 1.0, 0.1, 1e16, -1e16, 1e9, float("inf"), float("nan"), 5e-324]


def _or_null(values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([*values, None])


@dataclass(frozen=True)
class Event:
    """A row as it is drawn: how far time moves on before it, how far it lies behind that, and its values."""

    on: int
    behind: int
    untimed: bool
    grows: int
    values: dict[str, Any]


_COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "k": (pa.string(), _or_null("ab")),
    "j": (pa.float64(), _or_null([0.0, -0.0, 1.5, float("nan")])),
    "q": (pa.int64(), _or_null([0, 1, 2])),
    "i": (pa.int64(), _or_null([0, 1, 2, 3, -1, -4])),
    "f": (pa.float64(), _or_null(_tame)),
    "x": (pa.float64(), _or_null(_wild)),
    "b": (pa.bool_(), _or_null([False, True])),
    "s": (pa.string(), _or_null(["a", "b", "", "é"])),
    "d": (pa.timestamp("us"), _or_null([_EPOCH + timedelta(hours=h) for h in (0, 1, -30)])),
    "m": (pa.decimal128(12, 2), _or_null(map(Decimal, ("0.10", "-0.25", "19.99", "9999999999.99")))),
    "u": (pa.duration("ms"), _or_null([timedelta(milliseconds=n) for n in (0, 1, -2, 86_400_000)])),
    "n": (pa.int64(), st.integers(0, 9)),
    "p": (pa.bool_(), _or_null([False, False, True])),
}
"""The columns whose values are drawn, each for itself; `g` and `t` follow from the rest of an event."""


def events(query: Query, others: Sequence[Query] = ()) -> st.SearchStrategy[Event]:
    """An event with values for the columns that queries read."""
    read = _read(query, others)
    return st.builds(
        Event,
        on=st.sampled_from([1, 0, 0, 2, 3, 7, 25]),
        behind=st.sampled_from([0, 0, 0, 0, 1, 2, 3, 5, 12]),
        untimed=st.sampled_from([False] * 15 + [True]),
        grows=st.sampled_from([1, 0, 2, 9]),
        values=st.fixed_dictionaries({name: values for name, (_, values) in _COLUMNS.items() if name in read}),
    )


def _read(query: Query, others: Sequence[Query]) -> set[str]:
    return columns_read(query).union(*map(columns_read, others))


def batch_of(
    rows: list[Event], query: Query, scale: Scale | None, start: int, ordered: bool, others: Sequence[Query] = ()
) -> pa.RecordBatch:
    """Events as one batch, of the columns that queries read. `ordered` leaves out how far they lie behind."""
    read = _read(query, others)
    columns = {name: [row.values[name] for row in rows] for name in _COLUMNS if name in read}
    arrays = {name: pa.array(values, _COLUMNS[name][0]) for name, values in columns.items()}
    ticks, times, places, growth = start, [], [], 0
    for row in rows:
        ticks += row.on
        growth += row.grows
        tick = ticks if ordered else ticks - row.behind
        times.append(None if row.untimed or scale is None else scale.number(tick))
        # by time it must not decrease with the time, else with arrival
        places.append(growth if scale is None else tick // 2)
    if "g" in read:
        arrays["g"] = pa.array(places, pa.int64())
    if scale is not None:
        arrays["t"] = _times(times, scale)
    return pa.RecordBatch.from_pydict(arrays or {"i": pa.nulls(len(rows), pa.int64())})


def _times(times: list[Any], scale: Scale) -> pa.Array:
    if pa.types.is_floating(scale.type):
        odd = itertools.cycle([float("nan"), None, float("inf"), -float("inf")])
        return pa.array([next(odd) if time is None else time for time in times], scale.type)
    narrow = pa.int32() if scale.type.bit_width == 32 else pa.int64()
    return pa.array(times, narrow).cast(scale.type)


def sorted_by_key(batch: pa.RecordBatch, query: Query) -> pa.RecordBatch:
    """The batch ordered by key, time and tie-breakers, untimed rows at the end of their key."""
    keys: dict[Any, tuple[list[Any], list[Any]]] = {}
    for row in rows_of(batch, query.bind(batch.schema), 0):
        timed, untimed = keys.setdefault(alike(row.key), ([], []))
        (untimed if query.on and row.time is None else timed).append(row)
    order = [row.number for timed, untimed in keys.values() for row in (*in_order(timed), *untimed)]
    return batch.take(pa.array(order, pa.int64()))


# ---- cases ----


@dataclass(frozen=True)
class StreamStep:
    """One call of an operator; `snapshot`: take a snapshot, and continue with an operator restored from it."""

    call: str
    argument: Any = None

    def __repr__(self) -> str:
        argument = self.argument.to_pylist() if isinstance(self.argument, pa.RecordBatch) else self.argument
        return f"{self.call}({'' if argument is None else argument})"


@dataclass(frozen=True)
class Case:
    """A query and the calls that an operator of it gets."""

    query: Query
    schema: pa.Schema
    mode: str
    steps: tuple[StreamStep, ...]

    def __repr__(self) -> str:
        steps = "\n    ".join(map(repr, self.steps))
        return f"{self.query!r}, mode {self.mode}, time {self.time_type}:\n    {steps}"

    @property
    def time_type(self) -> Any:
        return self.schema.field("t").type if "t" in self.schema.names else None

    @property
    def data(self) -> pa.Table:
        """All rows in the order of their arrival."""
        batches = [step.argument for step in self.steps if step.call == "process"]
        return pa.Table.from_batches(batches, self.schema)


def split(batch: pa.RecordBatch, cuts: list[int]) -> list[pa.RecordBatch]:
    """A batch in pieces: between each two cuts one, which may be empty.

    >>> [piece.num_rows for piece in split(pa.record_batch({"x": [1, 2, 3]}), [1, 1])]
    [1, 0, 2]
    """
    edges = [0, *sorted(cuts), batch.num_rows]
    return [batch.slice(a, b - a) for a, b in itertools.pairwise(edges)]


@st.composite
def cuts(draw: st.DrawFn, rows: int) -> list[int]:
    """Where to cut rows into calls: a few large ones, many of one to ten rows, or large ones and then small ones."""
    how = draw(st.sampled_from(["large", "small", "mixed"]))
    found = [] if how == "small" else draw(st.lists(st.integers(0, rows), max_size=5))
    if how == "large":
        return found
    at = max(found, default=0)
    while at < rows:
        found.append(at)
        at += draw(st.sampled_from([1, 1, 1, 2, 3, 10]))
    return found


@st.composite
def calls(
    draw: st.DrawFn,
    query: Query,
    scale: Scale | None,
    mode: str = "rows",
    max_rows: int = 30,
    others: Sequence[Query] = (),
) -> Case:
    """A stream for a query, and for others of the same order, cut into calls."""
    # a least size that is drawn: left to itself, Hypothesis makes lists of some five
    least = draw(st.sampled_from([0, max_rows // 3, max_rows // 2]))
    rows = draw(st.lists(events(query, others), min_size=least, max_size=max_rows))
    if query.late == "error" and draw(st.integers(0, 3)) > 0:
        rows = [replace(row, untimed=False) for row in rows]
    start = draw(st.sampled_from([0, -7, 1_003]))
    behind_is_error = mode == "rows" and query.lateness is None
    in_order = behind_is_error and draw(st.integers(0, 5)) > 0
    batch = batch_of(rows, query, scale, start, in_order, others)
    if mode == "sorted":
        batch = sorted_by_key(batch, query)
    may_advance = st.sampled_from([False, True] if mode == "given" else [False, False, True])
    steps: list[StreamStep] = []
    seen = 0
    for piece in split(batch, draw(cuts(batch.num_rows))):
        seen += piece.num_rows
        steps.append(StreamStep("process", piece))
        if scale is not None and mode != "sorted" and draw(may_advance):
            now = start + sum(row.on for row in rows[:seen])
            steps.append(StreamStep("advance", scale.moment(now + draw(st.integers(-12, 3)))))
        if draw(st.sampled_from([False, False, True])):
            steps.append(StreamStep("snapshot"))
    return Case(query, batch.schema, mode, (*steps, StreamStep("finish")))


@st.composite
def cases(
    draw: st.DrawFn,
    max_rows: int = 30,
    modes: tuple[str, ...] = ("rows", "given", "sorted"),
    emits: tuple[str, ...] = EMITS,
    lates: tuple[str, ...] = LATES,
) -> Case:
    """A query and a stream for it. Sorted input is not emitted eagerly."""
    mode = draw(st.sampled_from(modes))
    scale = draw(st.sampled_from([*SCALES, None]))
    query = draw(queries(scale, tuple(emit for emit in emits if emit != "eager" or mode != "sorted"), lates))
    return draw(calls(query, scale, mode, max_rows))
