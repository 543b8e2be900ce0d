"""Return results in pieces, so that those of many rows, or of slides of many keys, are never in memory together.

    slots due     │ 64 │ 512 │ 4096 …        groups of slots with about `PIECE` results
    results       ─▶   ─▶    ─▶             a piece is computed when the last one has been taken
    state         rows are processed before the first group; timers and eviction follow the last

Slides are one call of the operator: the state is saved after the last piece. A call that fails, or whose pieces are not
all taken, changes nothing.

    rows          │ t0 … t1 │ t1 … t2 │ …    about `ROWS` buffered rows are released at a time
    results       ─▶        ─▶               those of the rows
    state         is saved after each piece, and evicted elements free memory for the next rows

Results at rows are a call for each piece, as if the watermark had advanced in steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from sash.columns.time_numbers import Watermark, greater
from sash.engine.intake.input_checks import in_units
from sash.engine.intake.progress import replace
from sash.engine.intake.reorder_buffer import TimedRows
from sash.engine.keyed.live_engine import LiveEngine
from sash.engine.keyed.row_assigner import RowAssigner
from sash.engine.keyed.step_data import StepResult, WindowResults
from sash.engine.keyed.window_assigner import Ending
from sash.engine.live_backend import LiveBackend
from sash.engine.operator import Operator
from sash.engine.query_state import QueryState
from sash.plan.time_axis import Number

PIECE = 1 << 17
"""The number of results of a piece, about."""

ROWS = 1 << 16
"""The least number of rows to release at once. With 500 keys and windows of 60 elements, 500,000 rows at once make
rings of 1,000 elements that shrink again; in parts they stay in the cache."""

A_KEY = 128
"""The least number of rows of a key to release at once, because the remaining elements are written after each part."""

FIRST = 64
"""Slots of the first piece: from its results the size of the next one is estimated."""


def advance_pieces(operator: Operator, watermark: Number) -> Iterator[pa.RecordBatch]:
    """As `operator.advance`, with the results in pieces where they are slides in time, or of rows; else in one.

    watermark: in units of the time column.
    """
    assert operator.state.bound_query.time is not None
    reached, backend = in_units(watermark, operator.state.bound_query.time), operator.state.backend
    before = operator.state.progress.watermark
    is_new = before is None or reached > before
    # rows in the buffer may fail, if they arrived with failed="error"; `call` sets them aside
    is_safe = not operator.state.opened.checks.lifts
    if is_new and is_safe and reached != math.inf and isinstance(backend, LiveBackend):
        if gives_pieces(backend.engine):
            yield from _slides(operator, backend, reached)
            return
        for stop in _stops(backend, before, reached):
            yield operator.call(partial(QueryState.advancing_to, reached=stop))
    yield operator.call(partial(QueryState.advancing_to, reached=reached))


def _slides(operator: Operator, backend: LiveBackend, reached: Number) -> Iterator[pa.RecordBatch]:
    """The results of slides, those of some slots at a time."""
    with operator.attempting() as state:
        now = state.progress
        rows_out = now.rows_out
        settled = backend.release_rows(backend.nothing, reached, closing=False)
        if backend.durable is not None:
            backend.load_keys(settled, reached, everything=False)
        for step in _steps(backend.engine, settled, reached):
            piece = backend.emitted(step)
            del step  # frees memory while the caller uses the piece
            rows_out += piece.num_rows
            yield piece
        newest = greater(now.newest, reached)
        changes = {"watermark": reached, "rows_out": rows_out, "newest": newest, **state.failed_results(now)}
        state.save(replace(now, changes))


def gives_pieces(engine: LiveEngine) -> bool:
    """Does the watermark alone make every result due, as for slides in time?"""
    return _is_plain(engine) and all(assigner.slides_in_time for assigner in engine.assigners)


def _is_plain(engine: LiveEngine) -> bool:
    return engine.bound_query.forget is None and engine.bound_query.query.emit == "final"


def _stops(backend: LiveBackend, before: Watermark, reached: Number) -> Iterator[Number]:
    """Watermarks below `reached` at which to stop: the least times of pages of buffered rows, some pages apart."""
    engine = backend.engine
    of_rows = all(type(assigner) is RowAssigner for assigner in engine.assigners)
    if backend.durable is None or not of_rows or not _is_plain(engine):
        return
    rows, least = 0, max(ROWS, A_KEY * (engine.keys.count + backend.durable.absent[0]))
    for page in sorted(backend.durable.buffered.waiting, key=lambda page: page.low):
        if page.low >= reached:
            return
        if rows >= least and (before is None or page.low > before):
            yield page.low
            rows, before = 0, page.low
        rows += page.rows


def _steps(engine: LiveEngine, given: TimedRows, now: Number) -> Iterator[StepResult]:
    """As `engine.step`, with the results of some slots at a time."""
    rows, scope = engine.begin(given, now)
    slots = scope.slots
    taken = [group.take(rows) for group in engine.groups]
    if not len(slots):  # rows that are elements are lifted together with the results
        for group, mine in zip(engine.groups, taken, strict=True):
            group.results(rows, mine, [Ending(slots, now)], engine.keys)
    first, size = 0, FIRST
    while first < len(slots):
        some = slots[first : first + size]
        found = list[WindowResults]()
        for g, group in enumerate(engine.groups):
            found += group.results(rows, taken[g], [Ending(some, now)], engine.keys)
            taken[g] = group.lifted(taken[g])
        found.sort(key=lambda one: one.results.window)
        results = sum(len(one.results) for one in found)
        yield StepResult(rows, found)
        del found
        first, size = first + size, min(8 * size, max(PIECE * len(some) // max(results, 1), 1))
    engine.settle(scope, now)
