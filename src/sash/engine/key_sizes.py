"""Count the elements of each key in a store: reads the pages of buckets, without their segments."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sash.engine.live_backend import LiveBackend
from sash.engine.operator import Operator
from sash.kernels.loops.array_types import Ints
from sash.stores.envelope import decoding


def key_sizes(operator: Operator) -> Iterator[tuple[list[pa.Array], Ints]]:
    """For each bucket of an operator on a store: the values of its keys, column by column, and their elements.

    Yields nothing for eager state, which has no buckets. Raises PageError for damaged pages.
    """
    backend = operator.backend
    if not isinstance(backend, LiveBackend) or backend.durable is None:
        return
    durable, codec = backend.durable, backend.durable.codec
    running = len(backend.engine.assigners) - len(codec.arenas)
    for i in np.flatnonzero(durable.buckets.keys).tolist():
        name = durable.buckets.name(i)
        ((meta, batches),) = durable.transaction.read("bucket", [name], codec.stored_schemas)
        with decoding(f"page {name!r}"):
            stored = codec.read(meta, batches)
        durable.transaction.forget_reads([name])
        counts = np.full(stored.count, running, np.int64)
        for a in range(len(codec.arenas)):
            front, back = stored.ring(a)
            counts += back - front
        yield stored.keys, counts
