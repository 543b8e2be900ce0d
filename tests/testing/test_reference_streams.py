"""The reference on fixed examples: what is late, when results leave, and how keys are forgotten.

W is written where it matters; rows are written as their arrival numbers (see `stream_text.py`).
"""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

import sash
from sash import Count, Lifetime, Session, Time
from sash.testing import Reference, assert_same
from sash.testing.compare import as_rows
from tests.shared.queries import rewritten
from tests.shared.streams import Case, cases
from tests.testing.stream_text import SCHEMA, Play, rows


def numbers(found: list[dict[str, Any]]) -> list[int]:
    """Which rows of the input a per-row output holds."""
    return [row["x"] for row in found]


def ends(found: list[dict[str, Any]]) -> list[int]:
    return [row["window_end"] for row in found]


# ---- the watermark ----


def test_a_row_is_final_when_the_watermark_has_passed_it() -> None:
    #   time     1   3   5         lateness 2
    #   W        -1  1   3         1 is passed with the row at 5: W > 1; 3 is reached, not passed
    play = Play(Count(9), lateness=2)
    assert [numbers(play(call)) for call in ("1", "3", "5", ".")] == [[], [], [0], [1, 2]]


def test_it_rises_row_by_row_over_all_keys() -> None:
    #   time     a5 b9 a4 a7 a6    lateness 2: W is 3, 7, 7: 4 and 6 are late, 7 is not
    play = Play(Count(9), lateness=2)
    found = play.all("a5 b9 a4 a7 a6")
    assert sorted(numbers(found)) == [0, 1, 3]
    assert play.reference.late == 2
    assert play.reference.late_rows().column("x").to_pylist() == [2, 4]
    assert play.reference.late_rows().num_rows == 0


def test_it_never_falls_and_advance_raises_it() -> None:
    play = Play(Count(9), lateness=10)
    assert numbers(play("5 6")) == []
    assert numbers(play(6)) == [0]
    assert numbers(play(3)) == []
    assert numbers(play("5 6 7")) == []  # 5 is late, 6 is not
    assert numbers(play(".")) == [1, 3, 4]


def test_a_slide_is_final_when_its_open_end_is_reached() -> None:
    #   [0, 4) at W = 4        (0, 4] at W > 4
    left, right = Play(Time(4, every=4)), Play(Time(4, every=4, closed="right"))
    assert [ends(left(call)) for call in ("1", 3, 4)] == [[], [], [4]]
    assert [ends(right(call)) for call in ("1", 4, 5)] == [[], [], [4]]


def test_a_session_is_final_beyond_a_gap_after_its_last_row() -> None:
    play = Play(Session(3, every="close"))
    assert [ends(play(call)) for call in ("1 2", 5, 6)] == [[], [], [5]]


def test_a_row_at_the_watermark_may_join_a_session_that_is_not_final() -> None:
    #   session 1 2: at W = 5 a row at 5 is not late, and joins it
    play = Play(Session(3, every="close"))
    play("1 2")
    play(5)
    assert [(row["window_start"], row["window_end"], row["held"]) for row in play.all("5")] == [(1, 8, [0, 1, 2])]


def test_slides_every_k_rows_wait_as_rows_do() -> None:
    play = Play(Count(2, every=2))
    assert [ends(play(call)) for call in ("1 4", 4, "3", 5)] == [[], [], [], [4]]


def test_without_lateness_a_row_behind_is_an_error_that_names_it() -> None:
    play = Play(Count(9), lateness=None)
    play("1 5 5")
    with pytest.raises(ValueError, match="lateness="):
        play("6 4")
    assert numbers(play("6")) == [1, 2]  # the call that failed has changed nothing


def test_in_mode_given_only_advance_moves_it() -> None:
    play = Play(Count(9), mode="given", lateness=0)
    assert numbers(play("9 1")) == []
    assert numbers(play(5)) == [1]
    assert numbers(play("4 5")) == []  # 4 is late
    assert numbers(play(".")) == [3, 0]


def test_in_mode_sorted_a_key_is_final_when_the_next_begins() -> None:
    play = Play(Count(9), mode="sorted")
    assert numbers(play("a1 a2 a2")) == [0]
    assert numbers(play("b0")) == [1, 2]
    assert numbers(play(".")) == [3]


@pytest.mark.parametrize("text", ["a2 a1", "a1 b1 a2"])
def test_mode_sorted_refuses_what_is_not(text: str) -> None:
    with pytest.raises(ValueError, match="not sorted"):
        Play(Count(9), mode="sorted")(text)


# ---- late and untimed rows ----


def test_late_rows_are_flagged_with_null_aggregates() -> None:
    play = Play(Count(9), lateness=1, late="flag", n=sash.count())
    found = play("5 3 ?")
    assert [(row["x"], row["_late"], row["held"], row["n"]) for row in found] == [
        (1, True, None, None),
        (2, True, None, None),
    ]
    assert [(row["x"], row["_late"], row["n"]) for row in play(".")] == [(0, False, 1)]
    assert (play.reference.late, play.reference.untimed) == (1, 1)
    assert play.reference.late_rows().column("x").to_pylist() == [1, 2]


@pytest.mark.parametrize("text", ["5 3", "5 ?"])
def test_late_rows_may_be_an_error(text: str) -> None:
    play = Play(Count(9), lateness=1, late="error")
    with pytest.raises(ValueError, match="row 1 is late"):
        play(text)
    assert numbers(play.all("5")) == [2]


def test_untimed_rows_are_kept_in_batch_and_enter_no_window() -> None:
    play = Play(Count(9), mode="sorted")
    found = play.all("a1 a? a2")
    assert sorted((row["x"], row["held"]) for row in found if row["held"]) == [(0, [0]), (2, [0, 2])]
    assert [row["x"] for row in found if row["held"] is None] == [1]
    assert play.reference.late_rows().num_rows == 0


def test_nan_and_infinite_times_are_untimed_and_do_not_move_the_watermark() -> None:
    batch = pa.record_batch({"t": [1.0, float("inf"), float("nan"), -float("inf"), 2.0]})
    reference = Reference(sash.Query(9, on="t", lateness=0, n=sash.count()), batch.schema)
    assert reference.process(batch)["n"].to_pylist() == [1]
    assert (reference.late, reference.untimed) == (0, 3)


def test_times_beyond_ahead_of_the_clock_are_untimed() -> None:
    #   the clock shows 100.5, ahead is 10 s: 110.5 is a time, a millisecond later is none
    times = pa.array([50_000, 110_501, 60_000, 110_500], pa.timestamp("ms"))
    batch = pa.record_batch({"t": times, "x": pa.array(range(4))})
    query = sash.Query(9, on="t", lateness="0s", ahead="10s", n=sash.count())
    reference = Reference(query, batch.schema, clock=lambda: 100.5)
    found = reference.process(batch).to_pylist() + reference.finish().to_pylist()
    assert [(row["x"], row["n"]) for row in found] == [(0, 1), (2, 2), (3, 3)]
    assert reference.untimed == 1


# ---- emission ----


def test_changes_gives_only_what_differs_from_the_keys_last() -> None:
    #   v        1 3 2 3 7     the greatest so far: 1 3 3 3 7
    play = Play(Lifetime(), emit="changes", held=sash.max("v"))
    assert numbers(play.all("a1/1 a2/3 b2/3 a3/2 a4/3 a5/7")) == [0, 1, 5, 2]


def test_changes_judges_inexact_aggregates_by_what_entered_or_left() -> None:
    #   v        2 2 null      the mean of floats stays 2.0; an input entered at the second row, none at the third
    batch = pa.record_batch({"x": pa.array([2.0, 2.0, None])})
    for aggregate, expected in ((sash.mean("x"), [2.0, 2.0]), (sash.max("x"), [2.0])):
        reference = Reference(sash.Query(Lifetime(), emit="changes", m=aggregate), batch.schema)
        assert reference.process(batch)["m"].to_pylist() == expected


def test_changes_looks_at_each_window_of_its_own() -> None:
    windows = {"w2": Time(2, every=2), "w4": Time(4, every=4)}
    found = Play(windows, emit="changes", held=sash.max("v")).all("1/1 3/1 5/2 7/2")
    assert [(row["window"], row["window_end"], row["held"]) for row in found] == [
        ("w2", 2, 1), ("w4", 4, 1), ("w2", 6, 2), ("w4", 8, 2),
    ]  # fmt: skip


def test_eager_gives_each_result_that_is_new_or_changed_with_its_revision() -> None:
    #   time     1 3       2              Count(2): the row at 2 comes between
    play = Play(Count(2), emit="eager")

    def given_by(call: Any) -> list[Any]:
        return [(row["_row"], row["_revision"], row["held"]) for row in play(call)]

    assert given_by("1 3") == [(0, 0, [0]), (1, 0, [0, 1])]
    assert given_by("2") == [(2, 0, [0, 2]), (1, 1, [2, 1])]
    assert given_by("") == []
    assert given_by(99) == []
    assert given_by(".") == []


def test_eager_numbers_rows_by_arrival_late_ones_included() -> None:
    play = Play(Count(1), emit="eager", lateness=0, late="flag")
    assert [(row["_row"], row["_revision"], row["_late"]) for row in play("5 3 ? 6")] == [
        (1, 0, True), (2, 0, True), (0, 0, False), (3, 0, False),
    ]  # fmt: skip


def test_eager_slides_are_revised_in_place() -> None:
    #   every second row a window: 1 and 5; the row at 3 makes it 1 and 3
    play = Play(Count(2, every=2), emit="eager")
    first = play("1 5")[0]
    second = play("3")[0]
    assert (first["window_end"], first["_revision"], first["held"]) == (5, 0, [0, 1])
    assert (second["window_end"], second["_revision"], second["held"]) == (3, 1, [0, 2])
    assert first["_row"] == second["_row"]


# ---- keys that fall silent ----


def test_a_key_silent_for_longer_than_forget_starts_over() -> None:
    #   time     1 2 . . 5 . . . 9        forget 3: 5 is 3 after 2 and continues, 9 is 4 after 5 and starts again
    found = Play({"n": Count(9), "all": Lifetime(), "t": Time(100)}, forget=3).all("1 2 5 9")
    assert [row["held_n"] for row in found] == [[0], [0, 1], [0, 1, 2], [3]]
    assert [row["held_all"] for row in found] == [row["held_n"] for row in found] == [row["held_t"] for row in found]


def test_a_slide_holds_only_rows_since_the_key_last_started_over() -> None:
    #   time     1 . . . 5          forget 3, windows [0, 4) [4, 8) and [0, 8): at 8 the row at 1 is forgotten
    found = Play({"4": Time(4, every=4), "8": Time(8, every=8)}, forget=3).all("1 5")
    assert [(row["window"], row["window_end"], row["held"]) for row in found] == [
        ("4", 4, [0]), ("4", 8, [1]), ("8", 8, [1]),
    ]  # fmt: skip


def test_counting_begins_again_after_forget() -> None:
    found = Play(Count(2, every=2), forget=3).all("1 10 11")
    assert [(row["window_start"], row["held"]) for row in found] == [(10, [1, 2])]


def test_a_row_between_keeps_the_key_alive() -> None:
    assert [row["held"] for row in Play(Lifetime(), forget=3).all("1 7 4")] == [[0], [0, 2], [0, 2, 1]]


def test_a_session_ends_early_only_where_its_key_starts_over() -> None:
    #   time     a1 b1 a3 . . . . . a9 b10       gap 7, forget 4: at 9 the key a starts over, and its session is over
    #   W        .. 1  3            9  10        though it would have waited until beyond 10; b's waits until beyond 8
    play = Play(Session(7, every="close"), forget=4, lateness=0)
    found = [[(row["window_end"], row["held"]) for row in play(call)] for call in ("a1 b1 a3", "a9", "b10", "a11")]
    assert found == [[], [(8, [1])], [(10, [0, 2])], []]
    assert [(row["window_end"], row["held"]) for row in play(".")] == [(18, [3, 5]), (17, [4])]


def test_changes_forgets_with_the_key() -> None:
    found = Play(Lifetime(), forget=3, emit="changes", held=sash.max("v")).all("1/5 2/5 9/5")
    assert numbers(found) == [0, 2]


# ---- splitting ----


def outputs(case: Case, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    reference = Reference(case.query, case.schema, mode=case.mode)
    return [*map(reference.process, batches), reference.finish()]


def order_counts_within(case: Case, output: pa.RecordBatch) -> list[str]:
    """Where the order of rows is promised: within a key and window; flagged and untimed rows are apart."""
    apart = ["window", "_late", *(["t"] if case.mode == "sorted" else [])]
    return [*case.query.by, *(name for name in apart if name in output.schema.names)]


@given(cases(modes=("rows", "sorted"), emits=("final", "changes"), lates=("drop", "flag")))
def test_splitting_the_input_changes_nothing_of_final(case: Case) -> None:
    whole = case.data.combine_chunks().to_batches()
    try:
        together = outputs(case, whole)
    except ValueError:
        return  # a row behind, and no lateness
    pieces = outputs(case, [batch.slice(i, 1) for batch in whole for i in range(batch.num_rows)])
    assert_same(pieces, together, by=order_counts_within(case, together[0]))


@given(cases(modes=("rows",), emits=("eager",), lates=("drop", "flag")))
def test_the_last_revision_equals_final(case: Case) -> None:
    final, eager = Reference(rewritten(case.query, emit="final"), case.schema), Reference(case.query, case.schema)
    emitted: dict[int, dict[str, Any]] = {}
    expected: list[dict[str, Any]] = []
    try:
        for batch in case.data.to_batches():
            expected += as_rows(final.process(batch))
            emitted |= {row["_row"]: row for row in as_rows(eager.process(batch))}
    except ValueError:
        return  # a row behind, and no lateness
    expected += as_rows(final.finish())
    kept = [{name: row[name] for name in row if name not in ("_row", "_revision")} for row in emitted.values()]
    assert sorted(map(repr, kept)) == sorted(map(repr, expected))


def test_an_empty_stream_gives_empty_batches_of_the_right_schema() -> None:
    for mode in ("rows", "given", "sorted"):
        reference = Reference(sash.Query(Time(3, every=1), on="t", lateness=0, n=sash.count()), SCHEMA, mode=mode)
        for found in (reference.process(rows("")), reference.finish()):
            assert found.num_rows == 0
            assert found.schema.names == ["window_start", "window_end", "n"]
