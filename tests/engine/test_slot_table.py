"""The slot table stays consistent when it is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from sash.engine.keyed import slot_table as module
from sash.engine.keyed.slot_table import SlotTable
from tests.engine.interrupts import interrupted

BLANKS = {"keys": [7], "stamps": [1, 2, 3], "latest": -1}


def a_table(*, slots: int) -> SlotTable:
    table = SlotTable()
    for name, blank in BLANKS.items():
        table.add(name, np.int64, blank, derived=name == "latest")
    if slots:
        table.grow(slots)
        table["stamps"][:] = 5
    return table


CALLS: dict[str, tuple[int, Callable[[SlotTable], Any]]] = {
    "the first slots": (0, lambda table: table.grow(4)),
    "more slots": (2, lambda table: table.grow(8)),
    "one more array": (2, lambda table: table.add("more", np.int64, [9, 9])),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_interrupt_before_any_line_leaves_a_table_that_continues(call: str) -> None:
    slots, work = CALLS[call]
    table = a_table(slots=slots)
    after = 0
    while interrupted(partial(work, table), module, after):
        table.clear(np.arange(0))
        table.grow(12)
        saved = table.save(np.array([1]))
        table.clear(np.array([1]))
        assert {name: table[name][1].tolist() for name in BLANKS} == BLANKS
        table.restore(np.array([1]), saved)
        assert table["stamps"][0].tolist() == ([5, 5, 5] if slots else [1, 2, 3])
        table, after = a_table(slots=slots), after + 1
    assert after > 5
