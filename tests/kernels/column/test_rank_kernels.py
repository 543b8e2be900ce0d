"""Column kernels of order statistics against sorted windows: compiled, and interpreted with chunks of a few rows."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sash import monoids as m
from sash.kernels.column import column_kernels
from sash.kernels.column import quantiles as value_buckets
from sash.kernels.column import quantiles as wide_quantiles
from sash.kernels.column import rank_kernels as order_kernels
from sash.kernels.column import ranks as rank_compression
from sash.kernels.column.column_kernels import CountBounds, RangeBounds, RowThreads
from sash.kernels.column.rank_kernels import RankKernel, rank_kernel_of
from sash.kernels.jit.compile import interpreted
from sash.monoids.rank_statistics import INTERPOLATIONS, METHODS, interpolated, quantile_place
from sash.plan.planner import COLUMN_KERNELS as KNOWN_TO_PLAN

FLOATS = [0.0, -0.0, 1.0, -1.5, 5e-324, -5e-324, 1e300, -1e300, 1.7e308, math.inf, -math.inf, math.nan]
INTS = [0, 1, -1, 7, 2**31, -(2**40), 2**62, -(2**63), 2**63 - 1]
VALUES = {"float": st.sampled_from(FLOATS) | st.floats(-3, 3), "int": st.sampled_from(INTS) | st.integers(-9, 9)}
DTYPES = {"float": np.float64, "int": np.int64}

QUANTILES: list[m.Monoid] = [
    m.Median(),
    *(m.Quantile(q, rule) for q, rule in zip((0.9, 0.0, 1.0, 0.3, 0.5, 0.25), INTERPOLATIONS, strict=True)),
]
RANKS: list[m.Monoid] = [
    *(m.Rank(method, ascending) for method in METHODS for ascending in (True, False)),
    *(m.PercentRank(method) for method in METHODS),
]
AGGREGATES = [*QUANTILES, *RANKS, m.Mode(), m.CountDistinct()]


def key(x: Any) -> tuple[bool, Any]:
    """Sorts NaN after every number."""
    return (x != x, 0 if x != x else x)


def wanted(monoid: Any, values: list[Any]) -> Any:
    """The result for the values of a window, by its definition."""
    ordered = sorted(values, key=key)
    if isinstance(monoid, m.CountDistinct):
        return len(set(map(key, values)))
    if not values:
        return None
    if isinstance(monoid, m.Mode):
        counts = Counter(map(key, ordered))
        return max(ordered, key=lambda x: counts[key(x)])  # the first of equal counts
    if isinstance(monoid, m.Rank):
        newest, keys = key(values[-1]), list(map(key, values))
        if monoid.method == "dense":
            keys = list(set(keys))
        below, same = sum(one < newest for one in keys), keys.count(newest)
        if not monoid.ascending:
            below = len(keys) - below - same
        rank = {"average": below + (same + 1) / 2, "max": below + same}.get(monoid.method, below + 1)
        return rank / len(keys) if isinstance(monoid, m.PercentRank) else rank
    if ordered[-1] != ordered[-1]:
        return math.nan
    place, fraction = quantile_place(len(values), monoid.q, monoid.rule)
    if INTERPOLATIONS[monoid.rule] not in ("linear", "midpoint"):
        return ordered[place]
    return interpolated(float(ordered[place]), float(ordered[place + (fraction > 0)]), fraction)


def check_results(monoid: Any, x: NDArray[Any], ranges: RangeBounds, got: NDArray[Any], every: int = 1) -> None:
    for row in range(0, len(got), every):
        values = x[ranges.los[row] : ranges.his[row]].tolist()
        expected = wanted(monoid, values)
        if expected is not None:
            found = got[row].item()
            assert type(found) is type(expected)
            assert found == expected or (found != found and expected != expected), (monoid, values[-50:], row)


def bounds(los: Any, his: Any) -> RangeBounds:
    los, his = np.array(los, np.int32), np.array(his, np.int32)
    lengths = his - los
    return RangeBounds(los, his, int(lengths.min(initial=0)), int(lengths.max(initial=0)))


def ranges_of(steps: list[tuple[int, int]], rows: int) -> RangeBounds:
    """Windows that grow and shrink by steps; some are empty, some have nothing in common with the one before."""
    los, his, lo, hi = [], [], 0, 0
    for grow, shrink in steps:
        hi = min(hi + grow, rows)
        lo = min(lo + shrink, hi)
        los.append(lo)
        his.append(hi)
    return bounds(los, his)


def forms(monoid: m.Monoid) -> list[Any]:
    """The kernels over narrow and over wide windows, the latter for windows of any length."""
    kernel = rank_kernel_of(monoid)
    assert kernel is not None
    if isinstance(kernel, RankKernel) and kernel.narrow:
        return [kernel, replace(kernel, narrow=0)]
    return [kernel]


@pytest.fixture(autouse=True)
def _small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_kernels, "SHARE", 4)


@pytest.fixture(params=["interpreted", "compiled"])
def how(request: pytest.FixtureRequest) -> Iterator[str]:
    """Interpreted, chunks and tables have a few rows, so that short columns have several."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "interpreted":
            patch.setattr(order_kernels, "coded", lambda kernel, _: interpreted(kernel))
            patch.setattr(column_kernels, "coded", lambda kernel, _: interpreted(kernel))
            patch.setattr(rank_compression, "LEAST_CHUNK", 3)
            patch.setattr(rank_compression, "_SHORT", 2)
            patch.setattr(value_buckets, "BUCKET", 2)
            patch.setattr(wide_quantiles, "PATIENCE", 1)
            patch.setattr(order_kernels, "_INDEXED", 8)
            patch.setattr(order_kernels, "table_bits", lambda longest: int(longest).bit_length())  # nearly full
        yield request.param


def drawn(kind: str) -> Any:
    steps = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=40)
    return given(st.lists(VALUES[kind], max_size=40), steps, st.integers(1, 3))


@pytest.mark.parametrize("kind", ["float", "int"])
@pytest.mark.parametrize("monoid", AGGREGATES, ids=repr)
def test_ranges(monoid: Any, kind: str, how: str) -> None:
    @drawn(kind)
    @example([1, 2, 3, 1], [(4, 0), (0, 4), (0, 0)], 1)
    def agrees(values: list[Any], steps: list[tuple[int, int]], threads: int) -> None:
        x = np.array(values, DTYPES[kind])
        ranges = ranges_of(steps, len(x))
        for kernel in forms(monoid):
            check_results(monoid, x, ranges, kernel.aggregate(RowThreads(threads), x, ranges, len(ranges.los)))

    agrees()
    assert how


COLUMNS = {
    "random": lambda rng, n: rng.random(n),
    "normal": lambda rng, n: rng.normal(size=n),
    "rising": lambda rng, n: np.cumsum(rng.random(n)),
    "few": lambda rng, n: rng.integers(0, 20, n).astype(float),
    "near 1, and far away": lambda rng, n: np.where(rng.random(n) < 0.01, 1e300, 1 + rng.random(n) * 1e-9),
    "levels": lambda rng, n: np.repeat(rng.random(n // 500 + 1), 500)[:n] + rng.random(n) * 1e-3,
    "NaN": lambda rng, n: np.where(rng.random(n) < 0.002, np.nan, rng.random(n)),
    "wide ints": lambda rng, n: rng.integers(-(2**63), 2**63 - 1, n, endpoint=True),
    "narrow ints": lambda rng, n: rng.integers(-9, 90_000, n),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("column", COLUMNS)
def test_long_columns(column: str, threads: int) -> None:
    """Several chunks, runs of equal leading bits, crowded hash tables; windows of all lengths."""
    rng = np.random.default_rng(5)
    rows = 9000
    x = COLUMNS[column](rng, rows)
    at = np.arange(1, rows + 1)
    edges = np.array([0, 10, 11, 3000, rows])
    begins = edges[np.searchsorted(edges, at, "left") - 1]
    by_value = np.cumsum(rng.integers(0, 40, rows))
    cases = {
        "10": np.maximum(begins, at - 10),
        "200": np.maximum(begins, at - 200),
        "1,000": np.maximum(begins, at - 1000),
        "lifetime": begins,
        "time": np.maximum(begins, np.searchsorted(by_value, by_value - 9000)),
        "session": np.maximum.accumulate(np.where(rng.random(rows) < 0.004, at - 1, 0)),
    }
    for monoid in (m.Median(), m.Quantile(0.9, "lower"), m.Rank(), m.Rank("dense"), m.Mode(), m.CountDistinct()):
        for los in cases.values():
            ranges = bounds(los, at)
            for kernel in forms(monoid):
                if isinstance(kernel, RankKernel) and 0 < kernel.narrow < ranges.longest:
                    continue
                check_results(monoid, x, ranges, kernel.aggregate(RowThreads(threads), x, ranges, rows), every=611)


@pytest.mark.parametrize("factor", [1, 2**40])
@pytest.mark.parametrize("monoid", [m.Median(), m.CountDistinct()], ids=repr)
def test_count_windows_of_keys(monoid: Any, factor: int, how: str) -> None:
    @given(
        st.lists(st.integers(-3, 3), min_size=1, max_size=40),
        st.integers(1, 12),
        st.lists(st.integers(0, 40), max_size=3),
        st.integers(1, 3),
    )
    def agrees(values: list[int], size: int, cuts: list[int], threads: int) -> None:
        x = np.array(values) * factor
        edges = np.array([0, *sorted(min(cut, len(x)) for cut in cuts), len(x)])
        at = np.arange(1, len(x) + 1)
        ranges = bounds(np.maximum(edges[np.searchsorted(edges, at, "left") - 1], at - size), at)
        for kernel in forms(monoid):
            got = kernel.aggregate(RowThreads(threads), x, CountBounds(size, edges, ranges.longest), len(x))
            check_results(monoid, x, ranges, got)

    agrees()
    assert how


def test_a_cursor_crosses_a_wide_gap() -> None:
    """The median jumps over a hundred thousand ranks, most of them of keys that are not in the window."""
    rng = np.random.default_rng(9)
    size, rows = 20_001, 80_000
    x = rng.random(rows)
    x[:size] = np.where(np.arange(size) % 2 == 0, -5.0, 5.0) + x[:size]
    x[size : size + 200] = np.where(np.arange(200) // 3 % 2 == 0, -9.0, 9.0)
    at = np.arange(1, rows + 1)
    ranges = bounds(np.maximum(0, at - size), at)
    kernel = rank_kernel_of(m.Median())
    assert kernel is not None
    got = kernel.aggregate(RowThreads(1), x, ranges, rows)
    for row in (size - 1, *range(size, size + 200, 7), 2 * size, rows - 1):
        assert got[row] == np.median(x[ranges.los[row] : ranges.his[row]])


def test_a_subclass_has_no_kernel() -> None:
    """It may define another result."""

    class Trimmed(m.Median):
        pass

    assert rank_kernel_of(Trimmed()) is None
    assert rank_kernel_of(m.Max()) is None


def test_the_planner_knows_them() -> None:
    for monoid in AGGREGATES:
        assert type(monoid) in KNOWN_TO_PLAN
