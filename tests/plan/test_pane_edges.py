"""Panes: the SlickDeque paper's example 1, and that every window is a run of panes."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.aggregators import SlickDequeNonInv
from sash.monoids.extremes import Max
from tests.plan.pane_edges import edges, pairs, panes

LENGTHS = st.integers(1, 24)
QUERIES = st.lists(st.tuples(LENGTHS, st.integers(1, 8)), min_size=1, max_size=3)


# ---- example 1: range 6 every 2 with range 8 every 4 ----


def test_example_1() -> None:
    queries = [(6, 2), (8, 4)]
    cuts = edges(queries)
    assert cuts == (2, 4), "one partial every 2 tuples, in a composite slide of 4"
    assert panes(6, 2, cuts) == (3, 3), "the last three partials"
    assert panes(8, 4, cuts) == (4,), "the last four"


def test_example_1_runs_on_shared_partials() -> None:
    """Maxima: partials of two tuples enter one window, both queries are ranges of it."""
    stream = [(7 * i) % 23 for i in range(60)]
    window = SlickDequeNonInv(Max(), ranges=(3, 4))
    for end in range(2, len(stream) + 1, 2):
        if len(window) == 4:
            window.evict()
        window.insert(max(stream[end - 2 : end]))
        first, second = window.query_ranges()
        assert first == max(stream[max(0, end - 6) : end])
        if end % 4 == 0:
            assert second == max(stream[max(0, end - 8) : end])


# ---- pairs ----


@pytest.mark.parametrize(
    ("length", "slide", "fragments"),
    [(6, 2, (2,)), (8, 4, (4,)), (5, 2, (1, 1)), (7, 4, (1, 3)), (10, 4, (2, 2)), (3, 5, (2, 3)), (5, 5, (5,))],
)
def test_pairs(length: int, slide: int, fragments: tuple[int, ...]) -> None:
    assert pairs(length, slide) == fragments


@given(LENGTHS, LENGTHS)
def test_pairs_cut_a_slide_where_windows_begin(length: int, slide: int) -> None:
    fragments = pairs(length, slide)
    assert sum(fragments) == slide
    assert all(fragments)
    assert len(fragments) <= 2
    begins = (-length) % slide
    assert begins == (fragments[0] if len(fragments) == 2 else 0)


# ---- edges ----


def test_a_range_is_no_fixed_number_of_partials() -> None:
    cuts = edges([(4, 2), (6, 3)])
    assert cuts == (2, 3, 4, 6)
    assert panes(4, 2, cuts) == (2, 3, 3)
    assert panes(6, 3, cuts) == (4, 4)


def test_pair_cuts_are_edges() -> None:
    assert edges([(5, 2)]) == (1, 2)
    assert edges([(7, 4), (6, 2)]) == (1, 2, 4)
    assert edges([(5, 3), (4, 2)]) == (1, 2, 3, 4, 6)


@given(QUERIES)
def test_every_window_is_a_run_of_whole_partials(queries: list[tuple[int, int]]) -> None:
    cuts = edges(queries)
    composite = math.lcm(*(slide for _, slide in queries))
    assert cuts == tuple(sorted(set(cuts)))
    assert cuts[-1] == composite
    assert cuts[0] > 0
    ends = {edge + turn * composite for edge in cuts for turn in range(-30, 2)} | {0}
    for length, slide in queries:
        counts = panes(length, slide, cuts)
        assert len(counts) == composite // slide
        for turn, count in enumerate(counts, 1):
            end = turn * slide
            assert end in ends
            assert end - length in ends
            assert count == sum(end - length < edge <= end for edge in ends)


@given(QUERIES)
def test_no_edge_is_idle(queries: list[tuple[int, int]]) -> None:
    """At each a window of some query begins or ends."""
    for edge in edges(queries):
        assert any(edge % slide == 0 or (edge + length) % slide == 0 for length, slide in queries)


@given(QUERIES, st.randoms())
def test_the_order_of_queries_does_not_matter(queries: list[tuple[int, int]], chance: Any) -> None:
    shuffled = [*queries, queries[0]]
    chance.shuffle(shuffled)
    assert edges(shuffled) == edges(queries)


# ---- what is refused ----


@pytest.mark.parametrize(("length", "slide", "named"), [(0, 2, "length"), (3, 0, "slide"), (-1, 2, "length")])
def test_a_number_below_one(length: int, slide: int, named: str) -> None:
    with pytest.raises(ValueError, match=f"{named} must be at least 1; got"):
        pairs(length, slide)
    with pytest.raises(ValueError, match=f"{named} must be at least 1; got"):
        edges([(4, 2), (length, slide)])


def test_a_number_that_is_none() -> None:
    with pytest.raises(TypeError, match=r"slide must be a whole number; got 1\.5"):
        pairs(3, 1.5)  # type: ignore[arg-type]


def test_no_queries() -> None:
    with pytest.raises(ValueError, match="at least one query"):
        edges([])


def test_a_query_that_the_edges_were_not_made_for() -> None:
    with pytest.raises(ValueError, match=r"\(5, 2\) needs an edge at 1; the edges are \(2, 4\)"):
        panes(5, 2, edges([(6, 2), (8, 4)]))
    with pytest.raises(ValueError, match="4 is not a multiple of the slide 3"):
        panes(6, 3, edges([(6, 2), (8, 4)]))
