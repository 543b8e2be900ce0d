"""ObservedCalls: the observer of an operator, which `sash.live_page` sets."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from sash.engine.public_names import PublicNames

Observer = Callable[[pa.RecordBatch | dict[str, pa.RecordBatch], float], object]
"""Called after a call that has succeeded, with its results (of several queries a dict of them) and its seconds."""


class ObservedCalls(PublicNames):
    """An operator that notifies one observer of its calls."""

    observer: Observer | None = None
    """Called in the thread of the call."""

    def set_observer(self, observer: Observer) -> None:
        """Notify an observer of all further calls. Raises ValueError if there is one already."""
        if self.observer is not None:
            raise ValueError(f"{self!r} is watched already: use the page that watches it, or call its unwatch() first")
        self.observer = observer

    def remove_observer(self) -> None:
        """Notify no observer any more."""
        self.observer = None
