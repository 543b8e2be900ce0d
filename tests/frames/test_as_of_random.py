"""`as_of` on random queries, spines and events, compared with its definition."""

from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash import Count, Lifetime, Session, Time
from sash.kernels.column import column_kernels
from sash.testing.compare import assert_same
from tests.frames.frame_cases import CLOSED
from tests.shared.as_of_oracle import brute_force
from tests.shared.effort import share
from tests.shared.queries import SCALES, Scale, combined, fewest_rows, loose
from tests.shared.streams import batch_of, events

BY: list[tuple[str, ...]] = [("k",), (), ("k", "j"), ("j",), ("d", "i")]


@st.composite
def one_window(draw: st.DrawFn, scale: Scale) -> Any:
    size = draw(st.integers(1, 8) | st.sampled_from([20, 60]))
    shift = draw(st.sampled_from([0, 0, -1, -4]))
    kind = draw(st.sampled_from(["time", "time", "count", "lifetime", "session"]))
    if kind == "count":
        return Count(size, full=draw(st.booleans()), shift=shift)
    if kind == "time":
        return scale.time(size) if scale.calendar else Time(scale.length(size), shift=scale.length(shift))
    return Session(scale.length(size)) if kind == "session" else Lifetime()


@st.composite
def asked(draw: st.DrawFn, scale: Scale) -> sash.Query:
    one = one_window(scale)
    found = draw(st.lists(one, min_size=1, max_size=3))
    windows = found[0] if len(found) == 1 else {f"w{i}": window for i, window in enumerate(found)}
    made, own = draw(combined(one, True))
    used = [*found, *(leaf.window for one in made.values() for leaf in one.leaves())]
    periods = min(draw(st.sampled_from([0, 0, 1, 2])), fewest_rows(used))
    arguments: dict[str, Any] = {"by": draw(st.sampled_from(BY)), "min_periods": periods}
    arguments["on"] = draw(st.sampled_from([["t"], ["t", "q"]]))
    return sash.Query(None if own else windows, **arguments, **cast(dict[str, Any], made))


def assert_as_defined(query: sash.Query, spine: pa.RecordBatch, given: pa.RecordBatch, closed: Any) -> None:
    found = query.as_of(spine, given, closed=closed)
    assert_same(found.select(spine.schema.names), spine)
    expected = brute_force(query, spine, given, closed)
    assert_same(found.select(expected.schema.names), expected, loose=loose(query))


@pytest.mark.filterwarnings("ignore::sash.kernels.InterpretedWarning")
@settings(max_examples=share(250))
@given(st.data())
def test_random_queries(data: st.DataObject) -> None:
    scale = data.draw(st.sampled_from(SCALES))
    query = data.draw(asked(scale))
    spine, given = (data.draw(st.lists(events(query), max_size=most)) for most in (8, 25))
    rows = batch_of(given, query, scale, 0, ordered=False)
    start = data.draw(st.integers(-5, 10))
    own = batch_of(spine, query, scale, start, ordered=False).select([*query.by, "t"])
    closed = data.draw(st.sampled_from(["left", *CLOSED]))
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):  # three threads, each with a few rows
            patch.setattr(column_kernels, "SHARE", 2)
            query = query.rewritten(options=sash.Options(threads=3))
        assert_as_defined(query, own, rows, closed)
