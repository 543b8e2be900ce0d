"""Panes, Pairs and Cutty: the paper's formulas and examples, counted on streams, and the edges that the engine has.

SlickDeque, section 2.1:    Pairs   f2 = range % slide, f1 = slide - f2
section 2.3, example 1:     range 6 every 2, range 8 every 4: composite slide 4, 2 partials, 3 and 4 a window
"""

from fractions import Fraction
from itertools import pairwise
from math import gcd

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.plan.slicing import (
    TECHNIQUES,
    SlidingRange,
    Technique,
    composite_edges,
    composite_slide,
    partials_per_unit,
    slicing_of,
    sliding_range,
)
from sash.windows import rules


def ranges(*pairs: tuple[int, int]) -> list[SlidingRange]:
    return [SlidingRange(Fraction(size), Fraction(every)) for size, every in pairs]


def test_example_1() -> None:
    both = ranges((6, 2), (8, 4))
    assert composite_slide(both) == 4
    for technique in TECHNIQUES:
        assert composite_edges(both, technique) == [0, 2]
    last = [[edge for edge in range(-size, 0) if edge % 2 == 0] for size in (6, 8)]
    assert [len(edges) for edges in last] == [3, 4]


@given(st.integers(1, 40), st.integers(1, 40))
def test_the_formulas_of_one_window(size: int, every: int) -> None:
    (one,) = ranges((size, every))
    pairs = 2 if size % every else 1
    assert len(composite_edges([one], "Panes")) == every // gcd(size, every)
    assert len(composite_edges([one], "Pairs")) == pairs
    assert len(composite_edges([one], "Cutty")) == 1
    second = size % every
    fragments = [b - a for a, b in pairwise([*composite_edges([one], "Pairs"), every])]
    assert fragments == ([every - second, second] if second else [every])


@given(st.integers(1, 30), st.integers(1, 30), st.sampled_from(TECHNIQUES))
def test_a_window_has_as_many_partials_as_the_formula_says(size: int, every: int, technique: Technique) -> None:
    (one,) = ranges((size, every))
    edges = composite_edges([one], technique)
    end = every * (size // every + 2)
    inside = [at for at in range(end - size, end) if at % every in edges]
    assert inside[0] == end - size  # a window begins with a partial
    full, rest = divmod(size, every)
    whole = {"Panes": size // gcd(size, every), "Pairs": full, "Cutty": full}
    assert len(inside) == (whole | {"Pairs": 2 * full + 1, "Cutty": full + 1} if rest else whole)[technique]


PAIRS_OF = st.tuples(st.integers(1, 24), st.sampled_from([1, 2, 3, 4, 6, 8, 12]))


@given(st.lists(PAIRS_OF, min_size=1, max_size=5))
def test_edges_are_where_windows_start_and_end(pairs: list[tuple[int, int]]) -> None:
    several = ranges(*pairs)
    length = int(composite_slide(several))
    starts = {(k * every - size) % length for size, every in pairs for k in range(length // every)}
    ends = {k * every for size, every in pairs for k in range(length // every)}
    assert composite_edges(several, "Cutty") == sorted(starts)
    assert composite_edges(several, "Pairs") == sorted(starts | ends)
    assert {*composite_edges(several, "Pairs")} <= {*composite_edges(several, "Panes")}
    assert partials_per_unit(several, "Pairs") == Fraction(len(starts | ends), length)


@given(st.lists(PAIRS_OF, min_size=1, max_size=4), st.integers(0, 5))
def test_the_engine_cuts_by_pairs(pairs: list[tuple[int, int]], offset: int) -> None:
    windows = {f"w{i}": sash.Time(size, every=every, offset=offset) for i, (size, every) in enumerate(pairs)}
    query = sash.Query(windows, on="t", n=sash.count())
    specs = list(query.bind(pa.schema([("t", pa.int64())])).windows)
    length = int(composite_slide(map(sliding_range, specs)))
    cuts = np.unique(rules.cuts([spec.rule for spec in specs], np.arange(10 * length, 11 * length)))
    expected = composite_edges([sliding_range(spec) for spec in specs], "Pairs")
    inside = cuts[cuts >= 10 * length] - 10 * length
    assert inside.tolist() == [int(edge) for edge in expected]


def test_the_engine_makes_as_many_partials_as_pairs() -> None:
    """One row per tick: elements of a window of 12 every 5 with one of 8 every 4, which repeat after 20."""
    operator = sash.Query({"a": sash.Time(12, every=5), "b": sash.Time(8, every=4)}, on="t", n=sash.count()).operator()
    operator.process({"t": np.arange(200)})
    (specs,) = [list(operator.state.bound_query.windows)]
    edges = composite_edges([sliding_range(spec) for spec in specs], "Pairs")
    # the watermark is 199, and the structures still hold the last windows that are over
    oldest = min(195 - 12, 196 - 8)
    assert operator.metrics.elements - 1 == sum(int(at % 20) in map(int, edges) for at in range(oldest, 199))


def test_the_choice_and_its_reason() -> None:
    def slicing(*windows: sash.Time) -> tuple[str, str]:
        query = sash.Query({f"w{i}": one for i, one in enumerate(windows)}, on="t", n=sash.count())
        found = slicing_of(query.bind(pa.schema([("t", pa.timestamp("s"))])).windows)
        assert found is not None
        return found.technique, found.why

    assert slicing(sash.Time("10s", every="5s")) == ("Pairs", "cuts at the starts of windows alone would be as many")
    technique, why = slicing(sash.Time("12s", every="5s"))
    assert (technique, why.partition(",")[0]) == (
        "Pairs",
        "a call folds all its rows into partials before it answers slides",
    )


def test_a_calendar_has_no_composite_slide() -> None:
    query = sash.Query(sash.Time("1mo", every="1mo"), on="t", n=sash.count())
    assert slicing_of(query.bind(pa.schema([("t", pa.timestamp("s"))])).windows) is None


def test_slides_that_hardly_ever_meet_are_bounded_by_their_sum() -> None:
    several = ranges((10_007, 10_007), (10_009, 10_009), (10_037, 10_037))
    assert partials_per_unit(several, "Pairs") == Fraction(1, 10_007) + Fraction(1, 10_009) + Fraction(1, 10_037)


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_fractions(technique: Technique) -> None:
    one = SlidingRange(Fraction(5, 4), Fraction(1, 2))
    assert len(composite_edges([one], technique)) == {"Panes": 2, "Pairs": 2, "Cutty": 1}[technique]
