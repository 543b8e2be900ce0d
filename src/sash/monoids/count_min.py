"""Approximate counts of values: a count-min sketch of Apache DataSketches."""

from __future__ import annotations

from typing import Any

from sash.monoids.bloom import encode_item, item_hash, whole_number
from sash.monoids.sketch_bytes import check_counts
from sash.monoids.sketches import Sketch, SketchMonoid, datasketches_library


class Counts:
    """Approximate counts of the window's values: `counts["a"]`, never too low. Read-only.

    >>> m = CountMin()
    >>> counts = m.lower(m.combine(m.lift("a"), m.lift("a")))
    >>> counts["a"], counts["b"], counts.total
    (2, 0, 2)
    """

    __slots__ = ("_state",)

    def __init__(self, state: Sketch) -> None:
        self._state = Sketch(state.monoid, state.merged(), ())

    def __getitem__(self, x: Any) -> int:
        return int(self._state.native.get_estimate(item_hash(x)))

    @property
    def total(self) -> int:
        """The number of values counted, exactly."""
        return int(self._state.native.total_weight)

    @property
    def error(self) -> float:
        """The fraction of `total` by which a count may be too high, in all but a few cases."""
        return float(self._state.native.get_relative_error())

    def __repr__(self) -> str:
        return f"<Counts of {self.total} values>"

    def __reduce__(self) -> Any:
        return Counts, (self._state,)


class CountMin(SketchMonoid):
    """Approximate counts of values in the window: never too low, rarely too high.

    With `items`, a tuple of values, the result is the tuple of their counts, which fits in a column; without,
    it is a `Counts`, which has the count of any value. A count is too high by at most e / buckets of all
    counted (0.27% by default) in all but e**-hashes of cases (0.7%). States merge exactly.

    >>> m = CountMin(items=("a", "b", "c"))
    >>> m.lower(m.combine(m.combine(m.lift("b"), m.lift("a")), m.lift("b")))
    (1, 2, 0)

    Raises TypeError or ValueError if `items` is no tuple or list of values that a sketch takes, `buckets` not
    in 3..2**26 or `hashes` not in 1..255; ImportError without datasketches.
    """

    domain = ("hashable",)

    def __init__(self, items: tuple[Any, ...] = (), buckets: int = 1024, hashes: int = 5) -> None:
        if not isinstance(items, tuple | list):
            raise TypeError(f"items= of count_min must be a tuple of values; got {items!r}, a {type(items).__name__}")
        for item in items:
            encode_item(item)
        self.items = tuple(items)
        self.buckets = whole_number(self.name, "buckets", buckets, 3, 2**26)
        self.hashes = whole_number(self.name, "hashes", hashes, 1, 255)
        if buckets * hashes >= 2**30:
            raise ValueError(f"count_min must have fewer than 2**30 counters; got {buckets} buckets x {hashes} hashes")
        datasketches_library()

    def native(self) -> Any:
        return datasketches_library().count_min_sketch(self.hashes, self.buckets)

    def check_native(self, data: bytes) -> None:
        check_counts(data, self.buckets, self.hashes)

    def lower(self, a: Any) -> Any:
        if a is None:
            return None
        counts = Counts(a)
        return tuple(counts[item] for item in self.items) if self.items else counts

    def close(self, a: Any, b: Any) -> bool:
        return bool(a.serialize() == b.serialize())
