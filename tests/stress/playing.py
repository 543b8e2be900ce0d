"""Run a case on an operator with a store that may fail, and check what must hold afterwards.

    calls      0         1         2         3
    store      ▢         ▢         ✗         ▢         ▢        the call raises, and has changed nothing
    operator   ●─────────●─────────●─────────●─────────●        the same call again, and the rest
    another              └ opened from what the store has ─●    continues at the call that it finds, or is refused

The reference computes the results of each call (`tests/behaviour/differential.py` compares). The number of a call is
its `offset=`, so that an operator which is opened again knows where to continue.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pytest

from sash.engine import Operator
from sash.stores import MemoryStore, Store
from sash.testing import Reference
from tests.behaviour.differential import compare, run_step
from tests.shared.streams import Case, StreamStep


@dataclass(frozen=True)
class Play:
    """A case and its expected results. `steps` are its calls without snapshots, at which an operator is reopened."""

    case: Case

    @cached_property
    def steps(self) -> list[StreamStep]:
        """The calls, up to the first that the reference refuses."""
        return [step for step in self.case.steps if step.call != "snapshot"][: len(self.expected) + self.is_refused]

    @cached_property
    def reopened(self) -> set[int]:
        """The calls before which the case has a snapshot."""
        found: set[int] = set()
        number = 0
        for step in self.case.steps:
            if step.call == "snapshot":
                found.add(number)
            else:
                number += 1
        return found

    @cached_property
    def _reference_run(self) -> tuple[list[pa.RecordBatch], bool, tuple[int, int]]:
        reference, found = Reference(self.case.query, self.case.schema, mode=self.case.mode), []
        for step in self.case.steps:
            if step.call == "snapshot":
                continue
            try:
                found.append(run_step(reference, step))
            except ValueError:
                return found, True, (reference.late, reference.untimed)
        return found, False, (reference.late, reference.untimed)

    @property
    def expected(self) -> list[pa.RecordBatch]:
        """The results of each call."""
        return self._reference_run[0]

    @property
    def is_refused(self) -> bool:
        """Does the last of the calls raise a ValueError?"""
        return self._reference_run[1]

    @cached_property
    def clean(self) -> list[pa.RecordBatch]:
        """The results of an operator without faults, compared with the reference."""
        operator = self.opened(MemoryStore())
        found = [self.call(operator, number) for number in range(len(self.expected))]
        self.check(found)
        return found

    def opened(self, store: Store) -> Operator:
        """An operator that continues from the state of a store."""
        return Operator(self.case.query, self.case.schema, mode=self.case.mode, store=store)

    def call(self, operator: Operator, number: int) -> pa.RecordBatch:
        """Make a call. Where the reference raises, the operator must raise, too."""
        step = self.steps[number]
        if number == len(self.expected):
            with pytest.raises(ValueError):  # noqa: PT011 (what it says is tested where the rule is)
                run_step(operator, step)
            return None
        if step.call != "process":
            return run_step(operator, step)
        return operator.process(step.argument, offset=number)

    def done(self, operator: Operator) -> int:
        """The number of calls in the state of an operator."""
        number = 0 if operator.offset is None else int(operator.offset) + 1
        while number < len(self.expected) and self._has_reached(operator.watermark, self.steps[number]):
            number += 1
        return number

    def _has_reached(self, watermark: Any, step: StreamStep) -> bool:
        if step.call == "process" or watermark is None:
            return False
        reached = getattr(step.argument, "value", step.argument)
        return bool(watermark >= (math.inf if step.call == "finish" else reached))

    def rest(self, operator: Operator, store: Store, found: list[pa.RecordBatch]) -> None:
        """Make the calls that follow those with the results `found`, reopening where the case does."""
        first = len(found)
        for number in range(first, len(self.steps)):
            if number in self.reopened and number > first:
                operator = self.opened(store)
                assert self.done(operator) >= number, f"call {number - 1} is not in the store"
            found.append(self.call(operator, number))
        self.check(found[: len(self.expected)])
        if self.case.mode != "sorted":
            assert (operator.metrics.late, operator.metrics.untimed) == self._reference_run[2]

    def check(self, found: list[pa.RecordBatch]) -> None:
        """Compare results of the first calls with those of the reference."""
        compare(self.case, found, self.expected[: len(found)])
