"""The example of the Reactive Aggregator: the longest call of the last 24 hours, how many as long, and who.

began      00:00    00:01         00:02
minutes    ann 3    bob 5  cid 5  dee 2
at 00:01   3  1  ann
at 00:02            5  2  bob
at 00:03            the same: nothing is given
"""

import pyarrow as pa
import pytest

import sash
from examples.calls import CALLERS, CUT_OFF, QUERY, SCHEMA, calls, main
from sash.engine import Operator
from sash.testing import Reference, assert_same


def given(machine: Operator | Reference, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return [*map(machine.process, batches), machine.finish()]


def test_fixed_examples() -> None:
    rows = [(0, "ann", 3), (60, "bob", 5), (90, "cid", 5), (120, "dee", 2)]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)],
        schema=SCHEMA,
    )
    found = pa.Table.from_batches(given(QUERY.operator(SCHEMA), [batch])).drop_columns("window_start")
    ends = [second.timestamp() for second in found["window_end"].to_pylist()]
    assert ends[:2] == [60, 120]
    assert found.drop_columns("window_end").to_pylist() == [
        {"longest": 3, "as_long": 1, "who": "ann"},
        {"longest": 5, "as_long": 2, "who": "bob"},
        {"longest": 2, "as_long": 1, "who": "dee"},  # a day later, when the minute of bob and cid has left
    ]
    assert ends[2:] == [86_400 + 120]


@pytest.mark.parametrize("emit", ["final", "changes"])
@pytest.mark.parametrize("batch", [20, 60])
def test_what_the_reference_gives(batch: int, emit: str) -> None:
    query = sash.Query(QUERY.windows[""], on="began", lateness="1h", emit=emit, **QUERY.aggregates)
    batches = list(calls(60, days=0.05, batch=batch))
    got = given(query.operator(SCHEMA), batches)
    expected = given(Reference(query, SCHEMA), batches)
    for mine, theirs in zip(got, expected, strict=True):
        assert_same(mine, theirs)
    assert sum(mine.num_rows for mine in got[:-1]) > 0, "results leave while calls come"


def test_continues_from_a_snapshot() -> None:
    batches = list(calls(500, batch=125))
    expected = given(QUERY.operator(SCHEMA), batches)
    operator, got = QUERY.operator(SCHEMA), []
    for batch in batches:
        got.append(operator.process(batch))
        operator = Operator.restore(QUERY, operator.snapshot())
    assert_same([*got, operator.finish()], expected)


def test_keeps_a_partial_a_minute() -> None:
    operator = QUERY.operator(SCHEMA)
    for batch in calls(20_000, batch=5000):
        operator.process(batch)
    waiting = 20_000 / 48  # an hour's calls
    assert operator.metrics.elements <= 24 * 60 + 1 + 2 * waiting
    assert operator.metrics.late == 0


def test_the_example_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["until", "longest", "as", "long", "who"]
    assert 5 <= len(lines) <= 40
    for line in lines:
        minutes, count, who = int(line.split()[4]), int(line.split()[6]), line.split()[-1]
        assert 1 <= minutes <= CUT_OFF
        assert count >= 1
        assert who in CALLERS
