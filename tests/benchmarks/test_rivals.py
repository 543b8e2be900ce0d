"""The libraries of the comparison table compute equal results, tested on little data."""

from functools import cache

import numpy as np
import pytest

from benchmarks.functions import FUNCTIONS, GOALS, Case, columns
from benchmarks.rivals import OURS, RIVALS, Contestant

CASES = {
    f"{over}, {keys} keys": Case(over, width, keys) for over in ("rows", "time") for width, keys in ((20, 1), (12, 3))
}
ROWS = 240
COMPARED = [
    (function, case, name)
    for function in FUNCTIONS
    for case in CASES
    for name, rival in RIVALS.items()
    if rival.serves(FUNCTIONS[function], CASES[case])
]


@cache
def settled(case: Case) -> np.ndarray:
    """Rows that have a window behind them: before that, everyone has rules of their own for too few values."""
    keys = columns(ROWS, case.keys)["k"]
    behind = np.array([np.count_nonzero(keys[:row] == key) for row, key in enumerate(keys)])
    return behind >= case.width


@cache
def results(contestant: Contestant, function: str, case: Case, how: str = "") -> np.ndarray:
    """What one finds; `how` tells results of ours that are interpreted from compiled ones."""
    del how
    return contestant.out(contestant.run(contestant.make(columns(ROWS, case.keys)), FUNCTIONS[function], case))


@pytest.mark.parametrize(("function", "case", "name"), COMPARED)
def test_the_same_results(function: str, case: str, name: str, column_aggregates: str) -> None:
    theirs = results(RIVALS[name], function, CASES[case])
    rows = settled(CASES[case])
    assert np.count_nonzero(rows) > ROWS // 2
    for ours in OURS.values():
        found = results(ours, function, CASES[case], column_aggregates)
        assert len(found) == len(theirs) == ROWS
        np.testing.assert_allclose(found[rows], theirs[rows], rtol=1e-9, atol=1e-9)


LARGE = {
    f"{over}, {width} of {keys} keys": Case(over, width, keys)
    for over in ("rows", "time")
    for width, keys in ((1000, 1), (60_000, 1), (300, 50))
}


@pytest.mark.parametrize("case", LARGE)
@pytest.mark.parametrize("function", GOALS)
def test_the_same_results_on_a_large_column(function: str, case: str) -> None:
    # where a column is cut into parts that are computed apart, it is cut here
    asked, given = FUNCTIONS[function], columns(150_000, LARGE[case].keys)
    found = [(name, who.out(who.run(who.make(given), asked, LARGE[case]))) for name, who in OURS.items()]
    for name in ("polars", "bottleneck", "DuckDB"):
        rival = RIVALS[name]
        if rival.serves(asked, LARGE[case]) and not rival.folds(asked, LARGE[case]):
            theirs = rival.out(rival.run(rival.make(given), asked, LARGE[case]))
            for ours, column in found:
                # the digits that others lose on a walk this long
                np.testing.assert_allclose(column[100:], theirs[100:], rtol=1e-6, err_msg=f"{ours}, {name}")
            return
    raise AssertionError("nobody to compare with")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_has_a_rival_and_varies(function: str, column_aggregates: str) -> None:
    assert [name for compared, _, name in COMPARED if compared == function]
    found = results(OURS["sash on polars"], function, CASES["rows, 1 keys"], column_aggregates)
    least = {"count": 1, "any": 2, "all": 2}.get(function, 4)
    assert len({*found[20:].tolist()}) >= least, "a function that is constant here is compared with nothing"


def test_goals_have_fast_rivals() -> None:
    for name in GOALS:
        served = [rival for rival in RIVALS.values() if rival.serves(FUNCTIONS[name], Case("rows", 20))]
        assert any(not rival.folds(FUNCTIONS[name], Case("rows", 20)) for rival in served)
