"""The emitter of emit="changes": selects results that differ from the last one of their key.

Exact aggregates are compared by value, others by whether an input entered or left the window. The slot of a key has its
last emitted result: a position in a log of results, and for each aggregate the number of values that the key had at the
window's start and at its end. Counts of a window that was not full are stored as complements: two inexact results also
differ if only one of the windows is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array, differ
from sash.columns.projected_results import Projector, compared_cells, flags
from sash.engine.keyed.chunk_log import PlaceLog
from sash.engine.keyed.live_engine import LiveEngine
from sash.engine.keyed.step_data import StepResult, WindowResults
from sash.engine.keyed.value_encoder import LARGE
from sash.kernels.loops.array_types import Flags, Ints


@dataclass
class Compared:
    """Results to compare: their slots, values and counts."""

    slots: Ints
    restarted: Ints | None
    columns: list[pa.Array]
    low: Ints
    high: Ints
    """Numbers of values before the start and before the end, a column for each aggregate; 0 for empty windows."""


class ChangeEmitter:
    """Selects the results that differ from the last one of their key, and records them."""

    def __init__(self, engine: LiveEngine) -> None:
        self.engine = engine
        bound_query = engine.bound_query
        self.per_row, projection = bound_query.per_row, bound_query.projection
        self.projector = Projector(bound_query)
        outputs = [projection.outputs] if self.per_row else projection.slides
        self.cells = [compared_cells(bound_query, some) for some in outputs]
        self.groups = len(outputs)
        self.logs = [[PlaceLog(cell.type) for cell in cells] for cells in self.cells]
        for g, cells in enumerate(self.cells):
            # the position of the last result in the logs, -1 for none; the counts
            engine.table.add(("emitted", g), np.int64, [-1] + [0] * 2 * len(cells))
        self._marks: list[Any] | None = None
        """The marks of the logs after the call has loaded results from pages, and before it has appended its own."""

    def chosen(self, step: StepResult) -> list[Flags]:
        """Which results of a step are emitted, for each window (per row: for all of them together)."""
        self._marks = [log.mark() for logs in self.logs for log in logs]
        return [self._differing(g, self._compared(g, step.found), step) for g in range(self.groups)]

    def _compared(self, g: int, found: Sequence[WindowResults]) -> Compared:
        results = found[0 if self.per_row else g].results
        columns: list[pa.Array] = []
        low: list[Ints] = []
        high: list[Ints] = []

        def read(window: int, number: int) -> pa.Array:
            return found[window].cells[number].column

        for one in self.cells[g]:
            if one.output is not None:
                columns.append(self.projector.output(one.output, read))
                low.append(np.zeros(len(results), np.int64))
                high.append(low[-1])
                continue
            columns.append(self.projector.cell(one.cell, read))
            of, enough = found[one.cell.window], self.projector.enough(one.cell, read)
            _, start, end = of.cells[one.cell.aggregate]
            some, on = start < end, of.results.on
            if enough is not None:
                some, on = some & flags(enough), on | ~flags(enough)
            for side, count in ((low, start), (high, end)):
                held = np.where(some, count, 0)
                side.append(np.where(on, held, ~held))
        return Compared(results.slots, results.restarted, columns, np.stack(low, 1), np.stack(high, 1))

    def _differing(self, g: int, given: Compared, step: StepResult) -> Flags:
        emitted, width = self.engine.table["emitted", g], len(given.columns)
        count = len(given.slots)
        lost = step.rows.slots[step.rows.restarts] if step.rows.has_restarts else given.slots[:0]
        if not count:
            emitted[lost, 0] = -1
            return np.zeros(0, np.bool_)
        order = np.argsort(given.slots, kind="stable")
        slots = given.slots[order]
        restarted = np.zeros(count, np.int64) if given.restarted is None else given.restarted[order]
        first = np.append(True, (slots[1:] != slots[:-1]) | (restarted[1:] != restarted[:-1]))
        known = np.where(first & (restarted == 0), emitted[slots, 0], -1)
        found = first & (known < 0)
        later = np.flatnonzero(~first)
        found[later] = self._differs(g, (given, order[later]), (given, order[later - 1]))
        stored = np.flatnonzero(known >= 0)
        if len(stored):
            last_emitted = self._last_emitted(g, slots[stored], known[stored])
            found[stored] = self._differs(g, (given, order[stored]), (last_emitted, None))
        emitted[lost, 0] = -1
        last = np.flatnonzero(np.append(slots[1:] != slots[:-1], True))
        current = last if not step.rows.has_restarts else last[restarted[last] == step.rows.restarted_of(slots[last])]
        at = order[current]
        codes = None
        for log, column in zip(self.logs[g], given.columns, strict=True):
            codes = log.encode(column.take(array(at)))
        assert codes is not None
        of = slots[current]
        emitted[of, 0] = codes
        emitted[of, 1 : 1 + width], emitted[of, 1 + width :] = given.low[at], given.high[at]
        chosen = np.empty(count, np.bool_)
        chosen[order] = found
        return chosen

    def _last_emitted(self, g: int, slots: Ints, codes: Ints) -> Compared:
        emitted, width = self.engine.table["emitted", g], len(self.logs[g])
        rows = emitted[slots]
        columns = [log.decode(codes) for log in self.logs[g]]
        return Compared(slots, None, columns, rows[:, 1 : 1 + width], rows[:, 1 + width :])

    def _differs(self, g: int, these: tuple[Compared, Ints], those: tuple[Compared, Ints | None]) -> Flags:
        """Which results differ, pairwise: exact ones by value, others by the inputs that entered or left."""
        (one, places), (other, others) = these, those
        chosen = slice(None) if others is None else others
        found = np.zeros(len(places), np.bool_)
        for i, cell in enumerate(self.cells[g]):
            if cell.exact:
                column = other.columns[i] if others is None else other.columns[i].take(array(others))
                found |= differ(one.columns[i].take(array(places)), column)
            else:
                found |= one.low[places, i] != other.low[chosen, i]
                found |= one.high[places, i] != other.high[chosen, i]
        return found

    # ---- stored results ----

    def load_results(self, group: int, slots: Ints, counts: Sequence[Ints], columns: Sequence[pa.Array]) -> None:
        """Load the last results of these slots: for each column of the table its counts, for each cell its values."""
        emitted = self.engine.table["emitted", group]
        for j, values in enumerate(counts):
            emitted[slots, 1 + j] = values
        for log, column in zip(self.logs[group], columns, strict=True):
            emitted[slots, 0] = log.encode(column)

    # ---- all or nothing, memory ----

    def begin(self) -> None:
        """Begin a call."""
        self._marks = None

    def rollback(self) -> None:
        """Undo the call in the logs; the engine's journal restores the slots. May be called again."""
        if self._marks is None:
            self.truncate_logs()
            return
        for log, mark in zip((log for logs in self.logs for log in logs), self._marks, strict=True):
            log.rollback(mark)

    def truncate_logs(self) -> None:
        """Truncate the logs to equal length after a failed load: no slot refers to the removed results."""
        for logs in self.logs:
            least = min(map(len, logs), default=0)
            for log in logs:
                log.cut(least)

    def compact(self) -> None:
        """Drop logged results that are not the last of a key, if most are not; only after a successful call."""
        for g, logs in enumerate(self.logs):
            if logs and len(logs[0]) > LARGE + 4 * self.engine.keys.count:
                codes = self.engine.table["emitted", g][:, 0]
                some = codes >= 0
                mappings = [log.compact(codes[some]) for log in logs]
                codes[some] = mappings[0](codes[some])

    @property
    def nbytes(self) -> int:
        """The memory of the logs."""
        return sum(log.nbytes for logs in self.logs for log in logs)
