"""Operators: a query on record batches, batch in, batch out, with state between calls.

    batch ─▶ intake ─▶ keyed or revise ─▶ emit ─▶ batch
             check     windows and         output,
             reorder   aggregates of keys  changes

`operator`          Operator: calls that succeed as a whole or change nothing
`intake`            checks rows, and orders those at or above the watermark
`keyed`             the state of keys for emit="final" and "changes": windows, aggregates, timers, lookups
`revise`            the state of keys for emit="eager": rows in order, trees, revisions
`emit`              results as record batches; only those that differ
`live_backend`, `eager_backend`   one of these states together with its pages (`sash.state`)
`queries_operator`  several queries over one input     `sorted_batches`  sorted input, without state if possible
`state_reader`      lookups while another writes       `migration`       the state of a changed query

Names are loaded on first use, so that whole columns (`sash.columns`) do not load the state of keys.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sash.engine.intake.progress import Metrics, Uncommitted
    from sash.engine.migration import migrate
    from sash.engine.operator import Operator, stream
    from sash.engine.queries_operator import QueriesOperator
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
    "QueriesOperator": "sash.engine.queries_operator",
    "StateReader": "sash.engine.state_reader",
    "Uncommitted": "sash.engine.intake.progress",
    "migrate": "sash.engine.migration",
    "stream": "sash.engine.operator",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
