"""Pages so small that every state has many of them. Only this module knows the constants that say so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from sash.state import bucket_log, buffer_pages, eager_pages
from sash.state import durable as durable_state


@contextmanager
def small_buckets(bucket: int, elements: int, waiting: int | None = None, merged: int | None = None) -> Iterator[None]:
    """Limit pages of keys to some bytes, those of long keys to some elements of 20 bytes.

    Those of rows that wait have `waiting` rows, and eager ones of `merged` calls are merged.
    """
    sizes = {
        (durable_state, "BUCKET"): bucket,
        (durable_state, "LARGE_BUCKET"): 4 * bucket,
        (durable_state, "SMALL_BUCKET"): bucket,
        (bucket_log, "LEAST"): 20 * elements,
        (bucket_log, "SEGMENT_SIZE"): 40 * elements,
    }
    if waiting is not None:
        sizes[buffer_pages, "ROWS"] = waiting
    if merged is not None:
        sizes[eager_pages, "FAN_OUT"] = merged
    with replaced(sizes):
        yield


@contextmanager
def small_pages(elements: int, merged: int = 3) -> Iterator[None]:
    """Make pages so small that all state takes many of them, and merge pages of `merged` calls."""
    sizes = {
        (buffer_pages, "MERGE"): 3,
        (eager_pages, "SPARSE"): 2,
    }
    with small_buckets(600, elements, 3, merged), replaced(sizes):
        yield


@contextmanager
def replaced(constants: dict[tuple[object, str], int]) -> Iterator[None]:
    """Give constants of modules other values."""
    with ExitStack() as stack:
        for (module, name), value in constants.items():
            stack.enter_context(mock.patch.object(module, name, value))
        yield
