"""The benchmark of as_of compares equal results, and reports missed goals."""

from typing import Any

import numpy as np
import pytest

from benchmarks import as_of as bench

TABLES = bench.Tables.of(2000, 150, keys=7)


@pytest.mark.parametrize("rival", bench.RIVALS)
def test_the_same_results(rival: str) -> None:
    kind = "count, sum" if rival == "polars, join_asof" else "count, sum, max"
    theirs: dict[str, Any] = {
        "DuckDB, range join": lambda: bench.range_join(bench.in_duckdb(TABLES), kind, 150),
        "DuckDB, windows": lambda: bench.windows_of_both(bench.in_duckdb(TABLES), kind),
        "polars, rolling": lambda: bench.rolling_of_both(TABLES, kind),
        "polars, join_asof": lambda: bench.sums_joined(TABLES),
    }
    mine, other = bench.ours(TABLES, kind), theirs[rival]()
    for name in (f"{one}_{window}" for window in bench.WINDOWS for one in bench.KINDS[kind]):
        found, expected = (np.nan_to_num(np.asarray(frame[name].to_numpy(), float)) for frame in (mine, other))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=name)


def test_misses_are_bold() -> None:
    figures = {bench.OURS: 1.0, "DuckDB, range join": 90.0, "DuckDB, windows": 8.0, "polars, rolling": 4.0}
    assert bench.cells(figures) == ["1.00 (**4.0×**)", "90.00", "8.00", "4.00", "–"]
