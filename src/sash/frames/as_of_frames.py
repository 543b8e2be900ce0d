"""Run a query as of the rows of a spine, on frames.

spine ──▶ key and time ─┐
                        ├─▶ AsOfExecutor ──▶ results in the order of the spine ──▶ frame of the spine's kind
events ──▶ Arrow ───────┘
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sash.engine.as_of_executor import AsOfExecutor
from sash.engine.spine_rows import SpineColumns, spine_axis
from sash.frames.adapter import Adapter, FrameResult
from sash.frames.execute import FrameTable, adapter_of, is_lazy, read_columns, source_of
from sash.frames.frame_rows import encoded
from sash.plan.as_of_query import AsOfQuery
from sash.plan.binder import known


def as_of(query: AsOfQuery, spine: Any, events: Any) -> Any:
    """The query as of the rows of a spine; a frame of the spine's kind.

    Raises TypeError for data that is not a frame, and all that `Query.bind` raises.
    """
    if is_lazy(events):
        events = events.collect()
    if is_lazy(spine):
        from sash.frames.polars_adapter import lazy_frame

        return lazy_frame(spine, lambda frame: as_of(query, frame, events))
    return _compute(query, adapter_of(spine), adapter_of(events))


def _compute(query: AsOfQuery, spine: Adapter, events: Adapter) -> Any:
    query.require_free(spine.names)
    of_events = FrameTable.of(query.query, events, numbered=False)
    bound_query = query.query.bind(of_events.table.schema)
    names = pa.schema([(name, pa.null()) for name in dict.fromkeys(spine.names)])
    for what, wanted in (("by", query.spine_by), ("on", (query.spine_on,))):
        for name in wanted:
            known(names, name, f"{what}= (of the spine)")
    own = read_columns(spine, {*query.spine_by, query.spine_on})
    assert bound_query.time is not None
    spine_axis(query.spine_on, own[query.spine_on].type, bound_query.time)
    keys = {name: own[name] for name in query.spine_by}
    given = SpineColumns(keys, (query.spine_on, own[query.spine_on]), spine.rows)
    executor = AsOfExecutor(bound_query.plan)
    table = executor.without_failed(of_events.table)
    codes = encoded(of_events.read, bound_query.by) if table is of_events.table else {}
    found = executor.as_of(table, given, query.closed, codes)
    executor.warn()
    made = [
        FrameResult(output.label, column, source_of(bound_query, output), events)
        for output, column in zip(bound_query.projection.outputs, found, strict=True)
    ]
    return spine.with_results(made, None)
