"""The reference on fixed examples: which rows each kind of window holds, where it starts and ends.

Rows are written as their arrival numbers; see `stream_text.py` for how streams are written.
"""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash import Count, Delta, Lifetime, Policy, Punctuation, Session, Time
from sash.aggregators import Recalc
from sash.monoids.algebra import agree
from sash.testing.reference import Reference
from tests.shared.fixed_queries import aggregates, stream
from tests.testing.stream_text import Play, held, slides

# ---- per row ----


@pytest.mark.parametrize(
    ("closed", "expected"),
    [
        #   time     1 . . 4 4 . 7         size 3
        #   row      0     1 2   3
        ("right", [[0], [1, 2], [1, 2], [3]]),  # (t - 3, t]
        ("left", [None, [0], [0], [1, 2]]),  # [t - 3, t)
        ("both", [[0], [0, 1, 2], [0, 1, 2], [1, 2, 3]]),  # [t - 3, t]
        ("neither", [None, None, None, None]),  # (t - 3, t)
    ],
)
def test_time_holds_all_peers_of_the_row_it_ends_at(closed: str, expected: list[Any]) -> None:
    assert held(Time(3, closed=closed), "1 4 4 7") == expected


def test_count_ends_at_the_row_itself() -> None:
    #   time     1 2 2 5        arrival 0 1 2 3, peers 1 and 2
    assert held(Count(2), "1 2 2 5") == [[0], [0, 1], [1, 2], [2, 3]]


def test_count_that_must_be_full_is_null_before() -> None:
    found = Play(Count(2, full=True), n=sash.count()).all("1 2 3")
    assert [(row["held"], row["n"]) for row in found] == [(None, None), ([0, 1], 2), ([1, 2], 2)]


def test_rows_out_of_order_run_in_order() -> None:
    #   arrival  0 1 2 3
    #   time     5 1 3 2       order 1 3 2 0
    assert held(Count(2), "5 1 3 2") == [[1], [1, 3], [3, 2], [2, 0]]


def test_without_a_time_arrival_is_the_order() -> None:
    assert held(Count(2), "5 1 3", on=None) == [[0], [0, 1], [1, 2]]
    assert held(Lifetime(), "5 5 3", on=None) == [[0], [0, 1], [0, 1, 2]]


def test_session_continues_while_rows_are_at_most_a_gap_apart() -> None:
    #   time     1 . . 4 4 . . . 8 . . 11      gap 3: 4 is 3 after 1, 8 is 4 after 4
    #   row      0     1 2       3      4
    assert held(Session(3), "1 4 4 8 11") == [[0], [0, 1, 2], [0, 1, 2], [3], [3, 4]]


def test_punctuation_ends_with_the_mark() -> None:
    #   row      0 1! 2 3! 4
    assert held(Punctuation("p"), "1 2/! 3 4/! 5") == [[0], [0, 1], [2], [2, 3], [4]]


def test_punctuation_among_peers_is_by_arrival() -> None:
    assert held(Punctuation("p"), "1 1/! 1 1") == [[0], [0, 1], [2], [2, 3]]


def test_lifetime_holds_everything_with_peers() -> None:
    assert held(Lifetime(), "1 2 2 5") == [[0], [0, 1, 2], [0, 1, 2], [0, 1, 2, 3]]


def test_delta_is_measured_on_its_column() -> None:
    #   v        0 2 3 3 9      size 3: current - v < 3
    assert held(Delta("v", 3), "1/0 2/2 3/3 3/3 4/9") == [[0], [0, 1], [1, 2], [1, 2, 3], [4]]


def test_delta_refuses_a_null_and_names_the_row() -> None:
    with pytest.raises(ValueError, match=r"row 1.*'v'.*null"):
        held(Delta("v", 3), "1/0 2 3/1")


def test_delta_refuses_a_column_that_decreases_and_names_the_row() -> None:
    with pytest.raises(ValueError, match=r"row 2.*'v'.*from 5 to 4"):
        held(Delta("v", 3), "1/0 2/5 3/4")


def test_policy_gives_up_the_longest_prefix() -> None:
    #   v        4 5 3 20 1      the window sums to at most 10: 20 empties it
    ten = Policy(lambda t, p: t[0] - p[0] + p[1] > 10, over=(sash.sum("v"), sash.last("v")))
    assert held(ten, "1/4 2/5 3/3 4/20 5/1") == [[0], [0, 1], [1, 2], None, [4]]


def test_policy_over_one_aggregate_sees_its_value() -> None:
    assert held(Policy(lambda t, p: t - p >= 2, over=sash.count()), "1 2 3") == [[0], [0, 1], [1, 2]]


def test_a_start_once_moved_does_not_move_back() -> None:
    #   v        1 9 0      a 9 gives up all before it; the 0 after it gives up nothing, and the 1 stays gone
    nine = Policy(lambda t, p: t[0] == 9 and p[1] < t[1], over=(sash.last("v"), sash.count()))
    assert held(nine, "1/1 2/9 3/0") == [[0], [1], [1, 2]]


def test_several_windows_stand_side_by_side() -> None:
    found = Play({"two": Count(2), "all": Lifetime()}).all("1 2 3")
    assert [(row["held_two"], row["held_all"]) for row in found] == [([0], [0]), ([0, 1], [0, 1]), ([1, 2], [0, 1, 2])]


# ---- with every ----


def test_slides_in_time_are_closed_on_the_left() -> None:
    #   time     0 . 2 . 4 . 6         [end - 4, end), ends at multiples of 2
    #   row      0   1   2
    expected = [(-2, 2, [0]), (0, 4, [0, 1]), (2, 6, [1, 2]), (4, 8, [2])]
    assert slides(Time(4, every=2), "0 2 4") == expected


def test_slides_in_time_closed_on_the_right() -> None:
    #   time     0 . 2 . 4             (end - 4, end]
    expected = [(-4, 0, [0]), (-2, 2, [0, 1]), (0, 4, [1, 2]), (2, 6, [2])]
    assert slides(Time(4, every=2, closed="right"), "0 2 4") == expected


def test_slides_are_shifted_by_the_offset_and_aligned_below_zero() -> None:
    #   ends     … -4 1 6 …            row at -3 in [-4, 1), row at 1 in [1, 6)
    assert slides(Time(5, every=5, offset=1), "-3 1") == [(-4, 1, [0]), (1, 6, [1])]


def test_an_empty_slide_gives_no_row() -> None:
    assert slides(Time(2, every=2), "0 10") == [(0, 2, [0]), (10, 12, [1])]


def test_a_slide_longer_than_its_window_leaves_rows_out() -> None:
    #   windows  [3, 4) [7, 8) …       the row at 1 is in none
    assert slides(Time(1, every=4), "1 3 7") == [(3, 4, [1]), (7, 8, [2])]


def test_time_every_other_row() -> None:
    #   time     1 2 3 3 7 9           rows 1, 3, 5 end a window of (t - 2, t], with their peers
    assert slides(Time(2, every=Count(2)), "1 2 3 3 7 9") == [(0, 2, [0, 1]), (1, 3, [1, 2, 3]), (7, 9, [5])]


def test_time_every_row_open_at_its_end_may_be_empty_and_gives_no_row() -> None:
    assert slides(Time(2, every=Count(1), closed="left"), "1 2 9") == [(0, 2, [0])]


def test_count_every_third_row_without_a_remainder() -> None:
    assert slides(Count(2, every=3), "1 2 3 4 5 6 7") == [(2, 3, [1, 2]), (5, 6, [4, 5])]


def test_count_without_a_time_has_row_numbers_half_open() -> None:
    assert slides(Count(3, every=2), "9 9 9 9", on=None) == [(0, 2, [0, 1]), (1, 4, [1, 2, 3])]


def test_count_full_with_every_is_null_until_full() -> None:
    assert slides(Count(3, every=2, full=True), "1 2 3 4") == [(1, 2, None), (2, 4, [1, 2, 3])]


def test_count_every_so_often_ends_with_the_slide_and_needs_a_new_row() -> None:
    #   time     0 1 2 . . 5 . . . . 10        ends at multiples of 5
    #   row      0 1 2     3         4
    expected = [(1, 5, [1, 2]), (2, 10, [2, 3]), (5, 15, [3, 4])]
    assert slides(Count(2, every=Time(5)), "0 1 2 5 10") == expected


def test_lifetime_every_so_often_gives_nothing_without_new_rows() -> None:
    assert slides(Lifetime(every=Time(5)), "1 12") == [(1, 5, [0]), (1, 15, [0, 1])]


def test_lifetime_every_other_row_holds_peers() -> None:
    assert slides(Lifetime(every=2), "1 2 2 2") == [(1, 2, [0, 1, 2, 3]), (1, 2, [0, 1, 2, 3])]
    assert slides(Lifetime(every=2), "1 2 2 2", on=None) == [(0, 2, [0, 1]), (0, 4, [0, 1, 2, 3])]


def test_a_session_closes_a_gap_after_its_last_row() -> None:
    assert slides(Session(3, every="close"), "1 4 8 10") == [(1, 7, [0, 1]), (8, 13, [2, 3])]


def test_a_punctuated_window_needs_its_mark() -> None:
    #   row      0 1! 2! 3        what comes after the last mark is no window
    assert slides(Punctuation("p", every="close"), "1 2/! 5/! 6") == [(1, 2, [0, 1]), (5, 5, [2])]
    assert slides(Punctuation("p", every="close"), "1 2/! 5/! 6", on=None) == [(0, 2, [0, 1]), (2, 3, [2])]


def test_named_windows_share_the_output_in_order_of_their_ends() -> None:
    found = Play({"short": Time(2, every=2), "long": Time(4, every=4)}).all("1 5")
    assert [(row["window"], row["window_end"]) for row in found] == [
        ("short", 2),
        ("long", 4),
        ("short", 6),
        ("long", 8),
    ]


# ---- keys, ties, nulls ----


def test_keys_do_not_see_each_other() -> None:
    found = Play(Count(2)).all("a1 b1 a2 b2")
    assert {row["x"]: row["held"] for row in found} == {0: [0], 1: [1], 2: [0, 2], 3: [1, 3]}


def test_nulls_nans_and_zeros_are_keys_of_their_own() -> None:
    keys = pa.array([None, float("nan"), 0.0, None, float("nan"), -0.0])
    batch = pa.record_batch({"k": keys, "x": pa.array(range(6))})
    found = Reference(sash.Query(9, by="k", held=sash.collect("x")), batch.schema).process(batch)
    assert sorted(row["held"] for row in found.to_pylist()) == [[0], [0, 3], [1], [1, 4], [2], [2, 5]]


def test_tie_breakers_come_before_arrival_and_their_nulls_last() -> None:
    #   row      0/null 1/2 2/1 3/1     all at time 1
    assert held(Count(9), "1 1/2 1/1 1/1", on=["t", "v"])[-1] == [2, 3, 1, 0]


def test_peers_are_peers_by_time_alone() -> None:
    assert held(Time(1), "1/2 1/1", on=["t", "v"]) == [[1, 0], [1, 0]]


def test_nulls_are_skipped_and_windows_without_input_are_empty() -> None:
    found = Play(Count(1), high=sash.max("v"), n=sash.count("v"), rows=sash.count()).all("1/5 2 3/7")
    assert [(row["high"], row["n"], row["rows"]) for row in found] == [(5, 1, 1), (None, 0, 1), (7, 1, 1)]


def test_lower_is_not_asked_about_a_window_without_input() -> None:
    one = sash.monoid(identity=(0, 0), lift=lambda x: (1, x), combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
                      lower=lambda a: a[1] / a[0], name="one", returns="float64")  # fmt: skip
    assert [row["m"] for row in Play(Count(1), m=one("v")).all("1/4 2")] == [4.0, None]


def test_times_of_dates_timestamps_and_floats() -> None:
    for times in (
        pa.array([0, 86_400, 90_000], pa.timestamp("s", "UTC")),
        pa.array([0, 1, 1], pa.int32()).cast(pa.date32()),
    ):
        batch = pa.record_batch({"t": times, "x": pa.array([0, 1, 2])})
        reference = Reference(sash.Query(Time("1d", every="1d"), on="t", held=sash.collect("x")), batch.schema)
        found = reference.process(batch).to_pylist() + reference.finish().to_pylist()
        assert [row["held"] for row in found] == [[0], [1, 2]]
    batch = pa.record_batch({"t": [0.5, 1.0, 2.25], "x": [0, 1, 2]})
    reference = Reference(sash.Query(Time(1.5), on="t", held=sash.collect("x")), batch.schema, mode="sorted")
    assert [row["held"] for row in reference.process(batch).to_pylist()] == [[0], [0, 1]]


# ---- brute facts ----


@given(st.lists(st.integers(0, 9)), st.integers(1, 5))
def test_a_count_window_is_a_slice_of_the_list(values: list[int], size: int) -> None:
    batch = pa.record_batch({"x": pa.array(values, pa.int64())})
    found = Reference(sash.Query(size, s=sash.sum("x")), batch.schema).process(batch)
    assert found["s"].to_pylist() == [sum(values[max(0, i + 1 - size) : i + 1]) for i in range(len(values))]


@given(st.lists(st.integers(0, 30)).map(sorted), st.integers(1, 6))
def test_a_time_window_counts_what_a_comprehension_counts(times: list[int], size: int) -> None:
    batch = pa.record_batch({"t": pa.array(times, pa.int64())})
    reference = Reference(sash.Query(Time(size), on="t", n=sash.count()), batch.schema, mode="sorted")
    found = reference.process(batch)["n"].to_pylist() + reference.finish()["n"].to_pylist()
    assert found == [sum(t - size < other <= t for other in times) for t in times]


@given(st.lists(st.integers(-30, 30)).map(sorted), st.integers(1, 6), st.integers(1, 6))
def test_slides_hold_each_row_as_often_as_windows_cover_it(times: list[int], size: int, every: int) -> None:
    batch = pa.record_batch({"t": pa.array(times, pa.int64())})
    query = sash.Query(Time(size, every=every), on="t", n=sash.count())
    reference = Reference(query, batch.schema, mode="sorted")
    found = reference.process(batch).to_pylist() + reference.finish().to_pylist()
    ends = [end for end in range(-60, 60) if end % every == 0]
    counted = {end: sum(end - size <= t < end for t in times) for end in ends}
    assert {row["window_end"]: row["n"] for row in found} == {end: n for end, n in counted.items() if n}


def test_every_aggregate_is_what_recalc_folds() -> None:
    """A count window of each aggregate, compared with Recalc, the oracle of all structures."""
    batch = stream()
    query = sash.Query(Count(3), **aggregates(Count(3)))
    reference = Reference(query, batch.schema)
    found = reference.process(batch)
    for part in reference.bound_query.aggregates:
        expected = []
        for end in range(1, batch.num_rows + 1):
            window = Recalc(part.monoid)
            for row in batch.slice(max(0, end - 3), min(3, end)).to_pylist():
                window.insert(*(row[column] for column in part.columns))
            expected.append(window.query())
        assert agree(found[part.name].to_pylist(), part.array(expected).to_pylist()), part.name


def test_a_null_row_is_no_input_for_min_periods_even_if_an_aggregate_reads_it() -> None:
    query = sash.Query(20, min_periods=2, mean=sash.ewm_mean("f", halflife=2), before=sash.lag("f"))
    batch = pa.record_batch({"f": pa.array([1.0, None, 1.0])})
    results = [machine.process(batch) for machine in (Reference(query, batch.schema), query.operator())]
    assert [one["mean"].to_pylist() for one in results] == [[None, None, 1.0]] * 2
    assert results[0].equals(results[1])
