"""Memory of kernels between guards."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sash.kernels.jit.state_layout import DTYPES, Layout

GUARD = 64
"""Cells before and after every array, which nobody may write."""


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Every array that a kernel writes lies between guards, and starts as garbage, not as zeros."""
    blocks: list[Any] = []

    def allocate(layout: Layout, length: int) -> tuple[Any, ...]:
        arrays = []
        for kind in layout.leaves:
            block = np.full(length + 2 * GUARD, 77, DTYPES[kind])
            blocks.append(block)
            arrays.append(block[GUARD : GUARD + length])
        return tuple(arrays)

    monkeypatch.setattr(Layout, "allocate", allocate)
    yield blocks
    assert blocks
    for block in blocks:
        outside = np.concatenate([block[:GUARD], block[-GUARD:]])
        assert (outside == np.full(2 * GUARD, 77, block.dtype)).all(), "a kernel wrote beyond its memory"
