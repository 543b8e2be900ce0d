"""The tables of column benchmarks for given figures, and which library is measured for how many rows."""

import pytest

from benchmarks.columns import QUICK, Arena, Sizes, cells, flatness, measure, rows_for
from benchmarks.functions import FUNCTIONS, GOALS, Case
from benchmarks.rivals import CONTESTANTS, OURS, RIVALS
from benchmarks.verdict import verdicts

FIGURES = {"sash on pandas": 2.0, "sash on polars": 5.0, "pandas": 9.0, "polars": 4.0}


def test_losses_are_bold() -> None:
    assert cells(FIGURES) == ["2.0 (2.00×)", "5.0 (**0.80×**)", "9.0", "4.0", "–", "–", "–"]


def found(factor: float) -> dict[str, dict[tuple[str, int], dict[str, float]]]:
    """Everybody else is `factor` times as slow as we are; the wider windows cost 1.2 times as much."""
    figures = dict.fromkeys(OURS, 1.0) | dict.fromkeys(RIVALS, factor)
    wide = {name: figure * 1.2 for name, figure in figures.items()}
    grid = {(name, width): costs for name in GOALS for width, costs in ((16, figures), (256, wide))}
    return {"rows, 1 key": grid, "time, 1 key": grid, "time, many keys": grid}


@pytest.mark.parametrize(("factor", "missed"), [(5.0, 0), (3.0, 0), (2.0, 2), (0.7, 4), (0.5, 5)])
def test_goals_that_are_missed_are_bold(factor: float, missed: int) -> None:
    lines = verdicts(found(factor)).splitlines()[2:]
    assert len(lines) == 6
    assert sum("**" in line for line in lines) == missed


def test_the_width_may_cost_something() -> None:
    assert "1.20× (" in verdicts(found(5.0)).splitlines()[-1]
    grid = found(5.0)["rows, 1 key"]
    assert flatness(grid).count("1.20") == len(GOALS) * len(CONTESTANTS)
    for name, width in list(grid):
        if width == 256:
            grid[name, 65_536] = dict.fromkeys(CONTESTANTS, 1.6)
    assert "**1.60×**" in verdicts(dict.fromkeys(found(1.0), grid)).splitlines()[-1]


def test_who_folds_gets_fewer_rows() -> None:
    sizes = Sizes()
    arg_max, maximum = FUNCTIONS["arg_max"], FUNCTIONS["max"]
    assert rows_for("polars", maximum, Case("rows", 65_536), sizes.rows, sizes) == sizes.rows
    assert rows_for("polars", arg_max, Case("rows", 4096), sizes.rows, sizes) == sizes.folded // 4096
    assert rows_for("polars", arg_max, Case("rows", 65_536), sizes.rows, sizes) == 0, "it would not fill its windows"
    assert rows_for("bottleneck", maximum, Case("time", 16), sizes.rows, sizes) == 0, "it has no windows of time"
    for ours in OURS:
        assert rows_for(ours, arg_max, Case("time", 10**6, 1000), QUICK.rows, QUICK) == QUICK.rows, "never a sample"


def test_a_wide_window_is_measured_everywhere() -> None:
    # bottleneck and numbagg refuse a window that is longer than the column, also where they only warm up
    figures = measure(Arena(30_000, 1), FUNCTIONS["sum"], Case("rows", 15_000), QUICK)
    # the share of the rows that DuckDB gets does not hold two such windows
    assert [*figures] == [name for name in CONTESTANTS if name != "DuckDB"]
    assert all(figure > 0 for figure in figures.values())


def test_without_a_rival_there_is_no_ratio() -> None:
    assert [cell for cell in cells(dict.fromkeys(OURS, 2.0)) if cell != "–"] == ["2.0", "2.0"]
