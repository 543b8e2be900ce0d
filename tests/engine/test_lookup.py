"""`lookup`: the aggregates of keys now or at a time, compared with the rows that windows hold by definition."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash
from sash.stores import MemoryStore

SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.int64())])
TIMES = [1, 2, 5, 5, 9, 12, 13]
KEYS = ["a", "b", "a", "a", "b", "a", "a"]
VALUES = [3, 8, 1, 7, 2, None, 4]


def data() -> pa.RecordBatch:
    return pa.record_batch([pa.array(KEYS), pa.array(TIMES), pa.array(VALUES, pa.int64())], schema=SCHEMA)


def operator(window: Any, **arguments: Any) -> Any:
    query = sash.Query(window, by="k", on="t", lateness=3, **arguments, n=sash.count(), high=sash.max("x"))
    made = query.operator(SCHEMA)
    for start in range(len(TIMES)):
        made.process(data().slice(start, 1))
    return made


def held(key: str, inside: Any) -> tuple[int, Any]:
    rows = [(t, x) for k, t, x in zip(KEYS, TIMES, VALUES, strict=True) if k == key and inside(t)]
    seen = [x for _, x in rows if x is not None]
    return len(rows), max(seen, default=None)


CLOSED: dict[str, Any] = {
    "right": lambda t, now: now - 8 < t <= now,
    "left": lambda t, now: now - 8 <= t < now,
    "both": lambda t, now: now - 8 <= t <= now,
    "neither": lambda t, now: now - 8 < t < now,
}


def test_a_shorter_range_than_the_window() -> None:
    op = operator(sash.Time(8))
    found = op.lookup({"k": ["a"]}, last=2).to_pydict()
    assert (found["n"][0], found["high"][0]) == held("a", lambda t: 11 < t <= 13)
    with pytest.raises(ValueError, match=r"last= of lookup\(\) is at most the window's size"):
        op.lookup({"k": ["a"]}, last=9)
    rows = operator(sash.Count(4)).lookup({"k": ["a"]}, last=2).to_pydict()
    assert (rows["n"], rows["high"]) == ([2], [4])
    with pytest.raises(ValueError, match="shorter range of a Time or Count window"):
        operator(sash.Session(3)).lookup({"k": ["a"]}, last=2)


WINDOWS: dict[str, tuple[Any, Any]] = {
    "count": (sash.Count(3), (3, 7)),
    "lifetime": (sash.Lifetime(), (5, 7)),
    "session": (sash.Session(4), (2, 4)),
    "slides": (sash.Time(8, every=4), (2, 4)),  # [8, 16) is in progress
    "counted": (sash.Count(4, every=2), (3, 7)),  # rows 3 to 6, of which 5 are there
    "rows of a slide": (sash.Count(3, every=sash.Time(4)), (3, 7)),  # the last three up to now, in a slide to 16
}


@pytest.mark.parametrize("name", WINDOWS)
def test_every_kind_of_window(name: str) -> None:
    window, (n, high) = WINDOWS[name]
    found = operator(window).lookup({"k": ["a"]}).to_pydict()
    assert (found["n"], found["high"]) == ([n], [high])


def test_what_is_no_key() -> None:
    op = operator(sash.Time(8))
    with pytest.raises(ValueError, match=r"lookup\(\) takes the columns of by=, 'k'"):
        op.lookup({"j": ["a"]})
    with pytest.raises(TypeError, match=r"lookup\(\) takes a list or an array of values for 'k'; got 'ab'"):
        op.lookup({"k": "ab"})  # not the keys a and b
    with pytest.raises(TypeError, match=r"at= of lookup\(\) takes a time of column 't', of type int64; got 'now'"):
        op.lookup({"k": ["a"]}, at="now")  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [pa.table, pa.record_batch, pd.DataFrame, pl.DataFrame])
def test_keys_of_a_frame(make: Any) -> None:
    keys: dict[str, list[str]] = {"k": ["b", "nobody", "a"]}
    op = operator(sash.Time(8))
    assert op.lookup(make(keys)).equals(op.lookup(keys))


EAGER = {
    **{name: window for name, (window, _) in WINDOWS.items()},
    "time": sash.Time(8),
    "closed on the left": sash.Time(7, closed="left"),
    "full": sash.Count(4, full=True),
    "delta": sash.Delta("t", 6),
    "slides closed on the right": sash.Time(8, every=4, closed="right"),
    "lifetime by time": sash.Lifetime(every=sash.Time(4)),
}


@pytest.mark.parametrize("arguments", [{}, {"forget": 5}], ids=["", "forget"])
@pytest.mark.parametrize("at", [None, 11, 13, 40])
@pytest.mark.parametrize("name", EAGER)
def test_an_eager_operator_answers_as_a_final_one(name: str, at: int | None, arguments: dict[str, Any]) -> None:
    if name == "counted" and arguments:
        return  # eager refuses the query
    keys = {"k": ["b", "a", "nobody", "a"]}
    eager, final = (operator(EAGER[name], emit=emit, **arguments) for emit in ("eager", "final"))
    before = eager.snapshot()
    mine, theirs = (one.lookup(keys, at=at).to_pydict() for one in (eager, final))
    assert mine == theirs
    assert eager.snapshot() == before


def test_a_shorter_range_of_an_eager_operator() -> None:
    eager, final = (operator(sash.Time(8), emit=emit) for emit in ("eager", "final"))
    for last in (1, 2, 5, 8):
        assert eager.lookup({"k": ["a", "b"]}, last=last) == final.lookup({"k": ["a", "b"]}, last=last)


# ---- what process() takes ----


def test_batches_of_every_kind() -> None:
    import pandas as pd
    import polars as pl

    query = sash.Query(2, by="k", on="t", total=sash.sum("x"))
    columns = {"k": ["a", "a", "b"], "t": [1, 2, 3], "x": [5, 6, 7]}
    expected = None
    for given in (
        pa.record_batch(columns),
        pa.table(columns),
        pa.table(columns).slice(0, 3).combine_chunks(),
        pd.DataFrame(columns),
        pl.DataFrame(columns),
        columns,
        {"k": np.array(["a", "a", "b"], object), "t": np.array([1, 2, 3]), "x": [5, 6, 7]},
    ):
        made = query.operator(SCHEMA)
        found = [*made.process(given).to_pylist(), *made.finish().to_pylist()]
        expected = expected or found
        assert found == expected
    assert [row["total"] for row in expected or []] == [5, 11, 7]


# ---- the caller's position ----


def test_an_offset_is_kept_with_the_state() -> None:
    query = sash.Query(sash.Time(8), by="k", on="t", lateness=3, n=sash.count())
    store = MemoryStore()
    op = query.operator(SCHEMA, store=store)
    assert op.offset is None
    op.process(data().slice(0, 2), offset=2)
    op.process(data().slice(2, 2))
    assert query.operator(SCHEMA, store=store.copy()).offset == 2
    op.process(data().slice(4, 2), offset={"file": "x", "row": 6})
    again = type(op).restore(query, op.snapshot())
    assert again.offset == {"file": "x", "row": 6}


def test_the_store_of_the_options_is_used() -> None:
    store = MemoryStore()
    query = sash.Query(2, by="k", on="t", options=sash.Options(store=store), total=sash.sum("x"))
    query.operator(SCHEMA).process(data())
    assert "header" in store.pages
    assert query.operator(SCHEMA).metrics.rows_in == len(TIMES)


@pytest.mark.parametrize("window", [sash.Lifetime(), sash.Session(5), sash.Count(3), sash.Time(8, every=2)])
def test_with_a_store_it_answers_the_same(window: Any) -> None:
    """The state of an operator with a store has additional columns; its lookups have not."""
    query = sash.Query(window, by="k", on="t", lateness=3, total=sash.sum("x"), high=sash.max("x"))
    without, within = query.operator(SCHEMA), query.operator(SCHEMA, store=MemoryStore())
    for operator in (without, within):
        operator.process(data())
    keys = {"k": ["a", "b", "nobody"]}
    assert within.lookup(keys).equals(without.lookup(keys))
    assert sash.engine.Operator.restore(query, without.snapshot()).lookup(keys).equals(without.lookup(keys))
