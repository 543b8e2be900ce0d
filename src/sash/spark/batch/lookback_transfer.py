"""Tails: how what a part needs of the rows before it travels: as rows, or as partials of them, whichever is less.

    part 3 reads    │░░░░ 0 ░░░░│░░░░ 1 ░░░░│░░░░ 2 ░░░░│──── 3 ────│      window: three parts long
    as rows          · · · · · · · · · · · · · · · · · ·                   each row goes to the three parts behind it
    as partials      ▪  ▪  ▪  ▪  ▪  ▪  ▪  ▪  ▪  ▪  ▪  ▪                    one a slice; rows are folded first, once

To be folded, a row crosses the shuffle once more. So partials are less where windows are longer than parts and slide by
much more than a row. Where a window ends at each row, rows leave it one by one, and rows are what is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from sash.plan.bound_query import BoundQuery
from sash.spark.batch.partial_carry import MOST, partial_bytes, partials
from sash.spark.batch.time_ranges import Buckets, Lookback, TimeRange, cut, lookbacks, needs_rows, reached, time_ranges


class LookbackTransfer:
    """How tails travel in one query. `width` is about the bytes of a row."""

    def __init__(self, bound_query: BoundQuery, reach: Lookback, width: int) -> None:
        self.bound_query, self.reach, self.width = bound_query, reach, width
        self.endless = any(span.kind == "lifetime" for span in bound_query.windows)
        self.folds = False
        """Do parts start with folds of those before them?"""

    def parted(self, buckets: Sequence[Buckets], most: Sequence[int]) -> list[list[TimeRange]]:
        """The parts of each key, at most so many."""
        given = list(zip(buckets, most, strict=True))
        whole = [cut(one, Lookback(0, 0, self.reach.gap), parts) for one, parts in given]
        if self.bound_query.forget is None and not any(map(needs_rows, self.bound_query.windows)):
            count = partials(self.bound_query, max(map(len, whole), default=1))
            self.folds = count <= MOST and (self.endless or self._less(buckets, whole, count))
        if self.folds:
            return whole
        # what an endless window needs can be told by folds alone
        return [time_ranges(one, self.reach, 1 if self.endless else parts) for one, parts in given]

    def _less(self, buckets: Sequence[Buckets], parted: list[list[TimeRange]], count: int) -> bool:
        """Are partials, so many to a part, fewer bytes than the rows that they stand for?"""
        keys = list(zip(buckets, parted, strict=True))
        tails = sum(sum(lookbacks(one, self.reach, parts)) for one, parts in keys)
        folded = sum(one.total for one, parts in keys if len(parts) > 1)
        size = partial_bytes(self.bound_query) if tails > folded else None
        carried = sum(last - place for parts in parted for place, last in enumerate(reached(parts, self.reach)))
        return size is not None and carried * count * size < (tails - folded) * self.width

    def needed(self, parts: list[TimeRange]) -> list[int]:
        """By part of a key: the last that needs its folds; itself, if none does."""
        if not self.folds:
            return list(range(len(parts)))
        return [len(parts) - 1] * len(parts) if self.endless else reached(parts, self.reach)
