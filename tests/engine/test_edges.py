"""Regression tests of edge cases: integers, floats, pages, types and messages."""

import math
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.engine import Operator, QueriesOperator
from sash.stores import MemoryStore, PageError
from tests.behaviour.differential import compare_with_reference
from tests.behaviour.test_operator import begin, resume
from tests.engine.lookup_cases import GREATEST, LEAST, SCHEMA, batch, play, query, results, to_the_end
from tests.engine.test_pages import LARGE, SMALL, rows, steady
from tests.engine.test_small_pages import small_case, small_pages

# ---- results ----


def test_count_windows_of_a_large_key() -> None:
    """Count windows of a key with many rows hold exactly the last `size` rows."""
    operator = sash.Query(3000, by="k", on="t", total=sash.sum("x")).operator(rows(0, [0], 0).schema)
    found: list[int] = []
    for start in range(0, 9000, 100):
        place = np.arange(start, start + 100)
        found += operator.process(rows(0, place, place))["total"].to_pylist()
    sums = np.concatenate([[0], np.cumsum(np.arange(9000))])
    expected = sums[1:] - sums[np.maximum(np.arange(9000) - 2999, 0)]
    assert found == expected[:-1].tolist()


@pytest.mark.compiled
@pytest.mark.parametrize("keys", [1, 3])
def test_a_large_count_window_touches_hardly_more_pages_than_a_small_one(keys: int) -> None:
    small, _ = steady(sash.Count, SMALL, keys)
    large, store = steady(sash.Count, LARGE, keys)
    assert max(large) <= 2 * max(small)
    assert max(large) < len(store) / 10
    assert store.largest <= 1 << 18


@pytest.mark.parametrize(
    "window",
    [
        sash.Count(11),
        sash.Count(11, full=True),
        sash.Count(11, every=sash.Time(4)),
        {"a": sash.Count(11), "b": sash.Time(25)},
    ],
    ids=repr,
)
@pytest.mark.parametrize("mode", ["rows", "given", "sorted"])
def test_count_windows_in_small_pages(window: Any, mode: str) -> None:
    for seed, run in ((0, 2), (1, 3)):
        with small_pages(run):
            compare_with_reference(small_case(window, mode, seed), begin, resume)


@pytest.mark.parametrize(
    "window", [sash.Session(10), sash.Session(10, every="close"), sash.Session(GREATEST)], ids=repr
)
def test_sessions_at_the_limits_of_integers(window: Any) -> None:
    """A session whose end would exceed 64 bits stays open, also at the watermark 2**63 - 1."""
    play(window, "rows", batch(("a", GREATEST - 1, 1), ("a", GREATEST, 2)), lateness=0)


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


def test_a_watermark_of_nanoseconds() -> None:
    """`advance` takes a scalar of nanoseconds exactly. `as_py` would need pandas for it."""
    kind = pa.timestamp("ns")
    operator = sash.Query(3, on="t", n=sash.count()).operator(pa.schema([("t", kind)]), mode="given")
    operator.advance(pa.scalar(1_234_567_891, kind))
    assert operator.watermark == 1_234_567_891


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


@pytest.mark.parametrize(
    "arguments",
    [
        {"size": 10**30},
        {"size": 10**30, "full": True},
        {"size": 10**30, "every": 3},
        {"size": 3, "every": 10**30},
        {"size": 10**30, "every": sash.Time(10)},
    ],
    ids=str,
)
def test_more_rows_than_64_bits_count(arguments: dict[str, Any]) -> None:
    """A window of such a size gives the results of the reference, or is refused by name when it is made."""
    try:
        window = sash.Count(**arguments)
    except (ValueError, OverflowError) as error:
        assert "size" in str(error) or "every" in str(error)  # noqa: PT017 (either is right)
        return
    later = [batch(("a", 4, 3), ("a", 5, 3), ("a", 6, 3)), batch(("a", 20, 1))]
    with small_pages(2):
        play(window, "rows", batch(("a", 1, 2), ("b", 3, 1)), *later)


# ---- errors name rows and keys ----


def unlucky(x: int) -> int:
    if x == 13:
        raise ValueError("unlucky")
    return x


def unlucky_pair(a: int, b: int) -> int:
    if a == 13 or b == 13:
        raise ValueError("unlucky")
    return max(a, b)


MONOIDS: dict[str, Any] = {
    "lift": sash.monoid(identity=0, lift=unlucky, combine=max, lower=lambda x: x),
    "combine": sash.monoid(identity=0, lift=lambda x: x, combine=unlucky_pair, lower=lambda x: x),
    "lower": sash.monoid(identity=0, lift=lambda x: x, combine=max, lower=unlucky),
    "lift of text": sash.monoid(
        identity=0, lift=lambda x: unlucky(int(x)), combine=max, lower=lambda x: x, returns="int64"
    ),
    "combine of text": sash.monoid(identity=0, lift=int, combine=unlucky_pair, lower=lambda x: x, returns="int64"),
}


@pytest.mark.parametrize("window", [sash.Count(2), sash.Time(2, every=2), sash.Session(5, every="close")], ids=repr)
@pytest.mark.parametrize("name", MONOIDS)
def test_a_failing_monoid_names_the_key_and_what_it_can_of_the_row(window: Any, name: str) -> None:
    """An error of `lift`, `combine` or `lower` names the aggregate, and the row or slide with its key."""
    text = name.endswith("text")
    column = pa.array(["1", "2", "13", "4"]) if text else pa.array([1, 2, 13, 4])
    data = pa.record_batch({"k": ["a", "b", "brave", "brave"], "t": [1, 2, 3, 4], "x": column})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        operator = sash.Query(window, by="k", on="t", mine=MONOIDS[name]("x")).operator(data.schema)
    with pytest.raises(ValueError, match=r"the aggregate 'mine' failed with ValueError: unlucky; at .*'brave'"):
        to_the_end(operator, data)


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
USES: dict[str, Callable[[], sash.Query]] = {
    "unused": lambda: sash.Query(5, on="t", total=sash.sum("x")),
    "key": lambda: sash.Query(5, by="c", on="t", total=sash.sum("x")),
    "tie-breaker": lambda: sash.Query(5, on=["t", "c"], total=sash.sum("x")),
    "input": lambda: sash.Query(5, on="t", total=sash.max("c")),
}
RIGHT = {"unused": [1, 3, 6, 10], "key": [1, 2, 4, 4], "tie-breaker": [2, 3, 6, 10]}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", VIEWS)
def test_columns_of_rarer_types(name: str, use: str) -> None:
    """The results are correct, or the schema is refused with an error that names the column."""
    data = pa.record_batch({"c": VIEWS[name], "t": [1, 1, 1, 1], "x": [1, 2, 3, 4]})
    try:
        USES[use]().operator(data.schema)
    except TypeError as error:
        assert "'c'" in str(error)  # noqa: PT017 (either is right)
        return
    found = results(USES[use](), [data.slice(0, 2), data.slice(2)])
    expected = RIGHT.get(use, VIEWS[name].take(pa.array([0, 0, 0, 0])).to_pylist() if name[-4:] != "view" else None)
    assert found["total"].to_pylist() == (expected or [VIEWS[name][0].as_py()] * 4)


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


class Elsewhere:
    """A store that wraps a MemoryStore, and is none itself."""

    def __init__(self) -> None:
        self.inner = MemoryStore()
        self.get_many, self.put_many = self.inner.get_many, self.inner.put_many
        self.delete_many, self.scan = self.inner.delete_many, self.inner.scan
        self.close = self.inner.close


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


def test_an_operator_opened_for_each_call_writes_the_same_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators that are opened for each call write the pages of one that stays open. The headers are not compared."""
    monkeypatch.setattr("secrets.randbits", lambda _: 7)
    asked, store = query(sash.Time(4)), MemoryStore()
    warm = asked.operator(SCHEMA, store=MemoryStore())
    for time in range(4):
        cold = asked.operator(SCHEMA, store=store)
        for operator in (warm, cold):
            operator.process(batch(("a", time, 1)))
        mine, theirs = ({n: p for n, p in one.pages.items() if n != "header"} for one in (store, warm.store))
        assert mine == theirs
        assert cold.metrics.state_bytes == warm.metrics.state_bytes


def test_mode_sorted_leaves_nothing_but_the_header() -> None:
    """`finish` in mode "sorted" deletes the page of rows that wait for peers."""
    operator = query(sash.Time(4)).operator(SCHEMA, mode="sorted", store=MemoryStore())
    operator.process(batch(("a", 1, 1), ("a", 2, 2)))
    operator.finish()
    assert set(operator.store.pages) == {"header", "root"}


def test_a_missing_page_is_reported_like_other_damage() -> None:
    """A missing page raises a PageError that names it, as other damage does."""
    asked = query(sash.Time(9), lateness=0)
    operator = asked.operator(SCHEMA, store=MemoryStore())
    operator.process(batch(("a", 1, 1), ("a", 2, 2)))
    gone = [name for name in operator.store.pages if name.startswith("b")]
    operator.store.delete_many(gone)
    with pytest.raises(PageError, match=rf"page '{gone[0]}' is missing"):
        asked.operator(SCHEMA, store=operator.store).process(batch(("a", 3, 1)))


@pytest.mark.compiled
def test_a_day_every_second_holds_at_most_its_seconds() -> None:
    """A window of one day that slides by a second holds at most 86,400 panes per key."""
    operator = sash.Query(sash.Time(86_400, every=1), by="k", on="t", high=sash.max("x")).operator(
        rows(0, [0], 0).schema
    )
    most = 0
    for start in range(0, 200_000, 20_000):
        operator.process(rows(0, np.repeat(np.arange(start, start + 20_000), 5), 1))
        waiting = 5  # the rows of the last second, at the watermark
        most = max(most, operator.metrics.elements - waiting)
    assert most <= 86_400


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
