"""The verdicts on streams, from figures that are made up: what is met, what is missed, what was not measured."""

from benchmarks.spark_stream import (
    FEW,
    FLOOR,
    HOUR,
    MANY,
    MINUTE,
    QUICK,
    ROW,
    THEIR_HOUR,
    THEIR_MINUTE,
    Figures,
    Found,
    section,
    verdicts,
)


def figures(rate: float, results: float = 0.0, seconds: float = 1.0, moved: float = 0.0, done: int = 3) -> Figures:
    return Figures(rate, results, seconds, moved, done, 3)


FOUND: Found = {
    (FLOOR, FEW): figures(600),
    (ROW, FEW): figures(300),
    (MINUTE, FEW): figures(250, 250),
    (THEIR_MINUTE, FEW): figures(20),
    (HOUR, FEW): figures(100, 100),
    (THEIR_HOUR, FEW): figures(0, done=0),
    (FLOOR, MANY): figures(900),
    (ROW, MANY): figures(90),
    (MINUTE, MANY): figures(25, 3e6),
}
HELD: Found = {
    ("window of 10 rows", 1): figures(0, moved=1e6, seconds=1.0),
    ("window of 1,000 rows", 1): figures(0, moved=1.5e6, seconds=2.5),
    ("window of 1,000 rows", FEW): figures(0, moved=41e6),
}


def test_each_goal_is_judged() -> None:
    found = {row[0]: row[2:] for row in verdicts(FOUND, HELD)}
    assert found == {
        "60 s every 1 s, 1,000 keys, ahead of Spark's": ["12.50", "met"],
        "sash, 60 s per row, 1,000 keys, over a pass-through": ["2.00", "met"],
        "sash, 60 s every 1 s, 1,000 keys, over a pass-through": ["2.40", "**missed**"],
        "sash, 60 s every 1 s, 100,000 keys: millions of results a second": ["3.00", "met"],
        "1 h every 1 s: rows a second, where Spark's does not end": ["100.00", "met"],
        "sash, 60 s per row, 100,000 keys over 1,000, by rows a second": ["0.30", "**missed**"],
        "sash, 60 s every 1 s, 100,000 keys over 1,000, by rows a second": ["0.10", "**missed**"],
        "sash, 60 s every 1 s, 100,000 keys over 1,000, by results a second": ["12000.00", "met"],
        "state: seconds with the large window over the small": ["2.50", "**missed**"],
        "state: bytes with the large window over the small": ["1.50", "met"],
        "state: MB of pages a micro-batch, the most": ["41.00", "**missed**"],
    }


def test_what_was_not_measured_is_not_judged() -> None:
    assert verdicts({}, {}) == []
    some = {name: FOUND[name] for name in ((FLOOR, FEW), (ROW, FEW))}
    assert len(verdicts(some, {})) == 1
    said = section(some, {}, QUICK, complete=False)
    assert "Interrupted" in said
    assert "not finished" not in said


def test_a_plan_that_did_not_end_is_reported() -> None:
    said = section(FOUND | {(THEIR_MINUTE, FEW): Figures(20, 0, 1, 0, 2, 3)}, HELD, QUICK, complete=True)
    assert f"not finished: under 2 of 3 in {QUICK.short} s" in said
    assert f"20 (2 of 3 in {QUICK.budget} s)" in said
    assert "Interrupted" not in said
