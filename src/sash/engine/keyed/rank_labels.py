"""Order-preserving codes for values that an aggregate chooses among, valid from call to call.

    "b" "a" null "b"  ──▶  7 3 -1 7

With codes, such aggregates run compiled on text and decimals, and keep states from call to call. An operator drops
values that no state refers to with `compact`, and maps its states with the function that this returns. Payload values
have positions in a log instead (`chunk_log.py`).
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sash.columns.arrow_arrays import array
from sash.engine.atomic import all_at_once, attributes
from sash.engine.keyed.chunk_log import CodeMapping, code_mapping, require_type
from sash.kernels.loops.array_types import Flags, Ints

END = 1 << 62
"""Labels are between 0 and this, both excluded."""

STEP = 1 << 32
"""The distance of labels at both ends of the order."""

_ONE_BY_ONE = 32


class RankLabels:
    """Codes for ordered values (text, binary, decimals): integers in the order of the values, -1 for nulls.

    A label is valid until there is no gap between two neighbours for a new one. Then `encode` spreads all labels evenly
    and sets `relabelled`, the mapping of old labels to new ones: map every state with it before using new labels. The
    work in Python is that of the distinct values of a call, and of all values when they are relabelled.

    >>> labels = RankLabels(pa.string())
    >>> b, a, null, again = labels.encode(pa.array(["b", "a", None, "b"])).tolist()
    >>> a < b == again, null, labels.relabelled
    (True, -1, None)
    >>> labels.decode(np.array([b, -1, a])).to_pylist()
    ['b', None, 'a']
    """

    relabelled: CodeMapping | None
    """The mapping of old labels to new ones, if the last `encode` has changed them; it keeps other numbers."""

    def __init__(self, type: pa.DataType) -> None:  # noqa: A002
        self.type = type
        self.relabelled = None
        self._labels: dict[Any, int] = {}
        self._values: dict[int, Any] = {}
        self._order: list[Any] = []
        self._generation = 0
        self._size = 0

    def __len__(self) -> int:
        return len(self._order)

    @property
    def nbytes(self) -> int:
        """The approximate memory of values and labels, as Python reports it."""
        return sum(map(sys.getsizeof, (self._labels, self._values, self._order))) + 32 * len(self) + self._size

    def encode(self, column: pa.Array) -> Ints:
        """The labels of a column's values, -1 for nulls. Raises TypeError if it is not of the labels' type."""
        require_type(column, self.type)
        self.relabelled = None
        encoded = column.dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        fresh = sorted(value for value in distinct if value not in self._labels)
        if fresh:
            self._insert(fresh)
        known = np.array([*map(self._labels.__getitem__, distinct), -1], np.int64)
        # not known[…]: NumPy's indexing by 32-bit integers fails with a SystemError, or crashes, if memory runs out
        return known.take(_numbers(encoded.indices, -1))

    def decode(self, codes: Ints, valid: Flags | None = None) -> pa.Array:
        """The values of labels; null for other numbers, and where not valid."""
        encoded = array(codes, valid).dictionary_encode()
        values = [self._values.get(label) for label in encoded.dictionary.to_pylist()]
        return pa.array(values, self.type).take(encoded.indices)

    def compact(self, live: Ints) -> CodeMapping:
        """Keep only the values of these labels, and spread their labels evenly.

        Returns the mapping of old labels to new ones: dropped labels become -1, other numbers stay.
        """
        old = self._sorted_labels()
        wanted = set(np.unique(live).tolist())
        order = [value for label, value in zip(old.tolist(), self._order, strict=True) if label in wanted]
        retained = old[np.isin(old, live)]
        self._relabel(order, lambda _: None)
        return code_mapping(retained, self._sorted_labels(), lambda codes: np.isin(codes, old))

    def applied(self) -> partial[Any]:
        """The change that clears `relabelled`, for `all_at_once`: all states have been mapped."""
        return attributes(self, relabelled=None)

    def mark(self) -> Any:
        """The current state, for `rollback`, in constant time."""
        return self._generation, len(self._labels)

    def rollback(self, mark: Any) -> None:
        """Remove the values that were encoded since `mark`.

        If labels were relabelled or compacted since, the values and their new labels stay: the caller has mapped its
        states, and values without a state do no harm.
        """
        generation, count = mark
        if generation != self._generation:
            return
        while len(self._labels) > count:
            value, label = self._labels.popitem()  # the last one added
            self._values.pop(label, None)
            place = bisect_left(self._order, value)
            if place < len(self._order) and self._order[place] == value:
                del self._order[place]
            self._size -= sys.getsizeof(value)
        if not len(self._order) == len(self._values) == count:  # interrupted between the changes
            order = sorted(self._labels)
            values = {label: value for value, label in self._labels.items()}
            all_at_once(attributes(self, _order=order, _values=values, _size=sum(map(sys.getsizeof, order))))

    def _insert(self, fresh: list[Any]) -> None:
        """Assign labels to new values, which are sorted."""
        places = [bisect_left(self._order, value) for value in fresh]
        found = self._labels_before(places)
        if found is None:
            old, values = self._sorted_labels(), self._order

            def relabelled(labels: dict[Any, int]) -> CodeMapping:
                new = np.fromiter(map(labels.__getitem__, values), np.int64, len(values))
                return code_mapping(old, new, lambda codes: np.zeros(len(codes), np.bool_))

            self._relabel(sorted(values + fresh), relabelled)
            return
        if len(fresh) <= _ONE_BY_ONE:
            for place, value in zip(reversed(places), reversed(fresh), strict=True):
                self._order.insert(place, value)
        else:
            self._order = sorted(self._order + fresh)
        self._labels.update(zip(fresh, found, strict=True))
        self._values.update(zip(found, fresh, strict=True))
        self._size += sum(map(sys.getsizeof, fresh))

    def _labels_before(self, places: list[int]) -> list[int] | None:
        """Labels for new values before these places of the order; None if a gap is too small."""
        found: list[int] = []
        cuts = [0, *(i for i in range(1, len(places)) if places[i] != places[i - 1]), len(places)]
        for start, stop in pairwise(cuts):
            labels = self._between(places[start], stop - start)
            if labels is None:
                return None
            found.extend(labels)
        return found

    def _between(self, place: int, count: int) -> list[int] | None:
        """Labels for `count` values before one place: in steps at the ends, else evenly spaced in the gap."""
        order = self._order
        low = self._labels[order[place - 1]] if place else 0
        high = self._labels[order[place]] if place < len(order) else END
        if not order:
            low = max((END - STEP * count) // 2, 0)
        if place == len(order) and low + STEP * count < END:
            return [low + STEP * (i + 1) for i in range(count)]
        if place == 0 and high - STEP * count > 0:
            return [high - STEP * (count - i) for i in range(count)]
        gap = high - low
        return [low + gap * (i + 1) // (count + 1) for i in range(count)] if gap > count else None

    def _relabel(self, order: list[Any], relabelled: Callable[[dict[Any, int]], CodeMapping | None]) -> None:
        """Replace the values, and spread their labels evenly over the middle half: both ends keep gaps to append."""
        gap = END // 2 // (len(order) + 1)
        labels = [END // 4 + gap * (i + 1) for i in range(len(order))]
        named, values = dict(zip(order, labels, strict=True)), dict(zip(labels, order, strict=True))
        all_at_once(
            attributes(
                self,
                relabelled=relabelled(named),
                _order=order,
                _labels=named,
                _values=values,
                _generation=self._generation + 1,
                _size=sum(map(sys.getsizeof, order)),
            )
        )

    def _sorted_labels(self) -> Ints:
        return np.fromiter(map(self._labels.__getitem__, self._order), np.int64, len(self._order))


def _numbers(indices: pa.Array, null: int) -> Ints:
    """Indices of a dictionary as an array."""
    if indices.null_count:
        indices = indices.fill_null(null)
    found: Ints = indices.to_numpy(zero_copy_only=False)
    return found
