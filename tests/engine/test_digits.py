"""Sums, moments and regressions against fractions on every path, and the same bits for every number of threads."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.kernels.column import column_kernels
from sash.testing import ADVERSARIAL
from tests.engine.exact_moments import ONE, TWO, Exact
from tests.shared.effort import THOROUGH

pytestmark = pytest.mark.compiled

ROWS = 900
WIDTH = 40
WINDOWS: dict[str, Any] = {"count": sash.Count(WIDTH), "time": sash.Time(WIDTH)}
TIMES = np.cumsum(np.random.default_rng(3).integers(0, 3, ROWS))
AGGREGATES: dict[str, Any] = {
    **{name: getattr(sash, name)("x") for name in ONE},
    **{name: getattr(sash, name)("x", "y") for name in TWO},
}


def noise(seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=ROWS)


@functools.cache
def streams() -> dict[str, tuple[list[float], list[float]]]:
    """Pairs of columns by name."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, stream in ADVERSARIAL.items():
        x = np.array(stream(ROWS))
        if np.isfinite(x).all():
            found[f"{name}, a line"] = x, 3.0 * x + 5.0 + noise(1)
            found[f"{name}, alone"] = x, 5.0 + noise(2)
            found[f"{name}, twice"] = x, np.roll(x, 9) + noise(4)
    rows = np.arange(ROWS)
    found["ramp"] = 0.1 * rows, 7.0 - 0.3 * rows
    found["alternating"] = np.where(rows % 2, 1e9, -1e9), np.where(rows % 2, 0.1, 0.2)
    found["constant, then not"] = np.where(rows // 100 % 2, 0.1, 0.1 + 1e-9 * noise(5)), np.full(ROWS, 3.0)
    for size in (1e-310, 1e-200, 1e-165, 1e-120, 1e120, 1e153, 1e200, 1e290):
        found[f"of size {size}"] = noise(6) * size, (noise(6) + noise(7)) * size
        if size > 1e-300:  # a mean of smaller floats has few digits, and so has slope times mean
            found[f"of size {size}, under a column of size 1"] = noise(6) * size, noise(6) + noise(7)
    return {name: (x.tolist(), y.tolist()) for name, (x, y) in found.items()}


def drawn(seed: int) -> tuple[list[float], list[float]]:
    """A random mixture: levels, sizes and spikes that change on the way."""
    chance = np.random.default_rng(seed)
    columns = []
    for _ in range(2):
        size = 10.0 ** np.repeat(chance.choice([-180, -90, -9, 0, 0, 3, 9, 100], 9), ROWS // 9)
        level = np.repeat(chance.choice([0.0, 0.0, 1.0, 1e9, -1e6], 9), ROWS // 9) * size
        x = level + size * (chance.normal(size=ROWS) if seed % 3 else chance.integers(-2, 3, ROWS))
        for place in chance.integers(0, ROWS - 20, 6):
            height = 10.0 ** chance.integers(2, 17) * abs(size[place])
            x[place], x[place + chance.integers(1, 20)] = height, -height
        columns.append(x.tolist())
    return columns[0], columns[1]


def table(x: list[float], y: list[float]) -> pa.Table:
    return pa.table({"t": TIMES, "x": x, "y": y})


def windows(over: str) -> list[tuple[int, int]]:
    if over == "count":
        return [(max(0, end - WIDTH), end) for end in range(1, ROWS + 1)]
    return list(
        zip(*(np.searchsorted(TIMES, bound, "right").tolist() for bound in (TIMES - WIDTH, TIMES)), strict=True)
    )


def check_results(x: list[float], y: list[float], over: str, found: pa.Table, names: Any) -> None:
    exact, bounds = Exact(x, y), windows(over)
    for name in names:
        results = found[name].to_pylist()
        wrong = [(row, exact.wrong(name, bounds[row], results[row])) for row in range(0, ROWS, 7 if THOROUGH else 21)]
        assert not [place for place in wrong if place[1]][:3], (name, over)


@pytest.fixture
def _small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of some hundred rows, so that threads share a short column."""
    monkeypatch.setattr(column_kernels, "SHARE", 100)


def bits(found: pa.Table) -> dict[str, Any]:
    return {name: found[name].fill_null(-math.pi).to_numpy().view(np.int64).tolist() for name in AGGREGATES}


def by_threads(x: list[float], y: list[float], over: str) -> pa.Table:
    """The results, which are the same for 1, 2 and 3 threads."""
    found = [
        sash.rolling(table(x, y), WINDOWS[over], on="t", options=sash.Options(threads=threads), **AGGREGATES)
        for threads in (1, 2, 3)
    ]
    one, two, three = map(bits, found)
    for name in AGGREGATES:
        assert one[name] == two[name] == three[name], name
    return found[0]


@pytest.mark.usefixtures("_small_ranges")
@pytest.mark.parametrize("over", WINDOWS)
@pytest.mark.parametrize("name", streams())
def test_frames(name: str, over: str) -> None:
    x, y = streams()[name]
    assert len(column_kernels.fixed_cuts(ROWS, WIDTH)) > 1
    found = by_threads(x, y, over)
    check_results(x, y, over, found, excused(name))


def excused(name: str) -> list[str]:
    """What can be judged: sums of pairs of floats hold no digits of 1 next to spikes of 1e22 that cancel."""
    return [f for f in AGGREGATES if "1e22" not in name or f not in ("sum", "mean", "intercept")]


@pytest.mark.usefixtures("_small_ranges")
@pytest.mark.parametrize("over", WINDOWS)
@pytest.mark.parametrize("seed", range(12))
def test_random_mixtures(seed: int, over: str) -> None:
    x, y = drawn(seed)
    check_results(x, y, over, by_threads(x, y, over), AGGREGATES)


SOME = ["spikes of 1e16, a line", "spikes of 1e16, twice", "offset of 1e9, a line", "of size 1e-165", "of size 1e+200"]


@pytest.mark.parametrize("over", WINDOWS)
def test_operators(over: str) -> None:
    operators(None, over)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("over", WINDOWS)
@pytest.mark.parametrize("structure", ["DABA", "FlatFAT"])
def test_operators_with_other_structures(structure: str, over: str) -> None:
    operators(structure, over)


def operators(structure: str | None, over: str) -> None:
    aggregates = {name: AGGREGATES[name] for name in ("var", "std", "covariance", "correlation", "slope", "intercept")}
    query = sash.Query(WINDOWS[over], on="t", options=sash.Options(structure=structure), **aggregates)
    for name in SOME:
        x, y = streams()[name]
        batch = table(x, y).combine_chunks().to_batches()[0]
        operator = query.operator(batch.schema)
        found = [operator.process(batch.slice(at, 100)) for at in range(0, ROWS, 100)]
        check_results(x, y, over, pa.Table.from_batches([*found, operator.finish()]), aggregates)


def test_std_of_tiny_values_next_to_equal_ones() -> None:
    """Squares that underflow to 0 are distinguished from those of equal values, over rows and over times."""
    x = [1e-165, 3e-165, 3e-165, 3e-165, 3e-165, 3e-165, 1e-165, 0.0, 0.0, 0.0, 0.0, 1.0]
    data = {"t": np.arange(len(x)), "x": np.array(x)}
    for window in (sash.Count(3), sash.Time(3)):
        found = sash.rolling(data, window, on="t", s=sash.std("x"), v=sash.var("x"))
        assert found["s"][1] == pytest.approx(math.sqrt(2) * 1e-165, rel=1e-14)
        assert (found["s"] == 0.0).tolist() == [False] * 3 + [True] * 3 + [False] * 3 + [True, True, False]
        assert found["v"][1] == 0.0
        assert found["v"][-1] == pytest.approx(1 / 3, rel=1e-14)
