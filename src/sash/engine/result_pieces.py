"""Results in pieces: slides of very many keys leave some keys at a time, and are never in memory together.

    slots due     │ 64 │ 512 │ 4096 …        groups of slots that have about `PIECE` results
    results       ─▶   ─▶    ─▶             each is computed when the one before it has left
    state         the rows enter before the first group; timers and eviction follow the last

It is one call of the operator: the state is saved behind the last piece, and a call that fails, or of which not all
pieces are taken, changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from sash.engine.input_checks import number
from sash.engine.live_backend import LiveBackend
from sash.engine.live_engine import LiveEngine
from sash.engine.metrics import replace
from sash.engine.operator import Operator
from sash.engine.pane_assigner import PaneAssigner
from sash.engine.reorder_buffer import TimedRows
from sash.engine.step_data import StepResult, WindowResults
from sash.engine.step_journal import StepJournal
from sash.engine.window_assigner import Ending

PIECE = 1 << 17
"""About so many results are in memory at once."""

FIRST = 64
"""Slots of the first piece: their results show how many slots the next one may have."""


def advance_pieces(operator: Operator, watermark: Any) -> Iterator[pa.RecordBatch]:
    """As `operator.advance`, with the results in pieces where they are slides in time; else in one."""
    work = operator.advancing(watermark)
    assert operator.bound_query.time is not None
    reached, backend = number(watermark, operator.bound_query.time), operator.backend
    now = operator.progress
    is_new = now.watermark is None or reached > now.watermark
    if not is_new or reached == math.inf or not isinstance(backend, LiveBackend) or not gives_pieces(backend.engine):
        yield operator.call(work)
        return
    with operator.attempting():
        rows_out = now.rows_out
        settled = backend.release_rows(backend.nothing, reached, closing=False)
        if backend.durable is not None:
            backend.load_keys(settled, reached, everything=False)
        for step in _steps(backend.engine, settled, reached):
            piece = backend.emitted(step)
            del step  # while the piece is used, its parts are not needed
            rows_out += piece.num_rows
            yield piece
        operator.save(replace(now, {"watermark": reached, "rows_out": rows_out}))


def gives_pieces(engine: LiveEngine) -> bool:
    """Is every result a slide in time, due by the watermark alone?"""
    in_panes = all(type(assigner) is PaneAssigner for assigner in engine.assigners)
    return in_panes and engine.bound_query.forget is None and engine.bound_query.query.emit == "final"


def _steps(engine: LiveEngine, given: TimedRows, now: Any) -> Iterator[StepResult]:
    """As `engine.step`, with the results of some slots at a time."""
    keys, order = engine.begin(given)
    slots, _, done = engine.ending(keys.touched, now, False, None, False)
    engine.journal = StepJournal.open(engine, slots, keys.fresh)
    rows = engine.enter(given, keys, order)
    groups = list(zip(engine.assigners, engine.aggregates, strict=True))
    for assigner, aggregates in groups:
        engine.take(assigner, aggregates, rows)
    first, size = 0, FIRST
    while first < len(slots):
        some = slots[first : first + size]
        found = list[WindowResults]()
        for assigner, aggregates in groups:
            found += engine.found(assigner, aggregates, rows, [Ending(some, now)])
        found.sort(key=lambda one: one.results.window)
        results = sum(len(one.results) for one in found)
        yield StepResult(rows, found)
        del found
        first, size = first + size, min(8 * size, max(PIECE * len(some) // max(results, 1), 1))
    engine.settle(slots, now, done)
