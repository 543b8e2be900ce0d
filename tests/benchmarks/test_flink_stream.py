"""The page that compares streams with Flink, from invented figures: ratios, losses, unfinished runs."""

from pathlib import Path

from benchmarks.flink import FlinkJob
from benchmarks.flink_stream import HOUR, MINUTE, OVER, QUICK, ROW, SASH, Rates, rows_of, section, verdicts
from benchmarks.spark_stream import FLOOR

FOUND: Rates = {
    (FLOOR, SASH): 900_000.0,
    (FLOOR, "heap"): 1_300_000.0,
    (ROW, SASH): 600_000.0,
    (ROW, "heap"): 150_000.0,
    (ROW, "RocksDB"): 12_000.0,
    (MINUTE, SASH): 300_000.0,
    (MINUTE, "heap"): 80_000.0,
    (MINUTE, "RocksDB"): 15_000.0,
    (HOUR, SASH): 100_000.0,
    (HOUR, "heap"): 0.0,
    (HOUR, "RocksDB"): 0.0,
}


def test_a_row_for_each_plan() -> None:
    late = f"not finished in {QUICK.budget} s"
    assert rows_of(FOUND, QUICK) == [
        ["pass-through", "900,000", "1,300,000", "**0.69×**", "–", "–"],
        ["60 s per row", "600,000", "150,000", "4.0×", "12,000", "50.0×"],
        ["60 s every 1 s", "300,000", "80,000", "3.8×", "15,000", "20.0×"],
        ["1 h every 1 s", "100,000", late, "–", late, "–"],
    ]


def test_each_goal_is_judged() -> None:
    assert [row[1:] for row in verdicts(FOUND)] == [
        ["at least 4", "4.0", "met"],
        ["at least 25", "50.0", "met"],
        ["at least 4", "3.8", "**missed**"],
        ["at least 25", "20.0", "**missed**"],
    ]
    assert verdicts({}) == []


def test_the_section_says_how_it_was_measured() -> None:
    said = section(FOUND, QUICK, done=1)
    for words in ("parallelism 2", "the best of 1 turn.", "a shared machine", "without checkpoints", "**0.69×**"):
        assert words in said


def test_settings_of_a_job() -> None:
    assert FlinkJob(OVER, "heap", 10).settings() == {"state.backend.type": "hashmap", "parallelism.default": "1"}
    found = FlinkJob(OVER, "RocksDB", 10, tasks=2, checkpoints=Path("/somewhere")).settings()
    assert found["state.backend.type"] == "rocksdb"
    assert found["execution.checkpointing.dir"] == "file:///somewhere"
