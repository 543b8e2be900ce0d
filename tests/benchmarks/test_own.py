"""The monoids of the benchmark compute the same as the functions they are compared with."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from benchmarks.own import OWN, by_pandas, by_polars, ours

X = np.random.default_rng(3).random(60) + 0.5


@pytest.mark.parametrize("name", OWN)
def test_the_same_results(name: str) -> None:
    monoid, function = OWN[name]
    for frame, other in ((pd.DataFrame({"x": X}), by_pandas), (pl.DataFrame({"x": X}), by_polars)):
        found, theirs = (result["out"].to_numpy() for result in (ours(frame, 9, monoid), other(frame, 9, function)))
        np.testing.assert_allclose(found, theirs, rtol=1e-12)
