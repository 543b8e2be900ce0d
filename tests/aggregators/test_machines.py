"""Random operations on every structure, compared with a plain deque."""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from sash.aggregators.catalogue import IN_ORDER
from tests.conformance.machines import SUBJECTS, admits, machine, small_chunks

PAIRS = [
    (structure, subject)
    for structure, record in IN_ORDER.items()
    for subject, found in SUBJECTS.items()
    if admits(record.cls, found.monoid)
]


@pytest.mark.parametrize(("structure", "subject"), PAIRS)
def test_compared_with_a_deque(structure: str, subject: str) -> None:
    driven = machine(IN_ORDER[structure].cls, SUBJECTS[subject])
    with small_chunks():
        run_state_machine_as_test(driven, settings=settings(max_examples=settings.default.max_examples // 2))


def test_every_structure_is_driven() -> None:
    assert {structure for structure, _ in PAIRS} == IN_ORDER.keys()
