"""What the tests of single structures share: an aggregate that compiles and does not commute, and a look inside."""

import sash
from sash.aggregators.queue import Queue

AFFINE = sash.monoid(
    identity=(1, 0),
    lift=lambda x: (x % 97 + 1, x % 89),
    combine=lambda f, g: (f[0] * g[0] % 1009, (g[0] * f[1] + g[1]) % 1009),
    exact=True,
    name="affine",
)
"""Maps x -> f0 x + f1, one after the other, modulo a prime."""


def held(queue: Queue) -> int:
    """How many slots hold something."""
    return sum(value is not None for chunk in queue.chunks.values() for value in chunk)
