"""Sums, means and variances of columns that are longer than a piece, against exact arithmetic: streams that continue
from piece to piece, streams that make a piece fall back, and ranges whose steps are longer than a block."""

import math
import random
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pytest

from sash import monoids as m
from sash.kernels.column import exact_sum
from sash.kernels.column.column_kernels import CountBounds, RangeBounds, RowThreads, column_kernel_of
from sash.testing import ADVERSARIAL
from sash.testing.adversarial import ExactSums
from tests.shared.effort import THOROUGH

ROWS = exact_sum.PIECE + 4_000
STEP = 131 if THOROUGH else 599
"""Step between compared rows: exact arithmetic takes most of the time."""
CHANCE = np.random.default_rng(5)
NOISE = CHANCE.normal(size=ROWS)

STREAMS = {
    **{name: np.array(stream(ROWS)) for name, stream in ADVERSARIAL.items()},
    "a walk": np.cumsum(NOISE),
    "noise around 0": NOISE,
    "nothing, then something": np.where(np.arange(ROWS) < 9_000, 0.0, NOISE),
    "now and then a number": np.where(np.arange(ROWS) % 700 == 0, 3.25, 0.0),
    "cents": np.round(CHANCE.uniform(0, 500, ROWS), 2),
    "near the largest": NOISE * 1e306,
    "near the smallest": NOISE * 1e-306,
    "ever larger": np.exp(np.linspace(-600, 600, ROWS)),
    "ever smaller": np.exp(np.linspace(600, -600, ROWS)),
    "numbers that cancel": np.where(np.arange(ROWS) % 2 == 0, 1e17, -1e17) + NOISE,
}
FUNCTIONS = {"sum": m.Sum(), "mean": m.Mean(), "var": m.Var()}


def tolerance(name: str, stream: str) -> float:
    """What a result may be off by. Spikes that cancel leave a sum the digits that two floats have below them."""
    if name == "var":
        return 1e-10
    halves = 1.01 if name == "sum" else 2.01  # of the last digit: a mean is rounded twice
    return 1e-12 if stream.startswith("spikes") else halves * 2.0**-53


@lru_cache(1)
def exact_sums(stream: str) -> ExactSums:
    """For all tests of a stream, one after the other: to add up integers of a thousand bits takes most of the time."""
    return ExactSums(STREAMS[stream].tolist())


def check_results(name: str, stream: str, los: Any, his: Any, got: Any, uncertain: Any) -> None:
    """What is not uncertain has all its digits; no sum of finite values is uncertain, but at the ends of the range."""
    x, allowed = STREAMS[stream], tolerance(name, stream)
    rows = np.unique([*range(0, len(los), STEP), *range(min(len(los), 40)), len(los) - 1])
    exact = exact_sums(stream).windows(name, [(int(los[i]), int(his[i])) for i in rows])
    for i, wanted in zip(rows, exact, strict=True):
        if wanted is None or uncertain[i]:
            continue
        assert math.isfinite(got[i]), (i, got[i])
        assert abs(got[i] - wanted) <= allowed * abs(wanted), (i, got[i], float(wanted))
    if name != "var" and np.isfinite(x).all() and np.abs(x).max() < 1e300:
        assert not uncertain.any()


@pytest.mark.parametrize(("size", "threads"), [(17, 2), (600, 1), (9_000, 1)])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("stream", STREAMS)
def test_rows(name: str, stream: str, size: int, threads: int) -> None:
    x = STREAMS[stream]
    kernel = column_kernel_of(FUNCTIONS[name], ("float",))
    assert kernel is not None
    # two keys, of which the first is longer than a piece
    edges = np.array([0, ROWS - 1_500, ROWS])
    got, uncertain = RowThreads(threads).aggregate(kernel, x, CountBounds(size, edges, min(size, ROWS - 1_500)), ROWS)
    rows = np.arange(ROWS)
    los = np.maximum(np.where(rows < edges[1], 0, edges[1]), rows + 1 - size)
    check_results(name, stream, los, rows + 1, got, uncertain)


@cache
def _ranges(kind: str) -> RangeBounds:
    """Spans that never go back: of some length, in leaps, apart from each other, empty now and then."""
    chance = random.Random(3)
    los, his, lo, hi = [], [], 0, 0
    for i in range(ROWS):
        if kind == "as time goes":
            hi = i + 1
            lo = max(lo, hi - chance.randrange(900, 1_000))
        elif kind == "in leaps":
            if i % 900 == 0:
                hi = min(ROWS, hi + chance.choice([1, 400, 700, 3_000]))
                lo = min(hi, lo + chance.choice([0, 600, 2_500]))
        else:
            hi = max(hi, min(ROWS, i + chance.randrange(3)))
            lo = hi if i % 50 < 3 else max(lo, hi - 30)
        los.append(lo)
        his.append(hi)
    lengths = np.array(his) - np.array(los)
    return RangeBounds(np.array(los, np.int32), np.array(his, np.int32), int(lengths.min()), int(lengths.max()))


@pytest.mark.parametrize("kind", ["as time goes", "in leaps", "empty now and then"])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("stream", STREAMS)
def test_ranges(name: str, stream: str, kind: str) -> None:
    x, ranges = STREAMS[stream], _ranges(kind)
    kernel = column_kernel_of(FUNCTIONS[name], ("float",))
    assert kernel is not None
    got, uncertain = RowThreads(1).aggregate(kernel, x, ranges, ROWS)
    there = ranges.his - ranges.los >= kernel.least
    check_results(name, stream, ranges.los[there], ranges.his[there], got[there], uncertain[there])
