"""`lookup(at=…, closed=…)` equals `as_of` at that moment, from the live state alone."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sash
from sash.stores import MemoryStore
from tests.frames.frame_cases import CLOSED

SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("x", pa.int64())])
ROWS = pa.record_batch(
    [
        pa.array(["a", "b", "a", "a", "b", "a", "a", "a"]),
        pa.array([1, 2, 4, 5, 9, 12, 13, 13]),
        pa.array([3, 8, 1, 7, 2, None, 4, 6], pa.int64()),
    ],
    schema=SCHEMA,
)
KEYS = ["b", "a", "nobody", "a"]
pytestmark = pytest.mark.usefixtures("kernels", "interpreted_trees")
WINDOWS: dict[str, Any] = {
    "time": sash.Time(8),
    "shifted": sash.Time(6, shift=-2),
    "count": sash.Count(3),
    "full": sash.Count(3, full=True),
    "before": sash.Count(2, shift=-1),
    "lifetime": sash.Lifetime(),
    "session": sash.Session(4),
}


def asked(window: Any, **arguments: Any) -> sash.Query:
    return sash.Query(
        window, by="k", on="t", lateness=3, n=sash.count(), high=sash.max("x"), last=sash.last("x"), **arguments
    )


def filled(query: sash.Query, store: Any = None) -> Any:
    operator = query.operator(SCHEMA, store=store)
    for start in range(ROWS.num_rows):
        operator.process(ROWS.slice(start, 1))
    return operator


@pytest.mark.parametrize("emit", ["final", "eager"])
@pytest.mark.parametrize("name", WINDOWS)
def test_a_lookup_gives_what_as_of_gives(name: str, emit: Any) -> None:
    if emit == "eager" and name in ("shifted", "before"):
        return  # eager refuses the query
    query = asked(WINDOWS[name], emit=emit)
    operator = filled(query)
    assert operator.watermark == 10
    before = operator.snapshot()
    for closed in CLOSED:
        if closed == "both" and name in ("time", "shifted"):
            continue
        for at in (11, 12, 13, 14, 40):
            spine = pa.record_batch({"k": KEYS, "t": pa.array([at] * len(KEYS))})
            expected = query.as_of(spine, ROWS, closed=closed).drop_columns(["t"])  # type: ignore[arg-type]
            assert operator.lookup({"k": KEYS}, at=at, closed=closed).to_pydict() == expected.to_pydict(), (closed, at)
    assert operator.snapshot() == before
    assert operator.finish().equals(filled(query).finish())


@pytest.mark.parametrize("closed", ["left", "both"])
def test_a_window_that_is_closed_at_its_start_is_served_at_the_watermark(closed: Any) -> None:
    query = asked(sash.Time(8, closed=closed))
    for at in (10, 12, 13):
        spine = pa.record_batch({"k": ["a"], "t": pa.array([at])})
        found = filled(query).lookup({"k": ["a"]}, at=at, closed=closed)
        assert found.to_pydict() == query.as_of(spine, ROWS, closed=closed).drop_columns(["t"]).to_pydict()


def test_a_reader_takes_closed_as_well() -> None:
    query, store = asked(sash.Time(8)), MemoryStore()
    filled(query, store)
    found = query.reader(store).lookup({"k": KEYS}, at=13, closed="left")
    assert found.equals(filled(query).lookup({"k": KEYS}, at=13, closed="left"))


def test_what_the_state_cannot_answer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"lookup\(at=10, closed='left'\) is at the watermark, and needs the row at"):
        filled(asked(sash.Time(8))).lookup({"k": ["a"]}, at=10, closed="left")
    with pytest.raises(ValueError, match=r"closed='both'\) needs the row at the start of Time\(8\), which may"):
        filled(asked(sash.Time(8))).lookup({"k": ["a"]}, at=12, closed="both")
    with pytest.raises(ValueError, match=r"lookup\(closed='left'\) needs at=: it defines whether rows"):
        filled(asked(sash.Count(2))).lookup({"k": ["a"]}, closed="left")
    with pytest.raises(ValueError, match="closed= must be one of 'right'"):
        filled(asked(sash.Count(2))).lookup({"k": ["a"]}, at=12, closed="up")
    slides = sash.Query(sash.Time(8, every=4), by="k", on="t", lateness=3, n=sash.count())
    with pytest.raises(ValueError, match=r"Time\(8, every=4\) slides: leave closed= out"):
        filled(slides).lookup({"k": ["a"]}, at=12, closed="left")
    operator = asked(sash.Lifetime()).operator(SCHEMA, mode="sorted")
    operator.process(ROWS.filter(pc.equal(ROWS["k"], "a")))
    with pytest.raises(ValueError, match=r"Lifetime\(\) is one total of all rows, and some of them are not before"):
        operator.lookup({"k": ["a"]}, at=3, closed="left")
