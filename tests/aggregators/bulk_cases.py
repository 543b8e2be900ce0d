"""Helpers for the tests of bulk eviction: both structures, filled windows, and an aggregate that counts."""

from __future__ import annotations

from typing import Any

import pytest

import sash
from sash.aggregators import AMTA, LogMTA
from sash.aggregators.bulk_evict import BulkEvict
from tests.shared.effort import THOROUGH

both = pytest.mark.parametrize("structure", [LogMTA, AMTA])
STEP = 1 if THOROUGH else 5
"""Step between the eviction sizes whose costs are counted."""
COUNT = sash.monoid(identity=0, lift=lambda _x: 1, combine=lambda a, b: a + b, exact=True, name="count all")


def window_of(structure: type[BulkEvict], monoid: Any, values: Any, **keywords: Any) -> BulkEvict:
    window = structure(monoid, **keywords)
    for value in values:
        window.insert(value)
    return window


def whole_log(n: int) -> int:
    return n.bit_length() - 1
