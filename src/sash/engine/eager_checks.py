"""Validate the pages of an eager engine, each before it is loaded, and all of them together afterwards.

Compiled loops follow row numbers and indices without bounds checks, and find slides by counting from a time. So the
checks require: each key occurs once, rows and slides name keys of their page, ends of slides fit into 64 bits, a key
has the number of rows that its page states, and slides by rows end at existing rows. A failed check is a ValueError.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.engine.eager_engine import EagerEngine
from sash.engine.eager_records import VANISHED, RowRecords, TimeRecords
from sash.engine.row_errors import RowLimits
from sash.engine.state_checks import LARGEST, require, require_entries, required_numbers
from sash.engine.time_numbers import earliest
from sash.kernels.loops.array_types import Ints, Numbers
from sash.kernels.loops.eager_windows import COUNT, PASSED


class EagerChecks:
    """The checks of one engine's pages."""

    def __init__(self, engine: EagerEngine) -> None:
        self.engine, self.state = engine, engine.state
        self.limits = RowLimits(engine.bound_query)

    def page(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Raises ValueError for an invalid page."""
        keys, rows, revisions, *slides = batches
        self._check_keys(keys)
        self._check_rows(rows, keys.num_rows)
        for name in ("arrival", "revision"):
            required_numbers(revisions, name)
        for batch in slides:
            for name in batch.schema.names:
                required_numbers(batch, name)
            require_entries(required_numbers(batch, "key"), keys.num_rows)

    def _check_keys(self, keys: pa.RecordBatch) -> None:
        for name in ("kept", "passed"):
            counts = required_numbers(keys, name)
            require((counts >= 0) & (counts < LARGEST), f"a key has an impossible number of rows {name}")
        self._check_key_times(keys, "last")
        for a in range(self.state.rules.anchors):
            required_numbers(keys, f"anchored{a}")
            self._check_key_times(keys, f"begin{a}")
            for p in range(len(self.state.aggregates)):
                required_numbers(keys, f"base{a}:{p}")

    def _check_rows(self, rows: pa.RecordBatch, keys: int) -> None:
        require_entries(required_numbers(rows, "key"), keys)
        self._check_times(required_numbers(rows, "time"))
        arrival, revision = required_numbers(rows, "arrival"), required_numbers(rows, "revision")
        require((arrival >= 0) & (arrival < self.engine.arrived), "it has an impossible arrival number")
        require((revision >= -2) & (revision < LARGEST), "a row has an impossible revision")
        for name in self.state.rows.deltas:
            values = required_numbers(rows, f"delta:{name}")
            require(values.dtype.kind != "f" or np.isfinite(values), f"column {name!r} has a value that is not finite")
        for p in range(len(self.state.aggregates)):
            required_numbers(rows, f"state:{p}")

    def _check_key_times(self, keys: pa.RecordBatch, name: str) -> None:
        """Check times of keys. A key whose rows were all retracted in the same call has the least time of the type."""
        time = required_numbers(keys, name)
        has_none = time == earliest(time.dtype)
        require(~has_none | (required_numbers(keys, "kept") == 0), f"a key with rows has no time {name!r}")
        self._check_times(time[~has_none])

    def _check_times(self, time: Numbers) -> None:
        if time.dtype.kind == "f":
            require(np.isfinite(time), "a time is not finite")
        if self.engine.bound_query.time is not None:
            self.limits.require_times(time)

    def loaded(self, slots: Ints, retained: Ints, records: Sequence[TimeRecords | RowRecords]) -> None:
        """Raises ValueError unless all pages together have all rows of each key, and the rows at which slides end."""
        heads = self.state.rows.heads
        require(heads[slots, COUNT] == retained[slots], "a key has fewer rows than its page says")
        for rule, record in zip(self.state.rules.rules, records, strict=False):
            if isinstance(record, RowRecords):
                for slot, (first, ends, revisions) in record.slots.items():
                    rows = int(heads[slot, PASSED] + heads[slot, COUNT])
                    existing = ends[ends != VANISHED]
                    require(0 <= first < LARGEST and len(ends) == len(revisions), "a slide has no number")
                    require(ends[: len(existing)] == existing, "slides that vanished come before others")
                    require((existing >= 1) & (existing <= rows // rule.every), "a slide ends at a missing row")
                    require(existing[1:] > existing[:-1], "slides are not in the order of their rows")
                    require((revisions >= -1) & (revisions < LARGEST), "a slide has an impossible revision")
