"""Digits: sums and moments of frames against exact arithmetic, on the streams of `sash.testing.ADVERSARIAL`.

benchmarks/trust.py shows what others make of the same streams.
"""

import math
from functools import cache
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.testing import ADVERSARIAL, exact_windows, worst_error
from sash.testing.adversarial import ExactSums
from tests.frames.frame_kinds import KINDS

ROWS = 600
WIDTH = 60
GOALS = {"sum": 1e-12, "mean": 1e-12, "var": 1e-9}
FRAMES = ["dict of NumPy", "pandas.DataFrame", "polars.DataFrame", "pyarrow.Table"]
WINDOWS: dict[str, Any] = {"count": sash.Count(WIDTH), "time": sash.Time(WIDTH)}


@cache
def values(stream: str, key: int) -> list[float]:
    """What a key gets: the stream, begun a little later for each."""
    return ADVERSARIAL[stream](ROWS + 7 * key)[7 * key :]


def times(key: int) -> list[int]:
    """When: some at the same time."""
    return np.cumsum(np.random.default_rng(key).integers(0, 4, ROWS)).tolist()


def table(stream: str, keys: int) -> pa.Table:
    """The rows of all keys, mixed; those of one key in order."""
    key = np.random.default_rng(3).permutation(np.repeat(np.arange(keys), ROWS))
    t, x = np.empty(len(key), np.int64), np.empty(len(key))
    for k in range(keys):
        t[key == k], x[key == k] = times(k), values(stream, k)
    return pa.table({"k": key, "t": t, "x": x})


def windows(key: int, over: str) -> list[tuple[int, int]]:
    """Where the window of each row begins and ends, among the rows of its key."""
    if over == "count":
        return [(max(0, end - WIDTH), end) for end in range(1, ROWS + 1)]
    at = np.array(times(key))
    return list(zip(*(np.searchsorted(at, bound, "right").tolist() for bound in (at - WIDTH, at)), strict=True))


@cache
def largest(stream: str, key: int, over: str) -> list[float]:
    return [max(values(stream, key)[start:end]) for start, end in windows(key, over)]


@cache
def exact(function: str, stream: str, key: int, over: str) -> list[Any]:
    return exact_windows(function, values(stream, key), windows(key, over))


@pytest.mark.parametrize("stream", ADVERSARIAL)
@pytest.mark.parametrize("over", WINDOWS)
@pytest.mark.parametrize("keys", [1, 3])
@pytest.mark.parametrize("frame", FRAMES)
def test_digits(frame: str, keys: int, over: str, stream: str) -> None:
    kind = KINDS[frame]
    aggregates: Any = {name: getattr(sash, name)("x") for name in ("sum", "mean", "var", "std", "max")}
    got = kind.back(sash.rolling(kind.make(table(stream, keys)), WINDOWS[over], by="k", on="t", **aggregates))
    for key in range(keys):
        rows = got.filter(np.equal(got.column("k"), key))
        found = {name: rows.column(name).to_pylist() for name in aggregates}
        found["std of var"] = [math.nan if x is None else x * x for x in found["std"]]
        for function, goal in GOALS.items():
            wanted = exact(function, stream, key, over)
            assert sum(result is not None for result in wanted) > ROWS / 2
            assert worst_error(found[function], wanted) < goal, function
        # the square of a root has twice its error
        assert worst_error(found["std of var"], exact("var", stream, key, over)) < 2 * GOALS["var"]
        finite = [result is not None for result in exact("sum", stream, key, over)]
        assert [*compress(found["max"], finite)] == [*compress(largest(stream, key, over), finite)]


@pytest.mark.parametrize("stream", ADVERSARIAL)
@pytest.mark.parametrize("over", WINDOWS)
def test_digits_of_many_sizes(over: str, stream: str) -> None:
    """Several windows at once, whose sums are differences of the same prefix sums."""
    kind = type(WINDOWS[over])
    sizes = {str(n): kind(n) for n in (1, WIDTH, 200, 500)}
    got = sash.rolling(table(stream, 3), sizes, by="k", on="t", sum=sash.sum("x"), mean=sash.mean("x"))
    for key in range(3):
        rows = got.filter(np.equal(got.column("k"), key))
        for function in ("sum", "mean"):
            found = rows.column(f"{function}_{WIDTH}").to_pylist()
            assert worst_error(found, exact(function, stream, key, over)) < GOALS[function], function


LONG = 100_000
WIDE = 5000


@pytest.mark.parametrize("stream", ["spikes of 1e16", "level shift", "infinity now and then"])
def test_digits_of_a_long_column(stream: str) -> None:
    """As above, where a column may be cut into parts: some windows here and there, and all around its middle."""
    x = ADVERSARIAL[stream](LONG)
    rows = sorted({*range(0, LONG, 499), *range(LONG // 2 - 50, LONG // 2 + 50), LONG - 1})
    aggregates: Any = {name: getattr(sash, name)("x") for name in GOALS}
    data = {"t": np.arange(LONG), "x": np.array(x)}
    sums, asked = ExactSums(x), [(max(0, row + 1 - WIDE), row + 1) for row in rows]
    exacts = {name: sums.windows(name, asked) for name in GOALS}
    for window in (sash.Count(WIDE), sash.Time(WIDE)):
        got = sash.rolling(data, window, on="t", **aggregates)
        for function, goal in GOALS.items():
            assert worst_error(got[function][rows].tolist(), exacts[function]) < goal, function


@pytest.mark.parametrize("stream", ["spikes of 1e16", "level shift", "one spike of 1e300", "growing"])
def test_a_sum_that_subtracts_fails_here(stream: str) -> None:
    sums = np.cumsum(values(stream, 0))
    moved = sums - np.concatenate([np.zeros(WIDTH), sums[:-WIDTH]])
    assert worst_error(moved.tolist(), exact("sum", stream, 0, "count")) > 1e-9


@pytest.mark.parametrize("stream", ["offset of 1e9", "offset of -1e9, close", "level shift"])
def test_a_variance_of_squares_fails_here(stream: str) -> None:
    parts = [np.array(values(stream, 0)[start:end]) for start, end in windows(0, "count")]
    found = [((x * x).mean() - x.mean() ** 2) * len(x) / max(len(x) - 1, 1) for x in parts]
    assert worst_error(found, exact("var", stream, 0, "count")) > 1e-9
