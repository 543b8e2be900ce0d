"""Inject an error at every step that can fail, as SQLite is tested: the n-th operation of a store, for every n.

Each operation fails before it, after it, or in the middle of it (a store that is not atomic). After each of them

- the call has raised and has changed nothing: the same call again succeeds, and all results are those of the reference;
- an operator that is opened from what the store has continues exactly, or refuses a torn write with a PageError.
"""

from __future__ import annotations

from typing import Any

import pytest

from sash.engine import Operator
from sash.stores import MemoryStore, PageError
from tests.engine.test_small_pages import WINDOWS, small_case
from tests.shared.effort import THOROUGH
from tests.shared.faults import HOWS, Fault, FaultyStore
from tests.shared.small_state import small_pages
from tests.shared.streams import Case
from tests.stress.drawing import drawn, few_aggregates
from tests.stress.playing import Play


class EveryFault:
    """Runs a case repeatedly, each time with another operation that fails."""

    def __init__(self, case: Case, error: type[BaseException] = Fault) -> None:
        self.play, self.error = Play(case), error
        self.refused = self.faults = 0

    def run(self, hows: tuple[str, ...] = HOWS, step: int = 1, first: int = 1) -> None:
        """Let every `step`-th operation fail."""
        assert len(self.play.clean) == len(self.play.expected)
        for how in hows:
            at = first
            while self._struck(FaultyStore(MemoryStore(), at, how, seed=at, error=self.error)):
                at += step

    def _struck(self, store: FaultyStore) -> bool:
        """Run the case once; return False if it ended before the fault."""
        play, operator = self.play, None
        found: list[Any] = []
        while len(found) < len(play.steps) and not store.struck:
            number = len(found)
            try:
                if operator is None or number in play.reopened:
                    operator = None
                    operator = play.opened(store)
                before = self._progress(operator)
                found.append(play.call(operator, number))
            except self.error:
                assert store.struck, "an error that nobody has raised"
                if operator is not None and self._progress(operator) != before:
                    assert store.struck == "delete"  # which comes when the call has succeeded
                    found.append(play.clean[number])
        if not store.struck:
            return False
        self.faults += 1
        left = store.pages.copy()
        play.rest(operator or play.opened(store), store, list(found))
        self._from(left, store, min(len(found), len(play.expected)))  # a call that is refused leaves no trace
        return True

    def _progress(self, operator: Operator) -> Any:
        metrics = operator.metrics
        return metrics.rows_in, metrics.rows_out, metrics.late, metrics.keys, operator.watermark, operator.offset

    def _from(self, left: MemoryStore, store: FaultyStore, calls: int) -> None:
        """Open another operator on the state after a fault, and continue."""
        play = self.play
        try:
            operator = play.opened(left)
            done = play.done(operator)
            play.rest(operator, left, list(play.clean[:done]))
        except PageError:
            assert (store.how, store.struck) == ("torn", "put"), "a write that is whole was refused"
            self.refused += 1
            return
        assert done >= calls, f"{done} calls are in the store, and {calls} have succeeded"
        # a call to advance() that changes nothing leaves no trace in the state, and counts as made
        assert all(step.call == "advance" for step in play.steps[calls + 1 : done])


@pytest.mark.parametrize("seed", range(60 if THOROUGH else 4))
def test_every_fault_in_random_queries(seed: int) -> None:
    """Every operation, or every fourth one, with another start for each of four queries."""
    step = 1 if THOROUGH else 4
    with small_pages(2):
        EveryFault(drawn(few_aggregates(12), seed)).run(step=step, first=1 + seed % step)


KINDS = WINDOWS if THOROUGH else ("session", "slides", "counted")
EMITTED = [(name, emit) for name in ("time", "slides") for emit in ("changes", "eager")]
FIXED = [*((name, "final") for name in KINDS), *EMITTED]


@pytest.mark.parametrize(("name", "emit"), FIXED, ids=lambda value: value)
def test_faults_in_windows_of_every_kind(name: str, emit: str) -> None:
    """With runs, buckets and pages of the reorder buffer of a few rows."""
    every = EveryFault(small_case(WINDOWS[name], "rows", 2, emit=emit))
    with small_pages(2):
        for i, how in enumerate(HOWS):
            every.run((how,), 1 if THOROUGH else 41, 1 + 11 * i)
    assert every.faults >= 3


@pytest.mark.parametrize("emit", ["final", "eager"])
def test_an_interrupt_in_every_operation(emit: str) -> None:
    """An interrupt while pages are deleted: the call counts as successful, because old pages may be gone already."""
    every = EveryFault(small_case(WINDOWS["time"], "rows", 2, emit=emit), KeyboardInterrupt)
    with small_pages(2):
        every.run(("before", "after"), 1 if THOROUGH else 9)
    assert every.faults >= 5
