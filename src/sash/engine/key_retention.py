"""How long the state of a key is retained after its last row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sash.engine.row_assigner import RowAssigner
from sash.engine.time_numbers import beyond, later, saturating
from sash.engine.window_assigner import WindowAssigner
from sash.kernels.loops.array_types import Flags, Numbers
from sash.plan.bound_query import BoundQuery
from sash.plan.time_axis import Number


class KeyRetention:
    """Decides when a key expires: when no window needs it, or after `forget` without rows."""

    def __init__(self, bound_query: BoundQuery, assigners: Sequence[WindowAssigner], numbers: np.dtype[Any]) -> None:
        self.forget = bound_query.forget
        counts_rows = bound_query.time is None and not bound_query.per_row
        counts_rows |= any(window.slide == "rows" for window in bound_query.windows)
        self.until_forgotten = counts_rows or bound_query.query.emit == "changes"
        """Whether only `forget` expires a key: its rows are numbered, or its results are compared with emitted ones."""
        self.by_key = self.until_forgotten or self.forget is not None
        """Whether something besides the windows decides when a key expires."""
        self.row_reach: tuple[Number, Number, Number] | None = None
        """How long a row is needed, in the form of `saturating`; None if other windows need the key."""
        if len(assigners) == 1 and isinstance(assigners[0], RowAssigner) and bound_query.time is not None:
            size = assigners[0].key_lifetime
            if size is not None and not self.by_key:
                self.row_reach = saturating(size, numbers)

    def limit(self, last: Numbers, expiry: Numbers, expires: Flags) -> None:
        """Apply `forget` to the expiry of keys that the windows have determined.

        `last`: the times of the keys' last rows.
        """
        if self.forget is not None:
            forgotten = beyond(later(last, self.forget))
            sooner = np.where(expires, np.minimum(expiry, forgotten), forgotten)
            expiry[:], expires[:] = forgotten if self.until_forgotten else sooner, True
        elif self.until_forgotten:
            expires[:] = False
