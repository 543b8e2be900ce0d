"""Regression tests of edge cases: integers, floats, pages, types and messages."""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.engine import Operator, QueriesOperator
from sash.stores import MemoryStore
from tests.engine.counting import Elsewhere
from tests.engine.lookup_cases import GREATEST, LEAST, SCHEMA, batch, play, query, to_the_end
from tests.engine.test_pages import rows

# ---- results ----


def test_mode_sorted_at_the_limits_of_integers() -> None:
    """The order check of mode "sorted" accepts steps of 2**63 or more, for which `np.diff` would wrap around."""
    play(sash.Time(10), "sorted", batch(("a", LEAST, 1), ("a", 0, 2), ("a", GREATEST, 3)))


def test_a_watermark_between_two_units() -> None:
    """At W = 2.5 a row at 2 is final, and another one is late; a row at 3 is not final: W is rounded up."""
    operator = query(3).operator(SCHEMA, mode="given")
    operator.process(batch(("a", 2, 1), ("a", 3, 1)))
    assert operator.advance(2.5)["t"].to_pylist() == [2]
    operator.process(batch(("a", 2, 1)))
    assert operator.metrics.late == 1


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()], ids=str)
def test_a_watermark_beyond_all_times(kind: pa.DataType) -> None:
    """-inf makes no row final; an integer beyond 64 bits is accepted, or the error names `advance()`."""
    operator = sash.Query(3, on="t", lateness=0, n=sash.count()).operator(pa.schema([("t", kind)]))
    operator.process(pa.record_batch({"t": pa.array([1, 2], kind)}))
    assert operator.advance(-math.inf).num_rows == 0
    for beyond in (2**63, 10**400):
        try:
            operator.advance(beyond)
        except (TypeError, ValueError) as error:
            assert "advance()" in str(error)  # noqa: PT017 (either is right)
    assert operator.advance(-(10**30)).num_rows == 0


AFTER_FINISH = r"process\(\) after finish\(\): the stream has ended, and every further row would be late\. Make a new "


@pytest.mark.parametrize("emit", ["final", "eager"])
@pytest.mark.parametrize("mode", ["rows", "given"])
def test_after_finish_no_row_is_taken(mode: Any, emit: Any) -> None:
    """After `finish` the watermark is infinite: each row, also an untimed one, would be late without a word."""
    asked, store = query(3, emit=emit), MemoryStore()
    operator = asked.operator(SCHEMA, mode=mode)
    stored = asked.operator(SCHEMA, mode=mode, store=store)
    for one in (operator, stored):
        one.process(batch(("a", 1, 1)))
        one.finish()
        assert one.finish().num_rows == one.advance(GREATEST).num_rows == 0
    restored, again = Operator.restore(asked, operator.snapshot()), asked.operator(mode=mode, store=store)
    for one, advice in ((operator, "operator,"), (restored, "operator,"), (again, "operator on a new store,")):
        for given in (batch(("a", GREATEST, 2)), batch(("a", None, 2)), batch()):
            with pytest.raises(ValueError, match=AFTER_FINISH + advice):
                one.process(given)
        assert one.metrics.late == one.metrics.untimed == 0


def test_after_finish_several_queries_take_no_row() -> None:
    operator = sash.Queries(one=query(3), two=sash.Query(2, by="k", n=sash.count())).operator(SCHEMA)
    operator.process(batch(("a", 1, 1)))
    restored = QueriesOperator.restore(operator.queries, operator.snapshot())
    for one in (operator, restored):
        one.finish()
        with pytest.raises(ValueError, match=AFTER_FINISH):
            one.process(batch(("a", 2, 1)))


@pytest.mark.parametrize("time", [1e19, 1e20, 1e300])
def test_slides_of_times_too_large_for_floats(time: float) -> None:
    """A time whose slide has a number beyond int64 raises an OverflowError that names the column."""
    operator = sash.Query(sash.Time(10.0, every=0.5), on="t", n=sash.count()).operator()
    with pytest.raises(OverflowError, match=r"in column 't'"):
        to_the_end(operator, pa.record_batch({"t": [1.0, time]}))


def test_a_session_that_ends_beyond_all_floats() -> None:
    operator = sash.Query(sash.Session(1e308, every="close"), on="t", n=sash.count()).operator()
    operator.process(pa.record_batch({"t": [1.0, 1.7e308]}))
    assert operator.finish()["window_end"].to_pylist()[-1] == math.inf


# ---- errors name rows and keys ----


@pytest.mark.parametrize(
    "window", [sash.Time(10, every=10), sash.Session(10, every="close"), sash.Count(2, every=2)], ids=repr
)
def test_a_sum_of_a_slide_that_overflows_names_its_key(window: Any) -> None:
    operator = query(window).operator(SCHEMA, mode="given")
    operator.process(batch(("a", 1, GREATEST), ("brave", 1, GREATEST), ("brave", 2, 1)))
    with pytest.raises(OverflowError, match=r"'total'.*'brave'"):
        operator.finish()


NANOS = pa.schema([("k", pa.string()), ("t", pa.timestamp("ns")), ("x", pa.int64())])
REFUSALS: dict[str, Callable[[], Any]] = {
    "late": lambda: query(3, lateness="0s", late="error").operator(NANOS),
    "behind": lambda: query(3, lateness=None).operator(NANOS),
    "unsorted": lambda: query(3, lateness=None).operator(NANOS, mode="sorted"),
}


@pytest.mark.parametrize("why", REFUSALS)
def test_rows_with_nanoseconds_are_named(why: str) -> None:
    """Errors name rows whose times have nanoseconds, for which `to_pylist` would need pandas."""
    with pytest.raises(ValueError, match=r"row .*'brave'"):
        REFUSALS[why]().process(batch(("brave", 9, 1), ("brave", 3, 7), schema=NANOS))


def test_rows_beyond_the_year_9999_are_named() -> None:
    far = pa.schema([("k", pa.string()), ("t", pa.timestamp("s")), ("x", pa.int64())])
    with pytest.raises(ValueError, match=r"row .*'brave'.* lateness="):
        query(3, lateness=None).operator(far).process(batch(("brave", 2**50, 1), ("brave", 2**49, 7), schema=far))


# ---- types for which pyarrow has no take, rank or dictionary_encode ----

VIEWS = {"string_view": pa.array(["b", "a", "b", None], pa.string_view())}
VIEWS["binary_view"] = pa.array([b"b", b"a", b"b", None], pa.binary_view())
VIEWS["decimal32"] = pa.array([Decimal("2.5"), Decimal(-1), Decimal("2.5"), None], pa.decimal32(5, 2))
VIEWS["decimal64"] = pa.array([Decimal("2.5"), Decimal(-1), Decimal("2.5"), None], pa.decimal64(10, 2))
VIEWS["float16"] = pa.array([2.0, -1.0, 2.0, None], pa.float32()).cast(pa.float16())


# ---- late rows ----


def test_late_rows_of_a_batch_whose_fields_may_not_be_null() -> None:
    """A batch with non-nullable fields is accepted, and so are its late rows, also after a restore."""
    strict = pa.schema([field.with_nullable(False) for field in SCHEMA])
    asked = query(3)
    operator = asked.operator(SCHEMA)
    operator.process(batch(("a", 9, 1), ("a", 1, 2)))
    operator.process(batch(("a", 10, 1), ("a", 2, 3), schema=strict))
    again = Operator.restore(asked, operator.snapshot())
    for one in (operator, again):
        assert one.late_rows()["x"].to_pylist() == [2, 3]


# ---- state ----


@pytest.mark.parametrize("size", [10, 10_000])
def test_the_bytes_of_a_store_elsewhere(size: int) -> None:
    """`state_bytes` equals the size of the store, also after pages were replaced or deleted without being read."""
    asked, store = sash.Query(sash.Time(size), by="k", on="t", high=sash.max("x")), Elsewhere()
    operator = asked.operator(rows(0, [0], 0).schema, store=store)
    for start in range(0, 30_000, 5000):
        operator.process(rows(1, np.arange(start, start + 5000), 1))
        assert operator.metrics.state_bytes == store.inner.nbytes
    cold = asked.operator(rows(0, [0], 0).schema, store=store)
    assert cold.metrics.state_bytes == store.inner.nbytes


def test_mode_sorted_leaves_nothing_but_the_header() -> None:
    """`finish` in mode "sorted" deletes the page of rows that wait for peers."""
    operator = query(sash.Time(4)).operator(SCHEMA, mode="sorted", store=MemoryStore())
    operator.process(batch(("a", 1, 1), ("a", 2, 2)))
    operator.finish()
    assert set(operator.store.pages) == {"header", "root"}


@pytest.mark.usefixtures("interpreted_kernels", "interpreted_trees")
@pytest.mark.parametrize("emit", ["final", "eager", "frame"])
@pytest.mark.parametrize(("size", "every", "offset"), [(0.1, 0.1, 0), (0.3, 0.1, 0.05), (1.0, 1 / 3, 0.05)])
def test_slides_of_floats_leave_no_row_out(size: float, every: float, offset: float, emit: Any) -> None:
    rows = pa.table({"t": [n / 10 for n in range(100)]})
    window = sash.Time(size, every=every, offset=offset)
    if emit == "frame":
        found = sash.rolling(rows, window, on="t", n=sash.count())
    else:
        operator = sash.Query(window, on="t", lateness=3.0, emit=emit, n=sash.count()).operator()
        batches = [operator.process(batch) for batch in rows.to_batches(max_chunksize=7)]
        found = pa.Table.from_batches([*batches, operator.finish()])
    last = {(row["window_start"], row["window_end"]): row["n"] for row in found.to_pylist()}
    assert sum(last.values()) == 100 * round(size / every)
    if size == every:
        assert set(last.values()) == {1}
        assert (0.2, 0.3) in last  # and not 0.30000000000000004, which is 3 * 0.1


def test_slides_of_large_floats() -> None:
    rows = pa.table({"t": [1.7e18 + n * 1e9 for n in range(5)]})  # nanoseconds
    found = sash.rolling(rows, sash.Time(2e9, every=1e9), on="t", n=sash.count())
    assert found["n"].to_pylist() == [1, 2, 2, 2, 2, 1]
    assert found["window_end"].to_pylist()[0] == 1.7e18 + 1e9
