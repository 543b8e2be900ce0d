"""The page of many windows, from figures that are made up, and Flink's statements. Needs no Flink."""

import math

import sash
from benchmarks.flink import FlinkJob
from benchmarks.queries import COUNTS, Figures, per_row, per_slide, row_sizes, slides
from benchmarks.queries_flink import BUDGET, SINK, hop, over, rows_of


def test_flink_has_the_windows_of_sash() -> None:
    assert over(3).endswith("ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM source")
    assert "INTERVAL '5' SECOND, INTERVAL '100' SECOND(3)" in hop(100, 5)
    assert [query.windows[""] for query in per_row(3, n=sash.count()).values()] == [
        sash.Count(size) for size in row_sizes(3)
    ]
    made = [sash.Time(f"{size}s", every=f"{every}s") for size, every in slides(9)]
    assert [query.windows[""] for query in per_slide(9, n=sash.count()).values()] == made
    assert all(size % every == 0 for size, every in slides(50)), "else Flink refuses a hop"


def test_one_window_is_the_longest() -> None:
    assert row_sizes(1)[0] == max(row_sizes(50))
    assert slides(1)[0][0] == max(size for size, _ in slides(50))


def test_statements_run_as_one_set() -> None:
    job = FlinkJob((over(1), over(2)), "heap", 10, SINK)
    assert job.inserts == (f"INSERT INTO sink {over(1)}", f"INSERT INTO sink {over(2)}")
    assert "taskmanager.memory.network.min" in job.settings()
    assert "taskmanager.memory.network.min" not in FlinkJob(over(1), "heap", 10).settings()


def test_ratios() -> None:
    assert len(COUNTS) == 4
    assert Figures([0.5, 1.0, 2.5, 5.0], [0.5, 5.0, 30.0, 60.0]).table() == [
        ["as one `Queries`", "0.500", "1.000", "2.500", "5.000", "5.0×"],
        ["separate", "0.500", "5.000", "30.000", "60.000", "60.0×"],
        ["separate / as one", "1.0×", "5.0×", "12.0×", "12.0×", ""],
    ]


def test_compared_with_flink() -> None:
    assert rows_of({"at rows": [0.25, 0.5, 1.0]}, {"at rows": [20.0, 200.0, math.inf]}) == [
        ["at rows, sash", "0.25", "0.50", "1.00"],
        ["at rows, Flink", "20", "200", f"not finished in {BUDGET} s"],
        ["Flink / sash", "80×", "400×", "–"],
    ]
