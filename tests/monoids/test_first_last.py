"""First, last, nth, M4 and the longest run; and helpers of other tests that fold a window and check the laws."""

import copy
import math
import pickle
from collections.abc import Callable
from datetime import date, timedelta
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.monoids.algebra import Kind, Monoid, agree
from sash.monoids.by_place import M4, First, Last, LongestRun, Nth

INT64 = st.one_of(st.sampled_from([-(2**63), 2**63 - 1, -1, 0, 1]), st.integers(-(2**63), 2**63 - 1))
FLOATS = st.one_of(
    st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0, 1.7e308, -1.7e308, 5e-324]), st.floats(width=64)
)
TEXT = st.one_of(st.sampled_from(["", "a", "é", "😀", "\0", "e\u0301"]), st.text(max_size=5))
ANYTHING = st.one_of(FLOATS, st.integers(), TEXT, st.binary(max_size=3), st.tuples(st.integers(0, 2)))
OF_KIND: dict[Kind, st.SearchStrategy[Any]] = {"bool": st.booleans(), "int": INT64, "float": FLOATS}

Rows = list[tuple[Any, ...]]


def folds(monoid: Monoid, rows: Rows) -> list[Any]:
    """The state of a window, combined from the left, from the right, and from the middle."""
    states = [monoid.lift(*row) for row in rows]

    def halved(part: list[Any]) -> Any:
        if len(part) < 2:
            return part[0] if part else monoid.identity
        middle = len(part) // 2
        return monoid.combine(halved(part[:middle]), halved(part[middle:]))

    return [
        reduce(monoid.combine, states, monoid.identity),
        reduce(lambda younger, older: monoid.combine(older, younger), reversed(states), monoid.identity),
        halved(states),
    ]


def check_laws(monoid: Monoid, *windows: Rows) -> None:
    """Every law the monoid declares, on the states of three windows."""
    a, b, c = (folds(monoid, rows)[0] for rows in windows)
    combine, same, identity = monoid.combine, monoid.same, monoid.identity
    before = copy.deepcopy((a, b, c))
    assert same(combine(identity, a), a)
    assert same(combine(a, identity), a)
    assert same(combine(combine(a, b), c), combine(a, combine(b, c)))
    if monoid.commutative:
        assert same(combine(a, b), combine(b, a))
    if monoid.selective:
        assert combine(a, b) is (b if monoid.picks_right(a, b) else a)
    if monoid.inverse is not None:
        assert agree(monoid.inverse(combine(a, b), a), b)
    if monoid.dump is not None and monoid.load is not None:
        assert same(monoid.load(monoid.dump(a)), a)
    assert same(pickle.loads(pickle.dumps(a)), a)
    assert all(same(x, y) for x, y in zip(before, (a, b, c), strict=True)), "an operand was changed"


def lawful(monoid: Monoid, *inputs: st.SearchStrategy[Any]) -> Callable[[], None]:
    """A test of the laws on random windows with these inputs."""
    windows = st.lists(st.tuples(*inputs), max_size=6)

    @given(windows, windows, windows)
    def test(a: Rows, b: Rows, c: Rows) -> None:
        check_laws(monoid, a, b, c)

    return test


def one(rows: list[Any]) -> Rows:
    return [(x,) for x in rows]


def results(monoid: Monoid, rows: Rows) -> Any:
    """The result, after checking that the grouping does not matter to it."""
    first, *others = (monoid.lower(state) for state in folds(monoid, rows))
    assert all(agree(first, other) for other in others)
    return first


KINDS: list[Kind] = ["bool", "int", "float"]
SINGLE = [First(), Last(), Nth(1), Nth(3), Nth(-1), Nth(-2)]


@pytest.mark.parametrize("monoid", SINGLE, ids=repr)
def test_laws_on_anything(monoid: Monoid) -> None:
    lawful(monoid, ANYTHING)()


@pytest.mark.parametrize("values", [FLOATS, st.integers(), TEXT, st.booleans()])
def test_laws_of_m4_on_what_has_an_order(values: st.SearchStrategy[Any]) -> None:
    lawful(M4(), values)()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("monoid", [First(), Last(), M4()], ids=repr)
def test_laws_typed(monoid: Monoid, kind: Kind) -> None:
    lawful(monoid.typed(kind), OF_KIND[kind])()


@pytest.mark.parametrize("monoid", [*SINGLE, M4(), LongestRun()], ids=repr)
def test_nothing_gives_null(monoid: Monoid) -> None:
    assert monoid.lower(monoid.identity) is None
    assert monoid.nothing() is None


@given(st.lists(ANYTHING, min_size=1))
def test_positions_are_those_of_the_list(values: list[Any]) -> None:
    assert agree(results(First(), one(values)), values[0])
    assert agree(results(Last(), one(values)), values[-1])
    for n in (1, 2, 3, 7):
        assert agree(results(Nth(n), one(values)), values[n - 1] if len(values) >= n else None)
        assert agree(results(Nth(-n), one(values)), values[-n] if len(values) >= n else None)


def test_falsy_values_are_values() -> None:
    for value in (0, 0.0, False, "", math.nan):
        assert agree(results(First(), one([value, 1])), value)
        assert agree(results(Last(), one([1, value])), value)


def test_nulls_are_skipped() -> None:
    m = First()
    assert m.lower(m.combine(m.lifted((None,)), m.lifted((3,)))) == 3


@pytest.mark.parametrize("n", [1, 2, 5, -1, -4])
def test_the_state_of_nth_stays_small(n: int) -> None:
    assert all(len(state) == abs(n) for state in folds(Nth(n), one([*range(20)])))


@pytest.mark.parametrize("n", [True, 1.0, "1", None])
def test_nth_refuses_what_is_no_integer(n: Any) -> None:
    with pytest.raises(TypeError, match="n= of nth must be an integer; got"):
        Nth(n)


def test_nth_refuses_0() -> None:
    with pytest.raises(ValueError, match="got 0"):
        Nth(0)


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_m4_is_first_min_max_last(values: list[float]) -> None:
    assert results(M4(), one(values)) == (values[0], min(values), max(values), values[-1])


def test_m4_lets_nan_win() -> None:
    first, least, greatest, last = results(M4(), one([1.0, math.nan, 3.0]))
    assert (first, last) == (1.0, 3.0)
    assert math.isnan(least)
    assert math.isnan(greatest)


def test_m4_of_text() -> None:
    assert results(M4(), one(["m", "z", "a", "q"])) == ("m", "a", "z", "q")


# The longest run.

WHERE = st.integers(-(10**6), 10**6)


@pytest.mark.parametrize("values", [FLOATS, st.integers(0, 3), TEXT])
def test_laws_of_the_longest_run(values: st.SearchStrategy[Any]) -> None:
    lawful(LongestRun(), values, WHERE)()


@pytest.mark.parametrize("kind", KINDS)
def test_laws_of_the_longest_run_typed(kind: Kind) -> None:
    lawful(LongestRun().typed(kind, "int"), OF_KIND[kind], INT64)()
    lawful(LongestRun().typed(kind, "float"), OF_KIND[kind], FLOATS)()


def longest_run(rows: Rows) -> Any:
    runs: list[Rows] = []
    for row in rows:
        if runs and runs[-1][-1][0] < row[0]:
            runs[-1].append(row)
        else:
            runs.append([row])
    best = max(runs, key=len, default=None)
    return best and (best[0][1], best[-1][1], best[-1][1] - best[0][1], len(best))


@given(st.lists(st.tuples(st.one_of(st.integers(0, 5), st.just(math.nan)), WHERE), max_size=30))
def test_the_longest_run_is_found(rows: Rows) -> None:
    assert results(LongestRun(), rows) == longest_run(rows)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([4], (0, 0, 0, 1)),
        ([1, 1, 1], (0, 0, 0, 1)),
        ([1, 2, 2, 3], (0, 1, 1, 2)),
        ([9, 1, 2, 3, 0], (1, 3, 2, 3)),
        ([1.0, math.nan, 2.0, 3.0], (2, 3, 1, 2)),
        ([math.nan, math.nan], (0, 0, 0, 1)),
        ([-math.inf, 0.0, math.inf], (0, 2, 2, 3)),
        ([-0.0, 0.0], (0, 0, 0, 1)),
    ],
)
def test_runs_by_example(values: list[Any], expected: tuple[int, ...]) -> None:
    assert results(LongestRun(), [(value, at) for at, value in enumerate(values)]) == expected


@pytest.mark.parametrize("m", [LongestRun(), LongestRun().typed("int", "int")])
@pytest.mark.parametrize("ends", [(-(2**62), 2**62), (2**63 - 1, -2)])
def test_an_interval_beyond_64_bits_is_an_error(m: Monoid, ends: tuple[int, int]) -> None:
    window = folds(m, [(1, ends[0]), (2, ends[1])])[0]
    with pytest.raises(OverflowError, match="interval of longest_run left the range of 64-bit integers"):
        m.lower(window)


def test_an_interval_of_64_bits_is_none() -> None:
    assert results(LongestRun(), [(1, -(2**62)), (2, 2**62 - 1)]) == (-(2**62), 2**62 - 1, 2**63 - 1, 2)


def test_a_run_may_be_measured_in_booleans_and_in_dates() -> None:
    assert results(LongestRun().typed("float", "bool"), [(1.0, False), (2.0, True)]) == (0, 1, 1, 2)
    days = [date(2024, 2, 28), date(2024, 3, 1)]
    assert results(LongestRun(), [(1, days[0]), (2, days[1])]) == (*days, timedelta(2), 2)


@pytest.mark.parametrize("monoid", [First(), Last(), M4()], ids=repr)
def test_an_unknown_kind_is_refused(monoid: Monoid) -> None:
    with pytest.raises(TypeError, match=f"{monoid.name} .* kind 'text'"):
        monoid.typed("text")  # type: ignore[arg-type]
