"""Snapshots of other columns and states of another mode are refused by name."""

from typing import Any

import pytest

import sash
from sash.engine import Operator
from sash.stores import MemoryStore, PageError
from tests.engine.lookup_cases import MODES, SCHEMA, batch, query


def some_state(mode: str = "rows", **arguments: Any) -> tuple[sash.Query, Operator]:
    asked = query(sash.Time(4), **arguments)
    operator = asked.operator(mode=mode, store=MemoryStore())
    operator.process(batch(("a", 1, 2), ("a", 8, 3), ("a", 1, 4), ("b", 9, 1)))
    return asked, operator


def test_the_late_policy_may_change_between_snapshots() -> None:
    """`late` is not part of the state: late rows that were dropped before now raise, and nothing else changes."""
    _, operator = some_state()
    strict = Operator.restore(query(sash.Time(4), late="error"), operator.snapshot())
    with pytest.raises(ValueError, match=r"row \{'k': 'a', 't': 2, 'x': 1\} is late, and late='error' refuses it"):
        strict.process(batch(("a", 2, 1)))
    assert strict.finish().equals(operator.finish())


def test_a_state_of_another_mode_is_refused() -> None:
    for mode in MODES:
        asked, operator = some_state(mode) if mode != "sorted" else (query(sash.Time(4)), None)
        if operator is None:
            operator = asked.operator(mode=mode, store=MemoryStore())
            operator.process(batch(("a", 1, 2), ("b", 8, 3)))
        assert Operator.restore(asked, operator.snapshot()).mode == mode
        for other in set(MODES) - {mode}:
            with pytest.raises(PageError, match=rf"the state was written in mode '{mode}', not '{other}'"):
                asked.operator(SCHEMA, mode=other, store=operator.store)


@pytest.mark.parametrize("data", [None, "SASH", 5])
def test_a_snapshot_is_bytes(data: Any) -> None:
    with pytest.raises(TypeError, match=rf"a snapshot is the bytes .*; got a {type(data).__name__}"):
        Operator.restore(query(3), data)


@pytest.mark.parametrize("data", [b"", b"SA", b"PAR1" * 20, b"\0" * 100])
def test_bytes_that_are_no_snapshot(data: bytes) -> None:
    with pytest.raises(PageError, match=r"the snapshot (was not written by sash|is truncated)"):
        Operator.restore(query(3), data)
