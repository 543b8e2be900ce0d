"""`shift=` in an operator: lookups, expiry of keys, memory, and state that was written."""

from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.stores import MemoryStore, PageError
from tests.engine.lookup_cases import SCHEMA, batch, play

ROWS = [("a", 1, 3), ("b", 2, 8), ("a", 5, 1), ("a", 5, 7), ("b", 9, 2), ("a", 12, None), ("a", 13, 4)]


def operator(window: Any, **arguments: Any) -> Any:
    made = sash.Query(window, by="k", on="t", lateness=3, **arguments, held=sash.collect("x")).operator(SCHEMA)
    for row in ROWS:
        made.process(batch(row))
    return made


@pytest.mark.parametrize("at", [None, 10, 12, 13, 20])
@pytest.mark.parametrize("closed", ["right", "left", "both", "neither"])
@pytest.mark.parametrize("shift", [-9, -4, -1])
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


@pytest.mark.parametrize(
    ("shift", "at", "held"), [(-1, 13, [1, 7]), (-2, 13, [3, 1, 7]), (-4, 13, [3]), (-1, 12, [3, 1, 7])]
)
def test_a_lookup_moves_the_window_of_rows(shift: int, at: int, held: list[int]) -> None:
    assert operator(sash.Count(3, shift=shift)).lookup({"k": ["a"]}, at=at)["held"].to_pylist() == [held]


def test_results_go_on_after_a_lookup() -> None:
    op = operator(sash.Time(8, shift=-4))
    for at in (40, 13, 30):
        op.lookup({"k": ["a", "b"]}, at=at)
    found = [op.process(batch(("a", 17, 9), ("a", 30, 1))), op.finish()]
    assert pa.Table.from_batches(found)["held"].to_pylist() == [[3, 1, 7], [1, 7], [4], None]


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


def test_state_of_another_shift_is_refused() -> None:
    store = MemoryStore()
    sash.Query(sash.Count(3, shift=-1), by="k", n=sash.count()).operator(SCHEMA, store=store).process(batch(*ROWS))
    with pytest.raises(PageError):
        sash.Query(sash.Count(3, shift=-2), by="k", n=sash.count()).operator(SCHEMA, store=store)


@pytest.mark.parametrize("emit", ["final", "changes"])
def test_through_a_store(emit: Any) -> None:
    windows = {"a": sash.Time(4, shift=-3), "b": sash.Count(2, shift=-2), "c": sash.Time(3)}
    query = sash.Query(windows, by="k", on="t", lateness=2, emit=emit, total=sash.sum("x"), n=sash.count())
    rows = [("ab"[i % 3 % 2], i - i % 4, i % 7) for i in range(60)]
    whole = query.operator(SCHEMA)
    expected = [whole.process(batch(row)).to_pylist() for row in rows]
    store = MemoryStore()
    for row, result in zip(rows, expected, strict=True):
        assert query.operator(SCHEMA, store=store).process(batch(row)).to_pylist() == result


def test_a_key_restarts_without_its_old_rows() -> None:
    play(sash.Time(20, shift=-3), "rows", batch(*ROWS), batch(("a", 30, 5), ("a", 34, 6)), forget=6)
    play(sash.Count(4, shift=-2), "rows", batch(*ROWS), batch(("a", 30, 5), ("a", 34, 6), ("a", 35, 6)), forget=6)
