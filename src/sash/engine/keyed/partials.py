"""Export and import the partials of one key, so that another operator can continue its windows.

    operator 0   · · · · │             ──▶ export ──┐
    operator 1           │ · · · · │   ──▶ export ──┤
    operator 2                     │ · · ·          └──▶ import, then its own rows

Windows are Lifetime windows, which have one partial for each key.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array
from sash.columns.keys import key_column
from sash.engine.keyed.live_aggregate import LiveAggregate
from sash.engine.keyed.live_engine import LiveEngine
from sash.engine.keyed.running_assigner import RunningAssigner
from sash.kernels.loops.slot_loops import LAST, ROWS
from sash.plan.time_axis import Number


def export_partials(engine: LiveEngine) -> list[pa.RecordBatch]:
    """The partials of the engine's only key, for each window: its values, then times, counts and states."""
    live = engine.live
    assert len(live) <= 1
    table, found = engine.table, []
    for assigner, aggregates in engine.groups:
        assert isinstance(assigner, RunningAssigner)
        columns: dict[str, pa.Array] = {f"key{i}": column for i, column in enumerate(engine.keys.keys(live))}
        columns["rows"], columns["last"] = array(table["keys"][live, ROWS]), array(table["stamps"][live, LAST])
        columns["start"] = array(table[f"{assigner.name}.start"][live])
        for p, aggregate in enumerate(aggregates):
            columns[f"{p}.n"] = array(table[aggregate.name, "totals"][live] - table[aggregate.name, "base"][live])
            stored = aggregate.store(itemgetter(live))
            columns |= {f"{p}.{name}": part for name, part in zip(aggregate.fields, stored, strict=True)}
        found.append(pa.RecordBatch.from_pydict(columns))
    return found


def import_partials(engine: LiveEngine, keys: Sequence[pa.Array], given: Sequence[list[pa.RecordBatch]]) -> Number:
    """Initialise a new engine with partials: for each group of windows those of all earlier time ranges, in order.

    Returns the time of the last row in them.
    """
    engine.count_values()
    slots = engine.keys.find([key_column(column) for column in keys], 1).slots
    engine.grow()
    slot = int(slots[0])
    parts = [batch for batches in given for batch in batches if batch.num_rows]
    last = max(batch.column("last")[-1].as_py() for batch in parts)
    first = next(batches for batches in given if batches)
    engine.continue_key(slot, sum(b.column("rows")[-1].as_py() for b in first if b.num_rows), last)
    for (assigner, aggregates), every in zip(engine.groups, given, strict=True):
        batches = [batch for batch in every if batch.num_rows]
        if not batches:
            continue
        assert isinstance(assigner, RunningAssigner)
        _import_partials(assigner, aggregates, slot, batches)
    return last


def _import_partials(
    assigner: RunningAssigner, aggregates: Sequence[LiveAggregate], slot: int, batches: list[pa.RecordBatch]
) -> None:
    assigner.continue_from(slot, batches[0].column("start")[0].as_py(), batches[-1].column("last")[-1].as_py())
    for p, aggregate in enumerate(aggregates):
        total: Any = None
        held = 0
        for batch in batches:
            aggregate.load(np.array([slot]), [batch.column(f"{p}.{name}") for name in aggregate.fields])
            n = batch.column(f"{p}.n")[0].as_py()
            if n:
                state = aggregate.partial(slot)
                total = state if total is None else aggregate.kernel.monoid.combine(total, state)
            held += n
        if total is not None:
            aggregate.set_partial(slot, total)
        aggregate.set_totals(np.array([slot]), held)
        aggregate.set_bases(np.array([slot]), 0)
