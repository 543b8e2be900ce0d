"""The newest results of a page: in bounded memory, by work per call; the rows of a key, whatever it is."""

from __future__ import annotations

import json
import math
from datetime import date

import pyarrow as pa
import pytest

from sash.cli.page import newest_results
from sash.cli.page.newest_results import NewestResults, results_json
from sash.cli.page.watched_operator import LatencyHistogram, RowRate


def batch(keys: list[object], start: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"k": keys, "n": pa.array(range(start, start + len(keys)), pa.int64())})


def test_batches_are_kept_by_reference() -> None:
    newest = NewestResults(["k"])
    given = batch(["a", "b"])
    newest.add(given)
    assert newest.since(0)[0][0].column(1).buffers()[1].address == given.column(1).buffers()[1].address


def test_rows_and_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest_results, "ROWS", 1000)
    newest = NewestResults(["k"])
    for start in range(0, 20_000, 7):
        newest.add(batch(["a"] * 7, start))
    found, skipped = newest.since(0)
    rows = sum(one.num_rows for one in found)
    assert 900 < rows <= 1000
    assert newest.end == rows + skipped == 20_006 - 20_006 % 7
    assert found[-1]["n"][-1].as_py() == newest.end - 1
    newest.add(batch(["b"] * 5000, newest.end))
    assert [one.num_rows for one in newest.since(0)[0]] == [1000]
    monkeypatch.setattr(newest_results, "BYTES", 10_000)
    newest.add(pa.record_batch({"k": ["x" * 1000] * 100, "n": [1] * 100}))
    assert sum(one.nbytes for one in newest.since(0)[0]) <= 10_000


def test_a_batch_does_not_keep_the_buffers_it_was_cut_from() -> None:
    newest = NewestResults(["k"])
    newest.add(batch(["a"] * 1_000_000).slice(10, 5))
    (found,) = newest.since(0)[0]
    assert found.get_total_buffer_size() < 10_000
    assert found["n"].to_pylist() == [10, 11, 12, 13, 14]


def test_small_batches_become_one() -> None:
    newest = NewestResults(["k"])
    for i in range(1000):
        newest.add(batch(["a"], i))
    found, _ = newest.since(0)
    assert len(found) < 1000 / newest_results.SMALL + newest_results.SMALL
    assert [value for one in found for value in one["n"].to_pylist()] == [*range(1000)]


def test_a_chosen_key_has_its_last_rows_also_when_others_push_them_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest_results, "ROWS", 300)
    monkeypatch.setattr(newest_results, "POINTS", 20)
    newest = NewestResults(["k"])
    newest.add(batch(["a", "b"]))
    assert newest.of_key('["a"]').table["n"].to_pylist() == [0]
    for start in range(2, 3000, 200):
        newest.add(batch(["a"] + ["b"] * 199, start))
        newest.catch_up()
    chosen = newest.of_key('["a"]')
    assert chosen.skipped == 0
    assert chosen.table["n"].to_pylist() == [0, *range(2, 3000, 200)]
    newest.add(batch(["b"] * 150, newest.end))
    newest.add(batch(["b"] * 260, newest.end))
    newest.add(batch(["a"] * 30, newest.end))
    chosen = newest.of_key('["a"]')
    assert chosen.table["n"].to_pylist() == [*range(newest.end - 20, newest.end)]
    assert chosen.skipped == 150


def test_chosen_keys_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest_results, "CHOSEN", 3)
    newest = NewestResults(["k"])
    newest.add(batch([*"abcdef"]))
    for key in "abcdef":
        newest.of_key(json.dumps([key]))
    assert [*newest._chosen] == ['["d"]', '["e"]', '["f"]']


def test_keys_are_listed_the_newest_first() -> None:
    newest = NewestResults(["k"])
    assert newest.keys() == []
    newest.add(batch(["a", "b", "a", "c"]))
    newest.add(batch(["d", "b"]))
    assert newest.keys() == ['["b"]', '["d"]', '["c"]', '["a"]']
    assert len({*newest.keys()}) == 4
    newest.add(batch([f"k{i}" for i in range(1000)]))
    assert len(newest.keys()) == newest_results.LISTED
    assert newest.keys()[0] == '["k999"]'


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", None, "<b>", 'q"', ""]),
        pa.array([1, None, 2**62]),
        pa.array([1.5, math.nan, None, math.inf]),
        pa.array(["a", "b", None]).dictionary_encode(),
        pa.array([1_700_000_000_123_456_789, 5, None], pa.timestamp("ns", "UTC")),
        pa.array([date(2024, 1, 2), None]),
        pa.array([True, False, None]),
        pa.array([b"\xff", b"a", None]),
    ],
    ids=lambda values: str(values.type),
)
def test_keys_of_every_type(values: pa.Array) -> None:
    newest = NewestResults(["k"])
    newest.add(pa.record_batch({"k": values, "n": pa.array(range(len(values)))}))
    texts = newest.keys()
    found = [newest.of_key(text).table["n"].to_pylist() for text in texts]
    assert found == [[i] for i in reversed(range(len(values)))]


def test_a_key_that_a_person_writes() -> None:
    newest = NewestResults(["k", "day"])
    newest.add(pa.record_batch({"k": ["a", "b"], "day": [date(2024, 1, 2)] * 2, "n": [1, 2]}))
    assert newest.of_key('["a", "2024-01-02"]').table["n"].to_pylist() == [1]
    assert newest.of_key('["c", "2024-01-02"]').table["n"].to_pylist() == []
    for wrong in ("a", "{}", '["a"]', '["a", "no day"]', "[" * 9):
        with pytest.raises(ValueError, match=r"key=|not a value of the key column 'day'"):
            newest.of_key(wrong)


def test_eager_results_are_there_once() -> None:
    newest = NewestResults(["k"])
    rows = {"k": ["a"] * 5, "n": [1, 2, 3, 4, 5], "_row": [0, 1, 0, 2, 1], "_revision": [0, 0, 1, 0, 1]}
    newest.add(pa.record_batch(rows))
    assert newest.of_key('["a"]').table["n"].to_pylist() == [3, 4, 5]


def test_rows_for_a_chart() -> None:
    newest = NewestResults(["k"])
    ends = pa.array([1_000_001, 2_000_000], pa.timestamp("us"))
    columns = {"k": ["a", "a"], "window_end": ends, "x": [1, 2], "high": [2**60, None], "t": ["u", "v"]}
    newest.add(pa.record_batch(columns))
    found = results_json(newest.of_key('["a"]'), ("k",), "ts", ["k", "x"])
    assert found["axis"] == "window_end"
    assert (found["axis_kind"], found["positions"]) == ("time", [1000.001, 2000.0])
    assert found["measures"] == ["high", "x"]
    assert found["columns"] == ["window_end", "x", "high", "t"]
    assert found["rows"][0] == ["1970-01-01T00:00:01.000001", 1, str(2**60), "u"]


def test_percentiles_are_right_within_five_percent() -> None:
    histogram = LatencyHistogram()
    assert histogram.percentile(50) is None
    for i in range(1, 10_001):
        histogram.add(i * 1e-5)
    for percent in (50, 90, 99):
        assert histogram.percentile(percent) == pytest.approx(percent * 1e-3, rel=0.05)
    assert histogram.to_json()["max"] == 0.1
    histogram.add(1e9)
    histogram.add(0.0)
    assert len(histogram._buckets) == 256
    assert histogram.to_json()["count"] == 10_002


def test_the_rate_is_that_of_the_last_seconds() -> None:
    rate = RowRate()
    for i in range(1000):
        rate.add(i * 100, now=i / 10)
    assert rate.current(now=99.9) == pytest.approx(1000, rel=0.01)
    assert rate.current(now=200) == 0
    assert len(rate.history(99.9)) < rate.KEPT
    assert all(one == pytest.approx(1000, rel=0.01) for _, one in rate.history(99.9))
