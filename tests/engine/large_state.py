"""A process with far more state than memory: `python -m tests.engine.large_state FOLDER ELEMENTS MEMORY`.

Keys come in waves, each with a full window of elements; then some old keys come again, and their results must be those
of all their elements. Prints by how much the resident memory has grown, at most, from a first small wave on.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

import sash
from sash.stores import RocksDBStore

WINDOW = 1000
"""Elements of a key."""
KEYS = 20
"""Keys of a wave."""


def wave(first: int) -> pa.RecordBatch:
    """A thousand rows for each of some keys, in turn."""
    keys = np.tile(np.arange(first, first + KEYS), WINDOW)
    return pa.record_batch({"k": keys, "x": (keys * 7 + np.repeat(np.arange(WINDOW), KEYS)).astype(np.float64)})


def peak() -> int:
    """The most resident memory so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(folder: str, elements: int, memory: str) -> None:
    """Run the waves, and print how much memory they took."""
    options = sash.Options(memory=memory)
    query = sash.Query(WINDOW, by="k", options=options, high=sash.max("x"), total=sash.sum("x"))
    warm = query.operator(store=RocksDBStore(Path(folder) / "warm"))  # compiled, and RocksDB loaded
    warm.process(wave(0))
    base = peak()
    op = query.operator(store=RocksDBStore(Path(folder) / "pages"))
    count = elements // WINDOW
    for first in range(0, count, KEYS):
        op.process(wave(first), offset=first)
    assert op.metrics.elements == op.metrics.rows_in == count * WINDOW
    some = np.random.default_rng(1).choice(count, 20, replace=False)
    found = op.process(pa.record_batch({"k": some, "x": np.zeros(20)}))
    assert found["high"].to_pylist() == (some * 7.0 + WINDOW - 1).tolist()
    assert found["total"].to_pylist() == [float(sum(range(k * 7 + 1, k * 7 + WINDOW))) for k in some.tolist()]
    sys.stdout.write(f"{peak() - base} {op.state.backend.engine.nbytes}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
