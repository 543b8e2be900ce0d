"""Pages so small that every state has many of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from sash.state import bucket_log
from sash.state import durable as durable_state


@contextmanager
def small_buckets(bucket: int, elements: int) -> Iterator[None]:
    """Limit bucket pages to this many bytes, and make segments of this many elements.

    Elements take some 20 bytes each.
    """
    sizes = {
        (durable_state, "BUCKET"): bucket,
        (durable_state, "LARGE_BUCKET"): 4 * bucket,
        (durable_state, "SMALL_BUCKET"): bucket,
        (bucket_log, "LEAST"): 20 * elements,
        (bucket_log, "SEGMENT_SIZE"): 40 * elements,
    }
    with ExitStack() as stack:
        for (module, name), size in sizes.items():
            stack.enter_context(mock.patch.object(module, name, size))
        yield
