"""Operators: a query on record batches, batch in, batch out, with state between calls.

    batch ─▶ intake ─▶ keyed or revise ─▶ emit ─▶ batch
             check     windows and         output,
             reorder   aggregates of keys  changes

`operator`          the calls of one query or of several: they succeed as a whole or change nothing
`query_state`       the state of a query, or of several that share it, and the work of a call on it
`intake`            checks rows, and orders those at or above the watermark
`keyed`             the state of keys for emit="final" and "changes": windows, aggregates, timers, lookups
`revise`            the state of keys for emit="eager": rows in order, trees, revisions
`emit`              results as record batches; only those that differ
`live_backend`, `eager_backend`   one of these states together with its pages (`sash.state`)
`sorted_batches`    sorted input, without state if possible
`state_reader`      lookups while another writes       `migration`       the state of a changed query

Names are loaded on first use, so that whole columns (`sash.columns`) do not load the state of keys.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sash.engine.intake.progress import Metrics, Uncommitted
    from sash.engine.migration import migrate
    from sash.engine.operator import Operator, QueriesOperator, stream
    from sash.engine.state_reader import StateReader

__all__ = [
    "Metrics",
    "Operator",
    "QueriesOperator",
    "StateReader",
    "Uncommitted",
    "migrate",
    "stream",
]

_MODULES = {
    "Metrics": "sash.engine.intake.progress",
    "Operator": "sash.engine.operator",
    "QueriesOperator": "sash.engine.operator",
    "StateReader": "sash.engine.state_reader",
    "Uncommitted": "sash.engine.intake.progress",
    "migrate": "sash.engine.migration",
    "stream": "sash.engine.operator",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
