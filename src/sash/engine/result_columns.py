"""Convert the results of loops over live state to columns: one for each aggregate that shares the state.

results, in the order of the table or by size ──▶ in the order of windows ──▶ a column for each view, with counts
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sash.engine.arrow_arrays import all_true
from sash.engine.lowered_results import CountedColumn, ResultView, Values
from sash.engine.step_data import WindowRanges
from sash.engine.value_encoder import ValueEncoder
from sash.kernels.loops.array_types import NO_INTS, Flags, Ints
from sash.kernels.loops.columnar import AggregateError
from sash.kernels.loops.live_kernel import LoopResults


class ResultFailed(AggregateError):
    """An aggregate raised an exception on a result: its number in the query, and the window of the result."""

    def __init__(self, place: int, error: Exception, number: int, window: WindowRanges) -> None:
        super().__init__(place, error)
        self.number, self.window = number, window


class ResultColumns:
    """Converts results of a group of aggregates that share a state.

    `values` decodes results; `states`: results are states, which views lower. All methods raise ResultFailed if an
    aggregate cannot be lowered; if its view sets such results aside, `failed` has them.
    """

    def __init__(self, views: Sequence[ResultView], values: ValueEncoder, is_final: bool, states: bool) -> None:
        self._views, self._dictionaries, self._plain_column = views, values.dictionaries, values.plain_column
        self.is_plain = values.plain_result is not None and len(views) == 1 and not states
        """Whether results are a column of 64-bit numbers."""
        self.counted = not (self.is_plain and is_final and values.aggregate.spec.monoid.empty is None)
        """Whether the numbers of values in windows are needed beside the results."""
        self.failed: list[ResultFailed] = []
        """The results that have failed and are null, until `take_failed`."""

    def take_failed(self) -> list[ResultFailed]:
        """The results that have failed since the last call."""
        found, self.failed = self.failed, []
        return found

    def running(self, results: LoopResults, found: WindowRanges) -> list[CountedColumn]:
        """The results of a running window, for each view."""
        out, valid, low, high = results
        made = self._columns(Values(out, valid, all_true(len(valid)), low, high), NO_INTS, found)
        if found.rows is None:
            return [CountedColumn(column, low, high) for column in made]
        places = pa.array(found.rows)
        return [CountedColumn(column.take(places), low[found.rows], high[found.rows]) for column in made]

    def slid(self, results: LoopResults, missing: int, found: WindowRanges, order: Ints) -> list[CountedColumn]:
        """The results of one window, for each view; `missing` of them are null, `order` is that of the results."""
        out, valid, low, high = results
        assert found.los is not None
        assert found.his is not None
        if not missing and self.is_plain:
            column = self._plain_column(out[0])
            return [CountedColumn(column, low, high) if len(low) else CountedColumn(column, found.los, found.his)]
        on, back = found.on, _inverse(order)
        if len(order):  # results are in the order of the table
            on = on[back]
        if not len(low):
            low, high = found.los, found.his
            if len(order):
                low, high = low[back], high[back]
        columns = self._columns(Values(out, valid, on, low, high), back, found)
        return [CountedColumn(column, low, high) for column in columns]

    def by_size(
        self,
        results: tuple[LoopResults, int],
        found: Sequence[WindowRanges],
        starts: tuple[Ints, Flags, list[Ints]],
        order: Ints,
    ) -> list[list[CountedColumn]]:
        """The results of windows that differ only in size, the longest first, for each of them and each view.

        `results`: those of `found[0]` for every size, and how many are null; `starts`: see `starts_by_size`.
        """
        ((out, valid, low, high), missing), (los, on, places) = results, starts
        longest, count, sizes = found[0], len(found[0]), len(found)
        assert longest.his is not None
        alike, back = not places, _inverse(order)
        lows: Any = low.reshape(sizes, count) if len(low) else los
        highs: Any = high.reshape(sizes, count) if len(low) else np.broadcast_to(longest.his, los.shape)
        if self.is_plain and missing == sizes * count - sum(map(len, found)):
            parts = out[0].reshape(sizes, count)
            if not alike:
                parts = [part.take(at) for part, at in zip(parts, places, strict=True)]
                if self.counted:
                    lows, highs = ([of[k][at] for k, at in enumerate(places)] for of in (lows, highs))
            elif len(order):
                parts = parts.take(back, axis=1)
            plain = self._plain_column
            return [[CountedColumn(plain(parts[k]), lows[k], highs[k])] for k in range(sizes)]
        made = []
        for k, window in enumerate(found):
            here = slice(k * count, (k + 1) * count)
            leaves = out[here] if isinstance(out, list) else tuple(leaf[here] for leaf in out)
            values = Values(leaves, valid[here], on[k], lows[k], highs[k])
            if not alike or len(order):
                values = values.take(back if alike else places[k])
            columns = self._columns(values, back, window)
            made.append([CountedColumn(column, values.low, values.high) for column in columns])
        return made

    def _columns(self, values: Values, back: Ints, window: WindowRanges) -> list[pa.Array]:
        """The results of each view as a column; `back`: the place that an error names for each, if it differs."""
        made = []
        for view in self._views:
            try:
                made.append(view.column(values, self._dictionaries))
            except AggregateError as failed:
                place = int(back[failed.place]) if len(back) else failed.place
                raise ResultFailed(place, failed.error, view.number, window) from failed.error
            for one in view.failed:
                place = int(back[one.place]) if len(back) else one.place
                self.failed.append(ResultFailed(place, one.error, view.number, window))
        return made


def _inverse(order: Ints) -> Ints:
    """The inverse of a permutation."""
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return back
