"""A page shows the figures that queries report, and watching them changes nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.cli.page import watched_operator
from sash.engine.operator_base import OperatorBase

pytestmark = pytest.mark.usefixtures("interpreted_kernels")

QUERY = sash.Query(sash.Time(5), by="k", on="t", lateness=2, high=sash.max("x"), n=sash.count())
ROWS = [
    pa.record_batch({"t": [1, 2, 3], "k": ["a", "b", "a"], "x": [3, 5, 4]}),
    pa.record_batch({"t": [9, 12, 1], "k": ["b", "a", "a"], "x": [2, 6, 7]}),
    pa.record_batch({"t": [30, 31], "k": ["a", "<b>"], "x": [7, 8]}),
]


@pytest.fixture
def page() -> Iterator[Any]:
    with sash.live_page() as made:
        yield made


def figures(page: Any) -> dict[str, Any]:
    (found,) = page.figures()
    return found


def test_an_operator_gives_the_same_results_and_the_page_its_metrics(
    page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_operator, "_kernels_compiled", lambda: 0)
    monkeypatch.setattr(watched_operator, "ALLOWANCE", math.inf)
    plain, watched = QUERY.operator(), QUERY.operator()
    page.watch(watched, "trades")
    for rows in ROWS:
        assert watched.process(rows).equals(plain.process(rows))
        metrics, found = plain.metrics, figures(page)
        for name in ("rows_in", "rows_out", "late", "untimed", "keys", "elements", "state_bytes", "pages_written"):
            assert found[name] == getattr(metrics, name), name
        assert found["watermark"] == str(plain.watermark)
        assert not found["finished"]
    assert (found["name"], found["kind"], found["late"], found["malformed"]) == ("trades", "operator", 1, None)
    assert (found["latency"]["count"], found["latency"]["compiling"]) == (2, 1)
    assert 0 < found["latency"]["p50"] <= found["latency"]["p99"] <= found["latency"]["max"]
    assert watched.finish().equals(plain.finish())
    assert figures(page)["finished"]
    assert watched.snapshot() == plain.snapshot()


def test_results_of_a_key_are_those_that_the_operator_gave(page: Any) -> None:
    op = QUERY.operator()
    page.watch(op)
    given = pa.Table.from_batches([*(op.process(rows) for rows in ROWS), op.finish()])
    board = page._board
    assert {*board.keys("operator")} == {'["a"]', '["b"]', '["<b>"]'}
    for key in ("a", "b", "<b>"):
        found = board.results("operator", json.dumps([key]))
        wanted = [row for row in given.to_pylist() if row["k"] == key]
        assert [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]] == [
            {name: value for name, value in row.items() if name != "k"} for row in wanted
        ]
    assert found["measures"] == ["high", "n", "x"]


def test_calls_that_compile_are_not_among_the_latencies(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = [0, 0, 5, 5, 5]
    monkeypatch.setattr(watched_operator, "_kernels_compiled", lambda: kernels.pop(0))
    calls = watched_operator.CallFigures(QUERY)
    op = QUERY.operator()
    for seconds in (3.0, 0.001, 2.0, 0.001, 0.001):
        calls.take(op.state, op.process(ROWS[0].slice(0, 0)), seconds)
    found = calls.figures("x", "operator").latency
    assert (found["count"], found["compiling"], found["compiling_seconds"]) == (3, 2, 5.0)
    assert found["p99"] == found["max"] == 0.001


@pytest.mark.parametrize(
    ("unit", "zone", "text"),
    [("ns", None, "2023-11-14 22:13:20"), ("us", "UTC", "2023-11-14 22:13:20Z"), ("ms", None, "2023-11-14 22:13:20")],
)
def test_the_watermark_is_a_time_without_zeros(unit: str, zone: str | None, text: str) -> None:
    op = sash.Query("1s", on="t", lateness="0s", n=sash.count()).operator()
    calls = watched_operator.CallFigures(op.query)
    for more in ("", ".25"):
        time = pa.array([f"2023-11-14T22:13:20{more}"]).cast(pa.timestamp(unit)).cast(pa.timestamp(unit, zone))
        calls.take(op.state, op.process(pa.record_batch({"t": time})), 0.1)
        assert calls.figures("x", "operator").watermark == text.replace("20", f"20{more}").replace(
            f"20{more}23", "2023"
        )


@pytest.mark.parametrize("days", [pa.date32(), pa.date64()], ids=str)
def test_the_watermark_of_a_column_of_dates_is_a_date(page: Any, days: pa.DataType) -> None:
    op = sash.Query("3d", on="t", lateness="0s", n=sash.count()).operator()
    page.watch(op)
    op.process(pa.record_batch({"t": pa.array([date(2024, 2, 28), date(2024, 3, 1)], days)}))
    assert figures(page)["watermark"] == "2024-03-01"


def test_a_call_that_fails_is_not_counted_and_a_problem_of_the_page_loses_no_results(page: Any) -> None:
    op = QUERY.operator()
    page.watch(op)
    op.process(ROWS[0])
    with pytest.raises(ValueError, match="x"):
        op.process({"t": [5], "k": ["a"]})
    assert (figures(page)["latency"]["count"], figures(page)["latency"]["compiling"]) == (0, 1)

    def fail(_batch: Any) -> None:
        raise MemoryError("no room")

    page._board._one("operator").calls.newest.add = fail
    assert op.process(ROWS[1]).num_rows > 0
    assert figures(page)["problem"] == "MemoryError: no room"


def test_the_size_of_the_state_is_not_taken_at_each_call(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of a call is counted: nothing of it is by rows, and the size of the state is rarely taken."""
    monkeypatch.setattr(watched_operator, "ALLOWANCE", -1.0)
    monkeypatch.setattr(watched_operator, "SHARE", 0.0)
    op = QUERY.operator(ROWS[0].schema)
    page.watch(op)
    taken, measure = [], OperatorBase.metrics.fget
    monkeypatch.setattr(OperatorBase, "metrics", property(lambda self: taken.append(self) or measure(self)))
    for i in range(100):
        op.process({"t": [i], "k": ["a"], "x": [i]})
    assert taken == []
    op.finish()
    assert len(taken) == 1


def test_the_clock_and_the_watermark_of_timestamps(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    query = sash.Query(sash.Time("5s"), on="t", lateness="2s", n=sash.count())
    op = query.operator()
    page.watch(op)
    op.process({"t": pa.array([10_000], pa.timestamp("ms")), "x": [1]})
    monkeypatch.setattr(watched_operator.time, "time", lambda: 68.0)
    found = figures(page)
    assert (found["watermark"], found["lag"], found["lag_unit"]) == ("1970-01-01 00:00:08", 60.0, "s")


def test_a_pipeline(page: Any, tmp_path: Any) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "1.jsonl").write_text('{"t": 1, "k": "a", "x": 3}\n{"t": no}\n{"t": 9, "k": "b", "x": 1}\n')
    seen = []
    source = sash.pipeline.files(tmp_path / "rows", "json", schema=ROWS[0].schema)
    done = sash.pipe(source, QUERY, lambda _batch, _id: seen.append(figures(page)["kind"]), watch=page.watch)
    found = figures(page)
    assert (done.malformed, found["malformed"]) == (1, 1)
    assert (found["rows_in"], found["rows_out"], found["finished"]) == (done.rows_in, done.rows_out, True)
    assert {*seen} == {"pipeline"}


def test_a_pipeline_whose_columns_come_with_the_first_batch(page: Any) -> None:
    done = sash.pipe(iter(ROWS), QUERY, lambda _batch, _id: None, watch=page.watch)
    assert figures(page)["rows_in"] == done.rows_in == 8


def test_several_queries(page: Any) -> None:
    both = sash.Queries(high=QUERY, n=sash.Query(2, by="k", n=sash.count()))
    op = both.operator()
    page.watch(op, "both")
    given = op.process(ROWS[0])
    high, n = page.figures()
    assert (high["name"], n["name"]) == ("both: high", "both: n")
    assert high["rows_in"] == n["rows_in"] == 3
    assert len(page._board.results("both: n", '["a"]')["rows"]) == 2
    assert given["n"].num_rows == 3
    page.unwatch("both: n")
    assert op.observer is None


def test_names_and_what_cannot_be_watched(page: Any) -> None:
    op = QUERY.operator()
    page.watch(op)
    page.watch(QUERY.operator())
    assert [one["name"] for one in page.figures()] == ["operator", "operator 2"]
    with pytest.raises(ValueError, match="is watched already"):
        page.watch(op, "again")
    with pytest.raises(ValueError, match="name='operator' is taken"):
        page.watch(QUERY.operator(), "operator")
    with pytest.raises(TypeError, match=r"a page watches an operator, a pipeline .* got a Query"):
        page.watch(QUERY)
    with pytest.raises(TypeError, match="query= is for streams of Spark"):
        page.watch(QUERY.operator(), query=QUERY)
    page.unwatch("operator")
    page.watch(op, "again")
    with pytest.raises(KeyError):
        page.unwatch("operator")


def test_closing_ends_watching() -> None:
    op = QUERY.operator()
    with sash.live_page(op) as page:
        op.process(ROWS[0])
    assert op.observer is None
    op.process(ROWS[1])
    assert figures(page)["rows_in"] == 3
    page.close()


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="port= must be a number"):
        sash.live_page(port=-1)
    with pytest.raises(TypeError, match="host= takes a name"):
        sash.live_page(host="")
    with sash.live_page() as page, pytest.raises(OSError, match=f"cannot be served on 127.0.0.1:{page.port}"):
        sash.live_page(port=page.port)
    with pytest.raises(TypeError, match="a page watches"):
        sash.live_page(3)


class FakeStreamingQuery:
    """The attributes of a streaming query that a monitor reads."""

    isActive = True  # noqa: N815 (as Spark names it)

    def __init__(self) -> None:
        self.recentProgress: list[dict[str, Any]] = []


def test_a_stream_of_spark_has_the_figures_of_its_monitor(page: Any) -> None:
    monitoring = pytest.importorskip("sash.spark.stream.monitor", reason="pyspark is not installed")
    stream = FakeStreamingQuery()
    monitor = monitoring.Monitor(stream, None)
    page.watch(monitor, "stream", query=QUERY)
    assert figures(page)["rows_in"] == 0
    shard = {"shard": 0, "keys": 3, "elements": 20, "state_bytes": 4096}
    row = {"rows_in": 50, "rows_out": 40, "late": 2, "untimed": 1, "malformed": 4, "pages_read": 1, "pages_written": 2}
    row |= {"bytes_read": 0, "bytes_written": 0, "greatest": 100.0, "watermark": 90.0, "shards": [shard]}
    for number in range(2):
        progress = {"batchId": number, "observedMetrics": {"sash 1000000000 x": row}}
        stream.recentProgress.append(progress | {"durationMs": {"triggerExecution": 500}})
    monitor.update()
    found, last = figures(page), monitor.last
    for name in ("rows_in", "rows_out", "late", "untimed", "malformed", "pages_read", "pages_written"):
        assert found[name] == monitor.totals[name], name
    for name in ("keys", "elements", "state_bytes", "rows_per_second", "lag", "lag_unit"):
        assert found[name] == getattr(last, name), name
    assert (found["latency"]["count"], found["latency"]["max"]) == (2, 0.5)
    assert figures(page)["latency"]["count"] == 2
    assert page._board.plan("stream")["text"] == QUERY.explain()
