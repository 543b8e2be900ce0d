"""A user's aggregate on operators: times with nanoseconds, records as states, and states that must not be changed."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pytest

import sash
from sash import Count, Lifetime, Query, Session, Time
from sash.engine import Operator
from sash.stores import MemoryStore, codec
from sash.testing import Reference, assert_same

pytestmark = pytest.mark.filterwarnings("ignore::sash.kernels.InterpretedWarning")


class Total(NamedTuple):
    n: int
    total: float


@dataclass(frozen=True)
class Tally:
    n: int
    total: float


@dataclass
class Listed:
    values: list[float] = field(default_factory=list)


WINDOWS = [Count(3), Count(2, every=2), Time(4, every=2), Lifetime(), Session(3, every="close")]
ROWS = pa.record_batch({"t": [1, 2, 3, 4, 5, 9], "x": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]})


def mean_of(kind: Any) -> Any:
    return sash.monoid(
        identity=kind(0, 0.0),
        lift=lambda x: kind(1, x),
        combine=lambda a, b: kind(a.n + b.n, a.total + b.total),
        lower=lambda a: a.total / a.n,
        name=f"mean of {kind.__name__}",
    )


LISTED = sash.monoid(
    identity=Listed(),
    lift=lambda x: Listed([x]),
    combine=lambda a, b: Listed([*a.values, *b.values]),
    lower=lambda a: sum(a.values),
    name="listed",
)


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
@pytest.mark.parametrize("monoid", [mean_of(Total), mean_of(Tally), LISTED], ids=lambda monoid: monoid.name)
def test_records_are_states_of_any_window_and_go_to_a_store(monoid: Any, window: Any) -> None:
    query, store = Query(window, on="t", m=monoid("x")), MemoryStore()
    reference = Reference(query, ROWS.schema)
    for at in range(ROWS.num_rows):  # each row by an operator that has opened the state again
        found = Operator(query, ROWS.schema, store=store).process(ROWS.slice(at, 1))
        assert_same(found, reference.process(ROWS.slice(at, 1)))
    assert_same(Operator(query, ROWS.schema, store=store).finish(), reference.finish())


def test_dump_and_load_come_first() -> None:
    written: list[bytes] = []

    def dump(state: Total) -> bytes:
        written.append(codec.dumps(tuple(state)))
        return written[-1]

    monoid = sash.monoid(
        identity=Total(0, 0.0),
        lift=lambda x: Total(1, x),
        combine=lambda a, b: Total(a.n + b.n, a.total + b.total),
        lower=lambda a: a.total,
        dump=dump,
        load=lambda data: Total(*codec.loads(data)),
        name="dumped",
    )
    query, store = Query(Time(4, every=2), on="t", m=monoid("x")), MemoryStore()
    found = []
    for at in range(ROWS.num_rows):
        found += Operator(query, ROWS.schema, store=store).process(ROWS.slice(at, 1))["m"].to_pylist()
    assert written
    assert found == [1.0, 7.0, 30.0, 24.0]


# ---- times ----

EXTENT = sash.monoid(
    identity=None,
    lift=lambda t: (t, t),
    combine=lambda a, b: b if a is None else a if b is None else (min(a[0], b[0]), max(a[1], b[1])),
    lower=lambda a: a[1] - a[0],
    empty=None,
    name="extent",
)
LATEST = sash.monoid(
    identity=None, combine=lambda a, b: b if a is None else a if b is None else max(a, b), empty=None, name="latest"
)
TYPES = [
    pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.timestamp("ms", "Europe/Berlin"),
    pa.duration("ns"), pa.duration("s"), pa.date32(),
]  # fmt: skip


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("window", [Count(2), Time(2, every=2)], ids=repr)
def test_times_come_as_objects_and_go_back_typed(kind: pa.DataType, window: Any) -> None:
    numbers = pa.array([5, None, 7001, 3], pa.int32() if kind.bit_width == 32 else pa.int64())
    batch = pa.record_batch({"t": [1, 2, 3, 4], "x": numbers.cast(kind)})
    query, store = Query(window, on="t", extent=EXTENT("x"), latest=LATEST("x")), MemoryStore()
    reference, found = Reference(query, batch.schema), []
    for at in range(4):
        found.append(Operator(query, batch.schema, store=store).process(batch.slice(at, 1)))
        assert_same(found[-1], reference.process(batch.slice(at, 1)))
    found.append(Operator(query, batch.schema, store=store).finish())
    table = pa.Table.from_batches(found)
    unit = "us" if pa.types.is_date(kind) else kind.unit
    assert (table.schema.field("extent").type, table.schema.field("latest").type) == (pa.duration(unit), kind)
    if isinstance(window, Count):
        extents = table["extent"].cast(pa.int64()).to_pylist()
        days = 86_400_000_000 if pa.types.is_date(kind) else 1
        assert extents == [0, 0, 0, 6998 * days]


def test_lift_gets_what_pandas_calls_a_time() -> None:
    seen: list[Any] = []
    monoid = sash.monoid(identity=0, lift=lambda t: seen.append(t) or 1, combine=lambda a, b: a + b, returns="int64")
    times = pd.DatetimeIndex([pd.Timestamp(2**60 + 1), pd.Timestamp(2**60 + 86_400)])
    sash.rolling(pd.DataFrame({"ts": times}), 2, n=monoid("ts"))
    assert seen[-2:] == list(times)
    assert seen[-2].nanosecond == times[0].nanosecond != 0


def test_times_of_day_with_nanoseconds_are_refused_by_name() -> None:
    table = pa.table({"x": pa.array([1], pa.time64("ns"))})
    with pytest.raises(
        TypeError, match=r"the column 'x' of type time64\[ns\] .* have no nanoseconds .*: cast it to mic"
    ):
        sash.rolling(table, 2, m=LATEST("x"))


@pytest.mark.parametrize(
    "value",
    [pd.Timestamp(1), pd.Timestamp(1, tz="UTC"), pd.Timestamp(1, tz="Europe/Berlin"), pd.Timedelta(-7)],
    ids=str,
)
def test_times_of_pandas_are_written_with_their_nanoseconds(value: Any) -> None:
    back = codec.loads(codec.dumps([value, (value, 1)]))
    assert back == [value, (value, 1)]
    assert (type(back[0]), back[0].unit) == (type(value), value.unit)
    damaged = codec.dumps(value).replace(b"<m8", b"<i8").replace(b"<M8", b"<i8").replace(b"[ns]", b"")
    with pytest.raises(codec.CodecError, match="damaged"):
        codec.loads(damaged)


# ---- states are values ----


def test_a_combine_that_changes_its_argument_is_an_error_at_the_call() -> None:
    extend = sash.monoid(
        identity=[], lift=lambda x: [x], combine=lambda a, b: a.extend(b) or a, lower=len, name="mine", returns="int64"
    )
    update = sash.monoid(
        identity={}, lift=lambda x: {x: 1}, combine=lambda a, b: a.update(b) or a, lower=len, name="mine"
    )
    for monoid in (extend, update):
        with pytest.raises(
            ValueError, match=r"m=mine\('x'\): combine= changes its argument, .* must return a new state"
        ):
            sash.rolling(ROWS, 2, m=monoid("x"))
    sort = sash.monoid(
        identity=(), lift=lambda x: [-x], combine=lambda a, b: [*a, *b], lower=lambda a: a.sort() or a[0], name="mine"
    )
    with pytest.raises(ValueError, match=r"m=mine\('x'\): lower= changes its argument"):
        Query(2, m=sort("x")).bind(ROWS.schema)


def test_a_combine_that_makes_a_new_state_is_fine() -> None:
    seen = sash.monoid(identity=set(), lift=lambda x: {x}, combine=lambda a, b: a | b, lower=len, name="seen")
    assert sash.rolling(ROWS, 2, m=seen("x"))["m"].to_pylist() == [1, 2, 2, 2, 2, 2]
    hours = sash.monoid(identity=timedelta(), combine=lambda a, b: a + b, name="hours")
    table = pa.table({"u": pa.array([1, 2], pa.duration("s"))})
    assert sash.rolling(table, 2, m=hours("u"))["m"].to_pylist() == [timedelta(seconds=1), timedelta(seconds=3)]
