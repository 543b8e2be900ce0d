"""Helpers for the tests of bulk eviction: both structures, filled windows, and an aggregate that counts."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

import sash
from sash.aggregators import AMTA, LogMTA
from sash.aggregators.bulk_evict import BulkEvict
from sash.aggregators.catalogue import IN_ORDER
from sash.monoids.op_counter import OpCounter
from tests.shared.effort import THOROUGH

both = pytest.mark.parametrize("structure", [LogMTA, AMTA])
STEP = 1 if THOROUGH else 5
"""Step between the eviction sizes whose costs are counted."""
PLAIN = sash.monoid(identity=0, combine=lambda a, b: a + b, exact=True, name="plain sum")
COUNT = sash.monoid(identity=0, lift=lambda _x: 1, combine=lambda a, b: a + b, exact=True, name="count all")


def window_of(structure: type[BulkEvict], monoid: Any, values: Any, **keywords: Any) -> BulkEvict:
    window = structure(monoid, **keywords)
    for value in values:
        window.insert(value)
    return window


def whole_log(n: int) -> int:
    return n.bit_length() - 1


def worst_costs(structure: type[BulkEvict]) -> dict[str, dict[int, int]]:
    """The greatest cost of each operation, by the logarithm of the size; none exceeds that of the catalogue.

    Whatever the place of the window: on a copy of each, queried before or not, each operation once.
    """
    counted, worst = OpCounter(PLAIN), IN_ORDER[structure.__name__].worst
    seen: dict[str, dict[int, int]] = {operation: defaultdict(int) for operation in worst}
    for start in range(66):
        window = window_of(structure, counted, [1] * start)
        window.evict_many(start)
        for size in range(1, 66):
            window.insert(1)
            for queried in (False, True):
                twin = window.copy()
                if queried:
                    twin.query()
                for operation in ("query", "insert", "evict", "query"):
                    n = len(twin) + (operation == "insert")
                    if operation == "evict" and n == 1:
                        break
                    counted.taken()
                    getattr(twin, operation)(*[1] * (operation == "insert"))
                    cost = counted.taken()
                    assert cost <= worst[operation].at(n), (operation, start, size)
                    seen[operation][whole_log(n)] = max(seen[operation][whole_log(n)], cost)
    return seen
