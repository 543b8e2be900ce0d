"""Random operations on the time-ordered structures, compared with a plain dict."""

from unittest import mock

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from sash.aggregators import storage
from tests.conformance.machines import SUBJECTS
from tests.conformance.timed_machines import timed_machine
from tests.shared.timed_structures import TIMED


@pytest.mark.parametrize("back", [0, 4])
@pytest.mark.parametrize("min_arity", [2, 3])
@pytest.mark.parametrize("subject", ["join", "max"])
@pytest.mark.parametrize("structure", TIMED)
def test_compared_with_a_dict(structure: str, subject: str, min_arity: int, back: int) -> None:
    """`back=0`: as compiled, nodes that are done with are taken again and not returned."""
    driven = timed_machine(TIMED[structure].cls, SUBJECTS[subject], min_arity)  # type: ignore[arg-type]
    if back == 0:
        driven.length = driven.memory_follows_the_window = lambda _self: None
    with mock.patch.object(storage, "BACK", back):
        run_state_machine_as_test(driven, settings=settings(max_examples=settings.default.max_examples // 3))


def test_every_structure_is_driven() -> None:
    assert TIMED.keys() == {"AugmentedBTree", "FiBA"}
