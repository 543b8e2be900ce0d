"""All kinds of frames give equal results, and Arrow those of the reference: ties, nulls, NaN, rows in any order."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash import Count, Delta, Lifetime, Policy, Punctuation, Query, Session, Time
from sash.testing import Reference, assert_same
from sash.testing.compare import as_rows
from tests.frames.frame_kinds import KINDS, blurred, without_nan
from tests.shared.effort import share
from tests.shared.streams import sorted_by_key

NAN = float("nan")
AGGREGATES: dict[str, Any] = {
    "n": sash.count("f"),
    "total": sash.sum("i"),
    "high": sash.max("f"),
    "oldest": sash.first("s"),
    "every": sash.all("b"),
}
PER_ROW: list[Any] = [
    Count(3),
    Count(3, full=True),
    Time(4),
    Time(4, closed="left"),
    Time(4, closed="both"),
    Session(3),
    Lifetime(),
    Punctuation("p"),
    Policy(lambda total, prefix: total - prefix >= 2, sash.count()),
    {"short": Time(2), "rows": Count(2)},
]
PER_SLIDE: list[Any] = [
    Time(4, every=2),
    Time(4, every=4, closed="right"),
    Count(3, every=2),
    Session(3, every="close"),
    Lifetime(every=3),
    {"short": Time(2, every=2), "long": Time(6, every=2)},
]
BY = st.sampled_from([(), "k", ["k", "j"]])
ON = st.sampled_from(["t", "t", ["t", "q"]])

_row = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", None]),
        "j": st.sampled_from([1, 2]),
        "t": st.sampled_from([0, 1, 1, 2, 3, 5, 8, 13, -4, None]),
        "q": st.sampled_from([0, 1, None]),
        "f": st.sampled_from([0.0, 1.5, -2.25, NAN, None, 4.0]),
        "i": st.sampled_from([0, 1, 2**53 + 1, -3, None]),
        "s": st.sampled_from(["x", "", "é", None]),
        "b": st.sampled_from([True, False, None]),
        "p": st.sampled_from([False, False, True, None]),
    }
)
_TYPES = {
    "k": pa.string(), "j": pa.int64(), "t": pa.int64(), "q": pa.int64(), "f": pa.float64(), "i": pa.int64(),
    "s": pa.string(), "b": pa.bool_(), "p": pa.bool_(), "row": pa.int64(),
}  # fmt: skip


@st.composite
def tables(draw: st.DrawFn, least: int = 0) -> pa.Table:
    """A table in chunks, its rows in any order; `row` counts them."""
    rows = draw(st.lists(_row, min_size=least, max_size=14))
    schema = pa.schema(list(_TYPES.items()))
    table = pa.Table.from_pylist([row | {"row": i} for i, row in enumerate(rows)], schema)
    cut = draw(st.integers(0, len(rows)))
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)])


def memory(column: pa.ChunkedArray) -> list[Any]:
    """Where a column lies in memory."""
    return [[buffer and buffer.address for buffer in chunk.buffers()] for chunk in column.chunks]


def expected(query: Query, table: pa.Table) -> list[dict[str, Any]]:
    """The results of the reference for the rows in order."""
    batch = pa.RecordBatch.from_arrays([pa.concat_arrays(c.chunks) for c in table.columns], schema=table.schema)
    reference = Reference(query, batch.schema, mode="sorted")
    return as_rows([reference.process(sorted_by_key(batch, query)), reference.finish()])


@given(table=tables(), window=st.sampled_from(PER_ROW), by=BY, on=ON)
def test_each_row_gets_what_the_reference_gives(table: pa.Table, window: Any, by: Any, on: Any) -> None:
    query = Query(window, by=by, on=on, **AGGREGATES)
    got = query.run(table)
    assert_same(got, sorted(expected(query, table), key=lambda row: row["row"]))
    for name in table.schema.names:
        assert memory(got.column(name)) == memory(table.column(name)), "the columns themselves, not copies"


@given(table=tables(), window=st.sampled_from([Count(3), Punctuation("p"), Lifetime()]), by=BY)
@settings(max_examples=share(20))
def test_arrival_is_the_order_without_on(table: pa.Table, window: Any, by: Any) -> None:
    query = Query(window, by=by, **AGGREGATES)
    assert_same(query.run(table), sorted(expected(query, table), key=lambda row: row["row"]))


@given(table=tables(), window=st.sampled_from(PER_ROW[:-1]), by=BY, on=ON)
@settings(max_examples=share(30))
def test_only_rows_with_changes(table: pa.Table, window: Any, by: Any, on: Any) -> None:
    query = Query(window, by=by, on=on, emit="changes", **AGGREGATES)
    assert_same(query.run(table), sorted(expected(query, table), key=lambda row: row["row"]))


@given(
    table=tables(), window=st.sampled_from(PER_SLIDE), by=BY, on=ON, emit=st.sampled_from(["final", "final", "changes"])
)
@settings(max_examples=share(40))
def test_each_slide_is_what_the_reference_gives(table: pa.Table, window: Any, by: Any, on: Any, emit: str) -> None:
    query = Query(window, by=by, on=on, emit=emit, **AGGREGATES)
    got, wanted = query.run(table), expected(query, table)
    within = [*query.by, *(["window"] if isinstance(window, dict) else [])]
    assert_same(got, wanted, by=within)
    firsts = {}
    for row in table.to_pylist():
        if row["t"] is not None:
            firsts.setdefault(tuple(row[name] for name in query.by), len(firsts))
    ranks = [(firsts[tuple(row[name] for name in query.by)], row["window_end"]) for row in got.to_pylist()]
    assert ranks == sorted(ranks), "slides are by key, as keys first came, then by their ends"


@given(table=tables(least=1), by=BY, slides=st.booleans(), emit=st.sampled_from(["final", "final", "changes"]))
@settings(max_examples=share(12))
@pytest.mark.parametrize("name", KINDS)
def test_all_kinds_agree(name: str, table: pa.Table, by: Any, slides: bool, emit: str) -> None:
    kind = KINDS[name]
    query = Query(Time(4, every=2) if slides else Time(4), by=by, on="t", emit=emit, **AGGREGATES)
    if name == "pandas.DataFrame":
        table = without_nan(table)
    got = query.run(kind.make(table))
    assert isinstance(got, kind.comes_back)
    mine, expected_rows = kind.rows(got), query.run(table).to_pylist()
    if kind.lossy:
        mine, expected_rows = blurred(mine), blurred(expected_rows)
    assert_same(mine, expected_rows)


@given(table=tables())
@settings(max_examples=share(20))
def test_the_order_of_the_input_changes_nothing(table: pa.Table) -> None:
    # ties in neither order nor time: whatever the order, each row keeps its result
    query = Query(Time(4), by="k", on="t", **{name: AGGREGATES[name] for name in ("n", "total", "high")})
    turned = table.take(pa.array(range(table.num_rows - 1, -1, -1), pa.int64()))
    assert_same(query.run(turned).sort_by("row"), query.run(table))


def test_a_delta_that_goes_back_is_named() -> None:
    table = pa.table({"t": [2, 1], "g": [1, 5], "unread": [object.__name__, None]})
    with pytest.raises(ValueError, match="'g': 1"):
        sash.rolling(table, Delta("g", 3), on="t", n=sash.count())


def test_changes_of_a_column_of_type_null() -> None:
    got = sash.rolling(pa.table({"s": pa.nulls(2)}), 2, emit="changes", first=sash.first("s"))
    assert got.num_rows == 1
