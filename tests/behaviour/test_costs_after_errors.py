"""What a call costs after one that has failed: no more ⊕ than without the failure, as nothing is rebuilt."""

from __future__ import annotations

import math

import pytest

from tests.behaviour.test_costs import STRUCTURES, Running, full

pytestmark = pytest.mark.filterwarnings("ignore:.*runs interpreted")
N = 256


def call(running: Running, raises_at: float) -> int:
    """A call of nine rows on a full window, made again if it fails. Returns the ⊕ of the call that succeeds."""
    first = N + N // 4
    times = [*range(first, first + 9)]
    running.operator.process({"k": [1] * 9, "t": times, "x": [t * 7919 % 1009 for t in times]})
    running.counted.raises_at = raises_at
    running.counted.calls = 0
    if raises_at < math.inf:
        with pytest.raises(Exception, match="Raised"):  # the engine names the aggregate in an error of its own
            running.operator.advance(first + 9)
        running.counted.raises_at = math.inf
    return running.advance(first + 9)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_failed_call_makes_the_next_one_no_more_expensive(structure: str) -> None:
    clean = call(full(structure, N), math.inf)
    for raises_at in {1, clean // 2 or 1, clean}:
        assert call(full(structure, N), raises_at) <= clean, raises_at


@pytest.mark.parametrize("structure", STRUCTURES)
def test_nor_any_later_one(structure: str) -> None:
    costs = []
    for raises_at in (math.inf, 3):
        running = full(structure, N)
        call(running, raises_at)
        at = N + N // 4 + 9
        costs.append([running.give([at + i]) for i in range(40)])
    assert sum(costs[1]) <= sum(costs[0])
