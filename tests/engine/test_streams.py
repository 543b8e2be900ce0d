"""Streams on one machine: iterators of batches, `advance`, clocks, late rows, counters."""

import datetime as dt
import math
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import sash
from sash.engine import Operator
from sash.stores import MemoryStore
from tests.engine.counting import Elsewhere
from tests.testing.stream_text import SCHEMA, rows


def times(batch: pa.RecordBatch) -> list[Any]:
    return list(batch.column("t").to_pylist())


def query(window: Any = 2, **arguments: Any) -> sash.Query:
    return sash.Query(window, **({"by": "k", "on": "t", "held": sash.collect("x")} | arguments))


# ---- an iterator of batches in, an iterator out ----


def test_a_query_runs_on_an_iterator() -> None:
    found = query().run(iter([rows("1 2"), rows("3 b3", 2), rows("5", 4)]))
    assert isinstance(found, Iterator)
    batches = list(found)
    assert [times(one) for one in batches] == [[1], [2], [3, 3], [5]]
    assert [row["held"] for one in batches for row in one.to_pylist()] == [[0], [0, 1], [1, 2], [3], [2, 4]]


def test_an_operator_runs_on_batches() -> None:
    operator = query(lateness=2).operator()
    assert [times(one) for one in operator.run([rows("4 2"), rows("3 6", 2)])] == [[], [2, 3], [4, 6]]
    assert operator.watermark == math.inf


def test_results_leave_while_the_input_still_comes() -> None:
    """A stream need not end: each batch is requested only after the results of the previous ones are taken."""
    asked = []

    def endless() -> Iterator[pa.RecordBatch]:
        for time in range(10**9):
            asked.append(time)
            yield rows(str(time), time)

    found = query().run(endless())
    assert asked == []
    assert [times(next(found)) for _ in range(4)] == [[], [0], [1], [2]]
    assert asked == [0, 1, 2, 3]


def test_an_iterator_without_batches() -> None:
    assert [one.num_rows for one in query().operator(SCHEMA).run([])] == [0]
    with pytest.raises(ValueError, match=r"finish\(\) before the first batch needs the schema"):
        list(query().run(iter([])))


def test_a_row_behind_ends_the_stream() -> None:
    found = query().run(iter([rows("5"), rows("3", 1)]))
    assert times(next(found)) == []
    with pytest.raises(ValueError, match="lateness="):
        next(found)


@pytest.mark.parametrize("call", ["finish", "late_rows", "snapshot"])
def test_calls_before_the_columns_are_known(call: str) -> None:
    operator = query().operator()
    with pytest.raises(ValueError, match=rf"{call}\(\) before the first batch needs the schema"):
        getattr(operator, call)()
    assert operator.metrics.rows_in == 0
    with pytest.raises(ValueError, match=r"advance\(\) before the first batch"):
        operator.advance(3)


# ---- advance ----


DAY = dt.datetime(2024, 5, 1)
SECONDS = int(DAY.replace(tzinfo=dt.UTC).timestamp())


@pytest.mark.parametrize(
    ("kind", "given", "number"),
    [
        (pa.int64(), 5, 5),
        (pa.int64(), pa.scalar(5), 5),
        (pa.int16(), 5.0, 5),
        (pa.float64(), 2.5, 2.5),
        (pa.float32(), 2, 2.0),
        (pa.float64(), pa.scalar(2.5), 2.5),
        (pa.timestamp("us"), DAY, SECONDS * 10**6),
        (pa.timestamp("ms"), pd.Timestamp(SECONDS, unit="s"), SECONDS * 1000),
        (pa.timestamp("ns"), DAY, SECONDS * 10**9),
        (pa.timestamp("s"), pa.scalar(DAY, pa.timestamp("ms")), SECONDS),
        (pa.timestamp("us", "Europe/Berlin"), DAY.replace(tzinfo=dt.UTC), SECONDS * 10**6),
        (pa.timestamp("s", "UTC"), DAY.replace(tzinfo=dt.timezone(dt.timedelta(hours=2))), SECONDS - 7200),
        (pa.date32(), DAY.date(), SECONDS // 86400),
        (pa.date64(), DAY.date(), SECONDS * 1000),
        (pa.dictionary(pa.int8(), pa.int64()), 5, 5),
    ],
    ids=str,
)
def test_what_a_watermark_may_be(kind: pa.DataType, given: Any, number: Any) -> None:
    operator = sash.Query(2, on="t", lateness=None, n=sash.count()).operator(pa.schema([("t", kind)]), mode="given")
    operator.advance(given)
    assert operator.watermark == number
    assert Operator.restore(operator.query, operator.snapshot()).watermark == number


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (pa.int64(), "5"),
        (pa.int64(), None),
        (pa.int64(), True),
        (pa.int64(), DAY),
        (pa.int64(), pa.scalar(None, pa.int64())),
        (pa.float64(), math.nan),
        (pa.timestamp("us"), "2024"),
        (pa.timestamp("us"), pa.scalar("2024")),
        (pa.timestamp("us"), 10**400),
        (pa.date32(), SECONDS // 86400),
    ],
    ids=str,
)
def test_what_a_watermark_may_not_be(kind: pa.DataType, given: Any) -> None:
    operator = sash.Query(2, on="t", n=sash.count()).operator(pa.schema([("t", kind)]), mode="given")
    with pytest.raises((TypeError, ValueError), match=r"advance\(\) takes a time"):
        operator.advance(given)
    assert operator.watermark is None


def test_there_may_be_no_watermark() -> None:
    with pytest.raises(
        ValueError, match=r"advance\(\) raises the watermark, and this operator has none: the query has no on="
    ):
        sash.Query(2, n=sash.count()).operator(SCHEMA).advance(3)
    with pytest.raises(ValueError, match="in mode 'sorted' nothing is late"):
        query().operator(SCHEMA, mode="sorted").advance(3)


@pytest.mark.parametrize("window", [sash.Time(4), sash.Time(4, every=2), sash.Session(3, every="close")], ids=repr)
def test_to_advance_without_end_is_to_finish(window: Any) -> None:
    found = []
    for end in (lambda op: op.finish(), lambda op: op.advance(math.inf), lambda op: op.advance(2**63 - 1)):
        operator = query(window, lateness=2).operator(SCHEMA)
        operator.process(rows("1 2 b4 9"))
        found.append(end(operator).to_pylist())
    assert len(found[0]) > 0
    assert found[0] == found[1] == found[2]


# ---- ahead of the clock ----

TIMED = pa.schema([("t", pa.timestamp("ms")), ("x", pa.int64())])


def at(*milliseconds: Any) -> pa.RecordBatch:
    numbers = list(range(len(milliseconds)))
    return pa.record_batch([pa.array(milliseconds, pa.timestamp("ms")), pa.array(numbers)], schema=TIMED)


def test_times_ahead_of_the_clock_are_untimed() -> None:
    """One at the limit is in time; those beyond do not move the watermark, and the clock continues."""
    now = 10.0
    asked = sash.Query("1h", on="t", lateness="1s", ahead="500ms", n=sash.count())
    operator = asked.operator(TIMED, clock=lambda: now)
    operator.process(at(9_000, 10_501, 10_500, 99_999))
    assert (operator.metrics.untimed, operator.metrics.late, operator.watermark) == (2, 0, 9_500)
    assert operator.late_rows()["x"].to_pylist() == [1, 3]
    now = 11.0
    operator.process(at(10_501, 11_501))
    assert (operator.metrics.untimed, operator.watermark) == (3, 9_501)
    assert operator.finish()["n"].to_pylist() == [2, 3]


def test_the_clock_goes_along_with_a_snapshot() -> None:
    asked = sash.Query("1h", on="t", ahead="0s", late="flag", n=sash.count())
    operator = asked.operator(TIMED, clock=lambda: 5.0)
    operator.process(at(5_000))
    again = Operator.restore(asked, operator.snapshot(), clock=lambda: 6.0)
    assert again.process(at(6_000, 6_001)).to_pydict()["_late"] == [True, False]
    # without one of its own, an operator has the clock of the machine
    free = Operator.restore(asked, operator.snapshot())
    assert free.process(at(7_000)).to_pydict()["_late"] == [False]
    assert free.process(at(2**60))["_late"].to_pylist() == [True]


def test_ahead_in_mode_sorted_keeps_the_rows() -> None:
    asked = sash.Query("1h", on="t", ahead="0s", n=sash.count())
    operator = asked.operator(TIMED, mode="sorted", clock=lambda: 5.0)
    found = operator.process(at(4_000, 5_000, 6_000)).to_pylist() + operator.finish().to_pylist()
    assert sorted((row["x"], row["n"]) for row in found if row["n"] is not None) == [(0, 1), (1, 2)]
    assert [row["x"] for row in found if row["n"] is None] == [2]


# ---- forget ----


@pytest.mark.parametrize("store", [False, True])
def test_a_session_that_forget_expires_is_emitted_when_its_key_starts_over(store: bool) -> None:
    #   a  1   3           9  11       gap 7, forget 4: W passes 9 with b's row at 10
    #   b  1                10         silent: its first session waits until W is beyond its end, 8
    asked = query(sash.Session(7, every="close"), forget=4, lateness=0)
    operator = Operator(asked, SCHEMA, store=MemoryStore() if store else None)
    calls = ["a1 b1 a3", "a9", "b10", "a11"]
    found = []
    for i, text in enumerate(calls):
        found.append(operator.process(rows(text, sum(len(call.split()) for call in calls[:i]))).to_pylist())
        operator = operator if store else Operator.restore(asked, operator.snapshot())
    found.append(operator.finish().to_pylist())
    held = [sorted((row["window_end"], row["held"]) for row in one) for one in found]
    assert held == [[], [(8, [1])], [(10, [0, 2])], [], [(17, [4]), (18, [3, 5])]]


# ---- late rows ----


def test_late_rows_are_handed_out_once_and_outlive_snapshots() -> None:
    asked = query(lateness=1)
    operator = asked.operator(SCHEMA)
    operator.process(rows("5 3 ?"))
    kept = operator.snapshot()
    again = Operator.restore(asked, kept)
    again.process(rows("b1 6", 3))
    late = again.late_rows()
    assert late.schema.equals(SCHEMA)
    assert late["x"].to_pylist() == [1, 2, 3]
    assert again.late_rows().num_rows == 0
    assert Operator.restore(asked, again.snapshot()).late_rows().num_rows == 0
    assert (again.metrics.late, again.metrics.untimed) == (2, 1)
    assert operator.late_rows()["x"].to_pylist() == [1, 2], "the first one continues on its own"


def test_a_snapshot_changes_nothing_and_is_the_same_twice() -> None:
    operator = query(sash.Time(4, every=2), lateness=1).operator(SCHEMA)
    operator.process(rows("5 3 b6"))
    assert operator.snapshot() == operator.snapshot()
    assert Operator.restore(operator.query, operator.snapshot()).snapshot() == operator.snapshot()
    assert [row["held"] for row in operator.finish().to_pylist()] == [[0], [0], [2], [2]]


def test_two_operators_of_one_snapshot_do_not_share() -> None:
    asked = query(3)
    operator = asked.operator(SCHEMA)
    operator.process(rows("1 2"))
    kept = operator.snapshot()
    one, other = Operator.restore(asked, kept), Operator.restore(asked, kept)
    one.process(rows("3 4", 2))
    assert other.finish().to_pylist()[-1]["held"] == [0, 1]
    assert one.finish().to_pylist()[-1]["held"] == [1, 2, 3]


def test_a_snapshot_of_a_store_elsewhere_is_refused() -> None:
    operator = query().operator(SCHEMA, store=Elsewhere())
    operator.process(rows("1 2"))
    with pytest.raises(TypeError, match=r"the state is in the store .*Elsewhere.*: open an operator"):
        operator.snapshot()
    again = query().operator(SCHEMA, store=operator.store)
    assert again.finish().to_pylist()[-1]["held"] == [0, 1]


# ---- counters ----


def test_the_metrics() -> None:
    operator = query(sash.Time(3), lateness=1).operator(SCHEMA, store=MemoryStore())
    assert operator.metrics.rows_in == operator.metrics.pages_written == operator.metrics.state_bytes == 0
    operator.process(rows("a1 b2 a4 a1 ? b4"))
    found = operator.metrics
    assert (found.rows_in, found.rows_out, found.late, found.untimed) == (6, 2, 1, 1)
    assert (found.keys, found.elements) == (2, 4), "a row of each key is kept for windows to come, two wait"
    assert found.state_bytes == operator.store.nbytes > 0
    assert found.pages_written == len(operator.store)
    assert Operator.restore(operator.query, operator.snapshot()).metrics.elements == 4
    operator.finish()
    found = operator.metrics
    assert (found.rows_in, found.rows_out, found.keys, found.elements) == (6, 4, 0, 0)
    assert found.pages_read == 0, "the keys are alive"
    again = query(sash.Time(3), lateness=1).operator(SCHEMA, store=operator.store)
    assert again.metrics.pages_read == 1, "the header"


def test_flagged_rows_count_as_rows_out() -> None:
    operator = query(sash.Time(3), lateness=0, late="flag").operator(SCHEMA)
    operator.process(rows("5 3 ?"))
    assert (operator.metrics.rows_out, operator.metrics.late, operator.metrics.untimed) == (2, 1, 1)


def test_the_first_empty_batch_has_the_output_schema() -> None:
    for window in (sash.Count(2), sash.Time(4, every=2)):
        operator = query(window).operator(SCHEMA)
        first = operator.process(rows(""))
        assert first.schema == operator.state.bound_query.output("rows") == operator.process(rows("1 9")).schema


def test_an_operator_shows_what_it_is() -> None:
    operator = query(lateness=1).operator(SCHEMA)
    operator.process(rows("5"))
    assert repr(operator) == f"<Operator of {operator.query!r}, mode 'rows', watermark 4>"
