"""The engine: a query at work. Arrow record batches in, Arrow record batches out, state alive in between.

`operator`        what users call                      `live_engine`     one step over all keys
`watermark`       late, untimed, the watermark         `reorder_buffer`  rows that wait for it
`key_table`       key to slot                          `slot_table`, `arena`   what a slot holds
`*_assigner`      where windows start and end          `live_aggregate`  states, and structures in their slots
`emitter`         changes alone                        `eager`           results at once, revised
`state_reader`    lookups beside a writer              `memory_bound`    keys that leave memory
`durable_state`   pages of a store                     `stateless`, `chunked`   results without state
"""

from sash.engine.metrics import Metrics, Uncommitted
from sash.engine.operator import Operator, stream
from sash.engine.state_reader import StateReader

__all__ = ["Metrics", "Operator", "StateReader", "Uncommitted", "stream"]
