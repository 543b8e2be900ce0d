"""The engine: executes a query on Arrow record batches, with live state between calls.

`operator`        the public interface                 `live_engine`     one step over all keys
`watermark`       classifies rows, raises W            `reorder_buffer`  rows at or above W
`key_table`       key to slot                          `slot_table`, `arena`   scalars and elements of slots
`*_assigner`      bounds of windows                    `live_aggregate`  states, and structures in their slots
`emitter`         emit="changes"                       `eager_engine`    emit="eager"
`queries_operator` several queries                     `shared_output`   results of queries that share state
`state_reader`    lookups during writes                `memory_bound`    keys that leave memory
`migration`       state of a changed query
`durable_state`   pages of a store                     `stateless`, `chunked`   results without state
"""

from sash.engine.metrics import Metrics, Uncommitted
from sash.engine.migration import migrate
from sash.engine.operator import Operator, stream
from sash.engine.queries_operator import QueriesOperator, stream_queries
from sash.engine.state_reader import StateReader

__all__ = [
    "Metrics",
    "Operator",
    "QueriesOperator",
    "StateReader",
    "Uncommitted",
    "migrate",
    "stream",
    "stream_queries",
]
