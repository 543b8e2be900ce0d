"""Helpers for the tests of single structures: a compiled aggregate that does not commute, and access to internals."""

import sash
from sash.aggregators.storage import Queue

AFFINE = sash.monoid(
    identity=(1, 0),
    lift=lambda x: (x % 97 + 1, x % 89),
    combine=lambda f, g: (f[0] * g[0] % 1009, (g[0] * f[1] + g[1]) % 1009),
    exact=True,
    name="affine",
)
"""Maps x -> f0 x + f1, one after the other, modulo a prime."""


def held(queue: Queue) -> int:
    """The number of slots that are not empty."""
    return sum(value is not None for chunk in queue.chunks.values() for value in chunk)
