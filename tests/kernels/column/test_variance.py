"""Variances over whole columns against fractions: long windows whose first row lies apart from all others."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sash

PATTERNS = {
    "near 100": (0.0, [100.1, 107.3]),
    "near 2": (-30.0, [2.1, 0.1]),
    "offset": (1e9, [1e9 + 0.1, 1e9 + 3.7, 1e9 - 1.3]),
    "small": (0.0, [1e-9, 3e-9, 7e-9]),
}


def exact(values: list[float]) -> Fraction:
    """The variance, with all its digits; the values are few different ones."""
    counts = {Fraction(value): count for value, count in Counter(values).items()}
    n = len(values)
    mean = sum(value * count for value, count in counts.items()) / n
    return sum((value - mean) ** 2 * count for value, count in counts.items()) / (n - 1)


@pytest.mark.parametrize("rows", [1_000, 300_000])
@pytest.mark.parametrize("name", PATTERNS)
def test_long_windows_keep_twelve_digits(name: str, rows: int) -> None:
    """However many rows they hold, and whatever the number of threads."""
    first, others = PATTERNS[name]
    values = [first, *others * (rows // len(others))]
    table = pa.table({"t": range(len(values)), "x": values})
    for window, size in (
        (sash.Time(2 * rows), 2 * rows),
        (sash.Time(rows // 3), rows // 3),
        (sash.Count(rows // 2), rows // 2),
        (sash.Lifetime(), 2 * rows),
    ):
        for threads in (1, 2):
            options = sash.Options(threads=threads)
            found = sash.rolling(table, window, on="t", options=options, v=sash.var("x"), s=sash.std("x"))
            for row in (2, rows // 2, rows // 2 + 1, len(values) - 1):
                expected = exact(values[max(0, row + 1 - size) : row + 1])
                if expected:
                    error = abs(Fraction(found["v"][row].as_py()) / expected - 1)
                    assert error < 1e-12, (window, threads, row, float(error))
                    deviation = Fraction(found["s"][row].as_py())
                    assert abs(deviation**2 / expected - 1) < 2e-12, (window, threads, row)
                else:
                    assert found["v"][row].as_py() == 0.0


def test_an_operator_keeps_them_too() -> None:
    first, others = PATTERNS["near 100"]
    values = [first, *others * 10_000]
    batch = pa.record_batch({"t": np.arange(len(values)), "x": values})
    operator = sash.Query(sash.Time(10**6), on="t", v=sash.var("x")).operator(batch.schema)
    found = pa.Table.from_batches([operator.process(batch), operator.finish()])
    assert abs(Fraction(found["v"][-1].as_py()) / exact(values) - 1) < 1e-12
