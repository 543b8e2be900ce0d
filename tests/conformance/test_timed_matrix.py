"""Time-ordered structures with every monoid, interpreted and compiled, compared with folding a plain dict.

interpreted    structure × monoid × arrivals
compiled       structure × typed form, all arrivals: a nested state for FiBA, a scalar for its baseline, and all of them
               under the marker `all_compiled`; operators compile FiBA with a scalar, too
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from sash.aggregators.base import fold
from sash.kernels.loops.runner import replay_timed, with_arity
from sash.kernels.loops.timed_loops import BETWEEN, EVICT, INSERT, REMOVE, THROUGH
from sash.monoids.algebra import Monoid, agree
from sash.monoids.sketches import SketchMonoid
from tests.conformance.test_matrix import (
    FORMS,
    MONOIDS,
    Form,
    Run,
    columns_of,
    same_results,
    sort_of,
    state_shape,
    types_of,
)
from tests.shared.discovery import sample_kinds, sample_rows
from tests.shared.timed_structures import TIMED
from tests.shared.workloads import ARRIVALS

LENGTH = 60
Step = tuple[int, int, int]
"""An operation, its time, and for BETWEEN the end."""


def steps(arrival: str, length: int) -> list[Step]:
    """Events as they arrive, with evictions and queries of ranges between them."""
    taken: list[Step] = []
    times = ARRIVALS[arrival](length)
    for i, time in enumerate(times):
        taken.append((INSERT, time, time))
        if i % 4 == 3:
            taken.append((EVICT, 0, 0))
        if i % 5 == 4:
            taken.append((REMOVE, times[i * i % (i + 1)], 0))
        if i % 6 == 5:
            taken.append((BETWEEN, time // 2, time + 3))
        if i % 29 == 28:
            taken.append((THROUGH, min(times[: i + 1]) + 9, 0))
    return taken


@dataclass(frozen=True)
class Answers:
    """The results of a window after each step, and its elements at the end."""

    run: Run
    elements: list[Any]


def oracle_run(monoid: Monoid, todo: list[Step], rows: list[Any]) -> Answers:
    """A dict of the state at each time, folded in order of time."""
    at: dict[int, Any] = {}
    waiting, results, aggregates = iter(rows), [], []
    for operation, time, until in todo:
        if operation == INSERT:
            state = monoid.lifted(next(waiting))
            at[time] = monoid.combine(at[time], state) if time in at else state
        elif operation == EVICT and at:
            del at[min(at)]
        elif operation == REMOVE:
            at.pop(time, None)
        elif operation == THROUGH:
            at = {t: state for t, state in at.items() if t > time}
        asked = [at[t] for t in sorted(at) if operation != BETWEEN or time <= t <= until]
        aggregates.append(fold(monoid, iter(asked)))
        results.append(monoid.lower(aggregates[-1]) if asked else monoid.nothing())
    return Answers(Run(results, aggregates, None), sorted(at.items(), key=lambda pair: pair[0]))  # type: ignore[arg-type]


def window_run(window: Any, todo: list[Step], rows: list[Any]) -> Answers:
    waiting, results, aggregates = iter(rows), [], []
    for operation, time, until in todo:
        if operation == INSERT:
            window.insert(time, *next(waiting))
        elif operation == EVICT and window:
            window.evict()
        elif operation == REMOVE:
            window.evict(time)
        elif operation == THROUGH:
            window.evict_through(time)
        if operation == BETWEEN:
            results.append(window.query(time, until))
            aggregates.append(window.between(time, until, True, True)[1])
        else:
            results.append(window.query())
            aggregates.append(window.aggregate())
    return Answers(Run(results, aggregates, window), list(window))


@functools.cache
def oracle(name: str, arrival: str) -> tuple[list[Any], Answers]:
    rows = sample_rows(sample_kinds(MONOIDS[name]), LENGTH)
    return rows, oracle_run(MONOIDS[name], steps(arrival, LENGTH), rows)


@pytest.mark.parametrize("name", MONOIDS)
@pytest.mark.parametrize("structure", TIMED)
def test_interpreted(structure: str, name: str) -> None:
    monoid, cls = MONOIDS[name], TIMED[structure].cls
    for number, arrival in enumerate(ARRIVALS):
        rows, expected = oracle(name, arrival)
        found = window_run(cls(monoid, min_arity=2 + number % 3), steps(arrival, LENGTH), rows)  # type: ignore[call-arg]
        for step, (aggregate, defined) in enumerate(zip(found.run.aggregates, expected.run.aggregates, strict=True)):
            assert monoid.same(aggregate, defined), (arrival, step)
        found.run.window.check_invariants()
        assert [time for time, _ in found.elements] == [time for time, _ in expected.elements]
        if not isinstance(monoid, SketchMonoid):  # the estimates of a sketch depend on the grouping, within its bounds
            same_results(monoid, found.run.results, expected.run, monoid.exact)
            assert agree([state for _, state in found.elements], [state for _, state in expected.elements])


# ---- compiled ----

CHOSEN = {("FiBA", "min * first * count(int)"), ("AugmentedBTree", "max(float)")}


def pairs() -> list[tuple[str, Form]]:
    """Every form on one of the structures in turn, and every shape of states on each of them: a tree takes 4 s."""
    in_turn = zip(itertools.cycle(TIMED), FORMS, strict=False)
    shapes = {state_shape(form): form for form in FORMS}
    chosen = ((s, form) for form in FORMS for s in TIMED if (s, str(form)) in CHOSEN)
    return [*dict.fromkeys([*in_turn, *itertools.product(TIMED, shapes.values()), *chosen])]


COMPILED = [
    pytest.param(s, form, id=f"{s}-{form}", marks=() if (s, str(form)) in CHOSEN else pytest.mark.all_compiled)
    for s, form in pairs()
]


@pytest.mark.parametrize(("structure", "form"), COMPILED)
def test_compiled(structure: str, form: Form) -> None:
    """On times that are ints for scalar states, floats for others; nodes are small, so that shapes change often."""
    kind = np.int64 if sort_of(form) == "scalar" else np.float64
    for arrival in ARRIVALS:
        todo = steps(arrival, LENGTH)
        rows = sample_rows(form.kinds, LENGTH)
        try:
            typed = oracle_run(form.typed, todo, rows)
        except OverflowError:
            rows = [tuple(value % 3 - 1 for value in row) for row in rows]
            typed = oracle_run(form.typed, todo, rows)
        generic = oracle_run(form.generic, todo, rows)
        operations, times, until = (np.array(part) for part in zip(*todo, strict=True))
        found = replay_timed(
            with_arity(TIMED[structure].cls, 2),  # type: ignore[arg-type]
            form.generic,
            columns_of(form, rows),
            operations.astype(np.int8),
            times.astype(kind),
            until.astype(kind),
        )
        assert found.why_interpreted == ""
        found.structure.check_invariants()
        assert len(found.structure) == len(generic.elements)
        assert [time for time, _ in found.structure] == [time for time, _ in generic.elements]
        asked = [y if ok else form.generic.empty for y, ok in zip(found.to_list(), found.valid, strict=True)]
        same_results(form.typed, asked, typed.run, form.typed.exact)
        same_results(form.typed, asked, generic.run, exact=False)
        assert list(map(types_of, asked)) == list(map(types_of, generic.run.results))


def test_what_is_compiled_each_time() -> None:
    forms = {str(form): form for form in FORMS}
    assert {sort_of(forms[name]) for _, name in CHOSEN} == {"scalar", "nested"}
    assert {structure for structure, _ in CHOSEN} == TIMED.keys()
