"""Results do not depend on how many threads share the rows: a range within a key counts its whole first window."""

from typing import Any

import numpy as np
import pytest

import sash
from sash.kernels.column import column_kernels

AGGREGATES: dict[str, Any] = {
    "few": sash.count_distinct("i"),
    "many": sash.count_distinct("x"),
    "mid": sash.median("i"),
    "place": sash.rank("x"),
    "total": sash.sum("i"),
    "high": sash.max("x"),
}


@pytest.mark.parametrize("size", [1, 3, 40])
def test_any_number_of_threads(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(2)
    rows = {"k": np.sort(random.integers(0, 3, 300)), "i": random.integers(0, 9, 300), "x": random.normal(size=300)}
    monkeypatch.setattr(column_kernels, "SHARE", 8)
    alone, shared = (
        sash.rolling(rows, size, by="k", options=sash.Options(threads=threads), **AGGREGATES) for threads in (1, 5)
    )
    for name in AGGREGATES:
        assert alone[name].tolist() == shared[name].tolist(), name
    held = [
        set(rows["i"][max(row + 1 - size, int(np.searchsorted(rows["k"], key))) : row + 1].tolist())
        for row, key in enumerate(rows["k"])
    ]
    assert shared["few"].tolist() == list(map(len, held))


@pytest.mark.parametrize("window", [sash.Count, sash.Time])
def test_any_number_of_threads_for_many_sizes(window: Any) -> None:
    random = np.random.default_rng(3)
    x = random.random(600) * 2.0 ** random.integers(-60, 0, 600)  # some digits of a sum are rounded
    rows = {"k": random.integers(0, 3, 600), "t": np.arange(600), "x": x}
    windows = {f"w{n}": window(n) for n in (*range(5, 90, 4), 400)}
    alone, shared = (
        sash.rolling(rows, windows, by="k", on="t", options=sash.Options(threads=threads), total=sash.sum("x"))
        for threads in (1, 3)
    )
    for name in windows:
        assert alone[f"total_{name}"].tolist() == shared[f"total_{name}"].tolist(), name
