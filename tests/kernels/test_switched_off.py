"""NUMBA_DISABLE_JIT: everything runs as Python, gives the right results, and warns of nothing."""

import os
import subprocess
import sys

PROGRAM = """
import warnings
warnings.simplefilter("error")
import numpy as np
import pyarrow as pa
import sash
from sash.kernels.jit.compile import compiled_kernels
from sash.stores import MemoryStore
from sash.testing import Reference, assert_same

draw = np.random.default_rng(3)
values = draw.integers(0, 9, 60) / 4
values[:4] = 0.0  # equal values and a single one: 0 / 0 inside the variance
batch = pa.record_batch({"k": draw.integers(0, 3, 60), "t": np.arange(60), "x": values})
known = {"n": sash.count(), "mean": sash.mean("x"), "std": sash.std("x"), "high": sash.max("x")}
known["mid"] = sash.median("x")
own = sash.monoid(identity=0.0, lift=lambda x: x / 2, combine=lambda a, b: a + b)
for window in (sash.Time(9), sash.Count(4), sash.Session(2), sash.Time(6, every=2)):
    query = sash.Query(window, by="k", on="t", half=own("x"), **known)
    reference = Reference(query, batch.schema)
    expected = pa.Table.from_batches([reference.process(batch), reference.finish()])
    store = MemoryStore()
    first = query.operator(store=store).process(batch.slice(0, 30))
    again = query.operator(store=store)
    found = pa.Table.from_batches([first, again.process(batch.slice(30)), again.finish()])
    loose = {"mean": 1e-12, "std": 1e-12}
    order = [("t", "ascending")] if query.per_row else [("window_end", "ascending"), ("k", "ascending")]
    assert_same(found.sort_by(order), expected.sort_by(order), loose=loose)
    assert_same(query.run(pa.Table.from_batches([batch])).sort_by(order), expected.sort_by(order), loose=loose)
assert compiled_kernels == []
"""


def test_python_gives_what_the_reference_gives() -> None:
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
