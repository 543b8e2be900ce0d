"""`shift=` in an operator: lookups, expiry of keys, memory, and state that was written."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.stores import MemoryStore
from tests.engine.lookup_cases import SCHEMA, batch, play

ROWS = [("a", 1, 3), ("b", 2, 8), ("a", 5, 1), ("a", 5, 7), ("b", 9, 2), ("a", 12, None), ("a", 13, 4)]


def operator(window: Any, **arguments: Any) -> Any:
    made = sash.Query(window, by="k", on="t", lateness=3, **arguments, held=sash.collect("x")).operator(SCHEMA)
    for row in ROWS:
        made.process(batch(row))
    return made


@pytest.mark.parametrize("at", [None, 10, 12, 13, 20])
@pytest.mark.parametrize("closed", ["right", "left", "both", "neither"])
@pytest.mark.parametrize("shift", [-9, -4, -1, 3, 9])
def test_a_lookup_moves_the_window_of_a_time(shift: int, closed: Any, at: int | None) -> None:
    found = operator(sash.Time(8, closed=closed, shift=shift)).lookup({"k": ["a"]}, at=at)["held"].to_pylist()
    end = (13 if at is None else at) + shift
    inside = {
        "right": lambda t: end - 8 < t <= end,
        "left": lambda t: end - 8 <= t < end,
        "both": lambda t: end - 8 <= t <= end,
        "neither": lambda t: end - 8 < t < end,
    }[closed]
    held = [x for k, t, x in ROWS if k == "a" and inside(t) and x is not None]
    assert found == [held or None]


def test_rows_are_kept_until_the_last_window_has_passed_them() -> None:
    op = sash.Query(sash.Time(2, shift=-5), by="k", on="t", lateness=0, n=sash.count()).operator(SCHEMA)
    counts = []
    for t in range(30):
        counts += op.process(batch(("a", t, 1)))["n"].to_pylist()
        assert op.metrics.elements <= 9
    assert counts == [0] * 5 + [1] + [2] * 23
    op.advance(35)
    assert op.metrics.keys == 1
    op.advance(36)
    assert op.metrics.keys == 0


def test_a_row_is_kept_for_many_rows() -> None:
    op = sash.Query(sash.Count(2, shift=-300), held=sash.collect("x")).operator(pa.schema({"x": pa.int64()}))
    found = op.process(pa.record_batch({"x": list(range(1000))}))["held"].to_pylist()
    assert found[:300] == [None] * 300
    assert found[300:302] == [[0], [0, 1]]
    assert found[999] == [698, 699]
    assert op.metrics.elements == 302


# ---- windows that end after their row ----


def given(window: Any, **arguments: Any) -> Any:
    query = sash.Query(window, by="k", on="t", lateness=0, **arguments, held=sash.collect("x"))
    return query.operator(SCHEMA, mode="given")


def held_by_time(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return list(zip(batch["k"].to_pylist(), batch["t"].to_pylist(), batch["held"].to_pylist(), strict=True))


@pytest.mark.parametrize(("closed", "last"), [("right", 15), ("both", 15), ("left", 14), ("neither", 14)])
def test_a_result_is_final_when_the_watermark_passes_the_end_of_its_window(closed: Any, last: int) -> None:
    op = given(sash.Time(4, shift=4, closed=closed))
    assert op.process(batch(("a", 10, 1), ("b", 10, 2), ("a", 12, 3))).num_rows == 0
    assert op.due == 11
    op.advance(13)
    assert op.due == last
    assert op.advance(last - 1).num_rows == 0
    found = {(k, t) for k, t, _ in held_by_time(op.advance(last))}
    assert found == {("a", 10), ("b", 10)}
    assert [t for _, t, _ in held_by_time(op.advance(last + 2))] == [12]
    assert op.metrics.keys == 0


def test_a_row_waits_for_further_rows_of_its_key() -> None:
    op = given(sash.Count(3, shift=1))
    op.process(batch(("a", 1, 1), ("b", 2, 9), ("a", 3, 2), ("a", 9, 4)))
    assert held_by_time(op.advance(5)) == [("a", 1, [1, 2])]
    assert op.due == 10
    assert held_by_time(op.advance(10)) == [("a", 3, [1, 2, 4])]
    assert op.due is None
    assert held_by_time(op.advance(1000)) == []
    assert held_by_time(op.finish()) == [("b", 2, [9]), ("a", 9, [2, 4])]


def test_forget_ends_the_wait() -> None:
    op = given(sash.Count(3, shift=1), forget=20)
    op.process(batch(("a", 1, 1), ("a", 3, 2), ("a", 40, 4), ("a", 41, 5)))
    assert held_by_time(op.advance(4)) == [("a", 1, [1, 2])]
    assert op.due == 24
    assert held_by_time(op.advance(23)) == []
    assert held_by_time(op.advance(24)) == [("a", 3, [1, 2])]
    assert held_by_time(op.advance(42)) == [("a", 40, [4, 5])]
    assert held_by_time(op.finish()) == [("a", 41, [4, 5])]


def test_without_a_time_rows_wait_for_rows() -> None:
    op = sash.Query(sash.Count(2, shift=2), by="k", held=sash.collect("x")).operator(
        pa.schema({"k": "string", "x": "int64"})
    )
    found = op.process({"k": ["a", "a", "b", "a", "a"], "x": [1, 2, 9, 3, 4]})
    assert found.to_pylist() == [{"k": "a", "x": 1, "held": [2, 3]}, {"k": "a", "x": 2, "held": [3, 4]}]
    rest = {(row["x"], tuple(row["held"] or ())) for row in op.finish().to_pylist()}
    assert rest == {(9, ()), (3, (4,)), (4, ())}


def test_other_windows_keep_the_results_of_their_row() -> None:
    windows = {
        "next": sash.Count(1, shift=1),
        "life": sash.Lifetime(),
        "session": sash.Session(4),
        "last": sash.Count(2),
    }
    op = sash.Query(windows, by="k", on="t", lateness=0, held=sash.collect("x")).operator(SCHEMA)
    rows = [("a", 1, 1), ("a", 2, 2), ("a", 9, 4)]
    found = pa.Table.from_batches([*(op.process(batch(row)) for row in rows), op.finish()])
    assert found["held_next"].to_pylist() == [[2], [4], None]
    assert found["held_life"].to_pylist() == [[1], [1, 2], [1, 2, 4]]
    assert found["held_session"].to_pylist() == [[1], [1, 2], [4]]
    assert found["held_last"].to_pylist() == [[1], [1, 2], [2, 4]]


def test_state_of_a_run_that_waits() -> None:
    """A key with many rows has pages that are written once, and its rows leave one by one."""
    query = sash.Query(sash.Count(3, shift=9000), n=sash.count(), s=sash.sum("x"))
    schema, store = pa.schema({"x": pa.int64()}), MemoryStore()
    x = np.arange(30_000)
    starts = range(0, len(x), 10_000)
    found = [query.operator(schema, store=store).process({"x": x[at : at + 10_000]}) for at in starts]
    found.append(query.operator(schema, store=store).finish())
    got = pa.Table.from_batches(found)
    assert got["x"].to_pylist() == x.tolist()
    assert got["s"].to_pylist() == [
        3 * i + 26_997 if i + 9000 < 30_000 else None if i + 8998 >= 30_000 else sum(range(i + 8998, 30_000))
        for i in range(30_000)
    ]


def test_rows_that_have_left_leave_memory() -> None:
    op = sash.Query(sash.Count(2, shift=1), text=sash.last("s"), n=sash.count()).operator(pa.schema({"s": "string"}))
    for i in range(30):
        op.process({"s": [f"{i}-{j}" * 10 for j in range(1000)]})
    assert op.metrics.state_bytes < 3_000_000
    assert len(op.finish()) == 1


def test_an_error_names_the_row_whose_window_fails() -> None:
    def lower(total: int) -> int:
        if total > 10:
            raise ValueError("too much")
        return total

    bad = sash.monoid(identity=0, lift=lambda x: x, combine=lambda a, b: a + b, lower=lower, name="bad")
    op = sash.Query(sash.Count(2, shift=1), by="k", on="t", lateness=0, total=bad("x")).operator(SCHEMA)
    op.process(batch(("a", 1, 1), ("a", 2, 7)))
    with pytest.raises(ValueError, match=r"too much; at row \{'k': 'a', 't': 2, 'x': 7\}"):
        op.process(batch(("a", 3, 8), ("a", 4, 1)))


def test_a_lookup_at_a_time_with_rows_after_it() -> None:
    windows = {"a": sash.Count(2, shift=1), "b": sash.Lifetime()}
    op = sash.Query(windows, by="k", on="t", lateness=5, n=sash.count()).operator(SCHEMA)
    op.process(batch(("a", 10, 1), ("a", 12, 1)))
    assert op.lookup({"k": ["a"]})["n_b"].to_pylist() == [2]
    with pytest.raises(
        ValueError, match=r"lookup\(at=11\): Count\(2, shift=1\) holds rows after that time, and Lifetime"
    ):
        op.lookup({"k": ["a"]}, at=11)


@pytest.mark.parametrize("mode", ["rows", "given", "sorted"])
@pytest.mark.parametrize("window", [sash.Time(5, shift=30), sash.Count(2, shift=5), sash.Time(9, shift=4)], ids=repr)
def test_keys_that_restart(window: Any, mode: str) -> None:
    more = [batch(("a", 30, 5), ("a", 34, 6)), batch(("a", 60, 1), ("b", 61, 1), ("a", 90, 2), ("a", 120, 3))]
    play(window, mode, batch(*ROWS), *more, forget=6)
    play(window, mode, batch(*ROWS), *more, forget=6, emit="changes")
