"""Sums of many sizes from prefix sums, against exact arithmetic: on keys of several pieces, and whole."""

import math
from typing import Any

import numpy as np
import pytest

from sash.kernels.column import exact_sum, prefix_sums

SIZES = (1, 3, 8, 20)
EDGES = np.array([0, 45, 45, 50, 60])


def streams() -> dict[str, Any]:
    random = np.random.default_rng(4)
    return {
        "close": random.random(60),
        "offset": 1e9 + random.random(60),
        "magnitudes": random.random(60) * 10.0 ** random.integers(-30, 30, 60),
        "cancels": np.where(np.arange(60) % 2, 1e16, -1e16) + random.random(60),
        "not finite": np.where(np.arange(60) == 30, math.inf, random.random(60)),
    }


def starts(size: int) -> Any:
    begins = EDGES[np.searchsorted(EDGES, np.arange(60), "right") - 1]
    return np.maximum(begins, np.arange(60) + 1 - size)


@pytest.mark.parametrize("stream", streams())
@pytest.mark.parametrize("piece", [5, 8192])
@pytest.mark.parametrize("name", ["sum_of_sizes", "sum_of_ranges", "mean_of_sizes", "mean_of_ranges"])
def test_what_is_certain_is_exact(name: str, piece: int, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_sum, "PIECE", piece)
    x = streams()[stream]
    found, uncertain = np.full((len(SIZES), 60), np.nan), np.zeros(len(SIZES), np.int64)
    scratch = np.empty((4, max(piece, *SIZES) + 2 * max(SIZES) + 2))
    given: Any = (np.array(SIZES), EDGES)
    if name.endswith("ranges"):
        los = np.array([starts(size) for size in SIZES])
        given = (los, np.arange(1, 61), los.min(axis=0)[:: max(piece, *SIZES)])
    getattr(prefix_sums, name)(x, *given, max(SIZES), found, uncertain, scratch)
    assert stream != "not finite" or uncertain.all()
    assert stream not in ("close", "offset") or not uncertain.any()
    for k, size in enumerate(SIZES):
        if not uncertain[k]:
            exact = [math.fsum(x[lo : i + 1]) for i, lo in enumerate(starts(size).tolist())]
            counts = np.arange(1, 61) - starts(size) if name.startswith("mean") else 1
            np.testing.assert_allclose(found[k], np.array(exact) / counts, rtol=2e-16)
