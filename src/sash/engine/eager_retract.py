"""Retraction for emit="eager": a row that retracts removes the last earlier row of the same key and `on`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sash.engine.eager_change import Removed
from sash.engine.eager_rows import NewRows
from sash.engine.eager_state import EagerState
from sash.engine.key_values import decode
from sash.kernels.loops import eager_order
from sash.kernels.loops.array_types import Ints


def retracted(state: EagerState, rows: NewRows, column: Any) -> tuple[NewRows, Removed, Ints]:
    """The rows to insert, the rows to remove, and the numbers of rows of the batch that are not inserted.

    A row that retracts one of its own call cancels it; one that finds no row to retract is ignored.
    """
    takes = decode(column).fill_null(False).to_numpy(zero_copy_only=False)[rows.source]
    if not takes.any():
        return rows, Removed(*(part[:0] for part in (rows.slots, rows.slots, rows.time, rows.rids))), rows.rids[:0]
    index = np.empty(len(rows), np.int64)
    lists = state.rows
    given = (rows.slots, rows.time, rows.rids)
    lists.run(eager_order.find_rows, *given, lists.heads, lists.lists, lists.tie_codes, index)
    waiting: dict[Any, list[int]] = {}
    known: dict[Any, int] = {}
    stays, gone = ~takes, []
    for i in np.argsort(lists.arrival[rows.rids], kind="stable").tolist():
        name = (int(rows.slots[i]), rows.time[i].item(), *lists.tie_codes[rows.rids[i]].tolist())
        if not takes[i]:
            waiting.setdefault(name, []).append(i)
        elif waiting.get(name):
            stays[waiting[name].pop()] = False
        else:
            at = known.setdefault(name, int(index[i]))
            if at >= 0 and _is_alike(state, rows, i, at):
                gone.append((int(rows.slots[i]), at))
                known[name] = at - 1
    places = np.array(sorted(gone), np.int64).reshape(-1, 2)
    slots, index_of = places[:, 0].copy(), places[:, 1].copy()
    removed = Removed(slots, index_of, lists.time_at(slots, index_of), lists.at(slots, index_of))
    return rows.taken(stays), removed, rows.rids[~stays]


def _is_alike(state: EagerState, rows: NewRows, i: int, at: int) -> bool:
    """Does the row at an index of the slot have the time and tie-breakers of a new row?"""
    lists, slot = state.rows, rows.slots[i : i + 1]
    index = np.array([at])
    same_time = bool(lists.time_at(slot, index)[0] == rows.time[i])
    return same_time and bool((lists.tie_codes[lists.at(slot, index)] == lists.tie_codes[rows.rids[i : i + 1]]).all())
