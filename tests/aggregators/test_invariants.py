"""`check_invariants` finds damage: each field and each slot of every structure is changed, and it must raise.

What is stored once, such as the elements of Recalc, can be compared with nothing: only an oracle judges it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from sash.aggregators import InOrder, storage
from sash.aggregators.catalogue import IN_ORDER
from sash.aggregators.in_order import RegisteredRanges, fields
from sash.monoids import Collect, Max, Mode, Quantile
from tests.conformance.machines import admits

STORED_ONCE = {
    "Recalc": {"vals", "F+1", "F-1", "F-1000", "E+1", "E-1", "E+1000"},
    "TwoStacks": {"fronts-1"},
    "TwoStacksLite": {"F-1", "F-1000"},
    "FlatFAT": {"F+1", "E+1", "old_front-1", "old_front-1000", "old_end-1", "old_end-1000"}
    | {f"meet{by:+}" for by in (1, -1, 1000, -1000)},
    "BInt": {"F+1", "E-1"},
    "FlatFIT": {"partials", "F+1"},
    "SlickDequeNonInv": {"H+1", "F+1", "F-1", "F-1000"} | {f"node{by:+}" for by in (1, -1, 1000, -1000)},
}
"""By structure: changes that leave a state which other elements could have."""


def windows(structure: type[InOrder]) -> tuple[list[Any], Any]:
    """Windows in states of a random run, some of them after a query, and an aggregate that is none of theirs."""
    monoid = next(one for one in (Collect(), Max(), Quantile(0.5, "lower"), Mode()) if admits(structure, one))
    chance, found = random.Random(structure.__name__), list[Any]()
    window: Any = structure(monoid, (3, 5)) if issubclass(structure, RegisteredRanges) else structure(monoid)
    for step in range(600):
        if len(window) and chance.random() < (0.35 if step % 60 < 30 else 0.6):
            window.evict()
        else:
            window.insert(step if isinstance(monoid, Collect) else chance.randrange(12))
        if hasattr(window, "evict_at") and len(window) > 20:
            window.evict_at(3)
        if chance.random() < 0.5:
            window.query()
        if 8 < len(window) < 30 and chance.random() < 0.1:
            window.check_invariants()
            found.append(window.copy())
    return found[:12], structure.form(monoid).lifted((10**6,))


def slots(stored: Any) -> list[Any]:
    """The places of a queue, or of the queues of all levels, that are in use."""
    if hasattr(stored, "queues"):
        return [(level, at) for level, one in enumerate(stored.queues) for at in slots(one)]
    chunks = stored.chunks.items()
    return [(c << storage.BITS) + i for c, chunk in chunks for i, value in enumerate(chunk) if value is not None]


def damaged(window: Any, name: str, kind: str, wrong: Any) -> Iterator[tuple[str, Any]]:
    """Copies of a window with one change in a field, each with what it is called."""
    if kind == "int":
        for by in (1, -1, 1000, -1000):
            twin = window.copy()
            setattr(twin, name, getattr(twin, name) + by)
            yield f"{name}{by:+}", twin
    elif kind in ("bool", "State"):
        twin = window.copy()
        setattr(twin, name, wrong if kind == "State" else not getattr(twin, name))
        yield name, twin
    else:
        for at in slots(getattr(window, name)):
            twin = window.copy()
            stored = getattr(twin, name)
            stored[at] = stored[at] + 1 if kind == "Ints" else wrong
            yield name, twin


@pytest.mark.parametrize("name", IN_ORDER)
def test_each_change_of_a_state_is_found(name: str) -> None:
    structure = IN_ORDER[name].cls
    states, wrong = windows(structure)
    assert len(states) > 5
    tried, found = set[str](), set[str]()
    for window in states:
        for field, kind in fields(structure).items():
            for change, twin in damaged(window, field, kind, wrong):
                tried.add(change)
                try:
                    twin.check_invariants()
                except AssertionError as error:
                    assert re.match(r"\w+: .", str(error))  # noqa: PT017 (some changes are not found)
                    found.add(change)
                except (IndexError, KeyError, TypeError, AttributeError, ValueError, RecursionError):
                    found.add(change)  # a place that is not there
    assert tried - found == STORED_ONCE.get(name, set())
