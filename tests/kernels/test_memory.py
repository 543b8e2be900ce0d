"""Raw memory: kernels write through pointers without a check, so what they are given must be exactly enough."""

from typing import Any

import numpy as np
import pytest

from sash.aggregators import InOrder
from sash.aggregators.base import STORED, fields
from sash.aggregators.catalogue import IN_ORDER
from sash.aggregators.in_order import EVICT, INSERT
from sash.kernels import bulk, replay, slide, steady
from sash.monoids import Max, Mode, Monoid, Quantile
from sash.monoids.sums import Sum

every = pytest.mark.parametrize("structure", [record.cls for record in IN_ORDER.values()])


def fitting(structure: type[InOrder]) -> Monoid:
    by_need = {"inverse": Sum(), "order_statistic": Quantile(0.5, "lower"), "most_frequent": Mode()}
    return next((monoid for need, monoid in by_need.items() if need in structure.needs), Max())


def in_a_loop(structure: type[InOrder], column: Any, operations: Any) -> list[Any]:
    window = structure(fitting(structure))
    values = iter(column.tolist())
    results = []
    for operation in operations:
        if operation == INSERT:
            window.insert(next(values))
        else:
            window.evict()
        results.append(window.query() if len(window) else None)
    return results


def up_and_down(largest: int) -> list[int]:
    """Grow to the largest size and shrink to nothing, then slide at the largest size, past the end of every ring."""
    filled = [INSERT] * largest
    return filled + [EVICT] * largest + filled + [EVICT, INSERT] * (3 * largest + 5) + [EVICT] * largest + [INSERT]


@pytest.mark.usefixtures("guarded")
@every
def test_windows_as_large_as_their_memory(structure: type[InOrder]) -> None:
    """Sizes at a power of two, where the ring is full to the last slot, and one beyond, where it doubles."""
    for largest in (1, 2, 3, 4, 5, 8, 9, 16, 17, 64, 65):
        operations = np.array(up_and_down(largest), np.int8)
        column = np.random.default_rng(largest).integers(-1000, 1000, int(operations.sum()))
        found = replay(structure, fitting(structure), (column,), operations)
        assert found.why_interpreted == ""
        assert found.to_list() == in_a_loop(structure, column, operations)
        found.structure.check_invariants()
        assert len(found.structure) == 1


@every
def test_memory_is_a_power_of_two(structure: type[InOrder]) -> None:
    """A slot is found by a mask."""
    stored = [name for name, kind in fields(structure).items() if kind in STORED]
    assert stored
    for name in stored:
        for largest in (*range(1, 70), 1000, 1023, 1024, 1025, 2**20, 2**20 + 1):
            slots = structure.slots(name, largest)
            assert slots > 0
            assert slots & (slots - 1) == 0


@pytest.mark.usefixtures("guarded")
def test_slides_and_steady_runs_stay_within() -> None:
    structure = IN_ORDER["DABA"].cls
    column = np.random.default_rng(0).normal(size=40)
    for width in (1, 2, 3, 4, 5, 8, 16, 17, 32, 39, 40, 41, 10**9):
        expected = [max(column[max(i + 1 - width, 0) : i + 1]) for i in range(40)]
        assert slide(structure, Max(), (column,), width).to_list() == expected
        if width < 40:
            assert steady(structure, Max(), (column,), width).to_list() == expected[width:]


@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize("structure", [IN_ORDER["AMTA"].cls, IN_ORDER["LogMTA"].cls])
def test_batches_stay_within(structure: type[InOrder]) -> None:
    column = np.random.default_rng(0).normal(size=200)
    for width, step in ((1, 1), (1, 7), (7, 1), (8, 8), (16, 17), (33, 31), (64, 64), (100, 100)):
        ends = range(width + step, 201, step)
        expected = [max(column[end - width : end]) for end in ends]
        assert bulk(structure, Max(), (column,), width, step).to_list() == expected


@pytest.mark.usefixtures("guarded")
def test_results_that_are_null_are_marked() -> None:
    """Null results are marked, since their cells may hold any value."""
    found = replay(IN_ORDER["DABA"].cls, Max(), (np.arange(3.0),), np.array([INSERT, EVICT, INSERT], np.int8))
    assert found.to_list() == [0.0, None, 1.0]
    assert found.valid.tolist() == [True, False, True]
