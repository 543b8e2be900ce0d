"""The metadata fields of pages, by kind of page."""

from __future__ import annotations

from collections.abc import Mapping

from sash.engine.column_sharing import COLUMN
from sash.plan.bound_query import MODES
from sash.stores.checks import ANYTHING, COUNTER, Check, integer, list_of, one_of, optional, text

NUMBER = optional(text(r"-?[0-9]{1,19}|-?inf|-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]{1,3})?"))
"""A watermark or a time."""

IDENTITY: Mapping[str, Check] = {"name": text(), "generation": integer()}
"""Fields of every page: its name, and the call that wrote it."""

_OWN: Mapping[str, Mapping[str, Check]] = {
    "header": {
        "hash": integer(),
        "mode": one_of(*MODES),
        "watermark": NUMBER,
        "before": NUMBER,
        "counters": list_of(COUNTER, 4),
        "offset": ANYTHING,
        "eager": one_of(False, True),
        "held": optional(integer()),
        "number": COUNTER,
        "page": COUNTER,
        "token": text(),
        "bytes": COUNTER,
    },
    "bucket": {
        "emit": one_of("final", "changes"),
        "columns": list_of(list_of(COLUMN)),
        "segments": list_of(list_of(COUNTER, 2)),
        "marks": list_of(text(r"[0-9a-f]{16}")),
    },
    "segment": {"columns": list_of(COLUMN)},
}

FIELDS: Mapping[str, Mapping[str, Check]] = {
    kind: {**IDENTITY, **_OWN.get(kind, {})}
    for kind in ("header", "root", "bucket", "segment", "buffer", "held", "eager")
}
"""By kind of page: the fields of its meta."""
