"""Several queries whose state is larger than memory: at the end each has the results of an operator of its own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import sash
from sash.stores import MemoryStore
from sash.testing import assert_same
from tests.shared.small_state import small_buckets


def test_the_end_of_a_stream_gives_the_results_of_each_query(interpreted_kernels: None) -> None:  # noqa: ARG001
    chance = np.random.default_rng(3)
    options = sash.Options(memory=120_000)
    queries = {
        "rows": sash.Query(sash.Time(50), by="k", on="t", lateness=20, options=options, high=sash.max("x")),
        "slides": sash.Query(sash.Time(40, every=20), by="k", on="t", lateness=20, options=options, n=sash.count()),
    }
    with small_buckets(2000, 20):
        together = sash.Queries(**queries).operator(store=MemoryStore())
        alone = {name: query.rewritten(options=sash.Options()).operator() for name, query in queries.items()}
        for call in range(4):
            keys = chance.integers(0, 400, 120)
            times = 30 * call + chance.integers(0, 20, 120)
            batch = pa.record_batch({"k": keys, "t": times, "x": chance.normal(size=120)})
            found = together.process(batch)
            for name, operator in alone.items():
                assert_same(found[name], operator.process(batch), by=["k"])
        ended = together.finish()
        for name, operator in alone.items():
            wanted = operator.finish()
            assert wanted.num_rows > 60
            assert_same(ended[name], wanted, by=["k"])
