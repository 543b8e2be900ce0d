"""Warnings of a monitor, and the format of its metrics: from invented progress, without Spark."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

import sash.spark
from sash.cli.page.watched_operator import WatchedStream
from sash.spark.stream.monitor import METRICS, Monitor
from sash.spark.stream.shard_progress import FLOWS

MINUTE = 60


class NamedQuery:
    """A query whose progress is complete."""

    name, id = 'high "prices"', "4b1c"
    isActive = False  # noqa: N815 - as Spark names it

    def __init__(self, *progress: Any) -> None:
        self.recentProgress = list(progress)


def progress(number: int, minute: int, sources: tuple[int, ...] = (1,), **counts: Any) -> dict[str, Any]:
    """A micro-batch that began some minutes after noon and took a second; `at` is its greatest time of the day."""
    at = counts.pop("at", None)
    row = dict.fromkeys(FLOWS, 0) | {"watermark": None, "shards": []}
    row |= {"greatest": None if at is None else (1_714_521_600 + at * MINUTE) * 1e6}
    row |= {"latest": None if at is None else {"latest_key": "symbol='A'", "latest_shard": 2}} | counts
    return {
        "batchId": number,
        "timestamp": f"2024-05-01T12:{minute:02}:00.000Z",
        "durationMs": {"triggerExecution": 1000},
        "sources": [{"description": f"Source{i}", "numInputRows": rows} for i, rows in enumerate(sources)],
        "observedMetrics": {"sash 1000 ab": row},
    }


def watched(*batches: dict[str, Any], **settings: Any) -> Monitor:
    return Monitor(NamedQuery(*batches), None, **settings).update()


NOON = 12 * 60


def test_reports_are_counted_once_and_not_remembered_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Monitor, "KEPT", 3)
    one = watched()
    for i in range(20):
        for number in range(max(0, i - 2), i + 1):  # Spark repeats its last reports
            one.take(progress(number, number, rows_in=10))
    assert (one.batch_count, one.totals["rows_in"], len(one.batches)) == (20, 200, 3)
    assert len(one._seen) <= 2 * 3


def test_rates_of_a_page_are_seconds_ago() -> None:
    query = NamedQuery(*(progress(i, 2 * i, rows_in=60 * i) for i in range(4)))
    found = WatchedStream(Monitor(query, None).update(), "trades", None, owned=False).figures()
    assert found.rates == [(360.0, 0.0), (240.0, 60.0), (120.0, 120.0), (0.0, 180.0)]


def test_a_watermark_that_moves_is_no_stall() -> None:
    one = watched(*(progress(i, i, rows_in=10, at=NOON + i) for i in range(5)))
    assert one.stall is None
    assert one.warnings == []


def test_a_row_from_the_future_is_named() -> None:
    #  batch   0          1              2
    #  rows    12:00      13:30, key A   12:02, all late
    before = [progress(0, 0, rows_in=10, at=NOON), progress(1, 1, rows_in=10, at=NOON + 90)]
    assert watched(*before).stall is None
    stall = watched(*before, progress(2, 2, rows_in=10, late=9, at=NOON + 2)).stall
    assert stall is not None
    assert stall.kind == "future"
    assert stall.row is not None
    assert (stall.row.key, stall.row.shard, stall.row.batch) == ("symbol='A'", 2, 1)
    assert str(stall).startswith(
        "9 of 10 rows since batch 1 are late: the row of key symbol='A' at 2024-05-01T13:30:00+00:00 (batch 1, shard "
        "2) is ahead of them, 5,339 s ahead of the clock, and the watermark follows it. Set ahead="
    )


@pytest.mark.parametrize(
    ("counts", "kind", "why"),
    [
        ({}, "idle", "no rows have come"),
        ({"rows_in": 4, "untimed": 4}, "untimed", "none of 4 rows has a time"),
        ({"malformed": 4}, "untimed", "none of 4 rows has a time"),
        ({"rows_in": 4, "late": 1, "at": NOON - 1}, "behind", "none of 4 rows is later"),
    ],
)
def test_a_watermark_that_stands_still(counts: dict[str, Any], kind: str, why: str) -> None:
    batches = [progress(0, 0, rows_in=10, at=NOON), progress(1, 3, **counts)]
    assert watched(*batches, stalled_after=300).stall is None
    stall = watched(*batches).stall
    assert stall is not None
    assert (stall.kind, stall.seconds) == (kind, 180)
    assert str(stall) == (
        f"the watermark has stood still for 180 s: {why}; it follows the row of key symbol='A' at "
        "2024-05-01T12:00:00+00:00 (batch 0, shard 2)"
    )


def test_a_stream_without_any_time() -> None:
    stall = watched(progress(0, 0, rows_in=3, untimed=3), progress(1, 3, rows_in=3, untimed=3)).stall
    assert stall is not None
    assert (stall.kind, stall.row) == ("untimed", None)
    assert str(stall) == "the watermark has stood still for 181 s: none of 6 rows has a time"


def test_numbers_as_times_are_shown_as_numbers() -> None:
    batches = [progress(0, 0, rows_in=1), progress(1, 3)]
    for one in batches:
        row = one["observedMetrics"].pop("sash 1000 ab")
        one["observedMetrics"]["sash 0 ab"] = row | {"greatest": 1500.0 if row["rows_in"] else None}
    assert "it follows the row at 1,500 (batch 0)" in str(watched(*batches).stall)


def test_a_silent_source_is_named_while_others_have_rows() -> None:
    batches = [progress(i, i, (5, 0 if i else 5), rows_in=5, at=NOON + i) for i in range(3)]
    (silent,) = watched(*batches).silent_sources
    assert (silent.number, silent.description, silent.seconds) == (1, "Source1", 120)
    assert watched(*batches).warnings == [str(silent)]
    assert watched(*(progress(i, i, (0, 0), at=NOON + i) for i in range(3))).silent_sources == []


def shard(label: int, rows: int, hot_rows: int, keys: int) -> dict[str, Any]:
    sizes = {"keys": keys, "elements": 10, "state_bytes": 1000}
    hot = {"hot_key": f"symbol='{label}'", "hot_rows": hot_rows, "sampled_keys": keys}
    return {"shard": label, "rows_in": rows} | sizes | hot


@pytest.mark.parametrize(
    ("shards", "key", "is_hot"),
    [
        ([shard(0, 100, 90, 10), shard(2, 100, 10, 10)], "symbol='0'", True),
        ([shard(0, 100, 30, 10), shard(2, 100, 10, 10)], "symbol='0'", False),
        ([shard(0, 100, 100, 1), shard(2, 100, 100, 1)], "symbol='0'", False),  # as even as it can be
        ([shard(0, 900, 900, 1), shard(2, 100, 10, 10)], "symbol='0'", True),  # alone in its shard
        ([shard(0, 1000, 200, 50), shard(2, 100, 90, 10)], "symbol='2'", True),
    ],
)
def test_the_hottest_key(shards: list[dict[str, Any]], key: str, is_hot: bool) -> None:
    one = watched(progress(0, 0, rows_in=200, at=NOON, shards=shards))
    assert one.last is not None
    assert one.last.hot_key is not None
    assert (one.last.hot_key.key, one.last.hot_key.is_hot) == (key, is_hot)
    assert bool(one.warnings) == is_hot


def test_a_hot_key_is_named_with_its_share_and_shard() -> None:
    one = watched(progress(0, 0, rows_in=200, at=NOON, shards=[shard(0, 1000, 900, 10), shard(2, 100, 10, 10)]))
    assert one.warnings == ["key symbol='0' has 90% of the rows of shard 0, 900: one key cannot be shared among shards"]
    found = one.as_dict()
    assert (found["hot_key"], found["hot_key_ratio"], found["hot_key_shard"]) == ("symbol='0'", 0.9, 0)


def test_a_timer_does_not_hide_the_rows_of_a_shard() -> None:
    timer = {"shard": 0, "rows_in": 0, "keys": 7, "elements": 1, "state_bytes": 1} | dict.fromkeys(
        ("hot_key", "hot_rows", "sampled_keys")
    )
    one = watched(progress(0, 0, rows_in=100, at=NOON, shards=[timer, shard(0, 100, 90, 10), timer]))
    assert one.last is not None
    assert one.last.hot_key is not None


def test_metrics_have_units_in_their_names() -> None:
    batches = [
        progress(0, 0, rows_in=100, rows_out=80, late=2, bytes_read=10, at=NOON, shards=[shard(0, 100, 10, 10)]),
        progress(1, 3, malformed=1),
    ]
    found = watched(*batches).as_dict()
    assert {name: found[name] for name in ("rows_total", "results_total", "late_rows_total")} == {
        "rows_total": 100,
        "results_total": 80,
        "late_rows_total": 2,
    }
    assert (found["malformed_rows_total"], found["state_read_bytes_total"]) == (1, 10)
    assert (found["batches_total"], found["batch_seconds_total"], found["state_bytes"]) == (2, 2.0, 1000)
    assert found["watermark_stalled_seconds"] == 180
    assert (found["query"], found["query_id"]) == ('high "prices"', "4b1c")
    assert json.loads(json.dumps(found)) == found


def test_prometheus_text() -> None:
    text = watched(progress(0, 0, rows_in=7, at=NOON, shards=[shard(0, 100, 10, 10)])).prometheus()
    assert text.endswith("\n")
    lines = text.splitlines()
    labels = r'{query="high \"prices\"",query_id="4b1c"}'
    assert lines[6:9] == [
        "# HELP sash_stream_rows_total Input rows, without malformed ones.",
        "# TYPE sash_stream_rows_total counter",
        f"sash_stream_rows_total{labels} 7",
    ]
    assert len(lines) % 3 == 0
    for about, kind, value in zip(*(lines[i::3] for i in range(3)), strict=True):
        name = value.split("{")[0]
        assert about.startswith(f"# HELP {name} ")
        assert kind == f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}"
        float(value.rsplit(" ", 1)[1])
    assert "symbol" not in text  # each key that was ever hot would be a time series


def test_names_follow_the_rules_of_prometheus() -> None:
    assert len({one.name for one in METRICS}) == len(METRICS)
    for one in METRICS:
        assert one.name.replace("_", "").isalpha()
        assert not one.name.endswith(("_seconds_total_seconds", "_ms", "_mb"))


def test_a_line_of_json_for_each_micro_batch() -> None:
    to = io.StringIO()
    batches = [progress(0, 0, rows_in=7, at=NOON), progress(1, 1, rows_in=8, at=NOON + 1)]
    Monitor(NamedQuery(*batches), to, "json").update()
    first, second = map(json.loads, to.getvalue().splitlines())
    assert (first["batch"], first["batch_rows"], second["batch_rows"]) == (0, 7, 8)
    assert (first["timestamp"], first["batch_seconds"]) == ("2024-05-01T12:00:00.000+00:00", 1.0)
    assert (first["query"], first["warnings"]) == ('high "prices"', [])


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match=r"format= of monitor.. must be 'text' or 'json'; got 'xml'"):
        sash.spark.monitor(NamedQuery(), format="xml")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"stalled_after= of monitor.. must be a number of seconds; got -1"):
        sash.spark.monitor(NamedQuery(), stalled_after=-1)
