"""Random streams: a lookup with `closed` equals `as_of` on the rows so far that were not late."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.testing.compare import assert_same
from tests.frames.frame_cases import CLOSED
from tests.frames.test_as_of_random import asked
from tests.shared.effort import share
from tests.shared.queries import SCALES, loose
from tests.shared.streams import batch_of, events

pytestmark = pytest.mark.usefixtures("interpreted_kernels", "interpreted_trees")


@settings(max_examples=share(100))
@given(st.data())
def test_lookups_of_random_streams(data: st.DataObject) -> None:
    scale = data.draw(st.sampled_from(SCALES))
    emit = data.draw(st.sampled_from(["final", "eager"]))
    drawn = data.draw(asked(scale))
    if emit == "eager" and any(getattr(window, "shift", 0) for window in drawn.all_windows.values()):
        emit = "final"  # eager refuses the query
    query = drawn.rewritten(lateness=scale.length(data.draw(st.integers(1, 5))), emit=emit)
    rows = batch_of(data.draw(st.lists(events(query), min_size=1, max_size=25)), query, scale, 0, ordered=False)
    operator = query.operator(rows.schema)
    cut = data.draw(st.integers(0, rows.num_rows))
    operator.process(rows.slice(0, cut))
    operator.process(rows.slice(cut))
    if operator.watermark is None:
        return
    late = {tuple(map(str, row.values())) for row in operator.late_rows().to_pylist()}
    kept = rows.filter(pa.array([tuple(map(str, row.values())) not in late for row in rows.to_pylist()]))
    if kept.num_rows + len(late) < rows.num_rows:
        return  # one of two rows that look alike was late
    bound_query = query.bind(rows.schema)
    assert bound_query.time is not None
    at = operator.watermark + data.draw(st.integers(1, 12)) * scale.units
    closed: Any = data.draw(st.sampled_from([one for one in CLOSED if one != "both"]))
    moment = bound_query.time.array([at])[0]
    keys = {
        name: pa.array(list(dict.fromkeys(rows.column(name).to_pylist())), rows.schema.field(name).type)
        for name in query.by
    }
    shortest = min((len(column) for column in keys.values()), default=1)
    keys = {name: column.slice(0, shortest) for name, column in keys.items()}
    spine = pa.record_batch({**keys, "t": pa.repeat(moment, shortest)})
    expected = query.as_of(spine, kept, closed=closed).drop_columns(["t"])
    assert_same(operator.lookup(keys, at=moment, closed=closed), expected, loose=loose(query))
